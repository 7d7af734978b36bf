package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// A fence is up from the decision to replace lost workers until their machine shows
// that none of them is left: what they have mounted is not exported to it meanwhile,
// and what is mounted there is unmounted before it is exported again.

// indexFences collects what is fenced off from each machine, by the placements that
// this pass leads to.
func (p *pass) indexFences() {
	p.fences = map[string][][]schema.OlderUse{}
	add := func(pl *schema.Placement) {
		for _, o := range pl.Older {
			if o.Fenced {
				p.fences[o.Machine] = append(p.fences[o.Machine], pl.OlderUses)
			}
		}
	}
	for _, r := range p.queue {
		if r.placed != nil {
			add(r.placed)
		}
	}
	for key, pl := range p.vacant {
		if r := p.runs[key]; r == nil || r.placed == nil {
			add(&pl)
		}
	}
}

// fencedOff reports whether a drive's source is fenced off from a machine. Uses that
// nobody knows may be of any.
func (p *pass) fencedOff(machine, uid string, source int) bool {
	return slices.ContainsFunc(p.fences[machine], func(uses []schema.OlderUse) bool {
		return uses == nil || slices.ContainsFunc(uses, func(u schema.OlderUse) bool { return u.UID == uid && u.Source == source })
	})
}

// guardClaim finds whether a claim may be exported and mounted as it is. A mount of
// which the source knows nothing is unmounted first unless wanted workers are at it:
// it is a leftover of another life of its machine.
func (p *pass) guardClaim(s *site, c *claim) {
	if c.home == nil {
		return
	}
	known := c.client.workersKnown()
	wanted, others := s.usersOfMount(c)
	c.idle = c.home.state == schema.MachineDown && c.seen != nil && c.seen.From == c.home.name && known && !wanted && !others
	e, _, exports := p.exported(c)
	if !exports || e != nil {
		return
	}
	stale := c.seen != nil && c.seen.From == c.home.name && known && !wanted
	fenced := p.fencedOff(c.key.client, c.key.uid, c.key.source) &&
		(others || !known || !c.client.settled() || c.client.seen.mounts == nil)
	c.remake = stale || fenced
}

// usersOfMount reports whether live workers use a claim's mount: those that have
// their place there, and others, of which nobody may know what they use.
func (s *site) usersOfMount(c *claim) (wanted, others bool) {
	if s.m.seen == nil {
		return false, false
	}
	for id, w := range s.m.seen.workers {
		if w.State.Ended() {
			continue
		}
		at := slices.IndexFunc(s.a.Workers, func(t schema.WorkerTarget) bool { return idOfTarget(&t) == id })
		uses := usesSource(w.Uses, c.key.uid, c.key.source)
		wanted = wanted || at >= 0 && (uses || bindsSource(s.a.Workers[at].Mounts, c.key.uid, c.key.source))
		others = others || at < 0 && (uses || len(w.Uses) == 0)
	}
	return wanted, others
}
