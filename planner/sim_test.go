package planner

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

const frame = `
kind: Cluster
metadata: {name: example}
---
kind: Org
metadata: {name: acme}
---
kind: Workspace
metadata: {name: research}
---
kind: HostPathGrant
metadata: {name: data}
spec: {workspace: research, paths: [/mnt, /lustre, /scratch]}
`

// sim carries a plan's released steps out on pretended machines, so that a loop
// of planning and acting can be watched. It refuses what must never happen.
type sim struct {
	desired  *schema.Desired
	accepted schema.Accepted
	placed   map[schema.Key]schema.Placement
	machines map[string]*schema.MachineReport
	now      time.Time
	plan     schema.Plan
	problems []string
	// rng makes machines slow and reports incomplete: steps stay undone, parts are unknown.
	rng *rand.Rand
	// away is since when a machine is not Up, alone how long a worker goes on then, and
	// dead are the workers that their machine stopped meanwhile, which nobody was told.
	away  map[string]time.Time
	alone map[workerID]time.Duration
	dead  map[workerID]bool
	// stuck are actions that nobody carries out now, step how long a tick takes.
	stuck map[schema.Action]bool
	step  time.Duration
	// told is what each machine was assigned last, past which workers it has forgotten.
	told  map[string]*schema.Assignment
	past  map[string][]schema.EndedWorker
	blobs map[string][]byte
	began map[workerID]schema.WorkerTarget
	ticks int64
}

func newSim(machines ...*schema.MachineReport) *sim {
	s := &sim{accepted: schema.Accepted{ClusterUID: "cluster"}, placed: map[schema.Key]schema.Placement{}, now: testNow,
		machines: map[string]*schema.MachineReport{}, told: map[string]*schema.Assignment{}, past: map[string][]schema.EndedWorker{}, began: map[workerID]schema.WorkerTarget{},
		away: map[string]time.Time{}, alone: map[workerID]time.Duration{}, dead: map[workerID]bool{}, stuck: map[schema.Action]bool{},
		step: 6 * time.Minute} // longer than any backoff
	for _, m := range machines {
		s.machines[m.Name] = m
	}
	return s
}

func (s *sim) input() Input {
	in := Input{Desired: s.desired, Accepted: s.accepted, Placed: s.placed, Now: s.now, Seed: "seed"}
	for _, name := range sortedStrings(s.machines) {
		in.Observed.Machines = append(in.Observed.Machines, s.report(s.machines[name]))
	}
	return in
}

// report is what the controller sees of a machine: now and then a part is unknown.
func (s *sim) report(m *schema.MachineReport) *schema.MachineReport {
	if s.rng == nil || s.rng.IntN(4) > 0 {
		return m
	}
	c := *m
	switch s.rng.IntN(4) {
	case 0:
		c.Workers = nil
	case 1:
		c.Mounts = nil
	case 2:
		c.Exports = nil
	default:
		c.Copies = nil
	}
	return &c
}

func (s *sim) fail(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// tick plans once and lets every machine that is up carry its steps out.
func (s *sim) tick() {
	s.comeAndGo()
	s.plan = Plan(s.input())
	if s.blobs == nil {
		s.blobs = map[string][]byte{}
	}
	maps.Copy(s.blobs, s.plan.Blobs)
	before := s.placed
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	s.checkPlan(before)
	for _, name := range sortedStrings(s.machines) {
		m, a := s.machines[name], s.plan.Targets[name]
		if a == nil || m.State != schema.MachineUp {
			if a != nil && len(a.Steps) > 0 {
				s.fail("%d steps released to %s, which is %s", len(a.Steps), name, m.State)
			}
			continue
		}
		s.tell(name, a)
		undone := map[string]bool{}
		for i := range a.Steps {
			st := &a.Steps[i]
			if s.rng != nil && s.rng.IntN(3) == 0 || s.stuck[st.Action] || slices.ContainsFunc(st.After, func(id string) bool { return undone[id] }) {
				undone[st.ID] = true // slow, or what it comes after is
				continue
			}
			s.act(m, a, st)
		}
		m.Workers = slices.DeleteFunc(m.Workers, func(w schema.Worker) bool {
			gone := w.State.Ended() && !slices.ContainsFunc(a.Workers, func(t schema.WorkerTarget) bool { return idOfTarget(&t) == idOfWorker(w) })
			if gone {
				s.forget(name, w)
			}
			return gone
		})
		s.reportPaths(m, a)
	}
	s.checkWriters()
	s.now = s.now.Add(s.step)
}

// tell gives a machine its newest assignment, with the order that a store would.
func (s *sim) tell(name string, a *schema.Assignment) {
	s.ticks++
	given := *a
	given.Epoch, given.Revision = 1, s.ticks
	if old := s.told[name]; old != nil {
		was := *old
		was.Revision = given.Revision
		if schema.HashJSON(was) == schema.HashJSON(given) {
			return
		}
	}
	s.told[name] = &given
}

// forget keeps of an ended worker what an agent keeps.
func (s *sim) forget(name string, w schema.Worker) {
	s.past[name] = slices.DeleteFunc(s.past[name], func(old schema.EndedWorker) bool {
		return old.Worker.Run == w.Run && old.Worker.Name == w.Name
	})
	t := s.began[idOfWorker(w)]
	s.past[name] = append(s.past[name], schema.EndedWorker{Worker: w, Template: t.Template, WorldSize: t.WorldSize})
}

func (s *sim) quiet() bool { return len(s.plan.Steps) == 0 && s.plan.Decisions.Empty() }

// converge ticks until a plan has nothing to do.
func (s *sim) converge() bool {
	for range 40 {
		if s.tick(); s.quiet() {
			return true
		}
	}
	return false
}

func (s *sim) reportPaths(m *schema.MachineReport, a *schema.Assignment) {
	old := m.Paths
	m.Paths = []schema.PathState{}
	for _, d := range a.Dirs {
		exists := slices.ContainsFunc(old, func(p schema.PathState) bool { return p.UID == d.UID && p.Source == d.Source && p.Exists })
		m.Paths = append(m.Paths, schema.PathState{UID: d.UID, Source: d.Source, Path: d.Path, Exists: exists || !d.Create})
	}
}

func (s *sim) act(m *schema.MachineReport, a *schema.Assignment, st *schema.Step) {
	scoped := st.Object.Scoped()
	switch st.Action {
	case schema.ActionCreateDir:
		m.Paths = append(m.Paths, schema.PathState{UID: st.Args.UID, Source: st.Args.Source, Path: st.Args.Path, Exists: true})
	case schema.ActionCreateCopy:
		m.Copies = append(m.Copies, schema.Copy{Drive: scoped, UID: st.Args.UID, State: schema.CopyPresent, Folder: st.Args.Path + "/drives/" + scoped})
	case schema.ActionFillCopy:
		for i := range m.Copies {
			if m.Copies[i].UID == st.Args.UID {
				m.Copies[i].Filled, m.Copies[i].FilledGeneration = true, st.Args.Generation
			}
		}
	case schema.ActionExport:
		s.export(m, a, st)
	case schema.ActionMount:
		s.mount(m, a, st)
	case schema.ActionStartWorker:
		s.start(m, a, st)
	case schema.ActionStopWorker:
		m.Workers = slices.DeleteFunc(m.Workers, func(w schema.Worker) bool {
			if idOfWorker(w) != stepWorker(st) {
				return false
			}
			w.State = schema.WorkerFailed
			s.forget(m.Name, w)
			return true
		})
	case schema.ActionUnmount:
		if s.uses(m, st.Args.UID, st.Args.Source) {
			s.fail("unmount of %s under live workers on %s", scoped, m.Name)
		}
		m.Mounts = slices.DeleteFunc(m.Mounts, func(x schema.Mount) bool { return x.UID == st.Args.UID && x.Source == st.Args.Source })
	case schema.ActionUnexport:
		s.unexport(m, st)
	case schema.ActionDeleteCopy:
		s.deleteCopy(m, st)
	}
}

func stepWorker(st *schema.Step) workerID {
	return workerID{st.Args.UID, st.Args.Generation, st.Args.Attempt, st.Args.Worker}
}

func (s *sim) export(m *schema.MachineReport, a *schema.Assignment, st *schema.Step) {
	i := slices.IndexFunc(a.Exports, func(e schema.ExportTarget) bool {
		return e.UID == st.Args.UID && e.Source == st.Args.Source && e.Client == st.Args.To
	})
	if i < 0 {
		s.fail("export of %s on %s is not in the target", st.Object, m.Name)
		return
	}
	t := a.Exports[i]
	if !slices.Contains(t.Addresses, st.Args.Client) {
		s.fail("export of %s to %s, which is not the client's address", st.Object, st.Args.Client)
	}
	m.Exports = slices.DeleteFunc(m.Exports, func(e schema.Export) bool { return e.UID == t.UID && e.Source == t.Source && e.To == t.Client })
	m.Exports = append(m.Exports, schema.Export{Drive: st.Object.Scoped(), UID: t.UID, Source: t.Source, Path: t.Path, Client: t.Addresses[0],
		To: t.Client, Clients: slices.Clone(t.Addresses), Mode: t.Mode, Transport: t.Transports[0]})
}

func (s *sim) mount(m *schema.MachineReport, a *schema.Assignment, st *schema.Step) {
	i := slices.IndexFunc(a.Mounts, func(t schema.MountTarget) bool { return t.UID == st.Args.UID && t.Source == st.Args.Source })
	if i < 0 {
		s.fail("mount of %s on %s is not in the target", st.Object, m.Name)
		return
	}
	t := a.Mounts[i]
	home := s.machines[t.From]
	if home == nil || !slices.ContainsFunc(home.Exports, func(e schema.Export) bool { return e.UID == t.UID && e.Source == t.Source && e.To == m.Name }) {
		s.fail("mount of %s on %s before its export", st.Object, m.Name)
	}
	m.Mounts = slices.DeleteFunc(m.Mounts, func(x schema.Mount) bool { return x.UID == t.UID && x.Source == t.Source })
	mount := schema.Mount{Drive: st.Object.Scoped(), UID: t.UID, Source: t.Source, From: t.From, Path: "/mounts/" + st.Object.Scoped(),
		State: schema.MountBound, Mode: t.Mode, Transport: t.Transports[0]}
	if len(t.Addresses) > 0 {
		mount.Server = t.Addresses[0]
	}
	m.Mounts = append(m.Mounts, mount)
}

func (s *sim) start(m *schema.MachineReport, a *schema.Assignment, st *schema.Step) {
	i := slices.IndexFunc(a.Workers, func(t schema.WorkerTarget) bool { return idOfTarget(&t) == stepWorker(st) })
	if i < 0 {
		s.fail("start of %s on %s is not in the target", st.Args.Worker, m.Name)
		return
	}
	t := a.Workers[i]
	if slices.ContainsFunc(m.Workers, func(w schema.Worker) bool { return idOfWorker(w) == stepWorker(st) }) {
		s.fail("%s is started twice on %s", st.Args.Worker, m.Name)
	}
	for _, other := range s.machines {
		for _, w := range other.Workers {
			older := !w.State.Ended() && w.Run == t.Run.Scoped() && (w.RunUID != t.RunUID || w.Generation != t.Generation || w.Attempt != t.Attempt)
			if older && (other.State == schema.MachineUp || len(s.written(other, &w)) > 0) {
				s.fail("%s of attempt %d starts while %s of attempt %d runs", t.Name, t.Attempt, w.Name, w.Attempt)
			}
		}
	}
	s.alone[idOfTarget(&t)] = t.StopIfAwayAfter.Std()
	w := schema.Worker{Run: t.Run.Scoped(), RunUID: t.RunUID, Generation: t.Generation, Attempt: t.Attempt, Name: t.Name, Group: t.Group,
		Rank: t.Rank, Index: t.Index, State: schema.WorkerRunning, Address: t.Address, Started: s.now, GPUs: t.GPUs}
	for _, b := range t.Mounts {
		s.checkStands(m, a, &t, &b)
		mode := schema.ReadWrite
		if b.ReadOnly {
			mode = schema.ReadOnly
		}
		w.Uses = append(w.Uses, schema.Use{UID: b.UID, Source: b.Source, Mode: mode})
	}
	m.Workers = append(m.Workers, w)
	s.began[idOfWorker(w)] = t
}

// checkStands: a worker starts only on what is there (the order going up).
func (s *sim) checkStands(m *schema.MachineReport, a *schema.Assignment, t *schema.WorkerTarget, b *schema.BindTarget) {
	ok := true
	switch b.From {
	case schema.BindCopy:
		i := slices.IndexFunc(m.Copies, func(c schema.Copy) bool { return c.UID == b.UID && c.State != schema.CopyTrash })
		j := slices.IndexFunc(a.Copies, func(c schema.CopyTarget) bool { return c.UID == b.UID })
		ok = i >= 0 && j >= 0 && m.Copies[i].FilledGeneration == a.Copies[j].FillGeneration
	case schema.BindClaim:
		ok = slices.ContainsFunc(m.Mounts, func(x schema.Mount) bool {
			return x.UID == b.UID && x.Source == b.Source && x.State == schema.MountBound
		})
	case schema.BindVolume:
		ok = b.Grant != "" && schema.Covers(b.Grant, b.Path)
	case schema.BindDir:
		d := slices.IndexFunc(a.Dirs, func(d schema.DirTarget) bool { return d.UID == b.UID && d.Source == b.Source })
		ok = d >= 0 && (!a.Dirs[d].Create || slices.ContainsFunc(m.Paths, func(p schema.PathState) bool { return p.UID == b.UID && p.Exists }))
	}
	if !ok {
		s.fail("%s starts on %s before its %s of %s", t.Name, m.Name, b.From, b.Drive)
	}
}

func (s *sim) uses(m *schema.MachineReport, uid string, source int) bool {
	return slices.ContainsFunc(m.Workers, func(w schema.Worker) bool { return !w.State.Ended() && usesSource(w.Uses, uid, source) })
}

func (s *sim) unexport(m *schema.MachineReport, st *schema.Step) {
	if client := s.machines[st.Args.To]; client != nil && !(client.State == schema.MachineDown && s.fenced(client.Name)) {
		for _, x := range client.Mounts {
			if x.UID == st.Args.UID && x.Source == st.Args.Source && x.From == m.Name {
				s.fail("unexport of %s while %s has it mounted", st.Object, client.Name)
			}
		}
	}
	m.Exports = slices.DeleteFunc(m.Exports, func(e schema.Export) bool {
		return e.UID == st.Args.UID && e.Source == st.Args.Source && e.To == st.Args.To
	})
}

func (s *sim) deleteCopy(m *schema.MachineReport, st *schema.Step) {
	if !slices.ContainsFunc(m.Copies, func(c schema.Copy) bool { return c.UID == st.Args.UID && c.Folder == st.Args.Path }) {
		s.fail("%s of %s deletes %s, which is no copy", st.Action, st.Object, st.Args.Path) // D-9
	}
	if s.uses(m, st.Args.UID, -1) {
		s.fail("the copy of %s on %s is deleted in use", st.Object, m.Name)
	}
	for _, a := range s.accepted.Objects {
		if a != nil && a.UID == st.Args.UID {
			s.fail("the copy of %s, which is in force, is deleted", st.Object)
		}
	}
	m.Copies = slices.DeleteFunc(m.Copies, func(c schema.Copy) bool { return c.UID == st.Args.UID })
}

// checkPlan looks at what every plan must keep.
func (s *sim) checkPlan(before map[schema.Key]schema.Placement) {
	s.checkOrder()
	s.checkCommitted()
	s.checkRemovals()
	for key, pl := range s.placed {
		if pl.Vacant() {
			continue
		}
		if spec := pl.Spec; len(pl.Workers) != len(slotsOf(key.Name, spec)) {
			s.fail("%s is placed in part", key)
		}
		old, was := before[key]
		if was && old.RunUID == pl.RunUID && old.Generation == pl.Generation && old.Attempt == pl.Attempt {
			for i := range pl.Workers {
				if pl.Workers[i].Machine != old.Workers[i].Machine || !slices.Equal(pl.Workers[i].GPUs, old.Workers[i].GPUs) {
					s.fail("%s moved without a reason", pl.Workers[i].Name)
				}
			}
		}
	}
}

// checkRemovals: no drive goes from under a live worker that stays (D-60).
func (s *sim) checkRemovals() {
	for _, r := range s.plan.Decisions.Remove {
		for key, pl := range s.placed {
			a := s.accepted.Objects[key]
			if r.Key.Kind != schema.KindDrive || pl.Vacant() || pl.Outcome != "" || a == nil || a.UID != pl.RunUID {
				continue
			}
			for _, place := range placesOf(pl.Spec) {
				lives := slices.ContainsFunc(pl.Workers, func(w schema.PlacedWorker) bool { return w.Group == place.group && w.Outcome == nil })
				if !lives && pl.Spec.RestartPolicy == schema.RestartNever || s.onPurpose(r.UID) {
					continue
				}
				for _, ref := range place.task.DatavolumeRefs {
					if ref.Name == r.Key.Name {
						s.fail("%s goes from under %s", r.Key, key)
					}
				}
			}
		}
	}
}

func (s *sim) onPurpose(uid string) bool {
	for _, a := range s.accepted.Objects {
		if a.Target == uid {
			return true
		}
	}
	return false
}

// checkOrder: a step comes after its prerequisites, and none is released before
// one on another machine.
func (s *sim) checkOrder() {
	at := map[string]int{}
	for i, st := range s.plan.Steps {
		if _, twice := at[st.ID]; twice {
			s.fail("step id %s twice", st.ID)
		}
		at[st.ID] = i
		for _, id := range st.After {
			if j, there := at[id]; !there || j >= i {
				s.fail("%s of %s comes before its prerequisite", st.Action, st.Object)
			}
		}
	}
	for name, a := range s.plan.Targets {
		here := map[string]bool{}
		for _, st := range a.Steps {
			here[st.ID] = true
			for _, id := range st.After {
				if !here[id] {
					s.fail("%s of %s is released to %s before what it comes after", st.Action, st.Object, name)
				}
			}
		}
	}
}

// checkCommitted: placements never take more than a machine has, and no
// GPU twice.
func (s *sim) checkCommitted() {
	type sum struct {
		cpu, memory int64
		gpus        map[int]string
		bytes       map[string]int64
	}
	sums := map[string]*sum{}
	for key, pl := range s.placed {
		if pl.Outcome != "" {
			continue
		}
		for _, w := range pl.Workers {
			if sums[w.Machine] == nil {
				sums[w.Machine] = &sum{gpus: map[int]string{}, bytes: map[string]int64{}}
			}
			on := sums[w.Machine]
			for _, g := range pl.Spec.Groups() {
				if g.Name != w.Group {
					continue
				}
				r := g.TaskTemplate.RequestedResources
				n := max(1, r.Machines)
				on.cpu += millicores(r.CPUCores/float64(n), true)
				on.memory += ceilDiv(r.MemoryBytes, int64(n))
				if want := r.GPURequests.Count / n; want != len(w.GPUs) {
					s.fail("%s has %d GPUs, not %d", w.Name, len(w.GPUs), want)
				}
			}
			for _, gpu := range w.GPUs {
				if other, taken := on.gpus[gpu]; taken {
					s.fail("GPU %d of %s is %s's and %s's", gpu, w.Machine, other, w.Name)
				}
				on.gpus[gpu] = key.Name + "/" + w.Name
			}
		}
	}
	for name, on := range sums {
		m := s.machines[name]
		if m == nil || m.Resources == nil {
			continue
		}
		if on.cpu > millicores(m.Resources.CPUCores, false) || on.memory > m.Resources.MemoryBytes || len(on.gpus) > m.Resources.GPUs {
			s.fail("%s is over-committed: %d millicores, %d bytes, %d GPUs", name, on.cpu, on.memory, len(on.gpus))
		}
	}
	s.checkRoom()
}
