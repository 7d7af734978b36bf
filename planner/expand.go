package planner

import (
	"slices"
	"strconv"

	"astraeus.io/astraeus/schema"
)

// modelDrive is the name of a model's managed drive (D-43).
func modelDrive(model string) string { return "model-" + model }

// expandModels adds the drive of each model in force: also of one that is no
// longer declared, until its removal is let through.
func (p *pass) expandModels() {
	for _, key := range p.keysOf(schema.KindModel) {
		owner := p.objects[key].Object
		spec := owner.Spec.(*schema.ModelSpec)
		drive := &schema.DriveSpec{
			Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced, MountPath: spec.MountPath, Mode: schema.ReadOnly}},
			Fill:    spec.Fill, SizeHintBytes: spec.SizeHintBytes, ManagedBy: "model/" + key.Name,
		}
		p.addExpanded(owner, schema.Key{Kind: schema.KindDrive, Namespace: key.Namespace, Name: modelDrive(key.Name)}, drive)
	}
}

// expandReplicaGroups adds the member runs and the endpoint of each replica
// group in force (N-2).
func (p *pass) expandReplicaGroups() {
	for _, key := range p.keysOf(schema.KindReplicaGroup) {
		owner := p.objects[key].Object
		spec := owner.Spec.(*schema.ReplicaGroupSpec)
		for i := range spec.Replicas {
			p.addExpanded(owner, memberKey(key, i), memberSpec(spec))
		}
		p.addExpanded(owner, schema.Key{Kind: schema.KindEndpoint, Namespace: key.Namespace, Name: key.Name},
			&schema.EndpointSpec{ReplicaGroup: key.Name, Port: spec.Port, HealthCheck: spec.HealthCheck})
	}
}

func memberKey(group schema.Key, i int) schema.Key {
	return schema.Key{Kind: schema.KindRun, Namespace: group.Namespace, Name: group.Name + "-" + strconv.Itoa(i)}
}

func memberSpec(spec *schema.ReplicaGroupSpec) *schema.RunSpec {
	task := spec.TaskTemplate
	return &schema.RunSpec{TaskTemplate: &task, RestartPolicy: spec.RestartPolicy, Network: spec.Network}
}

// addExpanded adds the object that an owner in force stands for. A declared one
// with its key is held: the name is the owner's.
func (p *pass) addExpanded(owner *schema.Object, key schema.Key, spec schema.Spec) {
	if declared := p.gate.want(key); declared != nil {
		hold := holdOf(declared, "metadata.name", schema.CodeNameTaken, nameTaken(key.Name, owner.Key))
		hold.Hint = declaredAt(owner.Origin)
		if key.Kind == schema.KindDrive { // D-43
			hold = holdOf(declared, "metadata.name", schema.CodeDatavolumeManaged, driveManaged(key.Name, owner.Key))
		}
		p.holdBack(declared, hold)
		p.gate.kinds[key.Kind] = slices.DeleteFunc(p.gate.kinds[key.Kind], func(o *schema.Object) bool { return o == declared })
	}
	o := &schema.Object{Key: key, Org: owner.Org, Workspace: owner.Workspace, Origin: owner.Origin, Locate: owner.Locate,
		ManagedBy: owner.Key, Spec: spec,
		Metadata: schema.Metadata{Name: key.Name, Labels: owner.Metadata.Labels, Owner: owner.Metadata.Owner}}
	o.Rehash()
	p.gate.expanded[key] = o
	p.gate.kinds[key.Kind] = append(p.gate.kinds[key.Kind], o)
}
