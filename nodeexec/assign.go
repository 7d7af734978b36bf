package nodeexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"astraeus.io/astraeus/schema"
)

// errForeign: the controller is another cluster's, or speaks to another machine.
var errForeign = errors.New("the assignment is not for this machine of this cluster")

// load reads the state directory; any damage is an error and changes nothing.
func (a *Agent) load() (err error) {
	now := a.cfg.Now()
	for _, dir := range []string{blobsDir, LogsDir} {
		if err := os.MkdirAll(filepath.Join(a.cfg.StateDir, dir), 0o700); err != nil {
			return fmt.Errorf("agent: %w", err)
		}
	}
	if a.blobs, err = openBlobs(filepath.Join(a.cfg.StateDir, blobsDir)); err != nil {
		return err
	}
	if a.failures, err = loadFailures(a.disk, now); err != nil {
		return err
	}
	if a.uses, err = loadUses(a.disk); err != nil {
		return err
	}
	if a.places, err = loadPlaces(a.disk); err != nil {
		return err
	}
	if a.evicted, err = loadEvictions(a.disk); err != nil {
		return err
	}
	if a.past, err = loadPast(a.disk); err != nil {
		return err
	}
	boot, _ := a.cfg.Host.BootID() // unknown: as of no boot
	if a.contact, err = loadContact(a.cfg.StateDir, boot, a.cfg.Uptime); err != nil {
		return err
	}
	a.measured, a.checks, a.naming = newMeasurer(a), newChecker(a), openNaming(a)
	var uid string
	if found, err := a.disk.read(clusterFile, &uid); err != nil {
		return err
	} else if found {
		a.pinned.Store(&uid)
	}
	return a.loadAssignment()
}

func (a *Agent) loadAssignment() error {
	t := new(schema.Assignment)
	found, err := a.disk.read(assignmentFile, t)
	if err != nil || !found {
		return err
	}
	if err := a.checkAssignment(t); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrState, assignmentFile, err)
	}
	if a.clusterUID() == "" { // its file was lost: the assignment says it too
		a.pinned.Store(&t.ClusterUID)
	}
	a.target.Store(t)
	return nil
}

func (a *Agent) checkAssignment(t *schema.Assignment) error {
	pinned := a.clusterUID()
	switch {
	case t.Version != schema.AssignmentVersion:
		return fmt.Errorf("it has version %d, this program knows %d", t.Version, schema.AssignmentVersion)
	case t.ClusterUID == "" || pinned != "" && t.ClusterUID != pinned:
		return fmt.Errorf("%w: it is of cluster %q, this machine belongs to %q", errForeign, t.ClusterUID, pinned)
	case t.Machine != a.cfg.Machine:
		return fmt.Errorf("%w: it is for %q, this is %s", errForeign, t.Machine, a.cfg.Machine)
	}
	return nil
}

func (a *Agent) clusterUID() string {
	if uid := a.pinned.Load(); uid != nil {
		return *uid
	}
	return ""
}

// copies are the cluster's copies, nil before the first contact.
func (a *Agent) copies() Copies {
	uid := a.clusterUID()
	if uid == "" {
		return nil
	}
	a.copiesOnce.Do(func() { a.ourCopies = a.cfg.Host.Copies(uid) })
	return a.ourCopies
}

// take accepts what came down an open stream. Everything is on disk before the
// agent works by it. An older assignment is ignored; the newest one,
// sent again, confirms it.
func (a *Agent) take(down *schema.Down) error {
	if down.Heard > 0 {
		return a.contact.heard(down.Heard)
	}
	if down.ZonePart != nil {
		return a.naming.part(down)
	}
	if down.Zone != nil {
		a.naming.take(down.Zone)
		if down.Assignment == nil && down.Blobs == nil {
			return nil
		}
	}
	a.accept.Lock()
	defer a.accept.Unlock()
	if err := a.blobs.put(down.Blobs); err != nil {
		return err
	}
	a.cfg.CrashPoint(CrashBlobsStored)
	t := down.Assignment
	if t == nil {
		a.wake() // a step may have waited for a blob
		return nil
	}
	if err := a.checkAssignment(t); err != nil {
		return err
	}
	switch old := a.target.Load(); {
	case old != nil && older(t, old):
		a.log.Warn("an older assignment is ignored", "epoch", t.Epoch, "revision", t.Revision,
			"have_epoch", old.Epoch, "have_revision", old.Revision)
		return nil
	case old == nil || older(old, t):
		if err := a.adopt(t); err != nil {
			return err
		}
	}
	a.online.Store(true)
	a.wake()
	return nil
}

func older(a, b *schema.Assignment) bool {
	if a.Epoch != b.Epoch {
		return a.Epoch < b.Epoch
	}
	return a.Revision < b.Revision
}

func (a *Agent) adopt(t *schema.Assignment) error {
	if a.clusterUID() == "" {
		if err := a.disk.write(clusterFile, t.ClusterUID); err != nil {
			return err
		}
		uid := t.ClusterUID
		a.pinned.Store(&uid)
		a.cfg.CrashPoint(CrashClusterPinned)
	}
	if err := a.disk.write(assignmentFile, t); err != nil {
		return err
	}
	a.cfg.CrashPoint(CrashAssignmentStored)
	if err := a.failures.retarget(t); err != nil {
		return err
	}
	old := a.target.Swap(t)
	a.blobs.keep(hashesOf(t, old)) // a pass may be at the old one still
	a.measured.poke()
	a.naming.retarget(old, t)
	a.log.Info("assignment accepted", "epoch", t.Epoch, "revision", t.Revision, "steps", len(t.Steps))
	return nil
}
