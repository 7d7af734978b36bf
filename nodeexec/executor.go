package nodeexec

import (
	"context"
	"errors"
	"time"

	"astraeus.io/astraeus/schema"
)

// job is one operation: a step, or tidying that no step asks for.
type job struct {
	step   schema.Step
	locks  []lock
	within time.Duration
	run    func(context.Context) error
	target string // hash of what is wanted, for the failure
	tidies string // what is tidied, "" for a step
}

// pools bound how many operations run at once, each on its own: a dead server
// that holds up every mount must not hold up workers (csi-driver-nfs#1271).
type pool int

const (
	poolLocal   pool = iota
	poolNetwork      // waits for another machine
	poolStop         // waits for workers to end; not bounded
)

func (j *job) pool() pool {
	switch j.step.Action {
	case schema.ActionMount, schema.ActionUnmount, schema.ActionExport, schema.ActionUnexport:
		return poolNetwork
	case schema.ActionStopWorker:
		return poolStop
	}
	return poolLocal
}

// tidyAgain is how long the same thing is not tidied again.
const tidyAgain = 30 * time.Second

// errInProgress: the step has begun something that goes on by itself; its end
// will show in a listing.
var errInProgress = errors.New("in progress")

// overrunSlack is how long after its deadline an operation may take to notice it.
const overrunSlack = 5 * time.Second

// deadlines of X-23, with room for what an action does besides.
func deadlineOf(a schema.Action) time.Duration {
	switch a {
	case schema.ActionMount:
		return 100 * time.Second // RDMA 60 s, then TCP 30 s
	case schema.ActionUnmount:
		return 45 * time.Second // 15 s, then -f 10 s, then -l
	case schema.ActionExport, schema.ActionUnexport:
		return 30 * time.Second // exportfs 10 s
	case schema.ActionStopWorker:
		return stopGrace + 45*time.Second // then killed; Stuck 30 s later
	case schema.ActionStartWorker, schema.ActionFillCopy:
		return 5 * time.Minute // an image may have to be fetched
	}
	return time.Minute
}

// stopGrace is how long a worker has to end by itself.
const stopGrace = 30 * time.Second

// pass starts every step of the target that is due, and says when the next
// backoff ends. acted are the steps whose success the view must show.
func (a *Agent) pass(ctx context.Context, target *schema.Assignment, seen *view, acted map[failKey]bool) (next time.Time) {
	if target == nil {
		return time.Time{} // nothing is done before one complete target
	}
	a.watchRoom(target, seen)
	s := a.situation(target, seen)
	steps := target.Steps
	if !s.online {
		steps = append(steps[:len(steps):len(steps)], restoring(target)...)
		steps = append(steps, s.evicting()...)
	}
	open := map[string]bool{} // ids of steps that are not done
	status := make([]triState, len(steps))
	for i, step := range steps {
		status[i] = s.done(step)
		if status[i] != yes {
			open[step.ID] = true
		}
	}
	a.forgetAllBut(steps, status)
	items := targetItems(target)
	for i, step := range steps {
		if status[i] != no {
			continue
		}
		key := keyOf(step)
		until := a.consider(ctx, s, step, open, acted[key], fingerprint(items, key.Object))
		if !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	a.tidy(ctx, s)
	a.touch(ctx, s)
	return next
}

func (a *Agent) situation(t *schema.Assignment, seen *view) *situation {
	return &situation{machine: a.cfg.Machine, target: t, online: a.online.Load(), seen: seen, uses: a.uses.all(),
		list: func(ns string) *schema.DriveList { return a.driveList(t, ns) }, place: a.places.expected,
		begun: a.evicted.goesOn(), failed: a.failures.standing(), now: a.cfg.Now()}
}

func (a *Agent) driveList(t *schema.Assignment, namespace string) *schema.DriveList {
	hash, ok := t.Drives[namespace]
	if !ok {
		return nil
	}
	var list schema.DriveList
	if err := a.blobs.decode(hash, &list); err != nil {
		a.log.Warn("a drive list is missing", "namespace", namespace, "error", err)
		return nil
	}
	return &list
}

// consider starts one step that is not done if it is due. The time is that of
// the next attempt where the step is backing off.
func (a *Agent) consider(ctx context.Context, s *situation, step schema.Step, open map[string]bool, acted bool, target string) time.Time {
	key, now := keyOf(step), a.cfg.Now()
	for _, id := range step.After {
		if open[id] && id != step.ID {
			return time.Time{} // a prerequisite on this machine is not done
		}
	}
	if needsLink(step.Action) && !s.online || a.ops.busy(key.Object) {
		return time.Time{}
	}
	if refusal := s.refuse(step); refusal != "" {
		if !a.failures.quiet(key, refusal) {
			a.fail(step, target, failf(CodeRefused, "%s", refusal))
		}
		return time.Time{}
	}
	if s.waits(step) != "" {
		return time.Time{}
	}
	if acted {
		a.fail(step, target, failf(CodeNotSeen, "it was carried out and its effect does not show"))
	}
	if until, yes := a.failures.blocked(key, now); yes {
		return until
	}
	locks := locksOf(step, s.target)
	a.start(ctx, &job{step: step, locks: locks, within: deadlineOf(step.Action), target: target,
		run: func(ctx context.Context) error { return a.carryOut(ctx, step, locks) }})
	return time.Time{}
}

// restoring are the steps by which a machine without its controller brings
// back what its last target exports and mounts.
func restoring(t *schema.Assignment) []schema.Step {
	var steps []schema.Step
	for _, e := range t.Exports {
		steps = append(steps, schema.Step{ID: "restore-" + string(exportObject(e.UID, e.Source, e.Client)), Machine: t.Machine,
			Action: schema.ActionExport, Object: e.Drive, Args: schema.StepArgs{UID: e.UID, Source: e.Source, Path: e.Path, To: e.Client}})
	}
	for _, m := range t.Mounts {
		steps = append(steps, schema.Step{ID: "restore-" + string(mountObject(m.UID, m.Source)), Machine: t.Machine,
			Action: schema.ActionMount, Object: m.Drive, Args: schema.StepArgs{UID: m.UID, Source: m.Source, From: m.From}})
	}
	return steps
}

// start runs a job on its own goroutine unless its objects or all slots are
// taken, which is looked at again when an operation ends.
func (a *Agent) start(ctx context.Context, j *job) bool {
	if !a.ops.begin(j, a.cfg.Parallel) {
		return false
	}
	a.steps.Add(1)
	a.spawn(func() { a.work(ctx, j) })
	return true
}

func (a *Agent) work(ctx context.Context, j *job) {
	defer a.steps.Done()
	overrun := time.AfterFunc(j.within+overrunSlack, func() {
		a.ops.overrun(j)
		a.failed(j, failf(CodeTimeout, "it has not ended after %s and goes on", j.within))
		a.wake()
	})
	defer overrun.Stop()
	runCtx, cancel := context.WithTimeout(ctx, j.within)
	err := j.run(runCtx)
	cancel()
	overrun.Stop()
	a.settle(ctx, j, err)
	a.ops.end(j)
	a.wake()
}

// settle keeps the outcome of a job that has ended.
func (a *Agent) settle(ctx context.Context, j *job, err error) {
	switch {
	case err == nil && j.tidies != "":
	case err == nil:
		a.noteActed(keyOf(j.step))
		if j.step.Action == schema.ActionCreateDir || j.step.Action == schema.ActionCreateCopy {
			a.measured.made(j.step.Args.UID)
		}
		a.log.Info("step carried out", "step", j.step.ID, "action", j.step.Action, "object", j.step.Object)
	case errors.Is(err, errInProgress):
	case ctx.Err() != nil: // the agent is being stopped: not a failure
	default:
		a.failed(j, err)
	}
}

func (a *Agent) failed(j *job, err error) {
	if j.tidies != "" {
		a.log.Warn("tidying failed", "what", j.tidies, "error", err)
		return
	}
	a.fail(j.step, j.target, err)
}

// fail records a failed attempt and logs it, once.
func (a *Agent) fail(step schema.Step, target string, err error) {
	f, saveErr := a.failures.record(step, target, codeOf(err), err.Error(), a.cfg.Now(), a.cfg.Random())
	a.log.Warn("step failed", "step", step.ID, "action", step.Action, "object", step.Object, "code", f.Code,
		"error", err, "attempts", f.Attempts, "next_at", f.NextAt)
	if saveErr != nil {
		a.log.Error("the failure cannot be kept", "error", saveErr)
	}
	a.cfg.CrashPoint(CrashFailureRecorded)
}

// forgetAllBut drops the failures of what is done or no longer asked for.
func (a *Agent) forgetAllBut(steps []schema.Step, status []triState) {
	open := map[failKey]bool{}
	for i, step := range steps {
		if status[i] != yes {
			open[keyOf(step)] = true
		}
	}
	if err := a.failures.clear(func(r failureRecord) bool { return !open[r.Key] }); err != nil {
		a.log.Error("the failures cannot be written", "error", err)
	}
}

// startTidy starts a job that no step asks for, not too often: what does not
// help must not keep the loop awake.
func (a *Agent) startTidy(ctx context.Context, j *job) {
	a.actedMu.Lock()
	now := a.cfg.Now()
	wait := a.tidied[j.tidies].After(now)
	for what, until := range a.tidied {
		if !until.After(now) {
			delete(a.tidied, what)
		}
	}
	a.actedMu.Unlock()
	if wait || !a.start(ctx, j) {
		return
	}
	a.actedMu.Lock()
	defer a.actedMu.Unlock()
	a.tidied[j.tidies] = now.Add(tidyAgain)
}

func (a *Agent) noteActed(key failKey) {
	a.actedMu.Lock()
	defer a.actedMu.Unlock()
	a.acted[key] = true
}

func (a *Agent) takeActed() map[failKey]bool {
	a.actedMu.Lock()
	defer a.actedMu.Unlock()
	taken := a.acted
	a.acted = map[failKey]bool{}
	return taken
}
