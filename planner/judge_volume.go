package planner

import (
	"fmt"
	"slices"

	"astraeus.io/astraeus/schema"
)

// indexVolumeIDs finds volumes that were renamed with their id (V-2).
func (p *pass) indexVolumeIDs() {
	for _, o := range p.gate.kinds[schema.KindVolume] {
		if o.Metadata.ID != "" {
			p.gate.volumes[o.Metadata.ID] = append(p.gate.volumes[o.Metadata.ID], o.Key)
		}
	}
	p.gate.ids = map[string][]schema.Key{}
	for _, key := range p.keysOf(schema.KindVolume) {
		id := volumeID(p.objects[key])
		p.gate.ids[id] = append(p.gate.ids[id], key)
		declared := p.gate.volumes[id]
		if p.gate.want(key) == nil && !p.declaredInvalid(key) && len(declared) == 1 &&
			declared[0].Namespace == key.Namespace && p.objects[declared[0]] == nil {
			p.gate.moved[key] = declared[0]
		}
	}
	for _, list := range p.gate.volumes {
		slices.SortFunc(list, schema.CompareKeys)
	}
}

// judgeVolume: V-2..V-4, V-8 and X-16. Placement fields are judged again when
// they change, and may not change while the volume is in use.
func (p *pass) judgeVolume(o *schema.Object, spec *schema.VolumeSpec, prev *schema.AcceptedObject) *schema.Hold {
	if from, moved := p.gate.movedFrom(o.Key); moved && prev == nil {
		prev = p.objects[from]
	}
	if hold := p.judgeVolumeID(o, prev); hold != nil {
		return hold
	}
	if prev != nil && samePlacement(prev.Object.Spec.(*schema.VolumeSpec), spec) {
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
		if users := p.volumeUsers(prev); len(users) > 0 {
			return holdOf(o, "spec", schema.CodeVolumeInUse, volumeInUse(o.Key.Name, users))
		}
	}
	return nil
}

func samePlacement(a, b *schema.VolumeSpec) bool {
	return a.HostPath == b.HostPath && a.Shared == b.Shared && a.NodeID == b.NodeID
}

// judgeVolumeID: two volumes with one id are both refused; an accepted one keeps it.
func (p *pass) judgeVolumeID(o *schema.Object, prev *schema.AcceptedObject) *schema.Hold {
	id := o.Metadata.ID
	if id == "" || prev != nil && volumeID(prev) == id {
		return nil
	}
	for _, key := range slices.Concat(p.gate.volumes[id], p.gate.ids[id]) {
		if key != o.Key && p.gate.moved[key] != o.Key {
			return holdOf(o, "metadata.id", schema.CodeDuplicate, volumeIDTaken(id, key))
		}
	}
	return nil
}

// volumeUsers names the runs that use a volume (V-8): accepted ones that have
// not ended, or whose replica group lives, and those whose workers were started
// with it.
func (p *pass) volumeUsers(a *schema.AcceptedObject) []string {
	id, key := volumeID(a), a.Object.Key
	uses := func(spec *schema.RunSpec) bool {
		return slices.ContainsFunc(spec.Groups(), func(g schema.WorkerGroup) bool {
			return slices.ContainsFunc(g.TaskTemplate.Volumes, func(m schema.VolumeMount) bool {
				return m.VolumeID == id || m.VolumeID == "" && m.Name == key.Name
			})
		})
	}
	users := map[schema.Key]bool{}
	for _, run := range p.keysIn(schema.KindRun) {
		o := p.objects[run].Object
		pl, placed := p.in.Placed[run]
		ended := placed && pl.Outcome != "" && o.ManagedBy == (schema.Key{})
		if run.Namespace == key.Namespace && p.gate.wants(ownerOf(o), p) && !ended && uses(o.Spec.(*schema.RunSpec)) {
			users[run] = true
		}
	}
	for run, pl := range p.in.Placed {
		if run.Namespace == key.Namespace && pl.Outcome == "" && uses(pl.Spec) && !p.placedGone(&pl) {
			users[run] = true
		}
	}
	var names []string
	for _, run := range sortedKeys(users) {
		names = append(names, fmt.Sprintf("run/%s", run.Name))
	}
	return names
}

// wants reports whether an object is still declared, expanded, or kept.
func (g *gate) wants(key schema.Key, p *pass) bool {
	return g.want(key) != nil || p.declaredInvalid(key) || g.held[key] != nil || p.in.Desired == nil
}

// placedGone reports whether none of the placed workers can run any more.
func (p *pass) placedGone(pl *schema.Placement) bool {
	r := run{placed: pl}
	return p.allGone(&r)
}
