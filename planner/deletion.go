package planner

import (
	"astraeus.io/astraeus/schema"
)

// targetOf is what a Deletion names, zero for an allowance.
func targetOf(namespace string, s *schema.DeletionSpec) schema.Key {
	for _, field := range []struct {
		kind schema.Kind
		name string
	}{
		{schema.KindDrive, s.Drive}, {schema.KindVolume, s.Volume}, {schema.KindRun, s.Run},
		{schema.KindReplicaGroup, s.ReplicaGroup}, {schema.KindEndpoint, s.Endpoint}, {schema.KindModel, s.Model},
	} {
		if field.name != "" {
			return schema.Key{Kind: field.kind, Namespace: namespace, Name: field.name}
		}
	}
	return schema.Key{}
}

// judgeDeletion binds a Deletion to the uid of what it names; it works once and
// never on a later object of that name. While the object's file exists it
// is a conflict.
func (p *pass) judgeDeletion(o *schema.Object, spec *schema.DeletionSpec, _ *schema.AcceptedObject) *schema.Hold {
	if spec.Allow != nil {
		return nil
	}
	target := targetOf(o.Key.Namespace, spec)
	if a := p.objects[target]; a != nil && a.Object.ManagedBy != (schema.Key{}) && target.Kind == schema.KindDrive {
		return holdOf(o, "spec.drive", schema.CodeDatavolumeManaged, driveManaged(target.Name, a.Object.ManagedBy))
	}
	if p.gate.want(target) != nil || p.declaredInvalid(target) {
		return holdOf(o, "spec", schema.CodeDeletionConflict, deletionConflict(target))
	}
	return nil
}

// readDeletions finds what the Deletions in force ask for, binds new ones and
// reports the spent ones.
func (p *pass) readDeletions() {
	for _, key := range p.keysOf(schema.KindDeletion) {
		a := p.objects[key]
		spec := a.Object.Spec.(*schema.DeletionSpec)
		if spec.Allow != nil {
			where := key.Namespace
			if !spec.Allow.Kind.InWorkspace() {
				where = a.Object.Org
			}
			p.gate.spared[spareKey{where, spec.Allow.Kind}] += spec.Allow.Count
			continue
		}
		target := targetOf(key.Namespace, spec)
		named := p.objects[target]
		if !p.hadBefore(key) && named != nil {
			a.Target = named.UID // new in this pass: its copy is the pass's own
		}
		switch {
		case named != nil && a.Target == named.UID && p.gate.want(target) == nil:
			p.gate.forced[target] = key
			p.gate.force[target] = spec.Force && target.Kind == schema.KindDrive
		case a.Target == "":
			p.note(schema.Diagnostic{Pos: a.Object.At("spec"), Object: key, Message: deletionUseless(target)})
		default:
			p.note(schema.Diagnostic{Pos: a.Object.At("spec"), Object: key, Message: deletionSpent(target)})
		}
	}
}
