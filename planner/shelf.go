package planner

import (
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// shelf is the volumes of one namespace.
type shelf struct {
	byID   map[string]*volume
	byName map[string]*volume
}

type volume struct {
	id     string
	object *schema.AcceptedObject
	spec   *schema.VolumeSpec
}

// volumeID is a volume's id: the written one, else one derived from its uid
// once, so that it stays over everything but a rename (V-2).
func volumeID(a *schema.AcceptedObject) string {
	if id := a.Object.Metadata.ID; id != "" {
		return id
	}
	return "vol-" + schema.HashBytes([]byte("volume " + a.UID))[:16]
}

// VolumeID is the id of an accepted volume (V-2).
func VolumeID(a *schema.AcceptedObject) string { return volumeID(a) }

func (p *pass) buildVolumes() {
	p.volumes = map[string]*shelf{}
	for _, key := range p.keysOf(schema.KindVolume) {
		a := p.objects[key]
		v := &volume{id: volumeID(a), object: a, spec: a.Object.Spec.(*schema.VolumeSpec)}
		s := p.volumes[key.Namespace]
		if s == nil {
			s = &shelf{byID: map[string]*volume{}, byName: map[string]*volume{}}
			p.volumes[key.Namespace] = s
		}
		s.byID[v.id], s.byName[key.Name] = v, v
	}
}

// find is the volume that a mount refers to, in the run's own workspace only (V-6).
func (p *pass) findVolume(namespace string, m *schema.VolumeMount) *volume {
	s := p.volumes[namespace]
	if s == nil {
		return nil
	}
	if m.VolumeID != "" {
		return s.byID[m.VolumeID]
	}
	return s.byName[m.Name]
}

// useVolume resolves a volume or an old-form host path (V-5). What was right
// when the run was accepted and is no longer is a wait: the mount stays, and
// without a grant nothing starts with it, so that no worker ever runs without it.
func (p *pass) useVolume(t *template, where scope, m *schema.VolumeMount) {
	bind := schema.BindTarget{From: schema.BindVolume, Path: m.HostPath, Target: schema.CleanPath(m.ContainerPath), ReadOnly: m.ReadOnly}
	if m.VolumeID == "" && m.Name == "" {
		p.bindHostPath(t, where, bind)
		return
	}
	v := p.findVolume(t.run.Namespace, m)
	if v == nil {
		bind.UID, bind.Path = m.VolumeID, ""
		t.refuse(bind, volumeNotFound)
		return
	}
	bind.UID, bind.Path, bind.Drive = v.id, v.spec.HostPath, v.object.Object.Key
	name := v.object.Object.Key.Name
	if !v.spec.Shared {
		t.pinned = append(t.pinned, pin{name, v.spec.NodeID})
	}
	switch run := p.objects[t.run]; {
	case run != nil && !p.rulesNow().MayUse(ownerActor(run.Object), v.object.Object):
		t.refuse(bind, volumeNotFound)
	case !v.spec.Shared && t.machines > 1:
		t.refuse(bind, localVolumeGang)
	default:
		p.bindHostPath(t, where, bind)
	}
}

// refuse keeps a mount that is not let through any more, without the grant that a
// machine needs to make it.
func (t *template) refuse(bind schema.BindTarget, text string) {
	t.fail(schema.ReasonForbidden, schema.ReasonArgs{Path: bind.Path, Text: text})
	bind.Grant = ""
	t.use(bind, modeOfBind(&bind))
}

// use adds a volume's mount; asked is the mode that the template says itself.
func (t *template) use(bind schema.BindTarget, asked schema.Mode) {
	t.uses = append(t.uses, use{kind: useVolume, bind: bind, mode: modeOfBind(&bind), asked: asked})
}

func modeOfBind(b *schema.BindTarget) schema.Mode {
	if b.ReadOnly {
		return schema.ReadOnly
	}
	return schema.ReadWrite
}

// useSpecPaths mounts dataset_path read-only and checkpoint_path where they are,
// unless a mount of the template covers them already (V-11).
func (p *pass) useSpecPaths(t *template, where scope, spec *schema.RunSpec) {
	for _, m := range []struct {
		path     string
		readOnly bool
	}{{spec.DatasetPath, true}, {spec.CheckpointPath, false}} {
		path := schema.CleanPath(m.path)
		if path == "" || slices.ContainsFunc(t.uses, func(u use) bool { return schema.Covers(u.bind.Target, path) }) {
			continue
		}
		p.bindHostPath(t, where, schema.BindTarget{From: schema.BindVolume, Path: path, Target: path, ReadOnly: m.readOnly})
	}
}

func (p *pass) bindHostPath(t *template, where scope, bind schema.BindTarget) {
	if problem := p.hostPathProblem(where, bind.Path); problem != "" {
		t.refuse(bind, fmt.Sprintf("%s: %s", bind.Path, problem))
		return
	}
	asked := modeOfBind(&bind)
	granted := p.grantFor(where, bind.Path)
	needed := p.clusterSpec().VolumesNeedGrant
	if needed && granted.path == "" {
		t.refuse(bind, pathNeedsGrant(bind.Path))
		return
	}
	if granted.mode == schema.ReadOnly && (needed || !p.allowedByCluster(bind.Path)) {
		bind.ReadOnly = true // a grant's mode is a ceiling (D-20)
	}
	bind.Grant = p.allowedAbove(where, bind.Path)
	t.use(bind, asked)
}

// hostPathProblem judges a volume's path by V-4: the cluster's prefixes, widened
// by the workspace's grants.
func (p *pass) hostPathProblem(where scope, path string) string {
	policy := p.clusterSpec().PathPolicy
	return schema.VolumePathProblem(path, p.allowedPrefixes(where), policy.Denied)
}

// clusterPrefixes are the prefixes that need no grant.
func (p *pass) clusterPrefixes() []string {
	if allowed := p.clusterSpec().PathPolicy.Allowed; allowed != nil {
		return allowed
	}
	return schema.DefaultAllowedPrefixes
}

func (p *pass) allowedByCluster(path string) bool {
	return slices.ContainsFunc(p.clusterPrefixes(), func(prefix string) bool { return schema.Covers(prefix, path) })
}

func (p *pass) allowedPrefixes(where scope) []string {
	allowed := slices.Clone(p.clusterPrefixes())
	for _, g := range p.grants[where] {
		allowed = append(allowed, g.path)
	}
	return allowed
}

// allowedAbove is the longest allowed prefix above a path: what the machine
// checks the resolved path against (D-21).
func (p *pass) allowedAbove(where scope, path string) string {
	best := ""
	for _, prefix := range p.allowedPrefixes(where) {
		if clean := schema.CleanPath(prefix); schema.Covers(clean, path) && len(clean) > len(best) {
			best = clean
		}
	}
	return best
}

// localVolumes lists the machines to which a template's volumes tie it (V-7).
func (t *template) volumeMachines() []string {
	var names []string
	for _, pin := range t.pinned {
		names = append(names, pin.machine)
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}
