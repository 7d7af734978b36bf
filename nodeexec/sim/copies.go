package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// location is what a data location holds of ours beside the copies themselves.
type location struct {
	cluster  string
	fsid     string
	sidecars map[string]*sidecar // by copy name
	trash    []*node
}

type sidecar struct {
	cluster, drive, uid string
	filled              int64
	created             time.Time
	used                *time.Time
}

// record is an agent's memory of the data locations, by path.
type record map[string]*locationRecord

type locationRecord struct {
	fsid   string
	copies map[string]string // drive uid -> copy name
}

// drivesName is where copies are in a data location, as package host has it.
const drivesName = "drives"

// Copies implements the copies of an agent's Host.
type Copies struct {
	m       *Machine
	cluster string
	known   []string
}

// Copies gives the copies of one cluster.
func (m *Machine) Copies(clusterUID string) *Copies { return &Copies{m: m, cluster: clusterUID} }

// Close implements the agent's Copies.
func (c *Copies) Close() {}

// at gives a data location's directory. Errors: errUnused, ErrLocationNotMounted.
func (c *Copies) at(where string) (*node, error) {
	if err := c.ours(); err != nil {
		return nil, err
	}
	known, n := c.m.record[where], c.m.find(where)
	lost := func(why string) error {
		return wrap(where, fmt.Errorf("%w: %s", host.ErrLocationNotMounted, why))
	}
	switch {
	case n == nil && known == nil:
		return nil, errUnused
	case n == nil:
		return nil, lost("there is no such directory")
	case known != nil && known.fsid != n.disk.id:
		return nil, lost("it was first used on filesystem " + known.fsid + " and is on " + n.disk.id)
	case n.data == nil && known != nil:
		return nil, lost("its marker is not there")
	case n.data == nil:
		return nil, errUnused
	case n.data.cluster != c.cluster:
		return nil, lost("its marker is of another cluster")
	case n.data.fsid != n.disk.id:
		return nil, lost("its marker is of another filesystem")
	}
	if known == nil {
		c.m.remembers = c.cluster
		c.m.record[where] = &locationRecord{fsid: n.disk.id, copies: map[string]string{}}
	}
	return n, nil
}

// ours: what the machine remembers is one cluster's.
func (c *Copies) ours() error {
	if c.m.remembers != "" && c.m.remembers != c.cluster {
		return fmt.Errorf("%s remembers another cluster: %w", c.m.o.Name, host.ErrForeignCopy)
	}
	return nil
}

var errUnused = errors.New("the data location was never used")

// firstUse makes a data location.
func (c *Copies) firstUse(where string) (*node, error) {
	if problem := schema.AbsolutePathProblem(where); problem != "" || where == "/" {
		return nil, wrap(where, fmt.Errorf("%w: %s", host.ErrBadPath, problem))
	}
	n, err := c.m.resolve(where, c.m.mkdir)
	if err != nil {
		return nil, wrap(where, err)
	}
	if n.disk.shared {
		return nil, wrap(where, host.ErrNotLocal)
	}
	if n.children[drivesName] == nil {
		if _, err := c.m.mkdir(n, drivesName); err != nil {
			return nil, wrap(where, err)
		}
	}
	n.data = &location{cluster: c.cluster, fsid: n.disk.id, sidecars: map[string]*sidecar{}}
	return c.at(where)
}

func copyName(drive schema.Key, uid string) (string, error) {
	if drive.Kind != schema.KindDrive || drive.Namespace == "" || uid == "" || strings.ContainsAny(drive.Scoped()+uid, "/\x00") {
		return "", wrap(drive.String(), fmt.Errorf("%w: not a drive (uid %q)", host.ErrBadPath, uid))
	}
	return drive.Scoped(), nil
}

// copyDir is a copy's directory, nil when there is none.
func copyDir(l *node, name string) (*node, error) {
	n := l.children[drivesName].children[name]
	switch {
	case n == nil:
		return nil, nil
	case n.covered != nil:
		return nil, host.ErrMountPoint
	case !n.isDir():
		return nil, host.ErrNotDirectory
	}
	return n, nil
}

func (c *Copies) owns(s *sidecar, name, uid string) bool {
	return s.cluster == c.cluster && s.uid == uid && s.drive == name
}

// Create implements the agent's Copies.
func (c *Copies) Create(ctx context.Context, loc schema.DataLocation, drive schema.Key, uid string) error {
	name, err := copyName(drive, uid)
	if err != nil {
		return err
	}
	return c.m.effect(ctx, &Effect{Name: "CreateCopy", UID: uid, Path: loc.Path}, func() error {
		if _, _, n, err := c.found(uid); err == nil && n != nil {
			return nil
		}
		where := path.Clean(loc.Path)
		l, err := c.at(where)
		if errors.Is(err, errUnused) {
			l, err = c.firstUse(where)
		}
		if err != nil {
			return err
		}
		if err := c.create(l, name, uid); err != nil {
			return wrap(path.Join(where, drivesName, name), err)
		}
		c.m.record[where].copies[uid] = name
		if !slices.Contains(c.known, where) {
			c.known = append(c.known, where)
		}
		return nil
	})
}

func (c *Copies) create(l *node, name, uid string) error {
	dir, err := copyDir(l, name)
	if err != nil {
		return err
	}
	s := l.data.sidecars[name]
	switch {
	case s == nil && dir != nil:
		return host.ErrNoSidecar
	case s != nil && !c.owns(s, name, uid):
		return host.ErrForeignCopy
	case dir != nil:
		return nil
	}
	if _, err := c.m.mkdir(l.children[drivesName], name); err != nil {
		return err
	}
	l.data.sidecars[name] = &sidecar{cluster: c.cluster, drive: name, uid: uid, created: c.m.o.Now()}
	return nil
}

// found gives a copy's location, sidecar and directory, which may be nil.
func (c *Copies) found(uid string) (*node, *sidecar, *node, error) {
	lost := error(nil)
	for _, where := range c.known {
		l, err := c.at(where)
		if err != nil {
			if r := c.m.record[where]; r != nil && r.copies[uid] != "" {
				lost = err
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(l.data.sidecars)) {
			if s := l.data.sidecars[name]; c.owns(s, name, uid) {
				dir, err := copyDir(l, name)
				return l, s, dir, wrap(path.Join(where, drivesName, name), err)
			}
		}
	}
	if lost != nil {
		return nil, nil, nil, lost
	}
	return nil, nil, nil, fmt.Errorf("%w: %s", host.ErrNoCopy, uid)
}

// Delete implements the agent's Copies.
func (c *Copies) Delete(ctx context.Context, drive schema.Key, uid string) error {
	name, err := copyName(drive, uid)
	if err != nil {
		return err
	}
	return c.m.effect(ctx, &Effect{Name: "DeleteCopy", UID: uid}, func() error {
		if len(c.known) == 0 {
			return fmt.Errorf("%w: %s (no data location was listed yet)", host.ErrNoCopy, uid)
		}
		var problems []error
		for _, where := range c.known {
			gone, err := c.deleteIn(where, name, uid)
			if gone && err == nil {
				return nil
			}
			problems = append(problems, wrap(path.Join(where, drivesName, name), err))
		}
		return errors.Join(problems...)
	})
}

func (c *Copies) deleteIn(where, name, uid string) (gone bool, err error) {
	l, err := c.at(where)
	if errors.Is(err, errUnused) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	dir, err := copyDir(l, name)
	s := l.data.sidecars[name]
	switch {
	case s == nil && dir == nil && err == nil:
		return false, nil
	case s == nil && err == nil:
		return false, host.ErrNoSidecar
	case s != nil && !c.owns(s, name, uid):
		return false, host.ErrForeignCopy
	case err != nil:
		return false, err
	}
	if dir != nil {
		delete(l.children[drivesName].children, name)
		l.data.trash = append(l.data.trash, dir)
	}
	delete(l.data.sidecars, name)
	return true, nil
}

// Open implements the agent's Copies.
func (c *Copies) Open(uid, folder string) (*host.Dir, error) {
	d, err := c.open(uid)
	if err != nil || strings.Trim(folder, "/") == "" {
		return d, err
	}
	defer d.Close()
	return c.m.beneath(d, folder, c.m.mkdir)
}

func (c *Copies) open(uid string) (*host.Dir, error) {
	defer c.m.lock()()
	_, _, dir, err := c.found(uid)
	switch {
	case err != nil:
		return nil, err
	case dir == nil:
		return nil, fmt.Errorf("copy %s: %w", uid, host.ErrMissing)
	}
	return c.m.dir(dir)
}

// HasFillMarker implements the agent's Copies.
func (c *Copies) HasFillMarker(uid string) (bool, error) {
	defer c.m.lock()()
	_, _, dir, err := c.found(uid)
	switch {
	case err != nil:
		return false, err
	case dir == nil:
		return false, fmt.Errorf("copy %s: %w", uid, host.ErrMissing)
	}
	f := dir.children[schema.FillMarker]
	return f != nil && !f.isDir() && f.link == "", nil
}

// usedEvery is how often a copy's last use is written at most (D-70).
const usedEvery = time.Hour

// MarkUsed implements the agent's Copies.
func (c *Copies) MarkUsed(uid string, at time.Time) error {
	return c.change("MarkUsed", uid, func(s *sidecar) {
		if s.used == nil || at.Sub(*s.used) >= usedEvery {
			s.used = &at
		}
	})
}

// SetFilled implements the agent's Copies.
func (c *Copies) SetFilled(uid string, generation int64) error {
	if generation < 0 {
		return fmt.Errorf("fill generation %d of copy %s: %w", generation, uid, host.ErrDamaged)
	}
	return c.change("SetFilled", uid, func(s *sidecar) { s.filled = generation })
}

func (c *Copies) change(name, uid string, f func(*sidecar)) error {
	return c.m.effect(context.Background(), &Effect{Name: name, UID: uid}, func() error {
		l, s, _, err := c.found(uid)
		if err != nil {
			return err
		}
		if l.disk.dead {
			return syscall.EIO
		}
		f(s)
		return nil
	})
}
