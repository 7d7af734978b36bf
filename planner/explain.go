package planner

import (
	"strings"

	"astraeus.io/astraeus/schema"
)

// Explain lists, machine by machine and not grouped, why no worker of an
// accepted run that waits for a place can go there. It is empty for a run
// that has its place or is not in force.
func Explain(in Input, key schema.Key) []schema.Reason {
	p := newPass(in)
	p.accept()
	p.settleRuns()
	p.placeRuns()
	p.removeDrives()
	r := p.runs[key]
	if r == nil || r.object == nil || r.short == nil {
		return nil
	}
	if p.refresh(r); r.short.t == nil {
		return distinct(r.short.reasons)
	}
	var list []schema.Reason
	for _, m := range p.orgs[r.short.t.org].list {
		reason, ok := p.whyNot(r.short.t, m)
		if ok {
			continue
		}
		reason.Count = 1
		reason.Args.Text = strings.Replace(reason.Args.Text, thisMachine, m.name, 1)
		list = append(list, reason)
	}
	return list
}
