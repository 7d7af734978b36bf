package planner

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// judgeRun checks a run against the other objects when it is new or the field
// concerned changes; what turns wrong later is a wait.
func (p *pass) judgeRun(o *schema.Object, spec *schema.RunSpec, prev *schema.AcceptedObject) *schema.Hold {
	if hold := p.judgeNames(o); hold != nil {
		return hold
	}
	if o.ManagedBy != (schema.Key{}) {
		return nil // judged with its owner
	}
	var old *schema.RunSpec
	if prev != nil {
		old = prev.Object.Spec.(*schema.RunSpec)
	}
	if hold := p.judgeStopIfAway(o, spec, old); hold != nil {
		return hold
	}
	p.noteCheckpoint(o, spec)
	for _, path := range []struct{ field, path, old string }{
		{"spec.dataset_path", spec.DatasetPath, specPath(old, true)},
		{"spec.checkpoint_path", spec.CheckpointPath, specPath(old, false)},
	} {
		if path.path != "" && path.path != path.old {
			if hold := p.judgeHostPath(o, hostPath{path: path.path, field: path.field}); hold != nil {
				return hold
			}
		}
	}
	return p.judgeTemplates(o, placesOf(spec), placesOf(old))
}

// judgeStopIfAway: a worker must have been stopped before it is replaced.
func (p *pass) judgeStopIfAway(o *schema.Object, spec, old *schema.RunSpec) *schema.Hold {
	after := p.clusterSpec().ReplaceAfter.Std()
	most := after - schema.StopMargin
	if spec.StopIfAwayAfter.Std() <= most || spec.StopIfAwayAfter == 0 || old != nil && old.StopIfAwayAfter == spec.StopIfAwayAfter {
		return nil
	}
	return holdOf(o, "spec.stop_if_away_after", schema.CodeInvalid, stopTooLate(most, after))
}

// specPath is an old spec's dataset or checkpoint path.
func specPath(old *schema.RunSpec, dataset bool) string {
	switch {
	case old == nil:
		return ""
	case dataset:
		return old.DatasetPath
	}
	return old.CheckpointPath
}

// judgeReplicaGroup judges the names and the template of all members at once.
func (p *pass) judgeReplicaGroup(o *schema.Object, spec *schema.ReplicaGroupSpec, prev *schema.AcceptedObject) *schema.Hold {
	if hold := p.judgeNames(o); hold != nil {
		return hold
	}
	var old []templatePlace
	if prev != nil {
		old = groupPlaces(prev.Object.Spec.(*schema.ReplicaGroupSpec))
	}
	return p.judgeTemplates(o, groupPlaces(spec), old)
}

// templatePlace is a template with its field path.
type templatePlace struct {
	group, field string
	task         *schema.TaskTemplate
}

func placesOf(spec *schema.RunSpec) []templatePlace {
	if spec == nil {
		return nil
	}
	if len(spec.WorkerGroups) == 0 && spec.TaskTemplate != nil {
		return []templatePlace{{"", "spec.task_template", spec.TaskTemplate}}
	}
	var list []templatePlace
	for i := range spec.WorkerGroups {
		g := &spec.WorkerGroups[i]
		list = append(list, templatePlace{g.Name, indexed("spec.worker_groups", i, ".task_template"), &g.TaskTemplate})
	}
	return list
}

func groupPlaces(spec *schema.ReplicaGroupSpec) []templatePlace {
	return []templatePlace{{"", "spec.task_template", &spec.TaskTemplate}}
}

func (p *pass) judgeTemplates(o *schema.Object, list, old []templatePlace) *schema.Hold {
	for _, place := range list {
		var was schema.TaskTemplate
		if i := slices.IndexFunc(old, func(t templatePlace) bool { return t.group == place.group }); i >= 0 {
			was = *old[i].task
		}
		refsChanged := !slices.Equal(was.DatavolumeRefs, place.task.DatavolumeRefs)
		volumesChanged := !sameMounts(was.Volumes, place.task.Volumes) ||
			max(1, was.RequestedResources.Machines) != max(1, place.task.RequestedResources.Machines)
		p.noteMissingDrives(o, place)
		if refsChanged {
			if hold := p.judgeRefs(o, place); hold != nil {
				return hold
			}
		}
		if volumesChanged {
			if hold := p.judgeVolumes(o, place); hold != nil {
				return hold
			}
		}
		if refsChanged || volumesChanged {
			if hold := p.judgeMountPaths(o, place); hold != nil {
				return hold
			}
		}
	}
	return nil
}

// noteMissingDrives: a missing drive is a warning, and a wait in the plan (D-57).
func (p *pass) noteMissingDrives(o *schema.Object, place templatePlace) {
	for i, ref := range place.task.DatavolumeRefs {
		if p.driveOf(o, ref.Name) == nil {
			field := indexed(place.field+".datavolume_refs", i, ".name")
			why := p.whyNoDrive(schema.Key{Kind: schema.KindDrive, Namespace: o.Key.Namespace, Name: ref.Name})
			p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeDriveNotThere, Message: why.Message()})
		}
	}
}

func (p *pass) driveOf(o *schema.Object, name string) *schema.DriveSpec {
	key := schema.Key{Kind: schema.KindDrive, Namespace: o.Key.Namespace, Name: name}
	if spec := specOf[schema.DriveSpec](p, key); spec != nil {
		return spec
	}
	return nil
}

// judgeRefs: D-40, as far as the drives are known.
func (p *pass) judgeRefs(o *schema.Object, place templatePlace) *schema.Hold {
	for i := range place.task.DatavolumeRefs {
		ref := &place.task.DatavolumeRefs[i]
		spec := p.driveOf(o, ref.Name)
		if spec == nil {
			continue
		}
		field := func(name string) string { return indexed(place.field+".datavolume_refs", i, name) }
		if ref.SourceIndex < 0 || ref.SourceIndex >= len(spec.Sources) {
			return holdOf(o, field(".source_index"), schema.CodeInvalid, sourceOutOfRange(ref.Name, ref.SourceIndex, len(spec.Sources)))
		}
		if target := mountTarget(spec, ref); !strings.HasPrefix(target, "/") {
			reason := schema.Reason{Code: schema.ReasonNoMountPath, Args: schema.ReasonArgs{Drive: ref.Name}}
			return holdOf(o, field(".mount_path"), schema.CodeInvalid, reason.Message())
		}
	}
	return nil
}

func mountTarget(spec *schema.DriveSpec, ref *schema.DatavolumeRef) string {
	if ref.MountPath != "" {
		return ref.MountPath
	}
	return spec.Sources[ref.SourceIndex].MountPath
}

// judgeMountPaths: every mount of a template has a path of its own (D-40, V-4).
func (p *pass) judgeMountPaths(o *schema.Object, place templatePlace) *schema.Hold {
	seen := make([]string, 0, len(place.task.DatavolumeRefs)+len(place.task.Volumes))
	for i, ref := range place.task.DatavolumeRefs {
		spec := p.driveOf(o, ref.Name)
		if spec == nil && ref.MountPath == "" || spec != nil && (ref.SourceIndex < 0 || ref.SourceIndex >= len(spec.Sources)) {
			continue
		}
		target := ref.MountPath
		if spec != nil {
			target = mountTarget(spec, &ref)
		}
		if target = schema.CleanPath(target); slices.Contains(seen, target) {
			return holdOf(o, indexed(place.field+".datavolume_refs", i, ".mount_path"), schema.CodeInvalid, mountPathTwice(target))
		}
		seen = append(seen, target)
	}
	for i, v := range place.task.Volumes {
		target := schema.CleanPath(v.ContainerPath)
		if slices.Contains(seen, target) {
			return holdOf(o, indexed(place.field+".volumes", i, ".container_path"), schema.CodeInvalid, mountPathTwice(target))
		}
		seen = append(seen, target)
	}
	return nil
}

// judgeVolumes: V-4..V-7 for a template's volumes.
func (p *pass) judgeVolumes(o *schema.Object, place templatePlace) *schema.Hold {
	var pins []pin
	for i := range place.task.Volumes {
		m := &place.task.Volumes[i]
		field := indexed(place.field+".volumes", i, "")
		if m.VolumeID == "" && m.Name == "" {
			if hold := p.judgeHostPath(o, hostPath{path: m.HostPath, field: field + ".host_path"}); hold != nil {
				return hold
			}
			continue
		}
		v := p.findVolume(o.Key.Namespace, m)
		if v == nil || !p.mayUse(o, v) {
			hold := holdOf(o, field, schema.CodeNotFound, volumeNotFound)
			hold.Hint = p.volumesHint(o)
			return hold
		}
		name := v.object.Object.Key.Name
		if m.HostPath != "" && schema.CleanPath(m.HostPath) != v.spec.HostPath {
			return holdOf(o, field+".host_path", schema.CodeInvalid, hostPathDisagrees(name, v.spec.HostPath))
		}
		// The policy may be narrower than when it was registered (V-4).
		if hold := p.judgeHostPath(o, hostPath{path: v.spec.HostPath, machine: v.spec.NodeID, field: field}); hold != nil {
			hold.Message = volumeRefused(name, hold.Message)
			return hold
		}
		if v.spec.Shared {
			continue
		}
		at := pin{name, v.spec.NodeID}
		if machine := p.machines[at.machine]; machine == nil || machine.org != o.Org {
			return holdOf(o, field, schema.CodeVolumeConflict, volumeUnbound(at))
		}
		if len(pins) > 0 && pins[0].machine != at.machine {
			return holdOf(o, field, schema.CodeVolumeConflict, volumesApart(pins[0], at))
		}
		pins = append(pins, at)
		if place.task.RequestedResources.Machines > 1 {
			return holdOf(o, field, schema.CodeInvalid, localVolumeGang)
		}
	}
	return nil
}

// judgeHostPath: V-4, X-16 and Cluster.spec.volumes_need_grants for a path that a
// template or volume names.
func (p *pass) judgeHostPath(o *schema.Object, h hostPath) *schema.Hold {
	where, field, path := scope{o.Org, o.Workspace}, h.field, h.path
	if problem := p.hostPathProblem(where, path); problem != "" {
		return holdOf(o, field, schema.CodeInvalid, problem)
	}
	if text := p.overlap(o.Org, h); text != "" {
		return holdOf(o, field, schema.CodeHostAccessForbidden, text)
	}
	if p.clusterSpec().VolumesNeedGrant && p.grantFor(where, path).path == "" {
		hold := holdOf(o, field, schema.CodeHostAccessForbidden, pathNeedsGrant(path))
		hold.Hint = schema.GrantHint(o.Org, o.Workspace)
		return hold
	}
	return nil
}

// noteCheckpoint: V-11.
func (p *pass) noteCheckpoint(o *schema.Object, spec *schema.RunSpec) {
	if spec.CheckpointPath == "" || len(slotsOf("", spec)) < 2 {
		return
	}
	for _, place := range placesOf(spec) {
		if !p.sharedAt(o, place.task, spec.CheckpointPath) {
			p.note(schema.Diagnostic{Pos: o.At("spec.checkpoint_path"), Object: o.Key, Field: "spec.checkpoint_path",
				Code: schema.CodeCheckpointNotThere, Message: checkpointNotThere})
			return
		}
	}
}

func (p *pass) sharedAt(o *schema.Object, task *schema.TaskTemplate, path string) bool {
	for i := range task.DatavolumeRefs {
		ref := &task.DatavolumeRefs[i]
		spec := p.driveOf(o, ref.Name)
		if spec == nil || ref.SourceIndex < 0 || ref.SourceIndex >= len(spec.Sources) {
			continue
		}
		scope := spec.Sources[ref.SourceIndex].NodeScope
		if (scope == schema.ScopeShared || scope == schema.ScopeOneMachine) && schema.Covers(mountTarget(spec, ref), path) {
			return true
		}
	}
	for i := range task.Volumes {
		if v := p.findVolume(o.Key.Namespace, &task.Volumes[i]); v != nil && v.spec.Shared && schema.Covers(task.Volumes[i].ContainerPath, path) {
			return true
		}
	}
	for _, v := range p.shelfOf(o.Key.Namespace).byName {
		if v.spec.Shared && schema.Covers(v.spec.HostPath, path) {
			return true
		}
	}
	return false
}

func (p *pass) shelfOf(namespace string) *shelf {
	if s := p.volumes[namespace]; s != nil {
		return s
	}
	return &shelf{}
}
