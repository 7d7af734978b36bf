package planner

import (
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

// comeAndGo lets machines that are away stop the workers that they were told to
// stop, and tell of it when they are back.
func (s *sim) comeAndGo() {
	for _, name := range sortedStrings(s.machines) {
		m := s.machines[name]
		if m.State == schema.MachineUp {
			delete(s.away, name)
			s.tellDead(m)
			continue
		}
		if _, was := s.away[name]; !was {
			s.away[name] = s.now
		}
		for _, w := range m.Workers {
			id := idOfWorker(w)
			if alone := s.alone[id]; alone > 0 && m.Engine != nil && m.Engine.StopsAway && s.now.Sub(s.away[name]) >= alone+time.Minute {
				s.dead[id] = true
			}
		}
	}
}

func (s *sim) tellDead(m *schema.MachineReport) {
	for i := range m.Workers {
		if w := &m.Workers[i]; s.dead[idOfWorker(*w)] && !w.State.Ended() {
			w.State, w.Reason, w.Ended = schema.WorkerFailed, schema.AwayReason, s.now
		}
	}
}

// written is what a worker can write, whatever anybody believes: sources by machine
// where the path is one machine's, and not what is a copy's.
func (s *sim) written(m *schema.MachineReport, w *schema.Worker) (list []writable) {
	if w.State.Ended() || s.dead[idOfWorker(*w)] {
		return nil
	}
	for _, u := range w.Uses {
		spec := s.driveOf(u.UID)
		if u.Mode != schema.ReadWrite || spec == nil || spec.Placed() {
			continue
		}
		at := writable{uid: u.UID, source: u.Source}
		switch src := &spec.Sources[u.Source]; {
		case src.NodeScope == schema.ScopeLocalAny:
			at.machine = m.Name
		case src.NodeScope == schema.ScopeOneMachine && src.Node != m.Name:
			home := s.machines[src.Node]
			if home == nil || !slices.ContainsFunc(home.Exports, func(e schema.Export) bool {
				return e.UID == u.UID && e.Source == u.Source && e.To == m.Name
			}) {
				continue // its source does not let it
			}
		}
		list = append(list, at)
	}
	return list
}

// writable is a drive's source; machine is set where each machine has its own.
type writable struct {
	uid     string
	source  int
	machine string
}

func (s *sim) driveOf(uid string) *schema.DriveSpec {
	for _, a := range s.accepted.Objects {
		if a.UID == uid && a.Object != nil {
			spec, _ := a.Object.Spec.(*schema.DriveSpec)
			return spec
		}
	}
	return nil
}

// checkWriters: never two instances of one worker that can write the same.
func (s *sim) checkWriters() {
	type instance struct {
		id workerID
		on string
	}
	writers := map[string]map[writable]instance{}
	for _, name := range sortedStrings(s.machines) {
		m := s.machines[name]
		for i := range m.Workers {
			w := &m.Workers[i]
			who := w.Run + "/" + w.Name
			if writers[who] == nil {
				writers[who] = map[writable]instance{}
			}
			for _, at := range s.written(m, w) {
				if other, twice := writers[who][at]; twice && other.id != idOfWorker(*w) {
					s.fail("%s on %s and on %s write the same source %d of %s", w.Name, other.on, name, at.source, at.uid)
				}
				writers[who][at] = instance{idOfWorker(*w), name}
			}
		}
	}
}

// fenced reports whether lost workers of a machine were replaced.
func (s *sim) fenced(machine string) bool {
	for _, pl := range s.placed {
		if slices.ContainsFunc(pl.Older, func(o schema.Older) bool { return o.Machine == machine && o.Fenced }) {
			return true
		}
	}
	return false
}

// checkRoom: copies with their hints fit the data location and its limit, but
// for those that were there before.
func (s *sim) checkRoom() {
	for name, a := range s.plan.Targets {
		if len(a.DataLocations) == 0 || !a.DataLocations[0].Present {
			continue
		}
		var coming int64
		for _, c := range a.Copies {
			if !slices.ContainsFunc(s.machines[name].Copies, func(x schema.Copy) bool { return x.UID == c.UID }) {
				coming += c.SizeHint
			}
		}
		fs := filesystemOf(s.machines[name].Filesystems, a.DataLocations[0].Path)
		if fs != nil && coming > fs.FreeBytes {
			s.fail("%s gets copies of %d bytes and has %d free", name, coming, fs.FreeBytes)
		}
	}
}
