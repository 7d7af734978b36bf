package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// stopWorkers: what runs and has no place in the target is stopped.
func (p *pass) stopWorkers(s *site) {
	for _, id := range sortedWorkers(s.m.seen.workers) {
		w := s.m.seen.workers[id]
		if _, wanted := s.worker(id); wanted || w.State.Ended() || w.Run == "" {
			continue
		}
		key, err := schema.ParseKey("run/" + w.Run)
		if err != nil {
			continue
		}
		args := schema.StepArgs{UID: w.RunUID, Worker: w.Name, Generation: w.Generation, Attempt: w.Attempt}
		step := s.step(schema.ActionStopWorker, key, args, p.whyStop(key, id), "", edges{})
		s.stops = append(s.stops, stop{step, s.m.name, key, w})
	}
}

func sortedWorkers(m map[workerID]schema.Worker) []workerID {
	ids := make([]workerID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b workerID) int {
		if c := compareStrings(a.name, b.name, a.uid, b.uid); c != 0 {
			return c
		}
		if a.generation != b.generation {
			return int(a.generation - b.generation)
		}
		return a.attempt - b.attempt
	})
	return ids
}

// whyStop says why a worker is stopped.
func (p *pass) whyStop(key schema.Key, id workerID) schema.WhyCode {
	r := p.runs[key]
	switch {
	case r == nil || r.object == nil || r.object.UID != id.uid:
		return schema.WhyRunRemoved
	case r.forced:
		return schema.WhyDriveForced
	case r.placed == nil:
		return schema.WhyMoved
	case r.placed.Generation != id.generation:
		return schema.WhyRunReplaced
	case r.placed.Attempt != id.attempt:
		return schema.WhyRestart
	case r.placed.Outcome != "":
		return schema.WhyRunEnded
	}
	return schema.WhyMoved
}

// stopsOf are the stops here of workers that use a drive's source; source -1 is
// any. A worker of which nobody knows what it uses counts as a user.
func (s *site) stopsOf(uid string, source int) []string {
	var ids []string
	for i := range s.stops {
		if st := &s.stops[i]; len(st.worker.Uses) == 0 || usesSource(st.worker.Uses, uid, source) {
			ids = append(ids, st.id)
		}
	}
	return ids
}

func usesSource(uses []schema.Use, uid string, source int) bool {
	return slices.ContainsFunc(uses, func(u schema.Use) bool { return u.UID == uid && (source < 0 || u.Source == source) })
}

// unmount: a mount that no claim wants goes after its users have stopped, and
// only when the listing of workers is complete (kubernetes#120150).
func (p *pass) unmount(s *site) {
	if s.m.seen.workers == nil {
		return
	}
	for i := range s.m.seen.mounts {
		m := &s.m.seen.mounts[i]
		if m.UID == "" {
			continue // of no drive we know: reported, left alone
		}
		c := s.claims[sourceID{m.UID, m.Source}]
		wanted := c != nil && c.from() == m.From && !c.idle
		if wanted && !p.mustRemake(s, c, m) || s.usedByOthers(m.UID, m.Source) {
			continue
		}
		why := schema.WhyNoUser
		if wanted {
			why = schema.WhyChanged
		} else if c != nil && c.idle {
			why = schema.WhySourceDown
		} else if p.tombs[m.UID] != nil {
			why = schema.WhyDriveRemoved
		}
		args := schema.StepArgs{UID: m.UID, Source: m.Source, Path: m.Path, From: m.From, Server: m.Server, Transport: m.Transport}
		if s.unmounts == nil {
			s.unmounts = map[sourceID]string{}
		}
		s.unmounts[sourceID{m.UID, m.Source}] = s.step(schema.ActionUnmount, driveKey(m.Drive), args, why, "", edges{here: s.stopsOf(m.UID, m.Source)})
	}
}

// mustRemake reports whether a wanted mount has the wrong server or transport
// and nobody uses it, so that it can be made again.
func (p *pass) mustRemake(s *site, c *claim, m *schema.Mount) bool {
	if c.remake {
		return true
	}
	if m.State != schema.MountBound || c.mountRight() {
		return false
	}
	modeOnly := *m
	modeOnly.Mode = c.mode
	probe := *c
	probe.seen = &modeOnly
	return !probe.mountRight() && !s.inUse(m.UID, m.Source)
}

// inUse reports whether a live worker on the machine uses a drive's source, or
// may; source -1 is any.
func (s *site) inUse(uid string, source int) bool {
	for id, w := range s.m.seen.workers {
		if s.mayUse(id, &w, uid, source) {
			return true
		}
	}
	return false
}

// usedByOthers is inUse but for the workers that steps stop.
func (s *site) usedByOthers(uid string, source int) bool {
	for id, w := range s.m.seen.workers {
		stopped := slices.ContainsFunc(s.stops, func(st stop) bool { return idOfWorker(st.worker) == id })
		if !stopped && s.mayUse(id, &w, uid, source) {
			return true
		}
	}
	return false
}

// mayUse: a live worker of which nobody knows what it uses counts, unless it is in
// the target, where its mounts stand.
func (s *site) mayUse(id workerID, w *schema.Worker, uid string, source int) bool {
	if w.State.Ended() {
		return false
	}
	i, wanted := s.worker(id)
	return usesSource(w.Uses, uid, source) || wanted && bindsSource(s.a.Workers[i].Mounts, uid, source) || !wanted && len(w.Uses) == 0
}

func bindsSource(binds []schema.BindTarget, uid string, source int) bool {
	return slices.ContainsFunc(binds, func(b schema.BindTarget) bool { return b.UID == uid && (source < 0 || b.Source == source) })
}

// driveKey is the key of a report's "<namespace>.<name>".
func driveKey(scoped string) schema.Key {
	key, err := schema.ParseKey("drive/" + scoped)
	if err != nil {
		return schema.Key{Kind: schema.KindDrive, Name: scoped}
	}
	return key
}

// unexport follows an observed unmount on the client; an export to an
// address that is no machine's goes at once (D-82).
func (p *pass) unexport(s *site) {
	for i := range s.m.seen.exports {
		e := &s.m.seen.exports[i]
		client := p.clientOf(e)
		if c := p.claimOf(e.UID, e.Source, client); e.UID == "" || c != nil && c.home == s.m {
			continue
		}
		why := schema.WhyNoUser
		if p.tombs[e.UID] != nil {
			why = schema.WhyDriveRemoved
		}
		args := schema.StepArgs{UID: e.UID, Source: e.Source, Path: e.Path, To: client, Client: e.Client}
		s.step(schema.ActionUnexport, driveKey(e.Drive), args, why, "", p.afterUnmount(s, e, client))
	}
}

func (p *pass) afterUnmount(s *site, e *schema.Export, client string) edges {
	c := p.machines[client]
	switch {
	case c == nil:
		return edges{} // forgotten, or nobody's address
	case c.state == schema.MachineDown && p.fencedOff(client, e.UID, e.Source):
		return edges{} // it was replaced there: this is the fence
	case !c.up() || c.seen.mounts == nil:
		return edges{blocked: true} // it may still be mounted there
	case c.seen.mountOf(e.UID, e.Source) == nil && c.mayMount(e.UID, e.Source):
		return edges{blocked: true} // it may be being mounted there
	}
	for i := range c.seen.mounts {
		if m := &c.seen.mounts[i]; m.UID == e.UID && m.Source == e.Source && m.From == s.m.name {
			if id := c.site.unmounts[sourceID{m.UID, m.Source}]; id != "" {
				return edges{away: []string{id}}
			}
			return edges{blocked: true}
		}
	}
	return edges{}
}

// madeID is what a step of a machine is about.
type madeID struct {
	action schema.Action
	uid    string
	source int
}

// made remembers a step of the machine, for those that come after it.
func (s *site) made(action schema.Action, uid string, source int, id string) {
	if s.makers == nil {
		s.makers = map[madeID]string{}
	}
	s.makers[madeID{action, uid, source}] = id
}

func (s *site) maker(action schema.Action, uid string, source int) string {
	return s.makers[madeID{action, uid, source}]
}

// deleteCopies deletes the copies of removed drives (D-60, D-61): of those with
// a tombstone alone, in a whole workspace, when everything that might forbid it
// is known and nobody uses them.
func (p *pass) deleteCopies(s *site) {
	seen := s.m.seen
	if seen.copies == nil || seen.workers == nil {
		return
	}
	for _, uid := range sortedStrings(seen.copies) {
		t := p.tombs[uid]
		if t == nil || s.a.Drives[t.Key.Namespace] == "" || hasKey(s.copies, uid) {
			continue
		}
		stops := s.stopsOf(uid, -1)
		if s.usedByOthers(uid, -1) {
			continue
		}
		why := schema.WhyDriveRemoved
		if p.forcedDrive(t) {
			why = schema.WhyDriveForced
		}
		c := seen.copies[uid]
		id := s.step(schema.ActionDeleteCopy, t.Key, schema.StepArgs{UID: uid, Path: c.Folder}, why, "", edges{here: stops})
		s.made(schema.ActionDeleteCopy, t.Key.Scoped(), 0, id)
	}
}

func (p *pass) forcedDrive(t *schema.Tombstone) bool {
	for _, key := range p.keysOf(schema.KindDeletion) {
		a := p.objects[key]
		spec := a.Object.Spec.(*schema.DeletionSpec)
		if spec.Force && a.Target == t.UID {
			return true
		}
	}
	return false
}
