package planner

import (
	"slices"
	"strconv"

	"astraeus.io/astraeus/schema"
)

// shortage is why a gang cannot be placed: the template that found no machine,
// and how many of its workers did.
type shortage struct {
	reasons  []schema.Reason // whatever the machine; then t is nil
	t        *template
	have     int
	gang     int  // workers of all its groups
	placed   int  // of these, those that found a machine beside each other
	replaces bool // older workers go on running meanwhile
}

// placeRuns places what waits, in order of acceptance. Waiting gangs reserve
// nothing.
func (p *pass) placeRuns() {
	rolling := map[schema.Key]bool{} // replica groups that replace a member in this pass
	members := p.members()
	for _, r := range p.queue {
		switch {
		case r.object == nil || r.stopping:
		case r.placed == nil:
			p.placeNew(r)
		case p.needsReplacing(r):
			if owner := r.object.Object.ManagedBy; owner.Kind == schema.KindReplicaGroup {
				if rolling[owner] || p.oneInTransit(r, members[owner]) {
					continue
				}
				rolling[owner] = p.replace(r, 0)
				continue
			}
			p.replace(r, 0)
		case r.placed.Outcome == "" && p.lostItsMachine(r):
			p.replaceLost(r)
		}
	}
	// What lost its last worker and got a place at once is only placed.
	p.out.Decisions.Unplace = slices.DeleteFunc(p.out.Decisions.Unplace, func(key schema.Key) bool { return p.runs[key].placed != nil })
	p.keepVacant()
	changed := func(r *run) bool { return r.changed && r.placed != nil }
	n := 0
	for _, r := range p.queue {
		if changed(r) {
			n++
		}
	}
	p.out.Decisions.Place = slices.Grow(p.out.Decisions.Place, n)
	for _, r := range p.queue {
		if changed(r) {
			p.out.Decisions.Place = append(p.out.Decisions.Place, *r.placed)
		}
	}
}

// members are the runs of each replica group.
func (p *pass) members() map[schema.Key][]*run {
	members := map[schema.Key][]*run{}
	for _, r := range p.queue {
		if r.object != nil && r.object.Object.ManagedBy.Kind == schema.KindReplicaGroup {
			members[r.object.Object.ManagedBy] = append(members[r.object.Object.ManagedBy], r)
		}
	}
	return members
}

// oneInTransit reports whether another member already has the newer spec and is
// not running yet: a replica group replaces one at a time.
func (p *pass) oneInTransit(r *run, group []*run) bool {
	return slices.ContainsFunc(group, func(o *run) bool {
		return o != r && o.placed != nil && o.placed.Outcome == "" && !o.stopping && !p.needsReplacing(o) && !p.allRunning(o)
	})
}

func (p *pass) allRunning(r *run) bool {
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		m := p.machines[w.Machine]
		if m == nil || !m.workersKnown() || m.seen.workers[idOfPlaced(r.placed, w)].State != schema.WorkerRunning {
			return false
		}
	}
	return true
}

// lostItsMachine reports whether a worker of the run is gone for good: its machine
// was forgotten, or is Down and what it wrote can no longer be written from there.
func (p *pass) lostItsMachine(r *run) bool {
	return slices.ContainsFunc(r.placed.Workers, func(w schema.PlacedWorker) bool {
		return p.machines[w.Machine] == nil || w.Outcome == nil && r.gone.on(w.Machine)
	})
}

func (p *pass) placeNew(r *run) {
	wanted := p.templatesOf(r.key, r.where, r.spec)
	workers, short := p.gang(r, wanted, nil)
	if short != nil {
		r.short = short
		return
	}
	// What ran before and is still listed is another attempt than the one that starts now.
	p.setPlacement(r, wanted, workers, p.attempts[attemptKey{r.object.UID, r.object.Generation}])
}

func (p *pass) setPlacement(r *run, wanted []*template, workers []schema.PlacedWorker, attempt int) {
	left := p.vacant[r.key]
	if r.placed != nil {
		left.Released = p.vacated(r.placed)
		left.Older, left.OlderUses = p.olderThan(r)
	}
	r.placed = &schema.Placement{Run: r.key, RunUID: r.object.UID, Generation: r.object.Generation, Attempt: attempt,
		Spec: r.spec, Org: r.where.org, Workspace: r.where.workspace, Workers: workers,
		Released: left.Released, Older: left.Older, OlderUses: left.OlderUses}
	r.current, r.changed = wanted, true
	p.event(r.key, "Placed", placedOn(workers))
}

// replace places a run anew, best where it is; an unplaceable new spec leaves
// the old workers running. It reports whether it did.
func (p *pass) replace(r *run, attempt int) bool {
	if m := p.unknownMachine(r); m != nil {
		away := whyAway(m)
		away.Machine, away.Count = m.name, 1
		r.short = &shortage{replaces: true, reasons: []schema.Reason{away}}
		return false
	}
	before := map[string]string{}
	for _, w := range r.placed.Workers {
		before[w.Name] = w.Machine
	}
	held := r.placed.Outcome == ""
	if held {
		p.eachHeld(r, p.release)
	}
	wanted := p.templatesOf(r.key, r.where, r.spec)
	workers, short := p.gang(r, wanted, before)
	if short != nil {
		short.replaces = true
		r.short = short
		if held {
			p.eachHeld(r, p.hold)
		}
		return false
	}
	p.setPlacement(r, wanted, workers, attempt)
	return true
}

// unknownMachine is a machine on which an older worker may still run though
// nobody can tell; until that is known nothing replaces it.
func (p *pass) unknownMachine(r *run) *machine {
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		if m := p.machines[w.Machine]; m != nil && w.Outcome == nil && !m.workersKnown() && !r.gone.on(w.Machine) {
			return m
		}
	}
	for _, o := range r.placed.Older {
		if m := p.machines[o.Machine]; m != nil && !m.workersKnown() && !o.Fenced && !r.gone.on(o.Machine) {
			return m
		}
	}
	return nil
}

// gang places all workers of the templates or none. Workers of one group are on
// different machines; those of different groups may share one.
func (p *pass) gang(r *run, wanted []*template, before map[string]string) ([]schema.PlacedWorker, *shortage) {
	f := p.orgs[r.where.org]
	if f == nil {
		return nil, &shortage{reasons: []schema.Reason{{Code: schema.ReasonNoMachines, Count: 1, Args: schema.ReasonArgs{Text: r.where.org}}}}
	}
	for _, t := range wanted {
		if len(t.problem) > 0 {
			return nil, &shortage{reasons: t.problem}
		}
	}
	total := 0
	for _, t := range wanted {
		total += t.machines
	}
	taken, workers := make([]change, 0, total), make([]schema.PlacedWorker, 0, total)
	for _, t := range wanted {
		first := len(taken)
		for i := range t.machines {
			slot := schema.PlacedWorker{Name: schema.WorkerName(r.key.Name, t.group, i), Group: t.group, Rank: len(workers), Index: i, Since: p.now}
			m := p.choose(t, f, before[slot.Name])
			if m == nil {
				p.unbusy(taken[first:])
				for _, c := range slices.Backward(taken) {
					p.giveBack(c)
				}
				return nil, &shortage{t: t, have: i, gang: total, placed: len(workers)}
			}
			m.busy = true
			c := p.take(m, t)
			slot.Machine, slot.GPUs = m.name, slices.Clone(c.gpus)
			slot.Address, c.host = p.addressFor(t.network, m)
			taken, workers = append(taken, c), append(workers, slot)
		}
		p.unbusy(taken[first:])
	}
	return workers, nil
}

func (p *pass) unbusy(list []change) {
	for _, c := range list {
		c.machine.busy = false
		p.touched(c.machine)
	}
}

func placedOn(workers []schema.PlacedWorker) string {
	if len(workers) == 1 {
		return "placed on " + workers[0].Machine
	}
	return strconv.Itoa(len(workers)) + " workers placed, the first on " + workers[0].Machine
}
