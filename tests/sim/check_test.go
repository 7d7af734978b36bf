package sim

import (
	"context"
	"slices"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/sim"
	"astraeus.io/astraeus/schema"
)

// checkEffect judges a change of a machine right before it is made, by what is
// true and not by what anybody believes.
func (w *world) checkEffect(m *machine, e *sim.Effect) {
	switch e.Name {
	case "DeleteCopy":
		w.checkDelete(m, e)
	case "Unmount":
		w.checkUnmount(m, e)
	case "Unexport":
		w.checkUnexport(m, e)
	case "Export":
		w.checkExport(m, e)
	case "Start":
		w.checkStart(m, e)
	case "Stop":
		w.checkSeen(m, e)
	}
}

// checkSeen: nothing is taken apart before one complete target and one complete
// listing of workers and mounts.
func (w *world) checkSeen(m *machine, e *sim.Effect) {
	if m.agent == nil || m.agent.Target() == nil || !m.sawEngine.Load() || !m.sawMounts.Load() {
		w.failf("%s: %s before a complete target and complete listings", m.name, e)
	}
}

// checkDelete: never in use; of a drive in force only where it is evictable (D-9,
// D-60, D-61, D-71).
func (w *world) checkDelete(m *machine, e *sim.Effect) {
	w.checkSeen(m, e)
	for _, c := range m.host.TrueCopies() {
		if c.UID != e.UID || c.Cluster != clusterUID || c.Dir == 0 {
			continue
		}
		for _, wk := range m.host.Workers() {
			for _, mt := range wk.Mounts {
				if wk.Live() && m.host.Inside(mt.Dir, c.Dir) {
					w.failf("%s: the copy %s is deleted while %s uses it", m.name, c.Name, wk.Spec.Hostname)
				}
			}
		}
	}
	for key, a := range w.store.state.Accepted.Objects {
		if spec, ok := driveSpec(a); a.UID == e.UID && (!ok || !spec.Evictable) {
			w.failf("%s: the copy of %s, which is in force, is deleted", m.name, key)
		} else if a.UID == e.UID && !m.now.short {
			w.failf("%s: the copy of %s is evicted though there is room", m.name, key)
		}
	}
}

func driveSpec(a *schema.AcceptedObject) (*schema.DriveSpec, bool) {
	if a.Object == nil {
		return nil, false
	}
	spec, ok := a.Object.Spec.(*schema.DriveSpec)
	return spec, ok
}

// checkUnmount: never under a live worker (kubernetes#120150).
func (w *world) checkUnmount(m *machine, e *sim.Effect) {
	w.checkSeen(m, e)
	for _, mt := range m.host.TrueMounts() {
		if mt.Claim.UID != e.Claim.UID || mt.Claim.Source != e.Claim.Source {
			continue
		}
		for _, wk := range m.host.Workers() {
			if wk.Live() && slices.ContainsFunc(wk.Mounts, func(x sim.WorkerMount) bool { return m.host.Inside(x.Dir, mt.Dir) }) {
				w.failf("%s: %s is unmounted under %s", m.name, mt.Claim.Drive.Name, wk.Spec.Hostname)
			}
		}
	}
}

// checkUnexport: not while the client has it mounted (D-80, X-22).
func (w *world) checkUnexport(m *machine, e *sim.Effect) {
	if w.store.state.Accepted.Objects[schema.Key{Kind: schema.KindMachine, Name: e.Claim.Client}] == nil {
		return // forgotten
	}
	for _, mt := range w.boundClaims(e.Claim.Client) {
		if mt.Claim.UID == e.Claim.UID && mt.Claim.Source == e.Claim.Source && mt.From == m.name {
			w.failf("%s: %s is not exported any more while %s has it mounted", m.name, e.Claim.Drive.Name, e.Claim.Client)
		}
	}
}

// checkExport: to the claim's client alone (D-80, D-82).
func (w *world) checkExport(m *machine, e *sim.Effect) {
	client := w.machine(e.Export.Client)
	for _, a := range e.Export.Addresses {
		if client == nil || a != client.address {
			w.failf("%s: an export to %s, which is not %s", m.name, a, e.Export.Client)
		}
	}
	t := m.now.target
	if t == nil || !slices.ContainsFunc(t.Exports, func(x schema.ExportTarget) bool {
		return x.UID == e.Export.UID && x.Source == e.Export.Source && x.Client == e.Export.Client
	}) {
		w.failf("%s: an export of %s to %s without a claim", m.name, e.Export.Drive.Name, e.Export.Client)
	}
}

// checkStart: once, on what it stands on, and after the older workers of its run.
func (w *world) checkStart(m *machine, e *sim.Effect) {
	if t := w.targetOf(m, e.ID); t != nil {
		if m.started[e.ID] {
			w.failf("%s: %s is started a second time as %s (generation %d, attempt %d)", m.name, e.Spec.Hostname, e.ID, t.Generation, t.Attempt)
		}
		w.checkStands(m, e, t)
		for _, other := range w.machines {
			for _, wk := range other.host.Workers() {
				l, ok := labelOf(&wk)
				if ok && wk.Live() && wk.ID != e.ID && l.RunUID == t.RunUID && (l.Generation != t.Generation || l.Attempt != t.Attempt) {
					w.failf("%s: %s of attempt %d starts while %s of attempt %d runs on %s", m.name, t.Name, t.Attempt, l.Name, l.Attempt, other.name)
				}
				if ok && wk.Live() && (wk.ID != e.ID || other != m) && l.RunUID == t.RunUID && l.Name == t.Name {
					w.failf("%s: %s starts while it runs on %s", m.name, t.Name, other.name)
				}
			}
		}
	}
}

// targetOf is the worker's target, nil for a fill.
func (w *world) targetOf(m *machine, id string) *schema.WorkerTarget {
	return w.targetIn(m.now.target, id)
}

// checkStands: mounts and copies are there before the worker (D-41, D-42, D-80).
func (w *world) checkStands(m *machine, e *sim.Effect, t *schema.WorkerTarget) {
	for i, b := range t.Mounts {
		dir := sim.Of(e.Spec.Mounts[i].Source)
		ok := true
		switch b.From {
		case schema.BindCopy:
			ok = slices.ContainsFunc(m.host.TrueCopies(), func(c sim.TrueCopy) bool {
				return c.UID == b.UID && c.Dir != 0 && m.host.Inside(dir, c.Dir) && c.Filled == w.wantedFill(m, b.UID)
			})
		case schema.BindClaim:
			ok = slices.ContainsFunc(m.host.TrueMounts(), func(mt sim.TrueMount) bool {
				return mt.Claim.UID == b.UID && mt.Claim.Source == b.Source && m.host.Inside(dir, mt.Dir) && (b.ReadOnly || mt.Mode == schema.ReadWrite)
			})
		case schema.BindDir:
			ok = dir != 0 && dir == m.host.DirAt(b.Path)
		}
		if !ok {
			w.failf("%s: %s starts before its %s of %s", m.name, t.Name, b.From, b.Drive.Name)
		}
	}
}

func (w *world) wantedFill(m *machine, uid string) int64 {
	for _, c := range m.now.target.Copies {
		if c.UID == uid {
			return c.FillGeneration
		}
	}
	return 0
}

func (w *world) noteEffect(m *machine, e *sim.Effect) {
	switch e.Name {
	case "Start":
		m.started[e.ID] = true
	case "Remove":
		delete(m.started, e.ID)
	}
}

// checkIssued: machines are told only what a leader had written.
func (w *world) checkIssued(m *machine, a *schema.Assignment) {
	plain := *a
	plain.ClusterUID, plain.Epoch, plain.Revision, plain.Commit = "", 0, 0, ""
	if w.store.issued[m.name][orderOf(a)] != schema.HashJSON(plain) {
		w.failf("%s is told revision %d, which no leader wrote so", m.name, a.Revision)
	}
}

// checkState looks at everything after each move.
func (w *world) checkState() {
	for _, m := range w.machines {
		w.checkMachine(m)
	}
	for _, c := range w.canaries {
		if !c.m.host.Exists(c.path) && (!nvmePath(c.path) || c.m.host.Exists(nvme+"/canary")) {
			w.failf("%s: %s is gone", c.m.name, c.path)
		}
	}
	w.checkPlaced()
}

func nvmePath(p string) bool { return schema.Covers(nvme, p) }

// checkMachine: what runs fits the machine and stands on what it was given.
func (w *world) checkMachine(m *machine) {
	res, _ := m.host.Resources(context.Background())
	var cpu float64
	var memory int64
	gpus := map[int]string{}
	for _, wk := range m.host.Workers() {
		if !wk.Live() {
			continue
		}
		cpu, memory = cpu+wk.Spec.CPU, memory+wk.Spec.MemoryBytes
		for _, g := range wk.Spec.GPUs {
			if other, taken := gpus[g]; taken || g >= res.GPUs {
				w.failf("%s: GPU %d is %s's and %s's", m.name, g, other, wk.Spec.Hostname)
			}
			gpus[g] = wk.Spec.Hostname
		}
	}
	if cpu > res.CPUCores+1e-6 || memory > res.MemoryBytes {
		w.failf("%s is over-committed: %g of %g cores, %d of %d bytes", m.name, cpu, res.CPUCores, memory, res.MemoryBytes)
	}
	for _, e := range m.host.TrueExports() {
		client := w.machine(e.Claim.Client)
		if client == nil || len(e.Addresses) != 1 || e.Addresses[0] != client.address {
			w.failf("%s: an export to %v, which is not %s", m.name, e.Addresses, e.Claim.Client)
		}
	}
}

// checkPlaced: no decision commits more than a machine has.
func (w *world) checkPlaced() {
	type use struct {
		cpu    float64
		memory int64
		gpus   map[int]bool
	}
	uses := map[string]*use{}
	for _, pl := range w.store.state.Placed {
		if pl.Outcome != "" {
			continue
		}
		for _, pw := range pl.Workers {
			u := uses[pw.Machine]
			if u == nil {
				u = &use{gpus: map[int]bool{}}
				uses[pw.Machine] = u
			}
			for _, g := range pl.Spec.Groups() {
				if g.Name == pw.Group {
					n := max(1, g.TaskTemplate.RequestedResources.Machines)
					u.cpu += g.TaskTemplate.RequestedResources.CPUCores / float64(n)
					u.memory += g.TaskTemplate.RequestedResources.MemoryBytes / int64(n)
				}
			}
			for _, g := range pw.GPUs {
				if u.gpus[g] {
					w.failf("GPU %d of %s is decided for two workers", g, pw.Machine)
				}
				u.gpus[g] = true
			}
		}
	}
	for _, m := range w.machines {
		res, _ := m.host.Resources(context.Background())
		if u := uses[m.name]; u != nil && (u.cpu > res.CPUCores+1e-6 || u.memory > res.MemoryBytes || len(u.gpus) > res.GPUs) {
			w.failf("%s is over-committed by decisions: %g cores, %d bytes, %d GPUs", m.name, u.cpu, u.memory, len(u.gpus))
		}
	}
}

// checkPlan looks at what every plan must keep.
func (w *world) checkPlan(p *schema.Plan) {
	at := map[string]int{}
	for i, s := range p.Steps {
		if _, twice := at[s.ID]; twice {
			w.failf("the step %s is in the plan twice", stepText(*s))
		}
		at[s.ID] = i
		for _, id := range s.After {
			if j, there := at[id]; !there || j >= i {
				w.failf("%s comes before what it comes after", stepText(*s))
			}
		}
	}
	for name, a := range p.Targets {
		here := map[string]bool{}
		for _, s := range a.Steps {
			here[s.ID] = true
			for _, id := range s.After {
				if !here[id] {
					w.failf("%s is released to %s before what it comes after", stepText(s), name)
				}
			}
		}
	}
}

// checkRest looks at a cluster that has come to rest: the machines are as they
// are wanted, and nothing else of ours is left on them.
func (w *world) checkRest() {
	c := w.leading()[0]
	for _, m := range w.machines {
		t := c.plan.Targets[m.name]
		if t == nil {
			w.failf("%s has no target", m.name)
		}
		running := map[string]bool{}
		for _, wk := range m.host.Workers() {
			if _, ok := labelOf(&wk); ok && wk.Live() {
				running[wk.ID] = true
			}
			if w.targetIn(t, wk.ID) == nil {
				w.failf("%s: worker %s is left over", m.name, wk.Spec.Hostname)
			}
		}
		for _, mt := range m.host.TrueMounts() {
			if !slices.ContainsFunc(t.Mounts, func(x schema.MountTarget) bool {
				return x.UID == mt.Claim.UID && x.Source == mt.Claim.Source && x.From == mt.From
			}) {
				w.failf("%s: the mount of %s is left over", m.name, mt.Claim.Drive.Name)
			}
		}
		for _, e := range m.host.TrueExports() {
			if !slices.ContainsFunc(t.Exports, func(x schema.ExportTarget) bool {
				return x.UID == e.Claim.UID && x.Client == e.Claim.Client && x.Mode == e.Mode
			}) {
				w.failf("%s: the export of %s to %s is left over", m.name, e.Claim.Drive.Name, e.Claim.Client)
			}
		}
		for _, cp := range m.host.TrueCopies() {
			if w.store.state.Accepted.Tombstones[cp.UID] != nil {
				w.failf("%s: the copy %s of a drive that is gone, %s, is left over%s", m.name, cp.Name, cp.UID, w.users(m, cp.Dir))
			}
		}
	}
}

func (w *world) targetIn(t *schema.Assignment, id string) *schema.WorkerTarget {
	for i := range t.Workers {
		if x := &t.Workers[i]; nodeexec.WorkerID(x.RunUID, x.Generation, x.Attempt, x.Name) == id {
			return x
		}
	}
	return nil
}

// users names the live workers that see a directory.
func (w *world) users(m *machine, dir uint64) (text string) {
	for _, wk := range m.host.Workers() {
		if wk.Live() && slices.ContainsFunc(wk.Mounts, func(x sim.WorkerMount) bool { return m.host.Inside(x.Dir, dir) }) {
			text += "; used by " + wk.Spec.Hostname
		}
	}
	return text
}
