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

// buildSteps is the difference between the targets and what machines report, by
// the table of X-8. Nothing is taken apart by an unknown part of a report, and
// nothing is started twice because of one.
func (p *pass) buildSteps() {
	sites := make([]*site, 0, len(p.order))
	for _, m := range p.order {
		sites = append(sites, p.work.sites[m.name])
	}
	p.out.Steps = make([]schema.Step, 0, p.guessSteps(sites))
	for _, stage := range []func(*site){
		p.stopWorkers, p.unmount, p.unexport, p.deleteCopies, p.evictCopies, p.prepare, p.exportClaims, p.mountClaims, p.startWorkers,
	} {
		for _, s := range sites {
			if s.m.seen != nil {
				stage(s)
			}
		}
	}
	if len(p.out.Steps) == 0 {
		p.out.Steps = nil
		return
	}
	p.destroyFirst()
	p.releaseSteps()
}

// guessSteps is how many steps there are when everything is still to be done.
func (p *pass) guessSteps(sites []*site) (n int) {
	for _, s := range sites {
		n += len(s.a.Workers) + 2*len(s.mounts) + len(s.a.Dirs) + len(s.a.Copies)
	}
	return n
}

// step adds a step and returns its id.
func (p *pass) step(s *site, action schema.Action, object schema.Key, args schema.StepArgs, why schema.WhyCode, what string, e edges) string {
	st := schema.Step{
		ID: stepID(s.m.name, action, object, &args), Machine: s.m.name, Action: action, Object: object, Args: args,
		After: e.all(), Why: schema.Why{Code: why, Message: schema.WhyMessage(why, what)},
		Destructive: action.Destructive(),
	}
	if !s.m.up() || e.blocked || len(e.away) > 0 || slices.ContainsFunc(e.here, func(id string) bool { return p.work.withheld[id] }) {
		p.work.withheld[st.ID] = true
	}
	p.out.Steps = append(p.out.Steps, st)
	return st.ID
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
	return hex.EncodeToString(sum[:8])
}

// releaseSteps gives each machine the steps it may carry out now.
func (p *pass) releaseSteps() {
	counts := map[string]int{}
	for i := range p.out.Steps {
		if st := &p.out.Steps[i]; !p.work.withheld[st.ID] {
			counts[st.Machine]++
		}
	}
	for i := range p.out.Steps {
		st := &p.out.Steps[i]
		if p.work.withheld[st.ID] {
			continue
		}
		a := p.work.sites[st.Machine].a
		if a.Steps == nil {
			a.Steps = make([]schema.Step, 0, counts[st.Machine])
		}
		a.Steps = append(a.Steps, *st)
	}
}

// destroyFirst puts the destructive steps that wait for nothing before all
// others: stages are in the order of their actions, so that every other step
// already comes after its prerequisites.
func (p *pass) destroyFirst() {
	first := func(st *schema.Step) bool { return st.Destructive && len(st.After) == 0 }
	n := 0
	for i := range p.out.Steps {
		if first(&p.out.Steps[i]) {
			n++
		}
	}
	if n == 0 {
		return
	}
	sorted := make([]schema.Step, 0, len(p.out.Steps))
	for _, early := range []bool{true, false} {
		for i := range p.out.Steps {
			if st := &p.out.Steps[i]; first(st) == early {
				sorted = append(sorted, *st)
			}
		}
	}
	p.out.Steps = sorted
}
