package planner

import (
	"astraeus.io/astraeus/schema"
)

// judgeVolume: V-2..V-4, V-8 and X-16. prev is the same volume in force, under
// whatever name. Placement fields are judged again when they change, and may not
// change while the volume is in use.
func (p *pass) judgeVolume(o *schema.Object, spec *schema.VolumeSpec, prev *schema.AcceptedObject) *schema.Hold {
	if prev == nil {
		if hold := p.judgeVolumeID(o); hold != nil {
			return hold
		}
	} else if samePlacement(prev.Object.Spec.(*schema.VolumeSpec), spec) {
		return nil
	}
	if !spec.Shared {
		if m := p.machines[spec.NodeID]; m == nil || m.org != o.Org {
			return holdOf(o, "spec.node_id", schema.CodeNotFound, schema.MachineNotFound(spec.NodeID))
		}
	}
	if hold := p.judgeHostPath(o, hostPath{path: spec.HostPath, machine: spec.NodeID, field: "spec.host_path"}); hold != nil {
		return hold
	}
	if prev != nil {
		if users := p.volumeUsers(prev); users.any() {
			hold := holdOf(o, placementField(prev.Object.Spec.(*schema.VolumeSpec), spec), schema.CodeVolumeInUse, users.sentence(prev))
			hold.Hint = volumeUseHint
			return hold
		}
	}
	return nil
}

func samePlacement(a, b *schema.VolumeSpec) bool { return placementField(a, b) == "" }

// placementField is the first placement field that differs, "" for none (V-8).
func placementField(a, b *schema.VolumeSpec) string {
	switch {
	case a.HostPath != b.HostPath:
		return "spec.host_path"
	case a.Shared != b.Shared:
		return "spec.shared"
	case a.NodeID != b.NodeID:
		return "spec.node_id"
	}
	return ""
}

// judgeVolumeID: a volume in force keeps its id; of several new ones with one id
// each is refused.
func (p *pass) judgeVolumeID(o *schema.Object) *schema.Hold {
	id := o.Metadata.ID
	if id == "" {
		return nil
	}
	refuse := func(by schema.Key) *schema.Hold {
		return holdOf(o, "metadata.id", schema.CodeDuplicate, volumeIDTaken(id, by, by.Namespace == o.Key.Namespace))
	}
	for _, key := range p.gate.lineage.has[id] {
		return refuse(key)
	}
	for _, other := range p.gate.lineage.asks[id] {
		if other.Key != o.Key {
			return refuse(other.Key)
		}
	}
	return nil
}
