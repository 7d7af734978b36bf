package planner

import (
	"fmt"
	"slices"

	"astraeus.io/astraeus/schema"
)

// explainWorkers finds, machine by machine, what each placed worker that is not
// running waits for.
func (p *pass) explainWorkers() {
	each(p.byName, func(r *run) {
		if r.active() {
			r.waits = make([][]schema.Reason, len(r.placed.Workers))
		}
	})
	p.readyLosses()
	each(p.order, p.explainTenants)
}

// explainTenants keeps the reasons of one machine's workers in one piece of memory.
func (p *pass) explainTenants(m *machine) {
	var all []schema.Reason
	ends := make([]int, len(m.tenants))
	for i := range m.tenants {
		n := &m.tenants[i]
		if n.worker().Outcome == nil && !p.isBackingOff(n.run.placed) {
			first := len(all) == 0
			if all = p.whyNotRunning(n, m, all); first && len(all) > 0 {
				all = slices.Grow(all, 2*(len(m.tenants)-i))
			}
		}
		ends[i] = len(all)
	}
	from := 0
	for i, to := range ends {
		if to > from {
			m.tenants[i].run.waits[m.tenants[i].i] = all[from:to:to]
		}
		from = to
	}
}

// waitWorkers says of each placed worker that is not running what it waits for.
func (p *pass) waitWorkers(r *run) {
	if p.isBackingOff(r.placed) {
		p.wait(r.key, "", backingOff(r.placed))
		return
	}
	for i := range r.placed.Workers {
		w := &r.placed.Workers[i]
		switch {
		case w.Outcome != nil:
		case r.on[i] == nil: // its machine was forgotten
			p.wait(r.key, w.Name, []schema.Reason{{Code: schema.ReasonLost, Machine: w.Machine, Count: 1, Args: schema.ReasonArgs{Machine: w.Machine}}})
		default:
			p.wait(r.key, w.Name, r.waits[i])
		}
	}
}

// whyNotRunning appends to list.
func (p *pass) whyNotRunning(n *tenant, m *machine, list []schema.Reason) []schema.Reason {
	r, w := n.run, n.worker()
	one := func(code schema.ReasonCode, args schema.ReasonArgs) []schema.Reason {
		return append(list, schema.Reason{Code: code, Machine: w.Machine, Count: 1, Args: args})
	}
	switch {
	case m.state == schema.MachineDown:
		return one(schema.ReasonLost, schema.ReasonArgs{Machine: w.Machine, Drive: p.mayWrite(r, w.Machine)})
	case !m.up():
		away := whyAway(m)
		return one(away.Code, away.Args)
	}
	seen, there := m.seen.workers[idOfPlaced(r.placed, w)]
	if there && seen.State != schema.WorkerPreparing {
		if seen.State == schema.WorkerLost {
			return one(schema.ReasonLost, schema.ReasonArgs{Machine: w.Machine})
		}
		return list
	}
	unknown := r.placed.Attempt > 0 && p.unknownWorkers(r) || p.olderOnItsWay(r)
	if o := p.olderAway(r); o != nil && !there {
		if p.machines[o.Machine].state == schema.MachineDown {
			return one(schema.ReasonLost, schema.ReasonArgs{Machine: o.Machine, Drive: p.writtenFrom(r.placed, o)})
		}
		unknown = true
	}
	if (len(p.stopsFirst(r)) > 0 || unknown) && !there {
		return one(schema.ReasonStopping, schema.ReasonArgs{})
	}
	from := len(list)
	if t := templateOfGroup(r.current, w.Group); t != nil {
		for _, why := range t.problem { // turned wrong since it was placed
			why.Machine = w.Machine
			list = append(list, why)
		}
	}
	if n.at >= 0 {
		list = p.whyNotReady(m.site, &m.site.a.Workers[n.at], list)
	}
	if f := p.failureOf(m, schema.ActionStartWorker, r.placed.RunUID, 0, w.Name); f != nil {
		list = append(list, failed(m, f, w.Name))
	}
	if len(list) == from {
		return one(schema.ReasonStarting, schema.ReasonArgs{})
	}
	return list
}

// whyNotReady appends what the worker stands on and is not there.
func (p *pass) whyNotReady(s *site, w *schema.WorkerTarget, list []schema.Reason) []schema.Reason {
	m := s.m
	add := func(code schema.ReasonCode, args schema.ReasonArgs) {
		list = append(list, schema.Reason{Code: code, Machine: m.name, Count: 1, Args: args})
	}
	for j := range w.Mounts {
		b := &w.Mounts[j]
		var action schema.Action
		switch b.From {
		case schema.BindDir:
			if s.maker(schema.ActionCreateDir, b.UID, b.Source) == "" {
				continue
			}
			add(schema.ReasonCreatingDir, schema.ReasonArgs{Path: b.Path, Drive: b.Drive.Name})
			action = schema.ActionCreateDir
		case schema.BindCopy:
			action = p.waitCopy(s, b, add)
		case schema.BindClaim:
			p.waitClaim(s, b, add, &list)
			continue
		}
		if action == "" {
			continue
		}
		if f := p.failureOf(m, action, b.UID, b.Source, ""); f != nil {
			list = append(list, failed(m, f, b.Drive.Name))
		}
	}
	return list
}

func (p *pass) waitCopy(s *site, b *schema.BindTarget, add func(schema.ReasonCode, schema.ReasonArgs)) schema.Action {
	c := &s.a.Copies[s.copies[b.UID]]
	seen, there := s.m.seen.copies[b.UID]
	switch {
	case !there && c.Location == "":
		add(schema.ReasonNoDataLocation, schema.ReasonArgs{})
		return ""
	case hasKey(s.m.seen.hidden, b.UID) && !there || s.m.location != nil && !s.m.location.mounted && c.Location == s.m.location.path:
		add(schema.ReasonNotMounted, schema.ReasonArgs{Path: c.Location})
		return ""
	case !there || seen.State == schema.CopyCreating:
		add(schema.ReasonCreatingCopy, schema.ReasonArgs{Drive: b.Drive.Name})
		return schema.ActionCreateCopy
	case c.FillGeneration > 0 && !filled(seen, c):
		add(schema.ReasonFilling, schema.ReasonArgs{Drive: b.Drive.Name})
		return schema.ActionFillCopy
	}
	return ""
}

// waitClaim: `waiting for imagenet to be mounted from gpu-01 (Exported)` (D-80),
// with the failure of either side beside it.
func (p *pass) waitClaim(s *site, b *schema.BindTarget, add func(schema.ReasonCode, schema.ReasonArgs), list *[]schema.Reason) {
	c := s.claims[sourceID{b.UID, b.Source}]
	if c == nil || c.mountRight() {
		return
	}
	args := schema.ReasonArgs{Drive: b.Drive.Name, Source: b.Source, Machine: c.from()}
	if c.home == nil || !c.home.up() {
		args.State = notDeclared
		if c.home != nil {
			args.State = string(c.home.state)
		}
		add(schema.ReasonSourceAway, args)
		return
	}
	args.Source = 0
	args.State = string(p.stateOf(c))
	add(schema.ReasonMounting, args)
	if text := missingPiece(c.home, c.client); text != "" {
		add(schema.ReasonMissingNFS, schema.ReasonArgs{Drive: b.Drive.Name, Machine: c.from(), Text: namedMachine(text, s.m.name)})
	} else if _, problem := wayBetween(c.home, c.client, c.drive.spec.Transport); problem != "" {
		add(schema.ReasonNoAddress, schema.ReasonArgs{Drive: b.Drive.Name, Machine: c.from(), Text: namedMachine(problem, s.m.name)})
	}
	if f := p.failureOf(c.home, schema.ActionExport, b.UID, b.Source, ""); f != nil {
		*list = append(*list, failed(c.home, f, b.Drive.Name))
	}
	if f := p.failureOf(s.m, schema.ActionMount, b.UID, b.Source, ""); f != nil {
		*list = append(*list, failed(s.m, f, b.Drive.Name))
	}
}

// failed is a step's failure as a wait.
func failed(m *machine, f *schema.Failure, what string) schema.Reason {
	return schema.Reason{Code: schema.ReasonStepFailed, Machine: m.name, Count: 1,
		Args: schema.ReasonArgs{State: fmt.Sprintf("%s of %s", f.Action, what), Text: f.Message}}
}
