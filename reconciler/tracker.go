package reconciler

import (
	"reflect"
	"strings"
	"time"

	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// tracker makes events of what happened on machines, which the planner, that has
// no memory, cannot see: copies made and removed (D-71), workers started,
// machines coming and going.
type tracker struct {
	events []schema.Event
	states map[string]schema.MachineState // Up or Down, as last said
	why    map[copyOn]string              // why the plan removes a copy
}

type copyOn struct{ machine, uid string }

func newTracker(alive store.Alive) tracker {
	t := tracker{states: map[string]schema.MachineState{}, why: map[copyOn]string{}}
	for _, name := range alive.Up {
		t.states[name] = schema.MachineUp
	}
	for name := range alive.Down {
		t.states[name] = schema.MachineDown
	}
	return t
}

func (t *tracker) add(at time.Time, object schema.Key, kind, machine, message string) {
	t.events = append(t.events, schema.Event{At: at, Object: object, Type: kind, Machine: machine, Message: message})
}

// take returns the events since the last call; putBack undoes it when they could not be written.
func (t *tracker) take() []schema.Event {
	out := t.events
	t.events = nil
	return out
}

func (t *tracker) putBack(events []schema.Event) { t.events = append(events, t.events...) }

// planned remembers why copies are to go, by the newest plan alone: a reason that
// no longer holds must not be told of a later removal.
func (t *tracker) planned(steps []*schema.Step) {
	clear(t.why)
	for _, s := range steps {
		if s.Destructive || s.Action.Destructive() {
			t.why[copyOn{s.Machine, s.Args.UID}] = s.Why.Message
		}
	}
}

// compare makes events of the difference between two reports of one machine. What
// is unknown in either makes none.
func (t *tracker) compare(old, r *schema.MachineReport, now time.Time) {
	if old == nil {
		return
	}
	if old.Copies != nil && r.Copies != nil {
		t.copies(old, r, now)
	}
	if old.Mounts != nil && r.Mounts != nil {
		t.mounts(old, r, now)
	}
	if old.Workers != nil && r.Workers != nil {
		t.workers(old, r, now)
	}
}

// mounts tells of claims that came to be Bound or were unmounted (D-80).
func (t *tracker) mounts(old, r *schema.MachineReport, now time.Time) {
	before, after := boundMounts(old), boundMounts(r)
	for at, m := range after {
		if _, had := before[at]; !had {
			t.add(now, scopedKey(schema.KindDrive, m.Drive), "Mounted", r.Name,
				"Mounted on "+r.Name+" from "+m.From+" over "+string(m.Transport))
		}
	}
	for at, m := range before {
		if _, still := after[at]; !still {
			t.add(now, scopedKey(schema.KindDrive, m.Drive), "Unmounted", r.Name, "Unmounted on "+r.Name)
		}
	}
}

func boundMounts(r *schema.MachineReport) map[string]schema.Mount {
	out := make(map[string]schema.Mount, len(r.Mounts))
	for _, m := range r.Mounts {
		if m.State == schema.MountBound {
			out[m.Path] = m
		}
	}
	return out
}

func (t *tracker) copies(old, r *schema.MachineReport, now time.Time) {
	before, after := presentCopies(old), presentCopies(r)
	for uid, c := range after {
		switch was, had := before[uid]; {
		case !had:
			t.add(now, scopedKey(schema.KindDrive, c.Drive), "Copied", r.Name, "Copy made on "+r.Name)
		case c.Filled && !was.Filled:
			t.add(now, scopedKey(schema.KindDrive, c.Drive), "Filled", r.Name, "Copy filled on "+r.Name)
		}
	}
	for uid, c := range before {
		if _, still := after[uid]; still || unknownCopy(r, uid) {
			continue
		}
		message := "Copy removed from " + r.Name
		if why := t.whyGone(r, uid); why != "" {
			message += ": " + why
		}
		delete(t.why, copyOn{r.Name, uid})
		t.add(now, scopedKey(schema.KindDrive, c.Drive), eventCopyRemoved, r.Name, message)
	}
}

// whyGone asks the machine first: it evicts also while it is away (D-71, X-18).
func (t *tracker) whyGone(r *schema.MachineReport, uid string) string {
	for i := len(r.Evicted) - 1; i >= 0; i-- {
		if r.Evicted[i].UID == uid {
			return schema.WhyMessage(r.Evicted[i].Why, "")
		}
	}
	return t.why[copyOn{r.Name, uid}]
}

func presentCopies(r *schema.MachineReport) map[string]schema.Copy {
	out := make(map[string]schema.Copy, len(r.Copies))
	for _, c := range r.Copies {
		if c.UID != "" && (c.State == "" || c.State == schema.CopyPresent) {
			out[c.UID] = c
		}
	}
	return out
}

// unknownCopy: its data location is not there, which is not the same as gone.
func unknownCopy(r *schema.MachineReport, uid string) bool {
	for _, c := range r.Copies {
		if c.UID == uid && c.State == schema.CopyUnknown {
			return true
		}
	}
	return false
}

func (t *tracker) workers(old, r *schema.MachineReport, now time.Time) {
	type worker struct {
		uid, name           string
		generation, attempt int64
	}
	id := func(w schema.Worker) worker { return worker{w.RunUID, w.Name, w.Generation, int64(w.Attempt)} }
	before := make(map[worker]schema.WorkerState, len(old.Workers))
	for _, w := range old.Workers {
		before[id(w)] = w.State
	}
	for _, w := range r.Workers {
		was := before[id(w)]
		switch {
		case was == schema.WorkerRunning || was.Ended():
		case w.State == schema.WorkerRunning:
			t.add(now, scopedKey(schema.KindRun, w.Run), "Started", r.Name, w.Name+" is Running on "+r.Name)
		case w.State.Ended() && !w.Started.IsZero(): // it was quicker than the reports
			t.add(now, scopedKey(schema.KindRun, w.Run), "Started", r.Name, w.Name+" ran on "+r.Name)
		}
	}
}

func scopedKey(kind schema.Kind, scoped string) schema.Key {
	ns, name, _ := strings.Cut(scoped, ".")
	return schema.Key{Kind: kind, Namespace: ns, Name: name}
}

// machines makes events of machines that came or went. Unknown says nothing new.
func (t *tracker) machines(states map[string]schema.MachineState, now time.Time) {
	for name, state := range states {
		if state == schema.MachineUnknown || t.states[name] == state {
			continue
		}
		t.states[name] = state
		t.add(now, schema.Key{Kind: schema.KindMachine, Name: name}, string(state), name, "machine "+name+" is "+string(state))
	}
}

// dirties reports whether a report can change a plan: measurements, stamps of use,
// the sequence, and what health checks say cannot.
func dirties(old, r *schema.MachineReport) bool {
	if old == nil {
		return true
	}
	a, b := *old, *r
	a.Sequence, a.Measurements, a.MountSeries, a.Copies, a.Checks = b.Sequence, b.Measurements, b.MountSeries, b.Copies, b.Checks
	if !reflect.DeepEqual(a, b) || (old.Copies == nil) != (r.Copies == nil) || len(old.Copies) != len(r.Copies) {
		return true
	}
	for i := range r.Copies {
		was, is := old.Copies[i], r.Copies[i]
		was.LastUsed = is.LastUsed
		if !reflect.DeepEqual(was, is) {
			return true
		}
	}
	return false
}
