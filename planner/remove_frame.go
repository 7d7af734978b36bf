package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// removeFrames: machines, workspaces and orgs go only when they are empty.
func (p *pass) removeFrames() {
	for _, key := range p.leavingOf(schema.KindMachine) {
		if !p.mayLeave(key) {
			continue
		}
		if busy := p.machineBusy(key.Name); busy != "" {
			p.holdRemoval(key, schema.CodeMachineInUse, busy, p.objects[key].Object.Origin)
			continue
		}
		p.remove(key)
		p.forget(key.Name)
	}
	for _, kind := range []schema.Kind{schema.KindWorkspace, schema.KindOrg, schema.KindCluster} {
		for _, key := range p.leavingOf(kind) {
			if p.mayLeave(key) && p.frameEmpty(key) {
				p.remove(key)
			}
		}
	}
}

// markLeaving finds the machines that the commit removes. Their removal is judged
// after placement, when it must not be held for a worker that was just placed there.
func (p *pass) markLeaving() {
	if p.in.Desired == nil {
		return
	}
	for _, key := range p.leavingOf(schema.KindMachine) {
		p.machines[key.Name].leaving = p.mayLeave(key)
	}
}

// forget takes a removed machine out of the indexes; it gets no target any more.
func (p *pass) forget(name string) {
	delete(p.machines, name)
	p.order = slices.DeleteFunc(p.order, func(m *machine) bool { return m.name == name })
}

// machineBusy says what keeps a machine from being removed, "" for nothing. What
// its report leaves out is not taken for none.
func (p *pass) machineBusy(name string) string {
	r := p.reports[name]
	var copies, workers, claims int
	if r != nil {
		copies, claims = heldCopies(r), len(r.Exports)+len(r.Mounts)
		for _, w := range r.Workers {
			if !w.State.Ended() {
				workers++
			}
		}
	}
	if held := countWords(copies, max(workers, p.placedOn(name)), claims); held != "" {
		return machineInUse(name, held)
	}
	// A machine that never reported and may keep no copies has nothing to lose.
	spec := specOf[schema.MachineSpec](p, schema.Key{Kind: schema.KindMachine, Name: name})
	if silent := neverReported(r); silent && spec != nil && spec.DataLocation != nil || !silent && (r.Copies == nil || r.Workers == nil) {
		return machineUnknown(name)
	}
	return ""
}

// neverReported: nothing was heard of the machine itself; its state is the leader's.
func neverReported(r *schema.MachineReport) bool {
	return r == nil || r.BootID == "" && r.Sequence == 0 && r.Resources == nil && r.Filesystems == nil && r.DataLocations == nil &&
		r.Copies == nil && r.Exports == nil && r.Mounts == nil && r.Workers == nil
}

// placedOn counts the workers that have their place on a machine.
func (p *pass) placedOn(name string) (n int) {
	count := func(pl *schema.Placement) {
		for i := range pl.Workers {
			if w := &pl.Workers[i]; pl.Outcome == "" && w.Machine == name && w.Outcome == nil {
				n++
			}
		}
	}
	if p.runs == nil { // nothing is placed yet in this pass
		for _, pl := range p.in.Placed {
			count(&pl)
		}
	}
	for _, r := range p.runs {
		if r.placed != nil {
			count(r.placed)
		}
	}
	return n
}

// frameEmpty reports whether a workspace, org or cluster has nothing left; else
// its removal is held.
func (p *pass) frameEmpty(key schema.Key) bool {
	objects := 0
	for other, a := range p.objects {
		if other != key && other.Kind != schema.KindCluster && insideFrame(key, a.Object.Org, a.Object.Workspace) {
			objects++
		}
	}
	what := ""
	switch {
	case key.Kind == schema.KindCluster && p.otherCluster(key):
		return true // it has another name now
	case objects > 0:
		what = objectCount(objects)
	default:
		what = countWords(p.copiesInside(key), p.workersInside(key), 0)
	}
	if what == "" {
		return true
	}
	p.holdRemoval(key, frameInUse[key.Kind], scopeInUse(key, what), p.objects[key].Object.Origin)
	return false
}

// insideFrame reports whether what belongs to an org and workspace is inside a
// workspace, org or cluster.
func insideFrame(frame schema.Key, org, workspace string) bool {
	switch frame.Kind {
	case schema.KindCluster:
		return true
	case schema.KindOrg:
		return org == frame.Name
	}
	return org == frame.Namespace && workspace == frame.Name
}

func (p *pass) otherCluster(key schema.Key) bool {
	return slices.ContainsFunc(p.keysIn(schema.KindCluster), func(other schema.Key) bool { return other != key })
}

// copiesInside counts the copies of a frame's removed drives that are not gone yet.
func (p *pass) copiesInside(frame schema.Key) (n int) {
	for uid, t := range p.tombs {
		if insideFrame(frame, t.Org, t.Workspace) {
			n += len(p.holders[uid])
		}
	}
	return n
}

func (p *pass) workersInside(frame schema.Key) (n int) {
	for _, r := range p.queue {
		if r.placed != nil && r.placed.Outcome == "" && insideFrame(frame, r.where.org, r.where.workspace) {
			n += len(r.placed.Workers)
		}
	}
	return n
}

// frameInUse are the codes of frames that are not empty.
var frameInUse = map[schema.Kind]schema.Code{
	schema.KindWorkspace: schema.CodeWorkspaceInUse, schema.KindOrg: schema.CodeOrgInUse, schema.KindCluster: schema.CodeClusterInUse,
}

func frameOrg(key schema.Key) string {
	if key.Kind == schema.KindOrg {
		return key.Name
	}
	return key.Namespace
}

// noteRevoked says who still uses a path whose grant was taken back (D-21).
func (p *pass) noteRevoked() {
	for _, key := range sortedKeys(p.gate.removed) {
		if key.Kind != schema.KindHostPathGrant {
			continue
		}
		a := p.in.Accepted.Objects[key]
		spec := a.Object.Spec.(*schema.HostPathGrantSpec)
		for _, path := range spec.Paths {
			if n := p.usersOfPath(scope{a.Object.Org, spec.Workspace}, path); n > 0 {
				p.note(schema.Diagnostic{Pos: a.Object.Origin, Object: key, Code: schema.CodeGrantRevoked, Message: grantRevoked(path, n)})
			}
		}
	}
}

func (p *pass) usersOfPath(where scope, path string) (n int) {
	for _, r := range p.queue {
		if r.placed == nil || r.placed.Outcome != "" || r.where != where {
			continue
		}
		for i := range r.placed.Workers {
			t := templateOfGroup(r.current, r.placed.Workers[i].Group)
			if t != nil && slices.ContainsFunc(t.uses, func(u use) bool {
				return u.drive != nil && u.kind != useCopy && schema.Covers(path, u.bind.Path)
			}) {
				n++
			}
		}
	}
	return n
}
