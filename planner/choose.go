package planner

import (
	"cmp"
	"slices"
)

// Preference (D-59): the machine a worker was on, then one that holds the bytes,
// then near the drive's machine (same NVLink domain, fabric, rack, RDMA at both
// ends), then the best fit: the fewest free GPUs that suffice. Ties go by name.

// choose is the best machine for one worker of a template now, nil when there is
// none. before is where it was, "" for a new one.
func (p *pass) choose(t *template, f *fleet, before string) *machine {
	accept := func(m *machine) bool {
		if m.busy {
			return false
		}
		_, ok := p.whyNot(t, m)
		return ok
	}
	if m := p.machines[before]; m != nil && m.org == t.org && accept(m) {
		return m
	}
	if t.only != nil {
		return p.bestOf(t, p.machinesNamed(t.only, t.org), accept)
	}
	if m := p.bestOf(t, p.byteHolders(t), accept); m != nil {
		return m
	}
	w := want{cpu: t.cpu, memory: t.memory, gpus: t.gpus, classes: p.fits(t, f)}
	if w.classes == 0 {
		return nil
	}
	if home := homeOf(t); home != nil {
		if m := p.near(t, f, home, w, accept); m != nil {
			return m
		}
	}
	return f.pool(poolAll).best(w, accept)
}

// near looks around a drive's machine, the nearest first.
func (p *pass) near(t *template, f *fleet, home *machine, w want, accept func(*machine) bool) *machine {
	if home.nvlink != "" {
		if m := p.bestOf(t, f.nvlinks[home.nvlink], accept); m != nil {
			return m
		}
	}
	rack := f.racks[home.rack]
	if home.rack == "" {
		rack = nil
	}
	if home.fabric != "" {
		same := func(m *machine) bool { return m.fabric == home.fabric && accept(m) }
		if m := p.bestOf(t, rack, same); m != nil {
			return m
		}
		if m := f.pool(poolFabric(home.fabric)).best(w, func(m *machine) bool { return len(m.rdma) > 0 && len(home.rdma) > 0 && accept(m) }); m != nil {
			return m
		}
		if m := f.pool(poolFabric(home.fabric)).best(w, accept); m != nil {
			return m
		}
	}
	if m := p.bestOf(t, rack, accept); m != nil {
		return m
	}
	if len(home.rdma) > 0 {
		return f.pool(poolRDMA).best(w, accept)
	}
	return nil
}

// homeOf is the machine of the template's first one-machine drive.
func homeOf(t *template) *machine {
	for i := range t.uses {
		if t.uses[i].home != nil {
			return t.uses[i].home
		}
	}
	return nil
}

func (p *pass) machinesNamed(names []string, org string) []*machine {
	var list []*machine
	for _, name := range names {
		if m := p.machines[name]; m != nil && m.org == org {
			list = append(list, m)
		}
	}
	return list
}

// byteHolders are the machines that hold bytes of the template's drives.
func (p *pass) byteHolders(t *template) []*machine {
	var list []*machine
	for i := range t.uses {
		switch u := &t.uses[i]; u.kind {
		case useHome:
			if u.home != nil {
				list = append(list, u.home)
			}
		case useCopy:
			for _, m := range p.holders[u.drive.uid] {
				if m.org == t.org {
					list = append(list, m)
				}
			}
		}
	}
	slices.SortFunc(list, compareNames)
	return slices.Compact(list)
}

// bestOf is the best machine of a short list.
func (p *pass) bestOf(t *template, list []*machine, accept func(*machine) bool) *machine {
	var best *machine
	for _, m := range list {
		full := m.load.known && (m.load.cpu < t.cpu || m.load.memory < t.memory || m.load.gpus < t.gpus)
		if full || best != nil && p.prefer(t, m, best) > 0 || !accept(m) { // the cheap questions first
			continue
		}
		best = m
	}
	return best
}

// prefer orders two machines that both can take a worker of the template.
func (p *pass) prefer(t *template, a, b *machine) int {
	if c := cmp.Compare(p.holds(t, b), p.holds(t, a)); c != 0 {
		return c
	}
	if home := homeOf(t); home != nil {
		if c := cmp.Compare(nearness(home, b), nearness(home, a)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.load.gpus, b.load.gpus), compareNames(a, b))
}

// holds counts the template's drives whose bytes are on the machine.
func (p *pass) holds(t *template, m *machine) (n int) {
	for i := range t.uses {
		switch u := &t.uses[i]; {
		case u.kind == useHome && u.home == m, u.kind == useCopy && m.seen.hasCopy(u.drive.uid):
			n++
		}
	}
	return n
}

func nearness(home, m *machine) (n int) {
	for i, same := range []bool{
		len(home.rdma) > 0 && len(m.rdma) > 0,
		home.rack != "" && home.rack == m.rack,
		home.fabric != "" && home.fabric == m.fabric,
		home.nvlink != "" && home.nvlink == m.nvlink,
	} {
		if same {
			n |= 1 << i
		}
	}
	return n
}
