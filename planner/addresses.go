package planner

import (
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

// A worker's address is kept in placed/ from its placement on. Once released it
// rests there for schema.AddressRest, also when its run is gone: what resolved the
// name of the older worker must not reach another one (N-8).

// splitVacant takes the placements that only keep addresses out of the others:
// no run of theirs is placed.
func (p *pass) splitVacant() {
	p.vacant, p.stored = map[schema.Key]schema.Placement{}, p.in.Placed
	for key, pl := range p.in.Placed {
		if pl.Vacant() {
			p.vacant[key] = clonePlacement(pl)
		}
	}
	if len(p.vacant) > 0 {
		p.in.Placed = maps.Clone(p.in.Placed)
		maps.DeleteFunc(p.in.Placed, func(_ schema.Key, pl schema.Placement) bool { return pl.Vacant() })
	}
}

// restAddresses keeps released addresses from the workers that this pass places.
func (p *pass) restAddresses() {
	for _, pl := range p.vacant {
		p.restOf(pl.Released)
	}
	for _, r := range p.queue {
		if r.placed != nil {
			p.restOf(r.placed.Released)
		}
	}
}

func (p *pass) restOf(list []schema.ReleasedAddress) {
	for _, a := range list {
		if m := p.machines[a.Machine]; m != nil && a.Rests(p.now) {
			if n := m.hostNumber(a.Address); n > 0 {
				m.load.hosts.take(n)
			}
		}
	}
}

// vacated is what a placement keeps from others once its workers have no place
// there any more: the addresses that rest still, and those of its workers, from
// now on, or from when they have stopped.
func (p *pass) vacated(pl *schema.Placement) (list []schema.ReleasedAddress) {
	for _, a := range pl.Released {
		if a.Rests(p.now) && p.machines[a.Machine] != nil {
			list = append(list, a)
		}
	}
	for i := range pl.Workers {
		w := &pl.Workers[i]
		m := p.machines[w.Machine]
		if m == nil || m.hostNumber(w.Address) == 0 || released(list, w) {
			continue
		}
		a := schema.ReleasedAddress{Machine: w.Machine, Address: w.Address}
		if !mayRun(pl, w, m) {
			a.At = p.now
		}
		list = append(list, a)
	}
	if over := len(list) - maxReleased; over > 0 {
		slices.SortStableFunc(list, func(a, b schema.ReleasedAddress) int { return a.At.Compare(b.At) })
		list = slices.Delete(list, 0, over)
	}
	return list
}

// maxReleased bounds what a placement keeps: it is one value of the store.
const maxReleased = 2048

// mayRun reports whether a placed worker may still be running, or start.
func mayRun(pl *schema.Placement, w *schema.PlacedWorker, m *machine) bool {
	id := idOfPlaced(pl, w)
	ended, known := m.seen.ended(id)
	return w.Outcome == nil && (!known || !ended || !m.up() || !hasKey(m.seen.workers, id) && m.mayStart(id))
}

func released(list []schema.ReleasedAddress, w *schema.PlacedWorker) bool {
	return slices.ContainsFunc(list, func(a schema.ReleasedAddress) bool { return a.Machine == w.Machine && a.Address == w.Address })
}

// stampReleased lets addresses begin to rest whose older workers have stopped. It
// reports whether it changed the placement.
func (p *pass) stampReleased(pl *schema.Placement) (changed bool) {
	for i := range pl.Released {
		a := &pl.Released[i]
		if a.At.IsZero() && !pl.IsOlder(a.Machine) && !p.stillUsed(pl, a) {
			a.At, changed = p.now, true
		}
	}
	return changed
}

// stillUsed reports whether a worker of an ended run may still run at an address.
func (p *pass) stillUsed(pl *schema.Placement, a *schema.ReleasedAddress) bool {
	m := p.machines[a.Machine]
	return m != nil && pl.Outcome != "" && slices.ContainsFunc(pl.Workers, func(w schema.PlacedWorker) bool {
		return w.Machine == a.Machine && w.Address == a.Address && mayRun(pl, &w, m)
	})
}

// keepVacant writes what is left of the runs that have no place, and forgets the
// addresses that rested long enough and the machines that have no older worker left.
func (p *pass) keepVacant() {
	for _, key := range sortedKeys(p.vacant) {
		if r := p.runs[key]; r != nil && r.placed != nil {
			continue // its new placement keeps them
		}
		pl, old := p.vacant[key], p.stored[key]
		changed := len(old.Workers) > 0 || len(pl.Older) != len(old.Older)
		p.forgetOlder(&pl, &changed)
		pl.Released = slices.DeleteFunc(pl.Released, func(a schema.ReleasedAddress) bool {
			return p.machines[a.Machine] == nil || !a.Rests(p.now)
		})
		switch {
		case len(pl.Released)+len(pl.Older) == 0:
			p.out.Decisions.Unplace = append(p.out.Decisions.Unplace, key)
		case changed || len(pl.Released) != len(old.Released):
			p.out.Decisions.Place = append(p.out.Decisions.Place, pl)
		}
	}
}

// hosts are the last bytes of a /24's addresses that are taken.
type hosts [4]uint64

func (h *hosts) take(n int)     { h[n/64] |= 1 << (n % 64) }
func (h *hosts) give(n int)     { h[n/64] &^= 1 << (n % 64) }
func (h *hosts) has(n int) bool { return h[n/64]&(1<<(n%64)) != 0 }

// free is the lowest number that a worker may get, 0 for none.
func (h *hosts) free() int {
	for n := firstHost; n <= lastHost; n++ {
		if !h.has(n) {
			return n
		}
	}
	return 0
}
