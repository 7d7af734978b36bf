package planner

import (
	"astraeus.io/astraeus/schema"
)

// deletionTarget is what a Deletion names, zero for an allowance.
func deletionTarget(namespace string, s *schema.DeletionSpec) schema.Key {
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
	target := deletionTarget(o.Key.Namespace, spec)
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
		p.bindDeletion(key, a, spec)
		if spec.Allow != nil {
			p.readAllowance(key, a, spec.Allow)
			continue
		}
		target := deletionTarget(key.Namespace, spec)
		named := p.objects[target]
		say := func(code schema.Code, message string) {
			p.note(schema.Diagnostic{Pos: a.Object.At("spec"), Object: key, Code: code, Message: message})
		}
		switch {
		case named != nil && a.Target == named.UID && p.declared(target):
			say(schema.CodeDeletionConflict, deletionConflict(target)) // its file came back before it was gone
		case named != nil && a.Target == named.UID:
			p.gate.forced[target] = key
			p.gate.force[target] = p.gate.force[target] || spec.Force && target.Kind == schema.KindDrive
		case a.Target == "":
			say(schema.CodeDeletionSpent, deletionUseless(target))
		default:
			say(schema.CodeDeletionSpent, deletionSpent(target))
		}
	}
}

// bindDeletion binds a Deletion once, when it is accepted or asks for something
// else than before: to the uid of what it names, an allowance to the commit.
func (p *pass) bindDeletion(key schema.Key, a *schema.AcceptedObject, spec *schema.DeletionSpec) {
	if old := p.in.Accepted.Objects[key]; inForce(old) && sameDeletion(old.Object.Spec.(*schema.DeletionSpec), spec) {
		return
	}
	// What differs was let through in this pass, so that the value is the pass's own.
	a.Target = ""
	if named := p.objects[deletionTarget(key.Namespace, spec)]; named != nil {
		a.Target = named.UID
	}
	if spec.Allow != nil {
		a.Target = p.in.Desired.Commit
	}
}

// sameDeletion reports whether both ask for the same; labels are no new demand.
func sameDeletion(a, b *schema.DeletionSpec) bool {
	return a == b || schema.HashJSON(a) == schema.HashJSON(b)
}

// readAllowance: it lifts the budget for the head that it was accepted with, and
// for no later one.
func (p *pass) readAllowance(key schema.Key, a *schema.AcceptedObject, allow *schema.DeletionAllow) {
	if a.Target != p.in.Desired.Commit {
		p.note(schema.Diagnostic{Pos: a.Object.At("spec"), Object: key, Code: schema.CodeDeletionSpent, Message: allowanceSpent})
		return
	}
	where := key.Namespace
	if !allow.Kind.InWorkspace() {
		where = a.Object.Org
	}
	p.gate.spared[spareKey{where, allow.Kind}] += allow.Count
}
