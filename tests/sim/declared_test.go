package sim

import (
	"fmt"
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

const (
	cluster   = "example"
	org       = "acme"
	workspace = "research"
)

var namespace = schema.Namespace(cluster, org, workspace)

// declared is what the repository's files say now.
type declared struct {
	w       *world
	objects map[schema.Key]*schema.Object
	invalid map[schema.Key]bool // their files cannot be used
	files   int
}

func newDeclared(w *world) *declared {
	d := &declared{w: w, objects: map[schema.Key]*schema.Object{}, invalid: map[schema.Key]bool{}}
	d.put(schema.KindCluster, schema.Metadata{Name: cluster}, &schema.ClusterSpec{DeletionBudget: schema.DeletionBudget{Count: 10, Percent: 100}})
	d.put(schema.KindOrg, schema.Metadata{Name: org}, &schema.OrgSpec{})
	d.put(schema.KindWorkspace, schema.Metadata{Name: workspace}, &schema.WorkspaceSpec{})
	d.grant()
	for _, m := range w.machines {
		d.machine(m.name)
	}
	for range 2 + w.rng.IntN(4) {
		d.drive()
	}
	for range 1 + w.rng.IntN(4) {
		d.run()
	}
	return d
}

func (d *declared) put(kind schema.Kind, meta schema.Metadata, spec schema.Spec) {
	o := &schema.Object{Metadata: meta, Spec: spec, Key: schema.Key{Kind: kind, Name: meta.Name}}
	switch {
	case kind == schema.KindCluster:
	case kind == schema.KindOrg:
		o.Org = meta.Name
	case kind == schema.KindMachine:
		o.Org = org
	case kind == schema.KindWorkspace:
		o.Org, o.Workspace, o.Key.Namespace = org, meta.Name, org
	case kind == schema.KindHostPathGrant:
		o.Org, o.Key.Namespace = org, org
	default:
		o.Org, o.Workspace, o.Key.Namespace = org, workspace, namespace
	}
	d.files++
	o.Origin = schema.Pos{File: fmt.Sprintf("%s-%d.yaml", meta.Name, d.files), Line: 1, Col: 1}
	o.Rehash()
	d.objects[o.Key] = o
	delete(d.invalid, o.Key)
}

func (d *declared) grant() {
	paths := []string{"/mnt", "/lustre", "/scratch"}
	if d.w.chance(6) {
		paths = paths[:2]
	}
	d.put(schema.KindHostPathGrant, schema.Metadata{Name: "data"}, &schema.HostPathGrantSpec{Workspace: workspace, Paths: paths})
}

func (d *declared) machine(name string) {
	w := d.w
	no := false
	spec := &schema.MachineSpec{Engine: schema.EngineProcess, DataLocation: &schema.DataLocationSpec{Path: pick(w, []string{"/nvme/a", "/nvme/a", "/nvme/b"})}}
	switch w.rng.IntN(8) {
	case 0:
		spec.DataLocation = nil
	case 1:
		spec.DataLocation.MaxBytes = 500
	case 2:
		spec.Schedulable = &no
	}
	d.put(schema.KindMachine, schema.Metadata{Name: name, Labels: map[string]string{schema.LabelRack: pick(w, []string{"a", "b"})}}, spec)
}

func (d *declared) drive() {
	w := d.w
	name := fmt.Sprintf("d%d", w.rng.IntN(7))
	spec := &schema.DriveSpec{Transport: pick(w, []schema.Transport{"", schema.TransportTCP, schema.TransportLocal})}
	src := schema.DriveSource{MountPath: "/" + name, Mode: pick(w, []schema.Mode{schema.ReadOnly, schema.ReadWrite})}
	switch w.rng.IntN(8) {
	case 0, 1, 2:
		src.NodeScope = schema.ScopePlaced
		spec.SizeHintBytes = pick(w, []int64{0, 100, 300, 600})
		spec.Evictable = w.chance(2)
		if w.chance(3) {
			spec.Fill = &schema.FillSpec{Template: schema.TaskTemplate{Image: "fill", Command: "fill", Args: []string{pick(w, []string{"a", "b"})}}}
		}
	case 3, 4, 5:
		src.Node, src.Path = pick(w, w.machines).name, "/mnt/"+name
		spec.Permissions.Create = w.chance(2)
	case 6:
		src.NodeScope, src.Path = schema.ScopeShared, "/lustre/"+name
		spec.Permissions.Create = w.chance(2)
	default:
		src.NodeScope, src.Path = schema.ScopeLocalAny, "/scratch/"+name
	}
	spec.Sources = []schema.DriveSource{src}
	d.put(schema.KindDrive, schema.Metadata{Name: name}, spec)
}

func (d *declared) template() schema.TaskTemplate {
	w := d.w
	n := pick(w, []int{1, 1, 1, 2, 3})
	t := schema.TaskTemplate{Image: "train", Command: "train", RequestedResources: schema.RequestedResources{
		Machines: n, CPUCores: float64(n * w.rng.IntN(4)), MemoryBytes: int64(n * w.rng.IntN(600)), GPURequests: schema.GPURequest{Count: n * w.rng.IntN(2)}}}
	names := d.keys(schema.KindDrive)
	w.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, key := range names[:min(len(names), w.rng.IntN(4))] {
		t.DatavolumeRefs = append(t.DatavolumeRefs, schema.DatavolumeRef{Name: key.Name, MountPath: "/in/" + key.Name,
			Mode: pick(w, []schema.Mode{"", schema.ReadOnly, schema.ReadWrite})})
	}
	return t
}

func (d *declared) run() {
	w := d.w
	spec := &schema.RunSpec{RestartPolicy: pick(w, []schema.RestartPolicy{schema.RestartNever, schema.RestartOnFailure, schema.RestartAlways}),
		OnLost: pick(w, []schema.OnLost{schema.OnLostWait, schema.OnLostReplace})}
	if w.chance(4) {
		spec.WorkerGroups = []schema.WorkerGroup{{Name: "ps", TaskTemplate: d.template()}, {Name: "w", TaskTemplate: d.template()}}
	} else {
		t := d.template()
		spec.TaskTemplate = &t
	}
	d.put(schema.KindRun, schema.Metadata{Name: fmt.Sprintf("r%d", w.rng.IntN(6))}, spec)
}

func (d *declared) keys(kind schema.Kind) []schema.Key {
	var list []schema.Key
	for _, key := range slices.SortedFunc(maps.Keys(d.objects), schema.CompareKeys) {
		if key.Kind == kind {
			list = append(list, key)
		}
	}
	return list
}

// remove takes a random object of a kind out.
func (d *declared) remove(kind schema.Kind) {
	if keys := d.keys(kind); len(keys) > 0 {
		delete(d.objects, pick(d.w, keys))
	}
}

// delete writes a Deletion and removes the drive's file.
func (d *declared) delete() {
	keys := d.keys(schema.KindDrive)
	if len(keys) == 0 {
		return
	}
	key := pick(d.w, keys)
	delete(d.objects, key)
	d.put(schema.KindDeletion, schema.Metadata{Name: "del-" + key.Name}, &schema.DeletionSpec{Drive: key.Name, Force: d.w.chance(2)})
}

// change does one thing to the files.
func (d *declared) change() {
	w := d.w
	switch w.rng.IntN(18) {
	case 0, 1, 2:
		d.drive() // adds one, or changes what is there
	case 3, 4, 5, 6:
		d.run()
	case 7, 8:
		d.remove(schema.KindDrive)
	case 9, 10:
		d.remove(schema.KindRun)
	case 11:
		d.machine(pick(w, w.machines).name)
	case 12:
		if w.store.state.Meta.ClusterUID != "" { // else nobody might be left to say whose the store is
			d.remove(schema.KindMachine)
		}
	case 13:
		d.grant()
	case 14:
		if keys := slices.Concat(d.keys(schema.KindDrive), d.keys(schema.KindRun)); len(keys) > 0 {
			d.invalid[pick(w, keys)] = true
		}
	case 15:
		clear(d.invalid)
	case 16:
		d.delete()
	case 17: // renamed, split and merged: the same objects in other files
		for _, key := range d.keys(pick(w, []schema.Kind{schema.KindDrive, schema.KindRun, schema.KindMachine})) {
			o := *d.objects[key]
			d.files++
			o.Origin.File = fmt.Sprintf("moved-%d.yaml", d.files)
			d.objects[key] = &o
		}
	}
}

// settle makes files that a cluster can come to rest with.
func (d *declared) settle() {
	clear(d.invalid)
	d.put(schema.KindHostPathGrant, schema.Metadata{Name: "data"}, &schema.HostPathGrantSpec{Workspace: workspace, Paths: []string{"/mnt", "/lustre", "/scratch"}})
	for _, m := range d.w.machines {
		d.put(schema.KindMachine, schema.Metadata{Name: m.name}, &schema.MachineSpec{Engine: schema.EngineProcess,
			DataLocation: &schema.DataLocationSpec{Path: "/nvme/a"}})
	}
}

// commit makes a commit of the files on the newest one, or now and then on an older.
func (w *world) commit() {
	parent := w.repo.head
	if parent != "" && w.repo.commits[parent].parent != "" && w.chance(25) {
		parent = w.repo.commits[parent].parent // the newest is dropped from history
	}
	w.commitOn(parent)
}

func (w *world) commitOn(parent string) {
	d := w.declared
	desired := &schema.Desired{Objects: map[schema.Key]*schema.Object{}, Invalid: map[schema.Key]schema.Pos{}, NotWhole: map[string]schema.Pos{}, Time: w.now}
	for _, key := range slices.SortedFunc(maps.Keys(d.objects), schema.CompareKeys) {
		o := d.objects[key]
		if !d.invalid[key] {
			desired.Objects[key] = o
			continue
		}
		desired.Invalid[key] = o.Origin
		desired.NotWhole[org+"/"+workspace] = o.Origin
	}
	w.repo.push(parent, desired)
	w.tracef("commit %s on %s: %d objects, %d invalid", w.repo.head, parent, len(desired.Objects), len(desired.Invalid))
}
