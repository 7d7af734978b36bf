package planner

import (
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// run is an accepted run, a placed one, or both.
type run struct {
	key    schema.Key
	object *schema.AcceptedObject // nil: not in force any more
	spec   *schema.RunSpec        // the accepted one
	where  scope

	placed   *schema.Placement // working copy; nil when it has no place
	changed  bool              // placed differs from what the store holds
	stopping bool              // its workers are to go, and hold their resources until they have
	current  []*template       // of placed.Spec, a group each
	short    *shortage         // why it, or its newer spec, could not be placed
	forced   bool              // stopped because a drive it uses was deleted on purpose

	// Of an active run, set before targets are made: the machines of its workers,
	// nil for one that was forgotten, and its leader's address.
	on     []*machine
	leader string
	egress *schema.EgressTarget
	stops  []stop            // steps that stop older workers of it, on whatever machine
	waits  [][]schema.Reason // of each placed worker

	gone *loss // what of it is on machines that are Down and can be replaced
}

// Backoff of restarts.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 5 * time.Minute
	backoffReset = 10 * time.Minute
)

func backoff(failures int) time.Duration {
	delay := backoffFirst
	for range failures - 1 {
		if delay *= 2; delay >= backoffMost {
			return backoffMost
		}
	}
	return delay
}

// settleRuns reads what became of the placed workers and counts what they hold.
func (p *pass) settleRuns() {
	p.runs = map[schema.Key]*run{}
	for key, a := range p.objects {
		if key.Kind == schema.KindRun {
			p.runs[key] = &run{key: key, object: a, spec: a.Object.Spec.(*schema.RunSpec), where: scope{a.Object.Org, a.Object.Workspace}}
		}
	}
	for key, pl := range p.in.Placed {
		r := p.runs[key]
		if r == nil {
			r = &run{key: key, where: scope{pl.Org, pl.Workspace}}
			p.runs[key] = r
		}
		copied := clonePlacement(pl)
		r.placed = &copied
	}
	p.queue = make([]*run, 0, len(p.runs))
	p.out.Decisions.Events = slices.Grow(p.out.Decisions.Events, len(p.gate.through)+len(p.runs))
	for _, r := range p.runs {
		p.queue = append(p.queue, r)
	}
	slices.SortFunc(p.queue, compareRuns)
	p.markLeaving()
	p.restAddresses()
	p.buildClasses()
	p.reserveCopies()
	for _, r := range p.queue {
		if r.placed != nil {
			p.settle(r)
		}
	}
	p.judgeLosses()
}

// compareRuns is the order of placement: acceptance, then name. What is
// not in force any more comes first.
func compareRuns(a, b *run) int {
	switch {
	case a.object == nil && b.object != nil:
		return -1
	case a.object != nil && b.object == nil:
		return 1
	case a.object != nil && a.object.Seq != b.object.Seq:
		if a.object.Seq < b.object.Seq {
			return -1
		}
		return 1
	}
	return schema.CompareKeys(a.key, b.key)
}

func (p *pass) settle(r *run) {
	pl := r.placed
	where := scope{pl.Org, pl.Workspace}
	r.current = p.templatesOf(r.key, where, pl.Spec)
	r.stopping = r.object == nil || r.object.UID != pl.RunUID
	if !r.stopping && pl.Outcome == "" && missesDrive(r) {
		r.stopping, r.forced = true, true // only a Deletion by force takes a drive from live workers
	}
	p.recordOutcomes(r)
	p.forgetOlder(pl, &r.changed)
	p.stampLost(r)
	switch {
	case r.stopping && p.allGone(r) && !p.olderLeft(r):
		p.unplace(r)
		return
	case !r.stopping && pl.Outcome == "":
		p.judgeLife(r)
	}
	if !r.stopping && pl.Outcome != "" {
		return // an ended run holds nothing
	}
	p.eachHeld(r, p.hold)
}

func (p *pass) unplace(r *run) {
	left := schema.Placement{Run: r.key, Org: r.placed.Org, Workspace: r.placed.Workspace, Released: p.vacated(r.placed)}
	if left.Older, left.OlderUses = p.olderThan(r); !slices.ContainsFunc(left.Older, isFenced) {
		left.Older, left.OlderUses = nil, nil
	}
	left.Older = slices.DeleteFunc(left.Older, func(o schema.Older) bool { return !o.Fenced })
	if len(left.Released)+len(left.Older) > 0 {
		p.vacant[r.key] = left
	} else {
		p.out.Decisions.Unplace = append(p.out.Decisions.Unplace, r.key)
	}
	r.placed, r.current, r.stopping, r.changed = nil, nil, false, false
}

// eachHeld calls f for each placed worker that holds resources.
func (p *pass) eachHeld(r *run, f func(*machine, *template, *schema.PlacedWorker)) {
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		m, t := p.machines[w.Machine], templateOfGroup(r.current, w.Group)
		if m != nil && t != nil {
			f(m, t, w)
		}
	}
}

func templateOfGroup(list []*template, group string) *template {
	for _, t := range list {
		if t.group == group {
			return t
		}
	}
	return nil
}

func idOfPlaced(pl *schema.Placement, w *schema.PlacedWorker) workerID {
	return workerID{pl.RunUID, pl.Generation, pl.Attempt, w.Name}
}

// recordOutcomes writes down how workers ended.
func (p *pass) recordOutcomes(r *run) {
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		m := p.machines[w.Machine]
		if w.Outcome != nil || m == nil || m.seen == nil {
			continue
		}
		seen, there := m.seen.workers[idOfPlaced(r.placed, w)]
		if !there || !seen.State.Ended() {
			continue
		}
		w.Outcome = cloneOutcome(&schema.Outcome{State: seen.State, ExitCode: seen.ExitCode, Reason: short(seen.Reason), At: seen.Ended})
		r.changed = true
	}
}

// maxOutcomeReason bounds the text of one worker's end: a placement holds that of
// every worker and is one value of the store.
const maxOutcomeReason = 160

func short(text string) string {
	if len(text) <= maxOutcomeReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxOutcomeReason-len("…")], "") + "…"
}

// allGone reports whether none of the placed workers can run any more.
func (p *pass) allGone(r *run) bool {
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		m := p.machines[w.Machine]
		if w.Outcome != nil || m == nil || r.gone.on(w.Machine) {
			continue // a machine that was forgotten runs nothing of ours
		}
		id := idOfPlaced(r.placed, w)
		if ended, known := m.seen.ended(id); !known || !ended || !m.up() {
			return false
		}
		if !hasKey(m.seen.workers, id) && m.mayStart(id) {
			return false
		}
	}
	return true
}

// forgetOlder drops the machines on which no older worker of the run is left. A
// machine that was forgotten runs nothing of ours.
func (p *pass) forgetOlder(pl *schema.Placement, changed *bool) {
	before := len(pl.Older)
	pl.Older = slices.DeleteFunc(pl.Older, func(o schema.Older) bool {
		m := p.machines[o.Machine]
		return m == nil || m.workersKnown() && !m.mayStartOlder(pl) && !m.runsOlder(pl)
	})
	*changed = *changed || len(pl.Older) != before
	if len(pl.Older) == 0 {
		pl.Older, pl.OlderUses = nil, nil
	}
	*changed = p.stampReleased(pl) || *changed
}

// runsOlder reports whether the machine lists a live worker of a run from before
// its placement.
func (m *machine) runsOlder(pl *schema.Placement) bool {
	run := pl.Run.Scoped()
	for id, w := range m.seen.workers {
		if w.Run == run && !w.State.Ended() && (id.uid != pl.RunUID || id.generation != pl.Generation || id.attempt != pl.Attempt) {
			return true
		}
	}
	return false
}

// judgeLife decides whether the run has ended or starts again.
func (p *pass) judgeLife(r *run) {
	var failed, away, running, succeeded int
	var last *schema.PlacedWorker
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		switch {
		case w.Outcome == nil:
			running++
		case w.Outcome.State == schema.WorkerFailed:
			failed++
			last = w
			if w.Outcome.Reason == schema.AwayReason {
				away++
			}
		default:
			succeeded++
			if last == nil {
				last = w
			}
		}
	}
	policy := r.spec.RestartPolicy
	switch {
	case failed > 0 && policy == schema.RestartNever && (away < failed || r.onLost() != schema.OnLostReplace):
		p.end(r, schema.RunFailed)
	case failed > 0, succeeded > 0 && policy == schema.RestartAlways:
		// One worker's end is the gang's: the others are stopped, for they would
		// wait for it for ever.
		if !p.needsReplacing(r) { // a newer spec starts anew instead
			p.restart(r, last, failed > 0)
		}
	case running == 0 && succeeded > 0:
		p.end(r, schema.RunSucceeded)
	}
}

func (p *pass) end(r *run, how schema.RunOutcome) {
	r.placed.Outcome, r.changed = how, true
	r.placed.Released = p.vacated(r.placed)
	p.event(r.key, string(how), runEnded(r.key.Name, how))
}

// restart begins the next attempt of the whole gang in the same places. It
// starts when all older workers have stopped and the backoff is over.
func (p *pass) restart(r *run, last *schema.PlacedWorker, failed bool) {
	pl := r.placed
	counted := true
	if m := p.machines[last.Machine]; m != nil && m.seen != nil {
		w := m.seen.workers[idOfPlaced(pl, last)]
		if !w.Started.IsZero() && w.Ended.Sub(w.Started) >= backoffReset {
			pl.Failures = 0
		}
		// Nobody knows an exit code after a reboot: that is no failure of the run. Nor is
		// what its machine stopped for want of a controller.
		counted = !failed || last.Outcome.Reason != schema.AwayReason && (last.Outcome.ExitCode != nil || last.Outcome.Reason != schema.RebootedReason)
	}
	pl.NotBefore = time.Time{}
	if counted {
		pl.Failures++
		pl.NotBefore = p.now.Add(backoff(pl.Failures))
	}
	p.event(r.key, "Restarted", runRestarts(r.key.Name, last, pl.Attempt+1))
	pl.LastEnd = lastEnd(last, len(pl.Workers))
	pl.Attempt++
	for i := range pl.Workers {
		pl.Workers[i].Outcome = nil
		pl.Workers[i].Since = p.now
	}
	r.changed = true
}

// needsReplacing reports whether the accepted spec asks for other workers than
// those that were placed: template, groups and network mode do, labels, restart
// policy and endpoints do not.
func (p *pass) needsReplacing(r *run) bool {
	if r.object == nil || r.placed == nil || r.placed.Generation == r.object.Generation {
		return false
	}
	return !sameWorkers(r.placed.Spec, r.spec)
}

func sameWorkers(a, b *schema.RunSpec) bool {
	// By JSON: a spec that was read back from the store has nil where an empty list was.
	return a == b || schema.HashJSON(workersOf(a)) == schema.HashJSON(workersOf(b)) ||
		schema.HashJSON(workersOf(normalised(a))) == schema.HashJSON(workersOf(normalised(b)))
}

// workersOf is the part of a spec by which its workers run.
func workersOf(s *schema.RunSpec) schema.RunSpec {
	part := schema.RunSpec{TaskTemplate: s.TaskTemplate, WorkerGroups: s.WorkerGroups, LeaderGroup: s.LeaderGroup,
		CheckpointPath: s.CheckpointPath, DatasetPath: s.DatasetPath,
		StopIfAwayAfter: s.StopIfAwayAfter} // what a machine was told of a worker holds for its life
	if s.Network != nil {
		part.Network = &schema.Network{Mode: s.Network.Mode}
	}
	return part
}

// missesDrive reports whether a worker that has not ended uses a drive that is gone.
func missesDrive(r *run) bool {
	return slices.ContainsFunc(r.placed.Workers, func(w schema.PlacedWorker) bool {
		t := templateOfGroup(r.current, w.Group)
		return w.Outcome == nil && t != nil &&
			slices.ContainsFunc(t.problem, func(r schema.Reason) bool { return r.Code == schema.ReasonNoDrive })
	})
}
