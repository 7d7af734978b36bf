package planner

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// drive is an accepted drive with the grants of its sources.
type drive struct {
	key      schema.Key
	uid      string
	org      string
	object   *schema.AcceptedObject
	spec     *schema.DriveSpec
	grants   []grantedPath // a source each; zero where none covers it
	fillHash string        // of the fill template's blob
}

// grantedPath is one path of a grant.
type grantedPath struct {
	path string
	mode schema.Mode
}

// useKind says how a mount reaches the worker (D-41).
type useKind int

const (
	useCopy   useKind = iota // a placed drive's copy on the machine
	useHere                  // a shared or scratch path, on every machine
	useHome                  // a one-machine path: a bind there, a claim elsewhere
	useVolume                // a volume's or an old-form host path
)

// use is one mount of a template, resolved.
type use struct {
	kind   useKind
	drive  *drive
	source int
	from   *schema.DriveSource
	home   *machine          // the machine of a one-machine source, when it is one of the org's
	bind   schema.BindTarget // complete but for From where it depends on the machine
	mode   schema.Mode
	asked  schema.Mode // what the template says itself, "" where it leaves it to the drive
}

// copied reports whether the mount needs a copy on the worker's machine.
func (u *use) copied() bool { return u.kind == useCopy }

// template is one worker group's template with everything it refers to.
type template struct {
	run      schema.Key
	org      string
	group    string
	machines int
	task     *schema.TaskTemplate
	hash     string // of its blob; both are set when it is first assigned
	blob     []byte
	binds    []schema.BindTarget // its mounts, where every machine has the same

	network     schema.NetworkMode // that it asks for
	cpu, memory int64              // of one worker; cpu in millicores
	gpus        int
	share       float64 // of one worker, in cores

	uses    []use
	only    []string        // the machines that may take it; nil: no such limit
	problem []schema.Reason // why no machine can take it, whatever the machine
	pinned  []pin           // machines of its local volumes
	judged  bool
	classes uint64 // bits of the classes that can take it, once judged
}

// pin ties a template to the machine of a local volume (V-7).
type pin struct{ volume, machine string }

// templateKey identifies a resolved template: specs are never changed after
// loading, so that their address is enough within a pass.
type templateKey struct {
	run  schema.Key
	task *schema.TaskTemplate
}

// templatesOf resolves a spec's groups.
func (p *pass) templatesOf(run schema.Key, where scope, spec *schema.RunSpec) []*template {
	var list []*template
	if spec.TaskTemplate != nil && len(spec.WorkerGroups) == 0 {
		return append(list, p.templateOf(run, where, spec, "", spec.TaskTemplate))
	}
	for i := range spec.WorkerGroups {
		g := &spec.WorkerGroups[i]
		list = append(list, p.templateOf(run, where, spec, g.Name, &g.TaskTemplate))
	}
	return list
}

func (p *pass) templateOf(run schema.Key, where scope, spec *schema.RunSpec, group string, task *schema.TaskTemplate) *template {
	key := templateKey{run, task}
	if t := p.templates[key]; t != nil {
		return t
	}
	n := max(1, task.RequestedResources.Machines)
	t := &template{
		run: run, org: where.org, group: group, machines: n, task: task, network: modeOf(spec),
		cpu:    millicores(task.RequestedResources.CPUCores/float64(n), true),
		share:  task.RequestedResources.CPUCores / float64(n),
		memory: ceilDiv(task.RequestedResources.MemoryBytes, int64(n)),
		gpus:   int(ceilDiv(int64(task.RequestedResources.GPURequests.Count), int64(n))),
	}
	for i := range task.DatavolumeRefs {
		p.useDrive(t, &task.DatavolumeRefs[i])
	}
	for i := range task.Volumes {
		p.useVolume(t, where, &task.Volumes[i])
	}
	p.useSpecPaths(t, where, spec)
	t.only = t.limits()
	slices.SortStableFunc(t.uses, func(a, b use) int { return strings.Compare(a.bind.Target, b.bind.Target) })
	p.templates[key] = t
	return t
}

func ceilDiv(a, b int64) int64 {
	if a <= 0 {
		return 0
	}
	return (a + b - 1) / b
}

// useDrive resolves a reference (D-40).
func (p *pass) useDrive(t *template, ref *schema.DatavolumeRef) {
	key := schema.Key{Kind: schema.KindDrive, Namespace: t.run.Namespace, Name: ref.Name}
	d := p.drives[key]
	if d == nil {
		t.problem = append(t.problem, p.whyNoDrive(key))
		return
	}
	if ref.SourceIndex < 0 || ref.SourceIndex >= len(d.spec.Sources) {
		t.fail(schema.ReasonForbidden, schema.ReasonArgs{Drive: ref.Name, Text: sourceOutOfRange(ref.Name, ref.SourceIndex, len(d.spec.Sources))})
		return
	}
	src := &d.spec.Sources[ref.SourceIndex]
	u := use{drive: d, source: ref.SourceIndex, from: src, mode: effectiveMode(d, ref), asked: ref.Mode}
	target := ref.MountPath
	if target == "" {
		target = src.MountPath
	}
	if !strings.HasPrefix(target, "/") {
		t.fail(schema.ReasonNoMountPath, schema.ReasonArgs{Drive: ref.Name})
		return
	}
	u.bind = schema.BindTarget{Drive: key, UID: d.uid, Source: u.source, Path: src.Path, SubPath: ref.SubPath,
		Target: schema.CleanPath(target), ReadOnly: u.mode == schema.ReadOnly}
	switch src.NodeScope {
	case schema.ScopePlaced:
		u.kind, u.bind.From = useCopy, schema.BindCopy
	case schema.ScopeShared, schema.ScopeLocalAny:
		u.kind, u.bind.From = useHere, schema.BindDir
	default:
		u.kind, u.bind.From = useHome, schema.BindDir
		if m := p.machines[src.Node]; m != nil && m.org == t.org {
			u.home = m
		}
	}
	if u.kind != useCopy {
		u.bind.Grant = d.grants[u.source].path
		if u.bind.Grant == "" {
			// The grant was revoked: judged as a wait on the runs that use it (X-10, D-21).
			t.fail(schema.ReasonForbidden, schema.ReasonArgs{Drive: ref.Name, Text: schema.HostPathForbidden(src.Path)})
		}
	}
	t.uses = append(t.uses, u)
}

// whyNoDrive says why a drive is not in force: there is none (D-57), or its file
// is there and held back or cannot be used.
func (p *pass) whyNoDrive(key schema.Key) schema.Reason {
	r := schema.Reason{Code: schema.ReasonNoDrive, Count: 1, Args: schema.ReasonArgs{Drive: key.Name}}
	refusal := p.gate.held[key]
	if d := p.in.Desired; d != nil {
		if pos, invalid := d.Invalid[key]; invalid {
			r.Args.Path = pos.String()
			return r
		}
	} else if a := p.in.Accepted.Objects[key]; a != nil {
		refusal = a.Refused
	}
	if refusal != nil && refusal.Candidate != nil {
		r.Args.Text = refusal.Hold.Message
	}
	return r
}

// effectiveMode is the reference's mode, else the source's, under the grant's
// ceiling (D-20, D-40).
func effectiveMode(d *drive, ref *schema.DatavolumeRef) schema.Mode {
	mode := ref.Mode
	if mode == "" {
		mode = d.spec.Sources[ref.SourceIndex].Mode
	}
	if d.grants[ref.SourceIndex].mode == schema.ReadOnly {
		return schema.ReadOnly
	}
	if mode == "" {
		return schema.ReadOnly
	}
	return mode
}

func (t *template) fail(code schema.ReasonCode, args schema.ReasonArgs) {
	t.problem = append(t.problem, schema.Reason{Code: code, Count: 1, Args: args})
}

// limits intersects what ties the template to named machines; nil is no limit.
func (t *template) limits() []string {
	var only []string
	limit := func(names []string) {
		if only == nil {
			only = slices.Clone(names)
			slices.Sort(only)
			only = slices.Compact(only)
			return
		}
		only = slices.DeleteFunc(only, func(name string) bool { return !slices.Contains(names, name) })
	}
	for i := range t.uses {
		u := &t.uses[i]
		if u.drive == nil {
			continue
		}
		if len(u.from.EligibleNodes) > 0 {
			limit(u.from.EligibleNodes)
		}
		if u.kind == useHome && u.drive.spec.Transport == schema.TransportLocal {
			limit([]string{u.from.Node})
		}
	}
	for _, pin := range t.pinned {
		limit([]string{pin.machine})
	}
	return only
}

// buildDrives indexes the drives in force with their grants.
func (p *pass) buildDrives() {
	p.drives = make(map[schema.Key]*drive, len(p.kinds[schema.KindDrive]))
	for _, key := range p.kinds[schema.KindDrive] {
		if a := p.objects[key]; a != nil {
			p.drives[key] = p.newDrive(a)
		}
	}
}

func (p *pass) newDrive(a *schema.AcceptedObject) *drive {
	d := &drive{key: a.Object.Key, uid: a.UID, org: a.Object.Org, object: a, spec: a.Object.Spec.(*schema.DriveSpec)}
	d.grants = make([]grantedPath, len(d.spec.Sources))
	for i := range d.spec.Sources {
		if src := &d.spec.Sources[i]; src.NodeScope != schema.ScopePlaced {
			d.grants[i] = p.grantFor(scope{a.Object.Org, a.Object.Workspace}, src.Path)
		}
	}
	return d
}

// grantFor is the grant that covers a path by whole segments: the one with the
// widest mode, then the longest path. Zero when nothing covers it (D-20).
func (p *pass) grantFor(where scope, path string) grantedPath {
	var best grantedPath
	for _, g := range p.grants[where] {
		if !schema.Covers(g.path, path) {
			continue
		}
		better := g.mode == schema.ReadWrite && best.mode != schema.ReadWrite ||
			g.mode == best.mode && len(g.path) > len(best.path)
		if best.path == "" || better {
			best = g
		}
	}
	return best
}

func (p *pass) buildGrants() {
	p.grants = map[scope][]grantedPath{}
	for _, key := range p.keysOf(schema.KindHostPathGrant) {
		a := p.objects[key]
		spec := a.Object.Spec.(*schema.HostPathGrantSpec)
		where := scope{a.Object.Org, spec.Workspace}
		for _, path := range spec.Paths {
			p.grants[where] = append(p.grants[where], grantedPath{schema.CleanPath(path), spec.Mode})
		}
	}
}

func (p *pass) driveByUID(uid string) *drive { return p.driveUID[uid] }

func (p *pass) indexDrives() {
	p.driveUID = make(map[string]*drive, len(p.drives))
	for _, d := range p.drives {
		d.uid = d.object.UID // new ones have it since they were sealed
		p.driveUID[d.uid] = d
	}
}
