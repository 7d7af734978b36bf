package reconciler

import (
	"fmt"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

// Status is what the controller knows of itself. It shares its plan and maps with
// other Status values and is for reading only.
type Status struct {
	Leading bool
	Leader  string // its address, "" when nobody is known to lead
	// Commit is the newest that was loaded, Head the newest that was written completely.
	Commit string
	Head   string
	// Pending is a commit that waits for Approve, "" for none.
	Pending string
	// Rewritten says that Commit does not descend from Head and is held (G-5).
	Rewritten bool
	// FetchError is why the newest commit is not in use, StoreError why nothing is published; "" for neither.
	FetchError string
	StoreError string
	// Unsettled says that passes go on deciding without a cause.
	Unsettled bool
	// Adopting is what a new epoch waits for, nil when none begins.
	Adopting *Adoption
	// MassDown counts machines that are silent but not declared Down, because too
	// many went at once.
	MassDown int
	// Diagnostics are those of loading Commit.
	Diagnostics []schema.Diagnostic
	Plan        schema.Plan // of the newest pass; waits, holds, steps and notes are in it
	Pass        Pass        // the newest
	Machines    map[string]Machine

	settled, settledOnce string // why not, "" for converged
}

// Machine is one machine as the leader sees it.
type Machine struct {
	State     schema.MachineState
	Connected bool
	Heard     time.Time
	// Assigned is the revision of its assignment, Applied the one that it reported to work by.
	Assigned int64
	Applied  int64
	Problem  string
}

// Update is a step of progress: the newest status and what happened since the last update.
type Update struct {
	Status Status
	Events []schema.Event
}

// Status returns the newest status.
func (r *Reconciler) Status() Status { return r.status.get() }

// Converged reports whether everything declared is reached as far as it can be
// without a change from outside, and why not. With once, runs that are not
// restarted always must have ended.
func (r *Reconciler) Converged(once bool) (yes bool, why string) {
	return r.Status().Converged(once)
}

// Converged is Reconciler.Converged at the time of this status.
func (s Status) Converged(once bool) (yes bool, why string) {
	switch {
	case !s.Leading:
		why = "this controller does not lead"
	case once:
		why = s.settledOnce
	default:
		why = s.settled
	}
	return why == "", why
}

// Subscribe returns a channel that holds the newest update until it is read: a
// slow reader gets fewer updates, with all events up to the newest thousand. cancel
// closes it.
func (r *Reconciler) Subscribe() (updates <-chan Update, cancel func()) { return r.status.subscribe() }

// board holds the newest status and hands out updates.
type board struct {
	mu     sync.Mutex
	status Status
	events []schema.Event
	subs   map[chan Update]bool
}

const maxUpdateEvents = 1000

func (b *board) init() {
	b.subs = map[chan Update]bool{}
	b.status.settled, b.status.settledOnce = notPlanned, notPlanned
}

func (b *board) get() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// happened adds events to the next update.
func (b *board) happened(events []schema.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, events...)
}

func (b *board) update(f func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
	events := b.events
	b.events = nil
	for sub := range b.subs {
		u := Update{Status: b.status, Events: events}
		select {
		case old := <-sub:
			u.Events = append(old.Events[:len(old.Events):len(old.Events)], events...)
			u.Events = u.Events[max(0, len(u.Events)-maxUpdateEvents):]
		default:
		}
		sub <- u // only this function sends, under the lock, so there is room
	}
}

func (b *board) subscribe() (<-chan Update, func()) {
	sub := make(chan Update, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[sub] = true
	sub <- Update{Status: b.status}
	return sub, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.subs[sub] {
			delete(b.subs, sub)
			close(sub)
		}
	}
}

// publishStatus makes the status of a pass. It speaks of the commit that the plan
// looked at: a newer one may be here by now, of which nothing was planned.
func (l *leading) publishStatus(plan schema.Plan, info Pass) {
	machines, got := l.machineStatus(plan), l.found
	l.status.update(func(s *Status) {
		s.Pass, s.MassDown, s.Unsettled = info, l.roster.heldCount(), l.busy >= maxBusy
		s.FetchError, s.StoreError = errText(got.err), errText(info.Err)
		s.Commit, s.Rewritten, s.Pending, s.Diagnostics = "", got.rewritten, "", nil
		s.Adopting = l.adoptionStatus()
		if got.desired != nil {
			s.Commit, s.Diagnostics = got.desired.Commit, got.desired.Diagnostics
		}
		if info.Err != nil {
			s.settled, s.settledOnce = "the store failed", "the store failed"
			return
		}
		s.Head, s.Plan, s.Machines = l.state.Accepted.Head, plan, machines
		if got.desired != nil && l.pending(got.desired.Commit) {
			s.Pending = got.desired.Commit
		}
		if s.Adopting != nil {
			s.settled, s.settledOnce = s.Adopting.Why(), s.Adopting.Why()
			return
		}
		c := convergence{leading: l, plan: plan, info: info, status: s}
		s.settled, s.settledOnce = c.why(false), c.why(true)
	})
}

func (l *leading) adoptionStatus() *Adoption {
	if l.state == nil || !l.state.Meta.Adopting {
		return nil
	}
	a := l.adopting
	return &a
}

func (l *leading) machineStatus(plan schema.Plan) map[string]Machine {
	heard := l.cfg.Link.Machines()
	out := make(map[string]Machine, len(l.states))
	for name, state := range l.states {
		m := Machine{State: state, Connected: heard[name].Connected, Heard: heard[name].Heard, Problem: heard[name].Problem}
		if target, r := plan.Targets[name], l.reports[name]; target != nil {
			m.Assigned = target.Revision
			switch {
			case r == nil:
			case r.Epoch == target.Epoch:
				m.Applied = r.Applied
			case r.Epoch > target.Epoch:
				// It ignores what this store assigns.
				m.Problem = fmt.Sprintf("it works by epoch %d and this store is at epoch %d: was the store restored?", r.Epoch, target.Epoch)
			}
		}
		out[name] = m
	}
	return out
}
