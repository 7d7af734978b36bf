package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// A template may name a volume by its name. When it is accepted, the id is written
// beside the name, so that the run goes on meaning that volume whatever is renamed
// later, and another volume under the name is another mount (V-2, V-8). The hash
// stays that of what is declared.

// bound is an object as it comes in force: its templates' volumes with their ids.
// Where the volumes of a template did not change, what they meant stays.
func (p *pass) bound(o *schema.Object, prev *schema.AcceptedObject) *schema.Object {
	var old schema.Spec
	if prev != nil {
		old = prev.Object.Spec
	}
	switch spec := o.Spec.(type) {
	case *schema.RunSpec:
		if !slices.ContainsFunc(placesOf(spec), templatePlace.namesVolume) {
			return o
		}
		was, _ := old.(*schema.RunSpec)
		next := *spec
		if spec.TaskTemplate != nil {
			next.TaskTemplate = p.bindTemplate(o, spec.TaskTemplate, templateBefore(placesOf(was), ""))
		}
		next.WorkerGroups = slices.Clone(spec.WorkerGroups)
		for i := range next.WorkerGroups {
			g := &next.WorkerGroups[i]
			g.TaskTemplate = *p.bindTemplate(o, &g.TaskTemplate, templateBefore(placesOf(was), g.Name))
		}
		return withSpec(o, &next)
	case *schema.ReplicaGroupSpec:
		if !groupPlaces(spec)[0].namesVolume() {
			return o
		}
		var before *schema.TaskTemplate
		if was, ok := old.(*schema.ReplicaGroupSpec); ok {
			before = &was.TaskTemplate
		}
		next := *spec
		next.TaskTemplate = *p.bindTemplate(o, &spec.TaskTemplate, before)
		return withSpec(o, &next)
	}
	return o
}

func withSpec(o *schema.Object, spec schema.Spec) *schema.Object {
	next := *o
	next.Spec = spec
	return &next
}

func (t templatePlace) namesVolume() bool {
	return slices.ContainsFunc(t.task.Volumes, func(m schema.VolumeMount) bool { return m.Name != "" })
}

// templateBefore is the template that a group had, nil for none.
func templateBefore(old []templatePlace, group string) *schema.TaskTemplate {
	if i := slices.IndexFunc(old, func(t templatePlace) bool { return t.group == group }); i >= 0 {
		return old[i].task
	}
	return nil
}

// bindTemplate is a copy of a template with the ids of the volumes that it names.
func (p *pass) bindTemplate(o *schema.Object, task, was *schema.TaskTemplate) *schema.TaskTemplate {
	next := *task
	next.Volumes = slices.Clone(task.Volumes)
	same := was != nil && sameMounts(was.Volumes, task.Volumes)
	for i := range next.Volumes {
		m := &next.Volumes[i]
		if m.Name == "" {
			continue
		}
		if same && was.Volumes[i].VolumeID != "" {
			m.VolumeID = was.Volumes[i].VolumeID
		} else if v := p.findVolume(o.Key.Namespace, m); v != nil {
			m.VolumeID = v.id
		}
	}
	return &next
}

// sameMounts compares what was declared.
func sameMounts(a, b []schema.VolumeMount) bool {
	return slices.EqualFunc(a, b, func(x, y schema.VolumeMount) bool { return declaredMount(x) == declaredMount(y) })
}

func declaredMount(m schema.VolumeMount) schema.VolumeMount {
	if m.Name != "" {
		m.VolumeID = ""
	}
	return m
}

// undo takes what acceptance wrote into an object in force out again. o is what is
// declared of it; the spec must be a copy.
func undo(old, o *schema.Object) {
	if o.Metadata.ID == "" {
		old.Metadata.ID = ""
	}
	for _, t := range templatesIn(old.Spec) {
		for i := range t.task.Volumes {
			t.task.Volumes[i] = declaredMount(t.task.Volumes[i])
		}
	}
}

// noteRenamed warns of templates that name a volume which is called otherwise now:
// the run keeps its volume, and a new run would not find it.
func (p *pass) noteRenamed() {
	for _, kind := range []schema.Kind{schema.KindRun, schema.KindReplicaGroup} {
		for _, o := range p.gate.kinds[kind] {
			if len(p.shelfOf(o.Key.Namespace).byName) == 0 {
				continue
			}
			if a := p.objects[o.Key]; a != nil && o.ManagedBy == (schema.Key{}) && sameObject(a.Object, o) {
				p.noteRenamedIn(o, templatesIn(a.Object.Spec))
			}
		}
	}
}

func templatesIn(spec schema.Spec) []templatePlace {
	switch spec := spec.(type) {
	case *schema.RunSpec:
		return placesOf(spec)
	case *schema.ReplicaGroupSpec:
		return groupPlaces(spec)
	}
	return nil
}

func (p *pass) noteRenamedIn(o *schema.Object, places []templatePlace) {
	for _, place := range places {
		for i, m := range place.task.Volumes {
			if m.Name == "" || m.VolumeID == "" {
				continue
			}
			v := p.findVolume(o.Key.Namespace, &m)
			if v == nil || v.object.Object.Key.Name == m.Name {
				continue
			}
			field := indexed(place.field+".volumes", i, ".name")
			p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeVolumeRenamed,
				Message: volumeRenamed(m.Name, v.id, v.object.Object.Key.Name)})
		}
	}
}
