package planner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/access"
)

// pass is the working state of one call of Plan. Its parts are filled stage by
// stage; nothing of the input is written to.
type pass struct {
	in      Input
	now     time.Time
	cluster *schema.ClusterSpec

	// objects are in force; acceptance changes them copy by copy. kinds are their keys.
	objects map[schema.Key]*schema.AcceptedObject
	kinds   map[schema.Kind][]schema.Key // may name objects that are dropped since
	gate    *gate                        // what acceptance decides

	reports  map[string]*schema.MachineReport // the newest of each machine
	machines map[string]*machine
	order    []*machine            // by name
	orgs     map[string]*fleet     // machines by org
	holders  map[string][]*machine // machines with a copy, by drive uid
	planned  map[string][]*machine // machines that are to make a copy, by drive uid

	grants      map[scope][]grantedPath
	reach       map[string]*pathIndex // accepted host paths, by org
	drives      map[schema.Key]*drive
	driveUID    map[string]*drive
	volumes     map[string]*shelf       // by namespace
	volumesSeen map[string][]schema.Key // runs that machines report with a volume, by its id
	tombs       map[string]*schema.Tombstone

	runs      map[schema.Key]*run
	queue     []*run // by acceptance, then name
	templates map[templateKey]*template

	budget          *budget
	roles, rolesNow *access.Rules                   // by which this commit is judged, and in force
	before          map[string]map[workerID]liveUse // live users before this pass, by drive uid

	holdersNS map[string][]*schema.AcceptedObject // workspaces in force by namespace
	spaced    *spaces

	endpoints *endpoints
	vacant    map[schema.Key]schema.Placement // runs that are gone, whose addresses rest (N-8)
	stored    map[schema.Key]schema.Placement // as the store has them, those of runs that are gone too

	attempts map[attemptKey]int // newest attempt that a machine reports
	address  map[string]string  // machines by each of their addresses
	byName   []*run
	fences   map[string][][]schema.OlderUse // what is fenced off from each machine
	users    map[claimKey][]*run            // of claims, when nothing is placed any more
	losing   map[*run]*losing               // what runs lost, likewise
	lists    map[string]map[string]string   // hashes of the complete drive lists by namespace, by org
	fills    map[string][]byte              // blobs of the drives' fills

	out schema.Plan
}

// scope is a workspace of an org.
type scope struct{ org, workspace string }

func newPass(in Input) *pass {
	p := &pass{
		in: in, now: in.Now, objects: make(map[schema.Key]*schema.AcceptedObject, len(in.Accepted.Objects)+newObjects(in.Desired)),
		kinds: map[schema.Kind][]schema.Key{}, templates: map[templateKey]*template{}, tombs: maps.Clone(in.Accepted.Tombstones),
		out: schema.Plan{Targets: map[string]*schema.Assignment{}, Blobs: map[string][]byte{}},
	}
	if p.tombs == nil {
		p.tombs = map[string]*schema.Tombstone{}
	}
	for key, a := range in.Accepted.Objects {
		if inForce(a) {
			p.put(key, a, true)
		}
	}
	if p.in.Placed == nil {
		p.in.Placed = placementsOf(in.Accepted, in.Observed.Placements)
	}
	p.splitVacant()
	p.reports = newest(in.Observed.Machines)
	p.gate = newGate()
	p.out.Commit = in.Accepted.Head
	if in.Desired != nil {
		p.out.Commit = in.Desired.Commit
	}
	return p
}

// newObjects guesses how many objects a commit adds, to size what holds them.
func newObjects(d *schema.Desired) int {
	if d == nil {
		return 0
	}
	return len(d.Objects)
}

func (p *pass) put(key schema.Key, a *schema.AcceptedObject, isNew bool) {
	if isNew {
		p.kinds[key.Kind] = append(p.kinds[key.Kind], key)
	}
	p.objects[key] = a
}

func (p *pass) drop(key schema.Key) {
	delete(p.objects, key)
}

// inForce reports whether an entry of the store is an object in force, and not
// only the refusal of one that never was.
func inForce(a *schema.AcceptedObject) bool { return a != nil && a.UID != "" && a.Object != nil }

// clusterSpec is the cluster's accepted settings with defaults.
func (p *pass) clusterSpec() *schema.ClusterSpec {
	if p.cluster != nil {
		return p.cluster
	}
	spec := &schema.ClusterSpec{}
	if key := p.clusterKey(); key != (schema.Key{}) {
		spec = p.objects[key].Object.Spec.(*schema.ClusterSpec)
	}
	copied := *spec
	copied.Normalize()
	p.cluster = &copied
	return p.cluster
}

// clusterKey is the cluster in force, zero when there is none. While it gets
// another name there are two, of which the declared one counts.
func (p *pass) clusterKey() schema.Key {
	keys := p.keysOf(schema.KindCluster)
	for _, key := range keys {
		if p.gate.want(key) != nil {
			return key
		}
	}
	if len(keys) == 0 {
		return schema.Key{}
	}
	return keys[0]
}

// keysOf lists the keys in force of a kind, sorted.
func (p *pass) keysOf(kind schema.Kind) []schema.Key {
	keys := slices.Clone(p.kinds[kind])
	slices.SortFunc(keys, schema.CompareKeys)
	return slices.DeleteFunc(slices.Compact(keys), func(key schema.Key) bool { return p.objects[key] == nil })
}

// keysIn lists the keys in force of a kind, in no order.
func (p *pass) keysIn(kind schema.Kind) []schema.Key {
	list := p.kinds[kind]
	keys := make([]schema.Key, 0, len(list))
	for _, key := range list {
		if p.objects[key] != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// specOf is the spec in force of a key, nil when it is not in force.
func specOf[T any](p *pass, key schema.Key) *T {
	if a := p.objects[key]; a != nil {
		spec, _ := any(a.Object.Spec).(*T)
		return spec
	}
	return nil
}

func (p *pass) note(d schema.Diagnostic) {
	d.Severity, d.Code, d.Status = schema.SeverityWarning, cmp.Or(d.Code, schema.CodeWarning), schema.CodeWarning.Status()
	p.out.Notes = append(p.out.Notes, d)
}

func (p *pass) event(key schema.Key, kind, message string) {
	p.out.Decisions.Events = append(p.out.Decisions.Events,
		schema.Event{At: p.now, Object: key, Type: kind, Message: message, Commit: p.out.Commit})
}

// finish sorts what has no order of its own yet.
func (p *pass) finish() schema.Plan {
	p.out.Notes = schema.SortDiagnostics(p.out.Notes)
	if len(p.out.Decisions.Events) == 0 {
		p.out.Decisions.Events = nil
	}
	if len(p.out.Waits) == 0 {
		p.out.Waits = nil
	}
	return p.out
}

// sortedKeys is the keys of a map of objects in the order of CompareKeys.
func sortedKeys[T any](m map[schema.Key]T) []schema.Key {
	return slices.SortedFunc(maps.Keys(m), schema.CompareKeys)
}

func sortedStrings[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
