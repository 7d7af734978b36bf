package planner

import (
	"cmp"
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

// Drive is the view of an accepted drive; ok is false when there is none.
func (v *View) Drive(key schema.Key) (d DriveView, ok bool) {
	a := v.accepted[key]
	if !inForce(a) {
		return DriveView{}, false
	}
	spec, ok := a.Object.Spec.(*schema.DriveSpec)
	if !ok {
		return DriveView{}, false
	}
	d = DriveView{Key: key, UID: a.UID, State: DriveAvailable, Managed: spec.ManagedBy, Spec: *spec,
		UsedBy: slices.Clone(v.users[a.UID]), Claims: slices.Clone(v.byDrive[a.UID])}
	d.Spec.Sources = slices.Clone(spec.Sources)
	if a.Refused != nil {
		hold := a.Refused.Hold
		d.Refused = &hold
	}
	v.locate(&d, spec)
	v.measure(&d)
	return d, true
}

// locate says where the bytes are and whether they can be reached (D-90).
func (v *View) locate(d *DriveView, spec *schema.DriveSpec) {
	for i := range spec.Sources {
		src := &spec.Sources[i]
		if src.NodeScope == schema.ScopePlaced {
			v.copies(d)
			continue
		}
		if src.Node == "" {
			continue
		}
		d.Where = append(d.Where, src.Node)
		if src.NodeScope != schema.ScopeOneMachine || d.Message != "" {
			continue
		}
		state := schema.MachineState(notDeclared)
		if m := v.pass.machines[src.Node]; m != nil {
			state = m.state
		}
		if state != schema.MachineUp {
			d.State = DriveUnreachable
			d.Message = sourceAway(i, src.Node, state)
		}
	}
	slices.Sort(d.Where)
	d.Where = slices.Compact(d.Where)
}

func (v *View) copies(d *DriveView) {
	for _, m := range v.pass.holders[d.UID] {
		d.Where = append(d.Where, m.name)
		c, there := m.seen.copies[d.UID]
		if !there {
			c = schema.Copy{State: schema.CopyUnknown}
			for _, r := range m.seen.report.Copies {
				if v.pass.uidOf(schema.KindDrive, r.Drive, r.UID) == d.UID {
					c = r
				}
			}
		}
		view := CopyView{Machine: m.name, Folder: c.Folder, State: cmp.Or(c.State, schema.CopyPresent), Bytes: c.Bytes, Files: c.Files, Filled: c.Filled}
		if c.LastUsed != nil {
			at := *c.LastUsed
			view.LastUsed = &at
		}
		d.Copies = append(d.Copies, view)
	}
}

// measured sums a drive's newest measurements up: bytes and files over all
// places, and answers 0 as soon as one does not answer (D-91).
type measured struct {
	bytes, files int64
	answers      int
	oldest       time.Time // zero when no measurement says when
}

func (v *View) collectMeasurements() {
	for _, m := range v.pass.order {
		if m.seen == nil {
			continue
		}
		for _, x := range m.seen.report.Measurements {
			uid := v.pass.uidOf(schema.KindDrive, x.Drive, x.UID)
			sum, more := v.measures[uid]
			if !more {
				sum.answers = 1
			}
			sum.bytes, sum.files, sum.answers = sum.bytes+x.Bytes, sum.files+x.Files, min(sum.answers, x.Answers)
			if !x.At.IsZero() && (sum.oldest.IsZero() || x.At.Before(sum.oldest)) {
				sum.oldest = x.At
			}
			v.measures[uid] = sum
		}
	}
}

// measure fills the numbers in; without measurements, those of the copies.
func (v *View) measure(d *DriveView) {
	if sum, any := v.measures[d.UID]; any {
		d.Used, d.Files, d.Answers = &sum.bytes, &sum.files, &sum.answers
		if !sum.oldest.IsZero() {
			d.MeasuredAt = &sum.oldest
		}
		return
	}
	var bytes, files int64
	any := false
	for _, c := range d.Copies {
		if c.Bytes < 0 || c.Files < 0 {
			continue // there, and not measured yet
		}
		any = true
		bytes, files = bytes+c.Bytes, files+c.Files
	}
	if any {
		d.Used, d.Files = &bytes, &files
	}
}

// collectUsers lists the live workers of each drive.
func (v *View) collectUsers(p schema.Plan) {
	seen := map[string]map[workerID]bool{}
	add := func(uid string, id workerID, u UserView) {
		if uid == "" || seen[uid][id] {
			return
		}
		if seen[uid] == nil {
			seen[uid] = map[workerID]bool{}
		}
		seen[uid][id] = true
		v.users[uid] = append(v.users[uid], u)
	}
	for _, name := range sortedStrings(p.Targets) {
		t := p.Targets[name]
		for i := range t.Workers {
			w := &t.Workers[i]
			for _, b := range w.Mounts {
				mode := schema.ReadWrite
				if b.ReadOnly {
					mode = schema.ReadOnly
				}
				add(b.UID, idOfTarget(w), UserView{Run: w.Run, Worker: w.Name, Machine: name, Source: b.Source, Mode: mode,
					State: string(v.workerState(name, idOfTarget(w)))})
			}
		}
	}
	for _, m := range v.pass.order {
		if m.seen == nil {
			continue
		}
		for _, id := range sortedWorkers(m.seen.workers) {
			w := m.seen.workers[id]
			key, err := schema.ParseKey("run/" + w.Run)
			if err != nil || w.State.Ended() {
				continue
			}
			for _, u := range w.Uses {
				add(u.UID, id, UserView{Run: key, Worker: w.Name, Machine: m.name, Source: u.Source, Mode: u.Mode, State: string(w.State)})
			}
		}
	}
	for _, list := range v.users {
		slices.SortFunc(list, func(a, b UserView) int {
			return cmp.Or(schema.CompareKeys(a.Run, b.Run), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Machine, b.Machine))
		})
	}
}

// workerState is what a worker is doing; one whose machine is away is Lost.
func (v *View) workerState(machine string, id workerID) schema.WorkerState {
	m := v.pass.machines[machine]
	if m == nil || m.state == schema.MachineDown {
		return schema.WorkerLost
	}
	if m.seen != nil {
		if w, there := m.seen.workers[id]; there {
			return w.State
		}
	}
	return schema.WorkerPreparing
}
