package planner

import (
	"strings"

	"astraeus.io/astraeus/schema"
)

// nameTable says who has which DNS name of which namespace, without regard to
// case (N-9): runs, their workers, replica groups and endpoints.
type nameTable struct {
	taken  map[nameKey]schema.Key   // by what is in force
	wanted map[nameKey][]schema.Key // by what is new
}

type nameKey struct{ namespace, name string }

// nameTable reads the names in force and those that new or changed objects ask for.
func (p *pass) nameTable() *nameTable {
	t := &nameTable{taken: map[nameKey]schema.Key{}, wanted: map[nameKey][]schema.Key{}}
	for _, kind := range []schema.Kind{schema.KindRun, schema.KindReplicaGroup, schema.KindEndpoint} {
		for key := range p.kinds[kind] {
			o := p.objects[key].Object
			eachName(o, func(name string) { t.taken[nameKey{key.Namespace, strings.ToLower(name)}] = ownerOf(o) })
		}
		for _, o := range p.gate.kinds[kind] {
			if prev := p.objects[o.Key]; prev != nil && sameObject(prev.Object, o) {
				continue
			}
			eachName(o, func(name string) {
				k := nameKey{o.Key.Namespace, strings.ToLower(name)}
				if p.gate.want[o.Key] == o {
					t.wanted[k] = append(t.wanted[k], ownerOf(o))
				}
			})
		}
	}
	return t
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
		if by, taken := p.gate.names.other(nameKey{o.Key.Namespace, strings.ToLower(name)}, o.Key); taken {
			hold = holdOf(o, "metadata.name", schema.CodeNameTaken, nameTaken(name, by))
		}
	})
	return hold
}

// other is the object that has the name instead: one in force, or another
// newcomer.
func (t *nameTable) other(k nameKey, self schema.Key) (schema.Key, bool) {
	if by, taken := t.taken[k]; taken {
		return by, by != self
	}
	var first schema.Key
	for _, by := range t.wanted[k] {
		if by != self && (first == schema.Key{} || schema.CompareKeys(by, first) < 0) {
			first = by
		}
	}
	return first, first != schema.Key{}
}
