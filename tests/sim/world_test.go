package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"astraeus.io/astraeus/nodeexec/sim"
	"astraeus.io/astraeus/schema"
)

type conn = grpc.ClientConnInterface

// world is one simulated cluster.
type world struct {
	seed     uint64
	rng      *rand.Rand
	now      time.Time
	dir      string
	net      *sim.Net
	repo     *repo
	store    *memStore
	saved    saved // a copy of the store, older or newer
	ctl      []*controller
	machines []*machine
	declared *declared
	ticks    int
	trace    []string
	say      func(string) // told each line of the trace at once; may be nil
	canaries []canary
	counts   map[string]int // what happened how often
}

type violation struct{ text string }

// failf ends the simulation: an invariant does not hold.
func (w *world) failf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tracef("VIOLATION: %s", text)
	panic(violation{text})
}

func (w *world) tracef(format string, args ...any) {
	line := fmt.Sprintf("%4d %s  ", w.ticks, w.now.Format("15:04:05")) + fmt.Sprintf(format, args...)
	if w.say != nil {
		w.say(line)
	}
	w.trace = append(w.trace, line)
}

func newWorld(seed uint64, dir string, say func(string)) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), dir: dir, counts: map[string]int{}, net: sim.NewNet(), repo: newRepo(), say: say,
		now: time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)}
	w.store = newStore(w)
	for i := range 2 + w.rng.IntN(3) {
		w.addMachine(fmt.Sprintf("m%d", i), i+1)
	}
	for _, m := range w.machines {
		w.plant(m)
	}
	w.declared = newDeclared(w)
	w.ctl = []*controller{newController(w, "ctl-a"), newController(w, "ctl-b")}
	w.commit()
	for _, m := range w.machines {
		m.boot()
	}
	return w
}

func (w *world) count(what string) { w.counts[what]++ }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

func (w *world) machine(name string) *machine {
	for _, m := range w.machines {
		if m.name == name {
			return m
		}
	}
	return nil
}

// leading are the controllers that believe they lead.
func (w *world) leading() []*controller {
	var list []*controller
	for _, c := range w.ctl {
		if c.term != nil {
			list = append(list, c)
		}
	}
	return list
}

// advance lets time pass: streams that are cut are found dead.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	for _, c := range w.ctl {
		for _, name := range slices.Sorted(maps.Keys(c.streams)) {
			if s := c.streams[name]; !s.cut.IsZero() && w.now.Sub(s.cut) >= 20*time.Second {
				s.close("nothing came for 20 s")
			}
		}
	}
}

func plannedText(steps []*schema.Step) string {
	list := make([]schema.Step, 0, len(steps))
	for _, s := range steps {
		list = append(list, *s)
	}
	return stepsText(list)
}

func stepsText(steps []schema.Step) string {
	if len(steps) == 0 {
		return "no step"
	}
	var list []string
	for _, s := range steps {
		list = append(list, stepText(s))
	}
	return strings.Join(list, ", ")
}

func stepText(s schema.Step) string {
	who := s.Object.Name
	if s.Args.Worker != "" {
		who = fmt.Sprintf("%s/g%d/a%d", s.Args.Worker, s.Args.Generation, s.Args.Attempt)
	}
	if s.Args.To != "" {
		who += "->" + s.Args.To
	}
	return string(s.Action) + " " + who + "@" + s.Machine
}

func reportText(r *schema.MachineReport) string {
	var list []string
	part := func(name string, unknown bool, n int) {
		switch {
		case unknown:
			list = append(list, name+"=?")
		case n > 0:
			list = append(list, fmt.Sprintf("%s=%d", name, n))
		}
	}
	part("copies", r.Copies == nil, len(r.Copies))
	part("exports", r.Exports == nil, len(r.Exports))
	part("mounts", r.Mounts == nil, len(r.Mounts))
	part("workers", r.Workers == nil, len(r.Workers))
	for _, f := range r.Failures {
		list = append(list, fmt.Sprintf("[%s %s: %s]", f.Action, f.Object.Name, f.Message))
	}
	return fmt.Sprintf("#%d applied=%d %s", r.Sequence, r.Applied, strings.Join(list, " "))
}

// tracePass writes down what a pass decided.
func (w *world) tracePass(c *controller) {
	d := &c.plan.Decisions
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, a := range d.Accept {
		add("accept %s g%d", a.Object.Object.Key, a.Object.Generation)
	}
	for _, r := range d.Remove {
		add("remove %s", r.Key)
	}
	for _, r := range d.Refuse {
		if r.Refusal != nil {
			add("refuse %s: %s", r.Key, r.Refusal.Hold.Message)
		} else {
			add("clear %s", r.Key)
		}
	}
	for _, p := range d.Place {
		var at []string
		for _, pw := range p.Workers {
			text := pw.Name + "@" + pw.Machine
			if pw.Outcome != nil {
				text += "=" + string(pw.Outcome.State)
			}
			at = append(at, text)
		}
		add("place %s g%d a%d %s%s", p.Run, p.Generation, p.Attempt, strings.Join(at, ","), p.Outcome)
	}
	for _, key := range d.Unplace {
		add("unplace %s", key)
	}
	for _, t := range d.Bury {
		add("bury %s %s", t.Key.Name, t.UID)
	}
	for _, uid := range d.Exhume {
		add("exhume %s", uid)
	}
	if d.Head != "" {
		add("head %s", d.Head)
	}
	if len(list)+len(c.plan.Steps) > 0 {
		w.tracef("%s passes: %s; steps: %s", c.name, strings.Join(list, "; "), plannedText(c.plan.Steps))
	}
}
