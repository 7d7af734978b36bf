package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// prepare makes the directories and copies that a worker which has not started
// yet, or an export that is not there yet, stands on.
func (p *pass) prepare(s *site) {
	need := p.needs(s)
	for i := range s.a.Dirs {
		d := &s.a.Dirs[i]
		id := sourceID{d.UID, d.Source}
		seen := s.m.seen.paths[id]
		there := seen.Exists && (seen.Path == "" || seen.Path == d.Path) // not the source's former path
		if d.Create && d.Grant != "" && need.dirs[id] && !there {
			step := s.step(schema.ActionCreateDir, d.Drive, schema.StepArgs{UID: d.UID, Source: d.Source, Path: d.Path},
				schema.WhyWorkerNeeds, need.who[id], edges{})
			s.made(schema.ActionCreateDir, d.UID, d.Source, step)
		}
	}
	if s.m.seen.copies == nil {
		return
	}
	for i := range s.a.Copies {
		c := &s.a.Copies[i]
		if need.copies[c.UID] {
			p.makeCopy(s, c, need.who[sourceID{c.UID, 0}])
		} else if !s.m.seen.hasCopy(c.UID) {
			// Its workers run on: making it anew would not bring their data back.
			s.noteDrift(c.Drive, driftGone(copyWords(c.Drive.Name)))
		}
	}
}

func (p *pass) makeCopy(s *site, c *schema.CopyTarget, who string) {
	seen, there := s.m.seen.copies[c.UID]
	if !there && hasKey(s.m.seen.hidden, c.UID) || c.Location == "" || s.m.location != nil && !s.m.location.mounted && c.Location == s.m.location.path {
		return // its data location is not mounted: nothing is created
	}
	var after edges
	if !there || seen.State == schema.CopyCreating {
		if id := s.maker(schema.ActionDeleteCopy, c.Drive.Scoped(), 0); id != "" {
			after.here = []string{id} // one folder a name: the older drive's copy goes first
		}
		id := s.step(schema.ActionCreateCopy, c.Drive, schema.StepArgs{UID: c.UID, Path: c.Location}, schema.WhyWorkerNeeds, who, after)
		s.made(schema.ActionCreateCopy, c.UID, 0, id)
		after.here = []string{id}
	}
	if c.FillGeneration > 0 && !filled(seen, c) {
		id := s.step(schema.ActionFillCopy, c.Drive, schema.StepArgs{UID: c.UID, Generation: c.FillGeneration}, schema.WhyWorkerNeeds, who, after)
		s.made(schema.ActionFillCopy, c.UID, 0, id)
	}
}

// filled: the sidecar's generation is the wanted one. A state file that
// says filled without a generation means the wanted one.
func filled(c schema.Copy, want *schema.CopyTarget) bool {
	return c.FilledGeneration == want.FillGeneration || c.Filled && c.FilledGeneration == 0
}

// needs is what has to be there before a machine's waiting workers start and its
// missing exports are made.
type needs struct {
	dirs   map[sourceID]bool
	copies map[string]bool
	who    map[sourceID]string // the first worker that needs it
}

func (p *pass) needs(s *site) needs {
	n := needs{map[sourceID]bool{}, map[string]bool{}, map[sourceID]string{}}
	if s.m.seen.workers != nil {
		for i := range s.a.Workers {
			w := &s.a.Workers[i]
			if hasKey(s.m.seen.workers, idOfTarget(w)) {
				continue
			}
			for j := range w.Mounts {
				b := &w.Mounts[j]
				id := sourceID{b.UID, b.Source}
				switch b.From {
				case schema.BindCopy:
					n.copies[b.UID] = true
				case schema.BindDir:
					n.dirs[id] = true
				default:
					continue
				}
				if n.who[id] == "" {
					n.who[id] = w.Name
				}
			}
		}
	}
	for _, c := range s.exports {
		id := sourceID{c.key.uid, c.key.source}
		if _, right, known := p.exported(c); known && !right && !n.dirs[id] {
			n.dirs[id] = true
			n.who[id] = c.key.client
		}
	}
	return n
}

func idOfTarget(w *schema.WorkerTarget) workerID {
	return workerID{w.RunUID, w.Generation, w.Attempt, w.Name}
}

// exportClaims: each claim is exported to its client alone (D-80).
func (p *pass) exportClaims(s *site) {
	for _, c := range s.exports {
		e, right, known := p.exported(c)
		if right || !known || c.remake || len(c.way.client) == 0 || c.drive.grants[c.key.source].path == "" {
			continue
		}
		why := schema.WhyClientNeeds
		if e != nil {
			why = schema.WhyChanged
		}
		p.driftOfExport(c, e)
		var after edges
		if id := s.maker(schema.ActionCreateDir, c.key.uid, c.key.source); id != "" {
			after.here = []string{id}
		}
		args := schema.StepArgs{UID: c.key.uid, Source: c.key.source, Path: c.drive.spec.Sources[c.key.source].Path,
			To: c.key.client, Client: c.way.client[0], Mode: c.mode}
		if s.exported == nil {
			s.exported = map[claimKey]string{}
		}
		s.exported[c.key] = s.step(schema.ActionExport, c.drive.key, args, why, c.key.client, after)
	}
}

// mountClaims: the client mounts once the source's export is observed.
func (p *pass) mountClaims(s *site) {
	if s.m.seen.mounts == nil {
		return
	}
	for _, c := range s.mounts {
		if c.remake || c.idle || c.home != nil && c.home.state == schema.MachineDown {
			continue // it would be waited for in vain
		}
		if c.mountRight() || len(c.way.transports) == 0 || c.seen != nil && c.seen.State == schema.MountHung {
			continue
		}
		unmount := s.unmounts[sourceID{c.key.uid, c.key.source}]
		if c.seen != nil && c.seen.State == schema.MountBound && unmount == "" && !c.modeAlone() {
			continue // used by live workers: what is mounted stays
		}
		why := schema.WhyWorkerNeeds
		if c.seen != nil {
			why = schema.WhyChanged
		}
		p.driftOfMount(s, c)
		args := schema.StepArgs{UID: c.key.uid, Source: c.key.source, From: c.from(), Mode: c.mode, Transport: c.way.transports[0]}
		if len(c.way.server) > 0 {
			args.Server = c.way.server[0]
		}
		id := s.step(schema.ActionMount, c.drive.key, args, why, c.users[0], p.afterExport(c, unmount))
		s.made(schema.ActionMount, c.key.uid, c.key.source, id)
	}
}

// modeAlone reports whether the mount there is right but for its mode, which can
// be changed in place.
func (c *claim) modeAlone() bool {
	m := *c.seen
	m.Mode = c.mode
	probe := *c
	probe.seen = &m
	return probe.mountRight()
}

func (p *pass) afterExport(c *claim, unmount string) edges {
	var e edges
	e.here = nonEmpty(unmount)
	_, right, known := p.exported(c)
	if right {
		return e
	}
	if c.home != nil && c.home.site != nil {
		if id := c.home.site.exported[c.key]; id != "" {
			e.away = []string{id}
			return e
		}
	}
	e.blocked = !known || !right
	return e
}

// startWorkers starts each placed worker that its machine does not list, in any
// state, ended ones included.
func (p *pass) startWorkers(s *site) {
	if s.m.seen.workers == nil {
		return
	}
	for i := range s.m.tenants {
		n := &s.m.tenants[i]
		if n.at < 0 {
			continue
		}
		r, w := n.run, &s.a.Workers[n.at]
		if hasKey(s.m.seen.workers, idOfTarget(w)) {
			continue
		}
		if p.isBackingOff(r.placed) {
			continue // backing off
		}
		why := schema.WhyPlaced
		if w.Attempt > 0 {
			why = schema.WhyRestart
		}
		args := schema.StepArgs{UID: w.RunUID, Worker: w.Name, Generation: w.Generation, Attempt: w.Attempt}
		s.step(schema.ActionStartWorker, w.Run, args, why, "", p.beforeStart(s, r, w))
	}
}

// beforeStart is what a worker comes after: what it stands on here, the older
// workers of its run everywhere, and older workers here that give
// their resources up.
func (p *pass) beforeStart(s *site, r *run, w *schema.WorkerTarget) edges {
	var e edges
	if len(s.makers) > 0 {
		e.here = make([]string, 0, len(w.Mounts))
	}
	for i := range w.Mounts {
		b := &w.Mounts[i]
		switch b.From {
		case schema.BindCopy:
			p.afterCopy(s, b, &e)
		case schema.BindDir:
			e.blocked = e.blocked || b.Grant == "" // it was revoked (D-21)
			if id := s.maker(schema.ActionCreateDir, b.UID, b.Source); id != "" {
				e.here = append(e.here, id)
			}
		case schema.BindVolume:
			e.blocked = e.blocked || b.Grant == "" // not let through any more
		case schema.BindClaim:
			p.afterMount(s, b, &e)
		}
	}
	for _, st := range p.stopsFirst(r) {
		if st.machine == s.m.name {
			e.here = append(e.here, st.id)
		} else {
			e.away = append(e.away, st.id)
		}
	}
	for i := range s.stops {
		if st := &s.stops[i]; !slices.Contains(e.here, st.id) && p.givesUp(st) {
			e.here = append(e.here, st.id)
		}
	}
	if w.Attempt > 0 && p.unknownWorkers(r) || p.olderAway(r) != nil || p.olderOnItsWay(r) {
		e.blocked = true // an older worker may still run where nobody can look
	}
	return e
}

// stopsFirst are the stops of older workers of a run that come before its newer ones
// start: all but those that are cut off on machines that are away.
func (p *pass) stopsFirst(r *run) []stop {
	if !slices.ContainsFunc(r.placed.Older, isFenced) {
		return r.stops
	}
	return slices.DeleteFunc(slices.Clone(r.stops), func(st stop) bool {
		at := slices.IndexFunc(r.placed.Older, func(o schema.Older) bool { return o.Machine == st.machine })
		return at >= 0 && p.cutOff(r.placed, &r.placed.Older[at])
	})
}

// unknownWorkers reports whether a machine of the run does not tell what it runs.
func (p *pass) unknownWorkers(r *run) bool {
	return slices.ContainsFunc(r.placed.Workers, func(w schema.PlacedWorker) bool {
		m := p.machines[w.Machine]
		return m != nil && w.Outcome == nil && !m.workersKnown()
	})
}

// olderAway is a machine that does not tell what it runs and on which older workers
// of the run may still write, nil when there is none.
func (p *pass) olderAway(r *run) *schema.Older {
	for i := range r.placed.Older {
		o := &r.placed.Older[i]
		if m := p.machines[o.Machine]; m != nil && !m.workersKnown() && !p.cutOff(r.placed, o) {
			return o
		}
	}
	return nil
}

// olderOnItsWay reports whether a worker of an earlier attempt or generation was
// assigned and may yet appear.
func (p *pass) olderOnItsWay(r *run) bool {
	if r.placed.Attempt == 0 && len(r.placed.Older) == 0 {
		return false // its first life
	}
	for i := range r.placed.Workers {
		if m := p.machines[r.placed.Workers[i].Machine]; m != nil && m.mayStartOlder(r.placed) {
			return true
		}
	}
	return slices.ContainsFunc(r.placed.Older, func(o schema.Older) bool {
		m := p.machines[o.Machine]
		return m != nil && m.mayStartOlder(r.placed) && !p.cutOff(r.placed, &o)
	})
}

// givesUp reports whether a worker's resources were given to others already: its
// run was placed anew and no longer counts them.
func (p *pass) givesUp(st *stop) bool {
	r := p.runs[st.key]
	return r == nil || r.placed == nil || !r.stopping
}

func (p *pass) afterCopy(s *site, b *schema.BindTarget, e *edges) {
	create, fill := s.maker(schema.ActionCreateCopy, b.UID, 0), s.maker(schema.ActionFillCopy, b.UID, 0)
	switch {
	case fill != "":
		e.here = append(e.here, fill)
	case create != "":
		e.here = append(e.here, create)
	case !hasKey(s.m.seen.copies, b.UID):
		e.blocked = true // unknown, or its data location is not mounted
	}
}

func (p *pass) afterMount(s *site, b *schema.BindTarget, e *edges) {
	c := s.claims[sourceID{b.UID, b.Source}]
	if c == nil || c.mountRight() {
		return
	}
	if id := s.maker(schema.ActionMount, b.UID, b.Source); id != "" {
		e.here = append(e.here, id)
		return
	}
	e.blocked = true
}

// driftOfMount and driftOfExport say what a machine lost though nothing declared
// changed: it was in use.
func (p *pass) driftOfMount(s *site, c *claim) {
	if !s.inUse(c.key.uid, c.key.source) {
		return
	}
	what := mountWords(c.drive.key.Name, c.from())
	message := driftGone(what)
	if c.seen != nil {
		message = driftChanged(what)
	}
	s.noteDrift(c.drive.key, message)
}

func (p *pass) driftOfExport(c *claim, e *schema.Export) {
	if c.seen == nil {
		return
	}
	what := exportWords(c.drive.key.Name, c.key.client)
	message := driftGone(what)
	if e != nil {
		message = driftChanged(what)
	}
	c.home.site.noteDrift(c.drive.key, message)
}

func (s *site) noteDrift(object schema.Key, message string) {
	s.drift = append(s.drift, schema.Drift{Machine: s.m.name, Object: object, Message: message})
}
