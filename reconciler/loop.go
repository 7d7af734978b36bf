package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// leading is what one term works with. One goroutine uses it.
type leading struct {
	*Reconciler
	decider Decider
	fetcher *fetcher
	notes   *notes
	roster  *roster

	state   *store.State // in force; nil after a failed write, until it is loaded again
	found   found        // the commit that the newest plan looked at
	judged  bool         // found was compared with the head, so the plan took it into account
	reports map[string]*schema.MachineReport
	states  map[string]schema.MachineState
	tracker tracker
	given   map[string]*schema.Assignment // what machines were last assigned

	fresh    map[string]bool // machines that reported in this term
	moved    bool            // a machine came or went: what it has seen is to be looked at
	adopting Adoption        // what a new epoch waits for
	said     string          // of it, in the log

	healthy time.Time // since when writes work; zero while they fail
	failing time.Time // since when they fail
	retry   *backoff
	log     audit
	names   *names
	busy    int // passes in a row that decided something without a cause from outside
}

// maxBusy is how many passes may follow from each other's decisions before the
// next waits for a cause: a planner that never settles must not spin.
const maxBusy = 20

func newLeading(r *Reconciler, decider Decider, state *store.State) *leading {
	l := &leading{
		Reconciler: r, decider: decider, fetcher: newFetcher(&r.cfg, r.poke), notes: newNotes(r.poke),
		roster: newRoster(state.Alive), state: state, reports: maps.Clone(state.Observed),
		states: map[string]schema.MachineState{}, tracker: newTracker(state.Alive),
		given: state.Given(), fresh: map[string]bool{}, moved: true, healthy: r.cfg.Now(), retry: newBackoff(100*time.Millisecond, 2*time.Second),
	}
	l.fetcher.head = state.Accepted.Head
	l.names = newNames(decider.Term(), state.Observed)
	return l
}

// loop runs a pass at each cause, not more often than Coalesce.
func (l *leading) loop(ctx context.Context, over <-chan struct{}) error {
	timer, names := time.NewTimer(0), time.NewTimer(time.Hour)
	defer timer.Stop()
	defer names.Stop()
	var last time.Time // start of the last pass
	for {
		cause := true
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return store.ErrNotLeader
		case <-l.wake:
		case <-l.cfg.Link.Changed():
			cause = l.absorb()
		case <-timer.C:
		case <-names.C:
			cause = false
		}
		l.timeNames(names) // before the pass: names do not wait for a plan
		if !cause {
			continue
		}
		// The first change goes at once; those that come right after it go together.
		if wait := l.cfg.Coalesce - l.cfg.Now().Sub(last); !last.IsZero() && wait > 0 && !sleep(ctx, wait) {
			return nil
		}
		drain(l.wake)
		last = l.cfg.Now()
		next, err := l.pass(ctx)
		if over := l.over(ctx, err); over != nil {
			return over
		}
		timer.Reset(next)
		l.timeNames(names)
	}
}

// timeNames publishes names and sets the timer for those that stand back.
func (l *leading) timeNames(timer *time.Timer) {
	if next := l.publishNames(); next > 0 {
		timer.Reset(next)
	}
}

// over is why a pass's error ends the term, nil when it does not.
func (l *leading) over(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrNotLeader), errors.Is(err, store.ErrOlder):
		return err
	case err != nil && ctx.Err() == nil && l.cfg.Now().Sub(l.failing) >= l.cfg.GiveUp:
		return fmt.Errorf("no write worked for %s: %w", l.cfg.GiveUp, err)
	}
	return nil
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// absorb takes what machines reported, and says whether a pass is due.
func (l *leading) absorb() bool {
	reports, due := l.cfg.Link.Take()
	l.moved = l.moved || due
	for _, r := range reports {
		l.fresh[r.Name] = true
		old := l.reports[r.Name]
		l.tracker.compare(old, r, l.cfg.Now())
		due = due || l.states[r.Name] != schema.MachineUp || dirties(old, r)
		l.reports[r.Name] = r
		l.names.report(r)
	}
	l.notes.add(reports)
	return due
}

// pass runs one pass and returns when the next is due without a cause.
func (l *leading) pass(ctx context.Context) (next time.Duration, err error) {
	start := l.cfg.Now()
	ctx, end := l.cfg.Hooks.Span(ctx, "pass", "")
	info := Pass{Number: l.passes.Add(1)}
	err = l.notes.failure()
	if err == nil && l.state == nil {
		l.state, err = l.decider.Load(ctx)
		l.names.anew() // nobody knows which decisions were written
	}
	var plan schema.Plan
	next = l.cfg.Resync
	switch {
	case err != nil:
	case l.state.Meta.Adopting:
		next, err = l.adopt(ctx, &info)
	default:
		plan, next, err = l.decide(ctx, &info)
	}
	if err != nil {
		next = l.failed(err, start)
	} else {
		l.works(&info)
	}
	if info.Decided && err == nil && l.busy < maxBusy {
		next = 0
	}
	info.Took, info.Err = l.cfg.Now().Sub(start), err
	l.publishStatus(plan, info)
	l.cfg.Hooks.Passed(info)
	end(err)
	return next, err
}

// failed notes that the store does not take writes: nothing is published and
// nobody is declared Down until it does.
func (l *leading) failed(err error, since time.Time) time.Duration {
	l.state = nil
	if l.failing.IsZero() {
		l.failing = since
		l.cfg.Log.Error("the store failed; nothing is published until it works", "error", err)
	}
	l.healthy = time.Time{}
	return l.retry.next()
}

func (l *leading) works(info *Pass) {
	if l.healthy.IsZero() {
		l.healthy = l.cfg.Now()
	}
	l.failing = time.Time{}
	l.retry.reset()
	if info.Decided {
		l.busy++
	} else {
		l.busy = 0
	}
}

// decide plans, commits, assigns and publishes, in this order.
func (l *leading) decide(ctx context.Context, info *Pass) (plan schema.Plan, next time.Duration, err error) {
	l.absorb()
	now := l.cfg.Now()
	if err := l.witness(ctx); err != nil {
		return plan, 0, err
	}
	if err := l.answer(ctx, now); err != nil {
		return plan, 0, err
	}
	due := l.judge(now)
	in := l.input(now)
	planning := l.cfg.Now()
	plan = l.cfg.Plan(in)
	info.Planning = l.cfg.Now().Sub(planning)
	events := l.tracker.take()
	info.Decided = !plan.Decisions.Empty()
	decisions := plan.Decisions
	decisions.Events = slices.Concat(events, decisions.Events) // what happened comes before what follows from it
	l.audit(&decisions, plan, now)
	state, err := l.decider.Commit(ctx, decisions)
	if err != nil {
		l.tracker.putBack(events)
		return plan, 0, err
	}
	l.state, l.log.known = state, l.log.next
	l.names.decided(&decisions)
	l.status.happened(decisions.Events)
	l.cfg.Hooks.Committed(decisions)
	if info.Assigned, err = l.decider.Assign(ctx, plan.Targets, plan.Blobs); err != nil {
		return plan, 0, err
	}
	l.given = plan.Targets
	l.cfg.Link.Publish(plan.Targets, plan.Blobs)
	l.tracker.planned(plan.Steps)
	return plan, l.nextDue(now, due), nil
}

// judge sets the states of machines and returns when they may change by time alone.
func (l *leading) judge(now time.Time) time.Time {
	heard := l.cfg.Link.Machines()
	names := map[string]bool{}
	for key, object := range l.state.Accepted.Objects {
		if key.Kind == schema.KindMachine && object.UID != "" {
			names[key.Name] = true
		}
	}
	for name := range l.reports {
		names[name] = true
	}
	for name := range heard {
		names[name] = true
	}
	healthy := l.healthy
	if healthy.IsZero() {
		healthy = now
	}
	states, due := l.roster.states(now, slices.Sorted(maps.Keys(names)), heard, healthy, l.downAfter())
	l.tracker.machines(states, now)
	if !maps.Equal(states, l.states) {
		l.notes.setAlive(l.roster.alive(states, heard))
	}
	l.names.moved(l.states, states)
	l.states = states
	return due
}

// cluster is the settings in force, with defaults. While the cluster gets another
// name there are two, of which the declared one counts, as it does for the planner.
func (l *leading) cluster() *schema.ClusterSpec {
	var keys []schema.Key
	for key, object := range l.state.Accepted.Objects {
		if key.Kind == schema.KindCluster && object.UID != "" && object.Object != nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, schema.CompareKeys)
	spec := &schema.ClusterSpec{}
	if len(keys) > 0 {
		key := keys[max(0, slices.IndexFunc(keys, l.declares))]
		*spec = *l.state.Accepted.Objects[key].Object.Spec.(*schema.ClusterSpec)
	}
	spec.Normalize()
	return spec
}

// declares reports whether the newest commit that was loaded declares an object.
func (l *leading) declares(key schema.Key) bool {
	return l.found.desired != nil && l.found.desired.Objects[key] != nil
}

func (l *leading) downAfter() time.Duration { return l.cluster().DownAfter.Std() }

// input gathers what the planner looks at.
func (l *leading) input(now time.Time) planner.Input {
	in := planner.Input{
		Accepted: l.state.Accepted, Placed: l.state.Placed, Now: now, Seed: l.cfg.Seed(),
		Observed: schema.Observed{At: now, Machines: l.observed()}, Given: l.given,
	}
	l.found, l.judged = l.fetcher.newest(l.state.Accepted.Head)
	switch desired := l.found.desired; {
	case !l.judged:
		l.fetcher.poke()
	case desired != nil && !l.pending(desired.Commit):
		in.Desired, in.Rewritten = desired, l.found.rewritten
	}
	return in
}

// observed is the newest report of each machine, with its state.
func (l *leading) observed() []*schema.MachineReport {
	out := make([]*schema.MachineReport, 0, len(l.states))
	for _, name := range slices.Sorted(maps.Keys(l.states)) {
		report := schema.MachineReport{Name: name}
		if known := l.reports[name]; known != nil {
			report = *known
		}
		report.State = l.states[name]
		out = append(out, &report)
	}
	return out
}

// nextDue is how long until something changes by time alone.
func (l *leading) nextDue(now, machines time.Time) time.Duration {
	next := l.cfg.Resync
	consider := func(at time.Time) {
		if at.After(now) {
			next = min(next, at.Sub(now))
		}
	}
	consider(machines)
	for _, p := range l.state.Placed {
		consider(p.NotBefore)
		for _, a := range p.Released {
			consider(a.At.Add(schema.AddressRest)) // a worker may wait for it
		}
	}
	return next
}
