package planner

import (
	"strings"

	"astraeus.io/astraeus/schema"
)

// nameTable says who has which DNS name of which namespace, without regard to
// case (N-9): runs, their workers, replica groups and endpoints. Names are kept
// by hash, because a cluster has one a worker; a hit is looked at by name.
type nameTable struct {
	taken  map[uint64]*schema.Object   // by what is in force
	wanted map[uint64]*schema.Object   // by what is new
	more   map[uint64][]*schema.Object // further newcomers of one name
}

// nameTable reads the names in force and those that new or changed objects ask for.
func (p *pass) nameTable() *nameTable {
	t := &nameTable{taken: map[uint64]*schema.Object{}, wanted: map[uint64]*schema.Object{}, more: map[uint64][]*schema.Object{}}
	for _, kind := range []schema.Kind{schema.KindRun, schema.KindReplicaGroup, schema.KindEndpoint} {
		for _, key := range p.keysIn(kind) {
			o := p.objects[key].Object
			eachName(o, func(name string) { t.taken[nameHash(key.Namespace, name)] = o })
		}
		for _, o := range p.gate.kinds[kind] {
			if prev := p.objects[o.Key]; prev == nil || !sameObject(prev.Object, o) {
				eachName(o, func(name string) { t.want(nameHash(o.Key.Namespace, name), o) })
			}
		}
	}
	return t
}

func (t *nameTable) want(h uint64, o *schema.Object) {
	if t.wanted[h] == nil {
		t.wanted[h] = o
		return
	}
	t.more[h] = append(t.more[h], o)
}

// nameHash is FNV-1a over namespace and name, letters in lower case.
func nameHash(namespace, name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(namespace) {
		h = (h ^ uint64(namespace[i])) * 1099511628211
	}
	h *= 1099511628211
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// hasName reports whether an object has a name indeed.
func hasName(o *schema.Object, name string) (has bool) {
	eachName(o, func(n string) { has = has || strings.EqualFold(n, name) })
	return has
}

func ownerOf(o *schema.Object) schema.Key {
	if o.ManagedBy != (schema.Key{}) {
		return o.ManagedBy
	}
	return o.Key
}

// eachName calls f with every DNS name of an object, derived ones included.
func eachName(o *schema.Object, f func(string)) {
	name := o.Key.Name
	f(name)
	switch spec := o.Spec.(type) {
	case *schema.RunSpec:
		eachWorker(name, spec, f)
	case *schema.ReplicaGroupSpec:
		member := memberSpec(spec)
		for i := range spec.Replicas {
			run := memberKey(o.Key, i).Name
			f(run)
			eachWorker(run, member, f)
		}
	}
}

func eachWorker(run string, spec *schema.RunSpec, f func(string)) {
	if len(spec.WorkerGroups) == 0 && spec.TaskTemplate != nil {
		for i := range max(1, spec.TaskTemplate.RequestedResources.Machines) {
			f(schema.WorkerName(run, "", i))
		}
	}
	for i := range spec.WorkerGroups {
		g := &spec.WorkerGroups[i]
		for j := range max(1, g.TaskTemplate.RequestedResources.Machines) {
			f(schema.WorkerName(run, g.Name, j))
		}
	}
}

// judgeNames: N-9. In a collision the accepted one stays; with none accepted,
// both are held.
func (p *pass) judgeNames(o *schema.Object) *schema.Hold {
	if o.ManagedBy != (schema.Key{}) {
		return nil // judged with its owner
	}
	var hold *schema.Hold
	eachName(o, func(name string) {
		if hold != nil {
			return
		}
		if problem := schema.DNSNameProblem(name); problem != "" {
			hold = holdOf(o, "metadata.name", schema.CodeNameNotDNSSafe, nameNotDNSSafe(name, problem))
			return
		}
		if by, taken := p.gate.names.other(o, name); taken {
			hold = holdOf(o, "metadata.name", schema.CodeNameTaken, nameTaken(name, by))
		}
	})
	return hold
}

// other is the owner of the object that has the name instead: one in force, or
// another newcomer.
func (t *nameTable) other(self *schema.Object, name string) (schema.Key, bool) {
	h := nameHash(self.Key.Namespace, name)
	if o := t.taken[h]; o != nil && hasName(o, name) {
		return ownerOf(o), ownerOf(o) != ownerOf(self)
	}
	if len(t.more[h]) == 0 {
		return schema.Key{}, false // wanted by this one alone
	}
	var first schema.Key
	for _, o := range append([]*schema.Object{t.wanted[h]}, t.more[h]...) {
		by := ownerOf(o)
		if by != ownerOf(self) && hasName(o, name) && (first == schema.Key{} || schema.CompareKeys(by, first) < 0) {
			first = by
		}
	}
	return first, first != schema.Key{}
}
