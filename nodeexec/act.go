package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// carryOut does one step by the newest target, which may no longer want it, or
// want it with what is not locked: nothing keeps that from being taken away.
func (a *Agent) carryOut(ctx context.Context, step schema.Step, held []lock) error {
	t := a.target.Load()
	if !slices.Equal(held, locksOf(step, t)) {
		return errGone
	}
	a.cfg.CrashPoint(CrashBeforeStep)
	err := a.act(ctx, t, step)
	a.cfg.CrashPoint(CrashAfterStep)
	return err
}

func (a *Agent) act(ctx context.Context, t *schema.Assignment, step schema.Step) error {
	switch step.Action {
	case schema.ActionCreateDir:
		return a.createDir(ctx, t, step)
	case schema.ActionCreateCopy:
		return a.createCopy(ctx, t, step)
	case schema.ActionFillCopy:
		return a.fillCopy(ctx, t, step)
	case schema.ActionExport:
		return a.export(ctx, t, step)
	case schema.ActionMount:
		target := findMount(t, step.Args.UID, step.Args.Source)
		if target == nil {
			return errGone
		}
		return a.cfg.Shares.Mount(ctx, *target)
	case schema.ActionStartWorker:
		return a.startWorker(ctx, t, step)
	case schema.ActionStopWorker:
		if findWorker(t, workerIDOf(step)) != nil {
			return errGone
		}
		return a.cfg.Engine.Stop(ctx, workerIDOf(step), stopGrace)
	case schema.ActionUnmount:
		return a.unmount(ctx, step)
	case schema.ActionUnexport:
		return a.unexport(ctx, step)
	case schema.ActionEvictCopy, schema.ActionDeleteCopy:
		return a.removeCopy(ctx, step)
	}
	return failf(CodeUnknownStep, "this machine's agent does not know the action %s", step.Action)
}

// errGone: a newer target came between judging the step and acting.
var errGone = failf(CodeRefused, "a newer target does not want it")

func (a *Agent) createDir(ctx context.Context, t *schema.Assignment, step schema.Step) error {
	target := findDir(t, step.Args.UID, step.Args.Source)
	if target == nil {
		return errGone
	}
	dir, err := a.directory(ctx, t, "step", target.Path, target.Grant, target.Create)
	if err != nil {
		return err
	}
	defer dir.Close()
	return a.places.check(placeOf(target.UID, target.Source, target.Path), dir)
}

// directory opens a drive's directory and makes it only where the drive says
// so (D-3).
func (a *Agent) directory(ctx context.Context, t *schema.Assignment, who, path, grant string, create bool) (*host.Dir, error) {
	forbidden := a.forbidden(t)
	if create {
		return ask(ctx, &a.probes, who+" make "+path, observeWithin, func(context.Context) (*host.Dir, error) {
			return a.cfg.Host.MakeDir(path, grant, forbidden)
		}, closeLate)
	}
	dir, err := a.openDir(ctx, who, path, grant, forbidden)
	if errors.Is(err, host.ErrMissing) {
		return nil, failf(CodeMissing, "%s does not exist on %s, and the drive does not say permissions.create", path, a.cfg.Machine)
	}
	return dir, err
}

func (a *Agent) createCopy(ctx context.Context, t *schema.Assignment, step schema.Step) error {
	target, copies := findCopy(t, step.Args.UID), a.copies()
	if target == nil || copies == nil {
		return errGone
	}
	for _, location := range t.DataLocations {
		if location.Path == target.Location {
			return a.located(copies.Create(ctx, location, target.Drive, target.UID), location.Path)
		}
	}
	return failf(CodeRefused, "%s is not a data location of this machine", target.Location)
}

// located says X-17's sentence where a data location is not mounted.
func (a *Agent) located(err error, location string) error {
	if errors.Is(err, host.ErrLocationNotMounted) {
		return failf(CodeNotMounted, "data location %s is not mounted on %s", location, a.cfg.Machine)
	}
	return err
}

// export hands the verified directory over, never a path (X-20).
func (a *Agent) export(ctx context.Context, t *schema.Assignment, step schema.Step) error {
	target := findExport(t, step.Args)
	if target == nil {
		return errGone
	}
	dir, err := a.directory(ctx, t, "export "+target.Client, target.Path, target.Grant, target.Create)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := a.places.check(placeOf(target.UID, target.Source, target.Path), dir); err != nil {
		return err
	}
	return a.cfg.Shares.Export(ctx, *target, dir)
}

// unexport takes away every export that the step is about.
func (a *Agent) unexport(ctx context.Context, step schema.Step) error {
	fresh, err := a.judgeAgain(ctx, step)
	if err != nil {
		return err
	}
	claim := nfs.Claim{Drive: step.Object, UID: step.Args.UID, Source: step.Args.Source}
	for _, e := range fresh.exportsOf(step.Args) {
		claim.Client = e.To
		if err := a.cfg.Shares.Unexport(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// unmount looks for users once more, right before (kubernetes#120150).
func (a *Agent) unmount(ctx context.Context, step schema.Step) error {
	if _, err := a.judgeAgain(ctx, step); err != nil {
		return err
	}
	return a.cfg.Shares.Unmount(ctx, nfs.Claim{Drive: step.Object, UID: step.Args.UID, Source: step.Args.Source,
		Client: a.cfg.Machine})
}

// removeCopy counts the users again right before it removes the only data that
// an agent ever removes (D-9, D-60).
func (a *Agent) removeCopy(ctx context.Context, step schema.Step) error {
	copies := a.copies()
	if copies == nil {
		return errGone
	}
	fresh, err := a.judgeAgain(ctx, step)
	if err != nil {
		return err
	}
	if step.Action == schema.ActionEvictCopy {
		a.noteEviction(step)
	}
	a.cfg.CrashPoint(CrashBeforeDelete)
	if err := copies.Delete(ctx, step.Object, step.Args.UID); err != nil {
		return err
	}
	if c := fresh.findCopy(step.Args.UID); c != nil {
		a.sizes.put(c.UID, c.Bytes, a.cfg.Now())
	}
	a.lookAgain.Store(true)
	return nil
}

// judgeAgain judges by a fresh look at the machine. The object's lock is held,
// so that no worker can start using it in between.
func (a *Agent) judgeAgain(ctx context.Context, step schema.Step) (*view, error) {
	t := a.target.Load()
	fresh, err := a.lookFor(ctx, t, step.Action)
	if err != nil {
		return nil, err
	}
	s := a.situation(t, fresh)
	if needsLink(step.Action) && !s.online {
		return nil, failf(CodeRefused, "the controller is away")
	}
	if refusal := s.refuse(step); refusal != "" {
		return nil, failf(CodeRefused, "%s", refusal)
	}
	if wait := s.waits(step); wait != "" {
		return nil, failf(CodeBusy, "waiting %s", wait)
	}
	return fresh, nil
}

// lookFor lists what an action that takes something away is judged by.
func (a *Agent) lookFor(ctx context.Context, t *schema.Assignment, action schema.Action) (*view, error) {
	fresh := &view{}
	listing, err := a.cfg.Engine.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("the workers cannot be listed: %w", err)
	}
	fresh.takeEngine(listing, func(string) {})
	mounts, err := a.cfg.Shares.Mounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("the mounts cannot be listed: %w", err)
	}
	fresh.mounts = append([]schema.Mount{}, mounts...)
	if action == schema.ActionUnexport {
		if fresh.exports, err = a.cfg.Shares.Exports(ctx); err != nil {
			return nil, fmt.Errorf("the exports cannot be listed: %w", err)
		}
	}
	if action.Destructive() {
		if fresh.copies, err = a.copies().List(ctx, t.DataLocations); err != nil {
			return nil, fmt.Errorf("the copies cannot be listed: %w", err)
		}
		fresh.copiesKnown = true
		fresh.copies.Copies = a.sized(fresh.copies.Copies)
	}
	if action == schema.ActionEvictCopy {
		fresh.facts.filesystems, err = ask(ctx, &a.probes, "filesystems to evict", observeWithin, a.cfg.Host.Filesystems, nil)
		if err != nil {
			return nil, fmt.Errorf("the filesystems do not answer: %w", err)
		}
		if fresh.facts.filesystems == nil {
			fresh.facts.filesystems = []schema.Filesystem{} // known, so that it is judged
		}
	}
	return fresh, nil
}

// tidy forgets ended workers that have left the target, stops fills that
// no target wants, and drops use records of what has ended.
func (a *Agent) tidy(ctx context.Context, s *situation) {
	if !s.seen.engineKnown {
		return
	}
	for _, w := range s.seen.workers {
		if !w.live() && findWorker(s.target, w.id) == nil {
			a.tidyWorker(ctx, w, false)
		}
	}
	for _, f := range s.seen.fills {
		c, seen := findCopy(s.target, f.label.Fill.UID), s.seen.findCopy(f.label.Fill.UID)
		// The second is what a crash between writing the generation down and forgetting the fill leaves.
		if c == nil || c.FillGeneration != f.label.Fill.Generation || !f.live() && seen != nil && seen.FilledGeneration == c.FillGeneration {
			a.tidyWorker(ctx, f, f.live())
		}
	}
	a.dropUses(s)
}

func (a *Agent) tidyWorker(ctx context.Context, w localWorker, stop bool) {
	id := w.id
	what := "remove " + id
	if stop {
		what = "stop " + id
	}
	a.startTidy(ctx, &job{tidies: what, locks: []lock{{object: workerObject(id)}}, within: deadlineOf(schema.ActionStopWorker),
		run: func(ctx context.Context) error {
			if stop {
				return a.cfg.Engine.Stop(ctx, id, stopGrace)
			}
			if w.label.Fill == nil {
				if err := a.past.add(&w); err != nil {
					a.log.Warn("that a worker ended cannot be kept", "worker", id, "error", err)
				}
			}
			a.cfg.CrashPoint(CrashBeforeRemove)
			if err := a.cfg.Engine.Remove(ctx, id); err != nil && !errors.Is(err, runtime.ErrRunning) {
				return err
			}
			return a.sweepLogs(ctx)
		}})
}

// dropUses keeps a record while its worker lives or is about to start.
func (a *Agent) dropUses(s *situation) {
	err := a.uses.drop(func(id string) bool {
		if a.ops.busy(workerObject(id)) {
			return false
		}
		if w := s.seen.findWorker(id); w != nil {
			return !w.live()
		}
		_, seen := s.uses[id] // newer than the listing: keep
		return seen && findWorker(s.target, id) == nil
	})
	if err != nil {
		a.log.Error("the use records cannot be written", "error", err)
	}
}
