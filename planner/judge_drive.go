package planner

import (
	"strconv"

	"astraeus.io/astraeus/schema"
)

func indexed(list string, i int, rest string) string {
	return list + "[" + strconv.Itoa(i) + "]" + rest
}

// judgeDrive: D-20 and X-16 for its paths, X-29 for what
// may not change while it is used. Each is judged when the drive is new or the
// field concerned changes.
func (p *pass) judgeDrive(o *schema.Object, spec *schema.DriveSpec, prev *schema.AcceptedObject) *schema.Hold {
	var old *schema.DriveSpec
	if prev != nil {
		old = prev.Object.Spec.(*schema.DriveSpec)
	}
	for i := range spec.Sources {
		if hold := p.judgeSource(o, spec, old, i); hold != nil {
			return hold
		}
	}
	if old != nil && movesData(old, spec) {
		if n := p.usersBefore(prev.UID); n > 0 {
			hold := holdOf(o, "spec", schema.CodeDatavolumeInUse, driveInUse(o.Key.Name, n))
			hold.Hint = p.beforeHint(prev.UID)
			return hold
		}
		if old.Placed() && !spec.Placed() {
			return p.judgeLeavingPlaced(o)
		}
	}
	return nil
}

func (p *pass) judgeSource(o *schema.Object, spec, old *schema.DriveSpec, i int) *schema.Hold {
	src := &spec.Sources[i]
	field := func(name string) string { return indexed("spec.sources", i, name) }
	if old != nil && i < len(old.Sources) {
		was := &old.Sources[i]
		if was.NodeScope == src.NodeScope && was.Node == src.Node && was.Path == src.Path {
			return nil
		}
	}
	if src.NodeScope == schema.ScopePlaced {
		return nil
	}
	if src.Node != "" {
		if m := p.machines[src.Node]; m == nil || m.org != o.Org {
			return holdOf(o, field(".node"), schema.CodeNotFound, schema.MachineNotFound(src.Node))
		}
	}
	if p.grantFor(scope{o.Org, o.Workspace}, src.Path).path == "" {
		hold := holdOf(o, field(".path"), schema.CodeHostAccessForbidden, schema.HostPathForbidden(src.Path))
		hold.Hint = schema.GrantHint(o.Org, o.Workspace)
		return hold
	}
	h := hostPath{path: src.Path}
	if src.NodeScope == schema.ScopeOneMachine {
		h.machine = src.Node
	}
	if text := p.overlap(o.Org, h); text != "" {
		return holdOf(o, field(".path"), schema.CodeHostAccessForbidden, text)
	}
	return nil
}

// movesData reports whether the change would put other data under the drive's
// name: scope, node, path, number and order of sources, fill.
func movesData(old, spec *schema.DriveSpec) bool {
	if len(old.Sources) != len(spec.Sources) || !sameFill(old.Fill, spec.Fill) {
		return true
	}
	for i := range spec.Sources {
		a, b := &old.Sources[i], &spec.Sources[i]
		if a.NodeScope != b.NodeScope || a.Node != b.Node || a.Path != b.Path {
			return true
		}
	}
	return false
}

func sameFill(a, b *schema.FillSpec) bool {
	if a == b || schema.HashJSON(a) == schema.HashJSON(b) {
		return true
	}
	x, y := normalised(&schema.ModelSpec{Fill: a}), normalised(&schema.ModelSpec{Fill: b})
	return schema.HashJSON(x.Fill) == schema.HashJSON(y.Fill)
}

// judgeLeavingPlaced: leaving `placed` deletes the copies, with all the
// conditions of a deletion.
func (p *pass) judgeLeavingPlaced(o *schema.Object) *schema.Hold {
	const field = "spec.sources[0].node_scope"
	if pos, whole := p.in.Desired.Whole(o.Org, o.Workspace); !whole {
		return holdOf(o, field, schema.CodeWorkspaceNotWhole, notWhole(pos))
	}
	if text := p.overBudget(o.Key); text != "" {
		hold := holdOf(o, field, schema.CodeDeletionBudget, text)
		hold.Hint = p.budgetHint(o.Key)
		return hold
	}
	p.gate.leaving[o.Key] = true
	return nil
}

// leavesPlaced reports whether the commit asks a placed drive to be another kind
// of drive: its copies would go.
func (p *pass) leavesPlaced(key schema.Key) bool {
	if key.Kind != schema.KindDrive {
		return false
	}
	o := p.gate.want(key)
	return o != nil && p.hadBefore(key) &&
		p.in.Accepted.Objects[key].Object.Spec.(*schema.DriveSpec).Placed() && !o.Spec.(*schema.DriveSpec).Placed()
}

// judgeModel: a model's drive must not be someone else's already (D-43).
func (p *pass) judgeModel(o *schema.Object, prev *schema.AcceptedObject) *schema.Hold {
	key := schema.Key{Kind: schema.KindDrive, Namespace: o.Key.Namespace, Name: modelDrive(o.Key.Name)}
	if a := p.objects[key]; prev == nil && a != nil && a.Object.ManagedBy != o.Key {
		return holdOf(o, "metadata.name", schema.CodeNameTaken, nameTaken(key.Name, key))
	}
	return nil
}

// usersBefore counts the live workers of a drive before this pass,
// removed runs included: what they use may not change under them.
func (p *pass) usersBefore(uid string) int {
	if p.before == nil {
		p.before = map[string]map[workerID]liveUse{}
		p.collectBefore()
	}
	return len(p.before[uid])
}

// liveUse is one live worker that uses a drive.
type liveUse struct {
	run     schema.Key
	worker  string
	machine string
	mode    schema.Mode
	source  int
}

func (p *pass) collectBefore() {
	add := func(uid string, id workerID, use liveUse) {
		if uid == "" {
			return
		}
		if p.before[uid] == nil {
			p.before[uid] = map[workerID]liveUse{}
		}
		p.before[uid][id] = use
	}
	for key, pl := range p.in.Placed {
		if pl.Outcome != "" {
			continue
		}
		for i := range pl.Workers {
			w := &pl.Workers[i]
			if w.Outcome != nil || p.endsForGood(&pl, w) {
				continue
			}
			p.eachRef(key.Namespace, pl.Spec, w.Group, func(uid string, ref *schema.DatavolumeRef) {
				add(uid, idOfPlaced(&pl, w), liveUse{key, w.Name, w.Machine, ref.Mode, ref.SourceIndex})
			})
		}
	}
	for _, m := range p.order {
		if m.seen == nil {
			continue
		}
		for id, w := range m.seen.workers {
			if w.State.Ended() {
				continue
			}
			key, _ := schema.ParseKey("run/" + w.Run)
			for _, u := range w.Uses {
				add(u.UID, id, liveUse{key, w.Name, m.name, u.Mode, u.Source})
			}
		}
	}
}

// endsForGood reports whether a worker is seen to have ended and its run's policy
// does not start it again: one that starts again in its place stays a user.
func (p *pass) endsForGood(pl *schema.Placement, w *schema.PlacedWorker) bool {
	m := p.machines[w.Machine]
	if m == nil || m.seen == nil {
		return false
	}
	seen, there := m.seen.workers[idOfPlaced(pl, w)]
	if !there || !seen.State.Ended() {
		return false
	}
	policy := p.policyBefore(pl)
	return policy == schema.RestartNever || policy == schema.RestartOnFailure && seen.State == schema.WorkerSucceeded
}

// policyBefore is the restart policy that was in force before this pass: it may have
// changed since the workers were placed, and changes in place.
func (p *pass) policyBefore(pl *schema.Placement) schema.RestartPolicy {
	if a := p.in.Accepted.Objects[pl.Run]; inForce(a) && a.UID == pl.RunUID {
		return a.Object.Spec.(*schema.RunSpec).RestartPolicy
	}
	return pl.Spec.RestartPolicy
}

// eachRef calls f for each drive reference of a worker, by the accepted names.
func (p *pass) eachRef(namespace string, spec *schema.RunSpec, group string, f func(uid string, ref *schema.DatavolumeRef)) {
	for _, g := range spec.Groups() {
		if g.Name != group {
			continue
		}
		for i := range g.TaskTemplate.DatavolumeRefs {
			ref := &g.TaskTemplate.DatavolumeRefs[i]
			if a := p.in.Accepted.Objects[schema.Key{Kind: schema.KindDrive, Namespace: namespace, Name: ref.Name}]; inForce(a) {
				f(a.UID, ref)
			}
		}
	}
}

// noteStored says which fields are accepted and stored, not applied (D-6).
func (p *pass) noteStored() {
	for _, o := range p.gate.kinds[schema.KindDrive] {
		spec := o.Spec.(*schema.DriveSpec)
		if spec.Permissions.Stored() {
			field := storedField(spec.Permissions)
			p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeStoredNotApplied, Message: storedNotApplied + field})
		}
		if spec.IdleTTLSeconds != 0 {
			p.note(schema.Diagnostic{Pos: o.At("spec.idle_ttl_seconds"), Object: o.Key, Field: "spec.idle_ttl_seconds",
				Code: schema.CodeStoredNotApplied, Message: storedNotApplied + "spec.idle_ttl_seconds"})
		}
	}
}

// noteMachines says what a machine reports that nobody acts on.
func (p *pass) noteMachines() {
	for _, m := range p.order {
		if m.addressProblem != "" {
			p.note(schema.Diagnostic{Pos: m.object.Object.At("spec.address"), Object: m.object.Object.Key, Field: "spec.address",
				Code: schema.CodeAddressNotReported, Message: m.addressProblem})
		}
		if m.seen == nil {
			continue
		}
		for _, c := range m.seen.strays {
			p.note(schema.Diagnostic{Object: m.object.Object.Key, Code: schema.CodeStrayCopy, Message: strayCopy(c.Folder)})
		}
	}
}

func storedField(s schema.Permissions) string {
	switch {
	case s.OwnerUID != nil:
		return "spec.permissions.owner_uid"
	case s.OwnerGID != nil:
		return "spec.permissions.owner_gid"
	case s.DirMode != "":
		return "spec.permissions.dir_mode"
	case s.Apply != "":
		return "spec.permissions.apply"
	}
	return "spec.permissions.recursive"
}
