package reconciler

import (
	"time"

	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// Many machines going Down at once is more likely the controller's network than
// theirs: from this many on, and from this share of all, they are Unknown until
// enough are back.
const (
	massCount   = 3
	massPercent = 30
)

// roster says in which state machines are. It is pure apart from what it keeps
// between calls.
type roster struct {
	down map[string]bool      // declared Down
	went map[string]time.Time // when it went Down or would have, within the window
	held map[string]bool      // would be Down, but too many went at once
	// since is when a machine was declared, zero for one that the leader began
	// with; nil before the first look.
	since map[string]time.Time
}

func newRoster(alive store.Alive) *roster {
	r := &roster{down: map[string]bool{}, went: map[string]time.Time{}, held: map[string]bool{}}
	for name := range alive.Down {
		r.down[name] = true
	}
	return r
}

// states judges machines. A machine is Up while it was heard within
// downAfter, Unknown until the leader has listened that long in health and knows of
// it as long, then Down.
// next is when the judgement may change without anything being heard; zero for never.
func (r *roster) states(now time.Time, names []string, heard map[string]link.Presence, healthy time.Time, downAfter time.Duration) (states map[string]schema.MachineState, next time.Time) {
	states = make(map[string]schema.MachineState, len(names))
	r.meet(now, names)
	var silent []string
	for _, name := range names {
		last := heard[name].Heard
		patience := last
		for _, other := range []time.Time{healthy, r.since[name]} {
			if patience.Before(other) {
				patience = other
			}
		}
		due := patience.Add(downAfter)
		switch {
		case !last.IsZero() && now.Sub(last) < downAfter:
			states[name] = schema.MachineUp
			r.forget(name)
		case now.Before(due):
			states[name] = schema.MachineUnknown
		default:
			silent = append(silent, name)
			continue
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	r.judge(now, silent, len(names), downAfter)
	for _, name := range silent {
		states[name] = schema.MachineDown
		if r.held[name] {
			states[name] = schema.MachineUnknown
		}
	}
	return states, next
}

// meet notes which machines are new: they get as long to come up as all had when
// the leader began.
func (r *roster) meet(now time.Time, names []string) {
	since := make(map[string]time.Time, len(names))
	for _, name := range names {
		switch known, there := r.since[name]; {
		case there:
			since[name] = known
		case r.since == nil:
			since[name] = time.Time{}
		default:
			since[name] = now
		}
	}
	r.since = since
}

func (r *roster) forget(name string) {
	delete(r.down, name)
	delete(r.went, name)
	delete(r.held, name)
}

// judge declares silent machines Down, or holds them when too many went within one window.
func (r *roster) judge(now time.Time, silent []string, known int, window time.Duration) {
	for name, at := range r.went {
		if now.Sub(at) > window && !r.held[name] {
			delete(r.went, name)
		}
	}
	for _, name := range silent {
		if _, seen := r.went[name]; !seen && !r.down[name] {
			r.went[name] = now
		}
	}
	mass := len(r.went) >= massCount && len(r.went)*100 > known*massPercent
	for _, name := range silent {
		if _, recent := r.went[name]; recent {
			r.held[name] = mass
			r.down[name] = !mass
		}
	}
}

// heldCount is how many machines are held back from being Down.
func (r *roster) heldCount() int {
	n := 0
	for _, held := range r.held {
		if held {
			n++
		}
	}
	return n
}

func (r *roster) alive(states map[string]schema.MachineState, heard map[string]link.Presence) store.Alive {
	out := store.Alive{Down: map[string]time.Time{}}
	for name, state := range states {
		switch state {
		case schema.MachineUp:
			out.Up = append(out.Up, name)
		case schema.MachineDown:
			out.Down[name] = heard[name].Heard.UTC().Round(0)
		default:
			out.Unknown = append(out.Unknown, name)
		}
	}
	return out
}
