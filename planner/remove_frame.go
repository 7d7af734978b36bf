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
			p.holdRemoval(key, schema.CodeMachineInUse, machineInUse(key.Name, busy), p.objects[key].Object.Origin)
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

// forget takes a removed machine out of the indexes; it gets no target any more.
func (p *pass) forget(name string) {
	delete(p.machines, name)
	p.order = slices.DeleteFunc(p.order, func(m *machine) bool { return m.name == name })
}

// machineBusy counts what keeps a machine from being removed, "" for nothing.
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
	placed := 0
	for _, r := range p.runs {
		if r.placed == nil || r.placed.Outcome != "" {
			continue
		}
		for _, w := range r.placed.Workers {
			if w.Machine == name && w.Outcome == nil {
				placed++
			}
		}
	}
	return countWords(copies, max(workers, placed), claims)
}

// frameEmpty reports whether a workspace or org has nothing left; else its
// removal is held.
func (p *pass) frameEmpty(key schema.Key) bool {
	if key.Kind == schema.KindCluster {
		return true
	}
	inside := func(a *schema.AcceptedObject) bool {
		if key.Kind == schema.KindOrg {
			return a.Object.Org == key.Name && a.Object.Key != key
		}
		return a.Object.Org == key.Namespace && a.Object.Workspace == key.Name && a.Object.Key != key
	}
	n := 0
	for _, a := range p.objects {
		if inside(a) {
			n++
		}
	}
	workers := 0
	for _, r := range p.queue {
		if r.placed != nil && r.placed.Outcome == "" && r.where.org == frameOrg(key) && (key.Kind == schema.KindOrg || r.where.workspace == key.Name) {
			workers += len(r.placed.Workers)
		}
	}
	if n == 0 && workers == 0 {
		return true
	}
	what := countWords(0, workers, 0)
	if n > 0 {
		what = objectCount(n)
	}
	p.holdRemoval(key, schema.CodeMachineInUse, scopeInUse(key, what), p.objects[key].Object.Origin)
	return false
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
				p.note(schema.Diagnostic{Pos: a.Object.Origin, Object: key, Message: grantRevoked(path, n)})
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
