package planner

import (
	"encoding/json"
	"strings"

	"astraeus.io/astraeus/schema"
)

// gate is what acceptance decides. A change is let through or held; a hold
// leaves the accepted object in force, also for what depends on it (G-9).
type gate struct {
	declared map[schema.Key]*schema.Object // by the commit: only read
	expanded map[schema.Key]*schema.Object // stand before declared ones
	kinds    map[schema.Kind][]*schema.Object
	through  []passed // what was let through, sorted when it is sealed
	held     map[schema.Key]*schema.Refusal
	removed  map[schema.Key]bool // taken out of force in this pass
	names    *nameTable
	forced   map[schema.Key]schema.Key // targets of deletions on purpose, by target
	force    map[schema.Key]bool       // of those, the drives that go though they are used
	spared   map[spareKey]int          // allowances of Deletion {allow}
	lineage  *lineage                  // which declared volume is which one in force (V-2)
	leaving  map[schema.Key]bool       // drives that are placed no longer
}

// passed is an object that was let through; prev is nil for a new one.
type passed struct {
	key  schema.Key
	next *schema.AcceptedObject
	prev *schema.AcceptedObject
}

type spareKey struct {
	scope string // a namespace, or an org
	kind  schema.Kind
}

func newGate() *gate {
	return &gate{expanded: map[schema.Key]*schema.Object{}, kinds: map[schema.Kind][]*schema.Object{}, held: map[schema.Key]*schema.Refusal{},
		removed: map[schema.Key]bool{}, forced: map[schema.Key]schema.Key{},
		spared:  map[spareKey]int{},
		leaving: map[schema.Key]bool{}, force: map[schema.Key]bool{}}
}

// accept judges what the commit declares against what is in force, the outer
// kinds first, and builds the indexes that the later stages read.
func (p *pass) accept() {
	if p.in.Desired == nil {
		p.keepHolds()
		p.buildMachines()
		p.buildGrants()
		p.buildDrives()
		p.buildVolumes()
		p.indexDrives()
		return
	}
	p.gate.declare(p.in.Desired.Objects)
	p.considerKind(schema.KindCluster, schema.KindOrg)
	p.cluster = nil
	p.considerKind(schema.KindMachine)
	p.buildMachines()
	p.considerKind(schema.KindWorkspace, schema.KindHostPathGrant)
	p.considerKind(schema.KindDeletion)
	p.readDeletions()
	p.pairVolumes()
	p.removeKinds(schema.KindHostPathGrant)
	p.buildGrants()
	p.considerKind(schema.KindModel)
	p.expandModels()
	p.considerKind(schema.KindDrive)
	p.considerVolumes()
	p.buildDrives()
	p.buildVolumes()
	p.gate.names = p.nameTable()
	p.considerKind(schema.KindReplicaGroup)
	p.removeKinds(schema.KindReplicaGroup)
	p.expandReplicaGroups()
	p.considerKind(schema.KindRun, schema.KindEndpoint)
	p.removeKinds(schema.KindEndpoint, schema.KindRun, schema.KindVolume, schema.KindDeletion)
	p.seal()
	p.buildVolumes()
	p.indexDrives()
	p.noteStored()
	p.noteMachines()
	p.noteFrames()
	p.noteEndpoints()
	p.noteRenamed()
	p.noteEgress()
}

func (g *gate) declare(objects map[schema.Key]*schema.Object) {
	g.declared = objects
	g.through = make([]passed, 0, len(objects))
	for key, o := range objects {
		g.kinds[key.Kind] = append(g.kinds[key.Kind], o)
	}
}

// want is the object that is declared or expanded under a key, nil for none.
func (g *gate) want(key schema.Key) *schema.Object {
	if o := g.expanded[key]; o != nil {
		return o
	}
	return g.declared[key]
}

// considerKind judges every wanted object of the kinds, in no order: what is
// decided of one does not depend on another of its kind.
func (p *pass) considerKind(kinds ...schema.Kind) {
	for _, kind := range kinds {
		for _, o := range p.gate.kinds[kind] {
			p.consider(o)
		}
	}
}

// consider lets one object through, holds it, or finds that nothing changed.
func (p *pass) consider(o *schema.Object) {
	prev := p.objects[o.Key]
	if prev != nil && p.unchanged(o, prev) {
		return
	}
	if p.in.Rewritten {
		p.holdBack(o, holdOf(o, "", schema.CodeHistoryRewritten, rewrittenHistory))
		return
	}
	through, hold := p.judge(o, prev)
	if hold != nil {
		p.holdBack(o, hold)
	}
	if through != nil && (prev == nil || !sameObject(prev.Object, through)) {
		p.let(through, prev)
	}
}

// unchanged reports whether an object is declared as it is in force, and takes over
// from which file.
func (p *pass) unchanged(o *schema.Object, prev *schema.AcceptedObject) bool {
	if sameObject(prev.Object, o) {
		if prev.Object.Origin != o.Origin {
			p.let(p.bound(o, prev), prev)
		}
		return true
	}
	if sameButHash(prev.Object, o) && sameNormalised(prev.Object, o) {
		p.let(p.bound(o, prev), prev) // as this program writes it; nothing changed
		return true
	}
	return false
}

func sameObject(a, b *schema.Object) bool {
	return a == b || a.Hash == b.Hash && sameButHash(a, b)
}

func sameButHash(a, b *schema.Object) bool {
	return a.Org == b.Org && a.Workspace == b.Workspace && a.ManagedBy == b.ManagedBy
}

// judge answers what of an object may come in force now (nil: nothing), and
// what holds the rest back.
func (p *pass) judge(o *schema.Object, prev *schema.AcceptedObject) (*schema.Object, *schema.Hold) {
	if o.Key.Kind.InWorkspace() {
		if hold := p.judgePlace(o); hold != nil {
			return nil, hold
		}
	}
	if hold := p.judgeOwner(o, prev); hold != nil {
		return nil, hold
	}
	var hold *schema.Hold
	switch spec := o.Spec.(type) {
	case *schema.MachineSpec:
		return p.judgeMachine(o, spec, prev)
	case *schema.WorkspaceSpec:
		hold = p.judgeWorkspace(o)
	case *schema.HostPathGrantSpec:
		hold = p.judgeGrant(o, spec, prev)
	case *schema.DriveSpec:
		hold = p.judgeDrive(o, spec, prev)
	case *schema.VolumeSpec:
		hold = p.judgeVolume(o, spec, prev)
	case *schema.ModelSpec:
		hold = p.judgeModel(o, prev)
	case *schema.RunSpec:
		hold = p.judgeRun(o, spec, prev)
	case *schema.ReplicaGroupSpec:
		hold = p.judgeReplicaGroup(o, spec, prev)
	case *schema.EndpointSpec:
		hold = p.judgeNames(o)
	case *schema.DeletionSpec:
		hold = p.judgeDeletion(o, spec, prev)
	}
	if hold != nil {
		return nil, hold
	}
	return p.bound(o, prev), nil
}

// let brings an object in force. Generation grows only if the spec or metadata
// differ.
func (p *pass) let(o *schema.Object, prev *schema.AcceptedObject) {
	next := &schema.AcceptedObject{Generation: 1, Created: p.in.Now, Commit: p.in.Desired.Commit, Object: o}
	if prev != nil {
		copied := *prev
		next = &copied
		next.Object, next.Commit = o, p.in.Desired.Commit
		if prev.Object.Hash != o.Hash && !sameNormalised(prev.Object, o) {
			next.Generation++
		}
	}
	switch spec := o.Spec.(type) {
	case *schema.DriveSpec:
		next.FillGeneration = fillGeneration(spec, next, prev)
	case *schema.OrgSpec, *schema.WorkspaceSpec:
		next.Former = p.formerRoles(prev, o)
	case *schema.VolumeSpec:
		next.Object = withID(o, p.idOf(o.Key, prev))
	}
	p.put(o.Key, next, p.objects[o.Key] == nil)
	p.gate.through = append(p.gate.through, passed{o.Key, next, prev})
}

// sameNormalised reports whether an object in force is the declared one once this
// program has written its defaults in: an older one may have stored it without
// those that are new.
func sameNormalised(old, o *schema.Object) bool {
	again := *old
	again.Spec = copySpec(old.Spec)
	undo(&again, o)
	again.Rehash()
	return again.Hash == o.Hash
}

// normalised is a copy of a spec with this program's defaults.
func normalised[T schema.Spec](spec T) T {
	again := copySpec(spec).(T)
	again.Normalize()
	return again
}

func copySpec(spec schema.Spec) schema.Spec {
	data, err := json.Marshal(spec)
	again := schema.NewSpec(spec.Kind())
	if err == nil {
		err = json.Unmarshal(data, again)
	}
	if err != nil {
		panic("planner: " + err.Error()) // specs come from JSON
	}
	return again
}

// fillGeneration is the generation in which the fill last changed (D-42).
func fillGeneration(spec *schema.DriveSpec, next, prev *schema.AcceptedObject) int64 {
	switch {
	case spec.Fill == nil:
		return 0
	case prev != nil && prev.FillGeneration > 0 && sameFill(prev.Object.Spec.(*schema.DriveSpec).Fill, spec.Fill):
		return prev.FillGeneration
	}
	return next.Generation
}

// holdBack keeps an object's newest candidate beside what is in force.
func (p *pass) holdBack(o *schema.Object, hold *schema.Hold) {
	p.gate.held[o.Key] = &schema.Refusal{Commit: p.in.Desired.Commit, Candidate: o, Hold: *hold}
}

// holdRemoval keeps an object that is no longer declared.
func (p *pass) holdRemoval(key schema.Key, code schema.Code, message string, pos schema.Pos) {
	p.gate.held[key] = &schema.Refusal{Commit: p.in.Desired.Commit,
		Hold: schema.Hold{Object: key, Code: code, Status: code.Status(), Message: message, Pos: pos}}
}

// holdOf is a hold at a field of an object.
func holdOf(o *schema.Object, field string, code schema.Code, message string) *schema.Hold {
	return &schema.Hold{Object: o.Key, Code: code, Status: code.Status(), Message: message, Field: field, Pos: o.At(field)}
}

// keepHolds repeats what the store holds back, when nothing new is declared.
func (p *pass) keepHolds() {
	for _, key := range sortedKeys(p.in.Accepted.Objects) {
		if a := p.in.Accepted.Objects[key]; a != nil && a.Refused != nil {
			p.out.Holds = append(p.out.Holds, a.Refused.Hold)
		}
	}
}

// declaredInvalid: a file declares the key and cannot be used. It is still
// declared, so never a deletion. An org or workspace is declared by its own
// folder alone: a folder that was renamed without its name only claims the old
// one, which has vanished (G-5).
func (p *pass) declaredInvalid(key schema.Key) bool {
	pos, invalid := p.in.Desired.Invalid[key]
	return invalid && inOwnFolder(key, pos.File)
}

// inOwnFolder reports whether an org's or workspace's file lies in its folder.
func inOwnFolder(key schema.Key, file string) bool {
	switch key.Kind {
	case schema.KindOrg:
		rest, inside := strings.CutPrefix(file, "orgs/"+key.Name+"/")
		return inside && !strings.HasPrefix(rest, "workspaces/")
	case schema.KindWorkspace:
		return strings.HasPrefix(file, "orgs/"+key.Namespace+"/workspaces/"+key.Name+"/")
	}
	return true
}
