package planner

import (
	"strconv"
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
	clash  map[*schema.Object]bool     // newcomers with a name that is another's too
}

// nameTable reads the names in force and those that new or changed objects ask for.
func (p *pass) nameTable() *nameTable {
	t := &nameTable{taken: map[uint64]*schema.Object{}, wanted: map[uint64]*schema.Object{}, more: map[uint64][]*schema.Object{},
		clash: map[*schema.Object]bool{}}
	kinds := []schema.Kind{schema.KindRun, schema.KindReplicaGroup, schema.KindEndpoint}
	for _, kind := range kinds {
		for _, key := range p.keysIn(kind) {
			o := p.objects[key].Object
			eachHash(o, func(h uint64) { t.taken[h] = o })
		}
	}
	for _, kind := range kinds {
		for _, o := range p.gate.kinds[kind] {
			if prev := p.objects[o.Key]; prev == nil || !sameObject(prev.Object, o) {
				eachHash(o, func(h uint64) { t.want(h, o) })
			}
		}
	}
	return t
}

// want notes that a newcomer asks for a name, and who else has it or asks for it.
func (t *nameTable) want(h uint64, o *schema.Object) {
	if has := t.taken[h]; has != nil && ownerOf(has) != ownerOf(o) {
		t.clash[o] = true
	}
	first := t.wanted[h]
	if first == nil {
		t.wanted[h] = o
		return
	}
	t.clash[first], t.clash[o] = true, true
	t.more[h] = append(t.more[h], o)
}

// nameHash is FNV-1a over namespace and name, letters in lower case.
func nameHash(namespace, name string) uint64 {
	return hashMore(hashMore(hashStart, namespace)*hashPrime, name)
}

const (
	hashStart = uint64(14695981039346656037)
	hashPrime = uint64(1099511628211)
)

func hashMore(h uint64, s string) uint64 {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = (h ^ uint64(c)) * hashPrime
	}
	return h
}

// hashNumber goes on with "-<n>".
func hashNumber(h uint64, n int) uint64 {
	var buf [24]byte
	for _, c := range strconv.AppendInt(append(buf[:0], '-'), int64(n), 10) {
		h = (h ^ uint64(c)) * hashPrime
	}
	return h
}

// eachHash calls f with the hash of every DNS name of an object: those of
// eachName, without making them.
func eachHash(o *schema.Object, f func(uint64)) {
	h := nameHash(o.Key.Namespace, o.Key.Name)
	f(h)
	switch spec := o.Spec.(type) {
	case *schema.RunSpec:
		eachWorkerHash(h, spec, f)
	case *schema.ReplicaGroupSpec:
		member := memberSpec(spec)
		for i := range spec.Replicas {
			run := hashNumber(h, i)
			f(run)
			eachWorkerHash(run, member, f)
		}
	}
}

func eachWorkerHash(run uint64, spec *schema.RunSpec, f func(uint64)) {
	if len(spec.WorkerGroups) == 0 && spec.TaskTemplate != nil {
		for i := range max(1, spec.TaskTemplate.RequestedResources.Machines) {
			f(hashNumber(run, i))
		}
	}
	for i := range spec.WorkerGroups {
		g := &spec.WorkerGroups[i]
		group := hashMore(hashMore(run, "-"), g.Name)
		for j := range max(1, g.TaskTemplate.RequestedResources.Machines) {
			f(hashNumber(group, j))
		}
	}
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
	if name, problem := dnsProblem(o); problem != "" {
		return holdOf(o, "metadata.name", schema.CodeNameNotDNSSafe, nameNotDNSSafe(name, problem))
	}
	if !p.gate.names.clash[o] {
		return nil
	}
	var hold *schema.Hold
	eachName(o, func(name string) {
		if by := p.gate.names.other(o, name); by != nil && hold == nil {
			hold = holdOf(o, "metadata.name", schema.CodeNameTaken, nameTaken(name, ownerOf(by)))
			hold.Hint = declaredAt(by.Origin)
		}
	})
	return hold
}

// dnsProblem is a name of the object that cannot be a DNS label: its own, or the
// longest of each kind of derived one.
func dnsProblem(o *schema.Object) (name, problem string) {
	longest := append(make([]string, 0, 4), o.Key.Name)
	switch spec := o.Spec.(type) {
	case *schema.RunSpec:
		longest = append(longest, longestWorkers(o.Key.Name, spec)...)
	case *schema.ReplicaGroupSpec:
		if spec.Replicas > 0 {
			longest = append(longest, longestWorkers(memberKey(o.Key, spec.Replicas-1).Name, memberSpec(spec))...)
		}
	}
	for _, name := range longest {
		if problem := schema.DNSNameProblem(name); problem != "" {
			return name, problem
		}
	}
	return "", ""
}

func longestWorkers(run string, spec *schema.RunSpec) []string {
	if len(spec.WorkerGroups) == 0 && spec.TaskTemplate != nil {
		return []string{schema.WorkerName(run, "", max(1, spec.TaskTemplate.RequestedResources.Machines)-1)}
	}
	var list []string
	for i := range spec.WorkerGroups {
		g := &spec.WorkerGroups[i]
		list = append(list, schema.WorkerName(run, g.Name, max(1, g.TaskTemplate.RequestedResources.Machines)-1))
	}
	return list
}

// other is the object of another owner that has the name instead, nil for none: one
// in force, or another newcomer.
func (t *nameTable) other(self *schema.Object, name string) *schema.Object {
	h := nameHash(self.Key.Namespace, name)
	if o := t.taken[h]; o != nil && hasName(o, name) {
		if ownerOf(o) == ownerOf(self) {
			return nil
		}
		return o
	}
	if len(t.more[h]) == 0 {
		return nil // wanted by this one alone
	}
	var first *schema.Object
	for _, o := range append([]*schema.Object{t.wanted[h]}, t.more[h]...) {
		if ownerOf(o) != ownerOf(self) && hasName(o, name) && (first == nil || schema.CompareKeys(ownerOf(o), ownerOf(first)) < 0) {
			first = o
		}
	}
	return first
}
