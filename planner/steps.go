package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"astraeus.io/astraeus/schema"
)

// stop is a StopWorker step with what its worker uses.
type stop struct {
	id      string
	machine string
	key     schema.Key // of its run
	worker  schema.Worker
}

// edges are what a step comes after: steps of its own machine, which the agent
// follows itself, and steps of other machines, until which it is withheld.
type edges struct {
	here    []string
	away    []string
	blocked bool // something it needs is not known or cannot be done now
}

func (e *edges) all() []string {
	switch {
	case len(e.here)+len(e.away) == 0:
		return nil
	case len(e.away) == 0:
		return e.here
	}
	return slices.Concat(e.here, e.away)
}

// The stages of steps, in the order of their actions: every step comes after what
// is of an earlier stage, or of its own on the same machine.
const (
	stageStop = iota
	stageUnmount
	stageUnexport
	stageDelete
	stageEvict
	stagePrepare
	stageExport
	stageMount
	stageStart
	stages
)

// buildSteps is the difference between the targets and what machines report, by
// the table of X-8. Nothing is taken apart by an unknown part of a report, and
// nothing is started twice because of one. Between the three rounds each
// machine may look at what the others' last one came to.
func (p *pass) buildSteps() {
	sites := make([]*site, 0, len(p.order))
	for _, m := range p.order {
		if m.seen != nil {
			sites = append(sites, m.site)
		}
	}
	each(sites, p.takeDown)
	for _, s := range sites {
		for _, st := range s.stops {
			if r := p.runs[st.key]; r != nil {
				r.stops = append(r.stops, st)
			}
		}
	}
	each(sites, p.stepsBetween)
	each(sites, p.bringUp)
	p.collectSteps(sites)
}

// takeDown stops workers and unmounts.
func (p *pass) takeDown(s *site) {
	s.steps = make([]schema.Step, 0, len(s.a.Workers)+2*len(s.mounts)+len(s.a.Dirs)+len(s.a.Copies)) // when all is still to be done
	s.stage(stageStop, p.stopWorkers)
	s.stage(stageUnmount, p.unmount)
}

// stepsBetween follows what clients unmount, and comes before what they mount.
func (p *pass) stepsBetween(s *site) {
	s.stage(stageUnexport, p.unexport)
	s.stage(stageDelete, p.deleteCopies)
	s.stage(stageEvict, p.evictCopies)
	s.stage(stagePrepare, p.prepare)
	s.stage(stageExport, p.exportClaims)
}

// bringUp mounts and starts workers, and gives the machine what it may carry out
// now.
func (p *pass) bringUp(s *site) {
	s.stage(stageMount, p.mountClaims)
	s.stage(stageStart, p.startWorkers)
	s.release()
}

func (s *site) stage(n int, f func(*site)) {
	f(s)
	s.ends[n], s.drifted[n] = len(s.steps), len(s.drift)
}

// step adds a step and returns its id.
func (s *site) step(action schema.Action, object schema.Key, args schema.StepArgs, why schema.WhyCode, what string, e edges) string {
	id := stepID(s.m.name, action, object, &args)
	s.steps = append(s.steps, schema.Step{
		ID: id, Machine: s.m.name, Action: action, Object: object, Args: args,
		After: e.all(), Why: schema.Why{Code: why, Message: schema.WhyMessage(why, what)},
		Destructive: action.Destructive(),
	})
	if !s.m.up() || e.blocked || len(e.away) > 0 || slices.ContainsFunc(e.here, func(id string) bool { return s.withheld[id] }) {
		if s.withheld == nil {
			s.withheld = map[string]bool{}
		}
		s.withheld[id] = true
	}
	return id
}

// early: destructive steps that wait for nothing come before all others.
func early(st *schema.Step) bool { return st.Destructive && len(st.After) == 0 }

// release sorts the machine's steps into those that it may carry out now, which
// become its assignment's, and those that are withheld.
func (s *site) release() {
	rank := func(st *schema.Step) int {
		switch {
		case s.withheld[st.ID]:
			return 2
		case early(st):
			return 0
		}
		return 1
	}
	if len(s.steps) == 0 {
		return
	}
	released := 0
	for i := range s.steps {
		if !s.withheld[s.steps[i].ID] {
			released++
		}
	}
	if !slices.IsSortedFunc(s.steps, func(a, b schema.Step) int { return rank(&a) - rank(&b) }) {
		sorted := make([]schema.Step, 0, len(s.steps))
		s.at = make([]int, len(s.steps))
		for want := range 3 {
			for i := range s.steps {
				if rank(&s.steps[i]) == want {
					s.at[i] = len(sorted)
					sorted = append(sorted, s.steps[i])
				}
			}
		}
		s.steps = sorted
	}
	if released > 0 {
		s.a.Steps = s.steps[:released:released]
	}
}

// stepsOf lists a machine's steps of a stage, in their order.
func (s *site) stepsOf(stage int, f func(*schema.Step)) {
	from := 0
	if stage > 0 {
		from = s.ends[stage-1]
	}
	for i := from; i < s.ends[stage]; i++ {
		at := i
		if s.at != nil {
			at = s.at[i]
		}
		f(&s.steps[at])
	}
}

// collectSteps lists all steps and all drift stage by stage, then by machine.
func (p *pass) collectSteps(sites []*site) {
	n, destroys := 0, false
	for _, s := range sites {
		n += len(s.steps)
		destroys = destroys || s.ends[stageEvict] > s.ends[stageUnexport]
	}
	for stage := range stages {
		for _, s := range sites {
			from := 0
			if stage > 0 {
				from = s.drifted[stage-1]
			}
			p.out.Drift = append(p.out.Drift, s.drift[from:s.drifted[stage]]...)
		}
	}
	if n == 0 {
		return
	}
	p.out.Steps = make([]*schema.Step, 0, n)
	add := func(want func(*schema.Step) bool) {
		for stage := range stages {
			for _, s := range sites {
				s.stepsOf(stage, func(st *schema.Step) {
					if want(st) {
						p.out.Steps = append(p.out.Steps, st)
					}
				})
			}
		}
	}
	if destroys {
		add(early)
		add(func(st *schema.Step) bool { return !early(st) })
		return
	}
	add(func(*schema.Step) bool { return true })
}

// stepID names what a step does: uid, generation and attempt included.
func stepID(machine string, action schema.Action, object schema.Key, a *schema.StepArgs) string {
	buf := make([]byte, 0, 256)
	for _, part := range [...]string{machine, string(action), string(object.Kind), object.Namespace, object.Name, a.UID, a.Path, a.From,
		a.To, a.Client, a.Server, string(a.Mode), string(a.Transport), a.Worker} {
		buf = append(append(buf, part...), 0)
	}
	buf = append(strconv.AppendInt(buf, int64(a.Source), 10), 0)
	buf = append(strconv.AppendInt(buf, a.Generation, 10), 0)
	buf = strconv.AppendInt(buf, int64(a.Attempt), 10)
	sum := sha256.Sum256(buf)
	var text [16]byte
	hex.Encode(text[:], sum[:8])
	return string(text[:])
}
