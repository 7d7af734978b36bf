package planner

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// agentState is where agents keep their own state: nothing may reach it.
const agentState = "/var/lib/astraeus-agent"

// hostPathIn finds an accepted host path of the org that overlaps a path on a
// machine.
func (p *pass) hostPathIn(org, machine, path string) (string, schema.Key) {
	if p.reach == nil {
		p.reach = p.indexPaths()
	}
	if found := p.reach[org].overlapping(path, machine); found != nil {
		return found.path, found.by
	}
	return "", schema.Key{}
}

// pathIndex finds paths that overlap another one without looking at all of them.
type pathIndex struct {
	at     map[string][]ownedPath
	sorted []string
}

// ownedPath is a host path with the object that names it.
type ownedPath struct {
	hostPath
	by schema.Key
}

// indexPaths indexes the host paths that are accepted, by org.
func (p *pass) indexPaths() map[string]*pathIndex {
	orgs := map[string]*pathIndex{}
	for _, kind := range []schema.Kind{schema.KindHostPathGrant, schema.KindDrive, schema.KindVolume, schema.KindRun, schema.KindReplicaGroup} {
		for _, key := range p.keysOf(kind) {
			a := p.objects[key]
			if a.Object.ManagedBy != (schema.Key{}) {
				continue // its owner's
			}
			x := orgs[a.Object.Org]
			if x == nil {
				x = &pathIndex{at: map[string][]ownedPath{}}
				orgs[a.Object.Org] = x
			}
			for _, h := range hostPathsOf(a.Object.Spec) {
				clean := schema.CleanPath(h.path)
				x.at[clean] = append(x.at[clean], ownedPath{h, key})
			}
		}
	}
	for _, x := range orgs {
		x.sorted = sortedStrings(x.at)
	}
	return orgs
}

// overlapping is a path that equals, contains or lies in the given one, on the
// machine or on any; nil when there is none.
func (x *pathIndex) overlapping(path, machine string) *ownedPath {
	if x == nil {
		return nil
	}
	here := func(list []ownedPath) *ownedPath {
		for i := range list {
			if list[i].machine == "" || list[i].machine == machine {
				return &list[i]
			}
		}
		return nil
	}
	path = schema.CleanPath(path)
	for above := path; ; above = above[:max(1, strings.LastIndexByte(above, '/'))] {
		if found := here(x.at[above]); found != nil {
			return found
		}
		if above == "/" {
			break
		}
	}
	inside := strings.TrimSuffix(path, "/") + "/"
	from, _ := slices.BinarySearch(x.sorted, inside)
	for _, below := range x.sorted[from:] {
		if !strings.HasPrefix(below, inside) {
			break
		}
		if found := here(x.at[below]); found != nil {
			return found
		}
	}
	return nil
}

// hostPath is a path of the machines that an object names; machine "" is any.
type hostPath struct{ path, machine, field string }

func hostPathsOf(spec schema.Spec) []hostPath {
	var list []hostPath
	switch s := spec.(type) {
	case *schema.HostPathGrantSpec:
		for i, path := range s.Paths {
			list = append(list, hostPath{path: path, field: indexed("spec.paths", i, "")})
		}
	case *schema.DriveSpec:
		for i := range s.Sources {
			src := &s.Sources[i]
			h := hostPath{path: src.Path, field: indexed("spec.sources", i, ".path")}
			switch src.NodeScope {
			case schema.ScopePlaced:
				continue
			case schema.ScopeOneMachine:
				h.machine = src.Node
			}
			list = append(list, h)
		}
	case *schema.VolumeSpec:
		list = append(list, hostPath{path: s.HostPath, machine: s.NodeID, field: "spec.host_path"})
	case *schema.RunSpec:
		list = append(list, hostPath{path: s.DatasetPath, field: "spec.dataset_path"}, hostPath{path: s.CheckpointPath, field: "spec.checkpoint_path"})
		for _, place := range placesOf(s) {
			list = append(list, mountedPaths(place)...)
		}
	case *schema.ReplicaGroupSpec:
		list = append(list, mountedPaths(groupPlaces(s)[0])...)
	}
	return slices.DeleteFunc(list, func(h hostPath) bool { return h.path == "" })
}

// mountedPaths are the paths that a template mounts in the old form (V-5).
func mountedPaths(place templatePlace) []hostPath {
	var list []hostPath
	for i := range place.task.Volumes {
		list = append(list, hostPath{path: place.task.Volumes[i].HostPath, field: indexed(place.field+".volumes", i, ".host_path")})
	}
	return list
}

// overlap says what of an agent's or of the data locations a path would reach
// on the machines of an org, or "".
func (p *pass) overlap(org string, h hostPath) string {
	if schema.Overlaps(h.path, agentState) {
		return overlapsState(h.path)
	}
	f := p.orgs[org]
	if f == nil {
		return ""
	}
	list := f.locationsByPath()
	if h.machine != "" {
		list = nil
		if m := p.machines[h.machine]; m != nil {
			list = locatedOf(m)
		}
	}
	for _, m := range list {
		if schema.Overlaps(h.path, m.path) {
			return overlapsLocation(h.path, m.path, m.machine.name)
		}
	}
	return ""
}

// located is a data location, present or former, with its machine.
type located struct {
	path    string
	machine *machine
}

func locatedOf(m *machine) []located {
	var list []located
	for _, l := range m.dataLocations() {
		list = append(list, located{l.Path, m})
	}
	return list
}

// locationsByPath are the fleet's data locations, each path once with its first machine.
func (f *fleet) locationsByPath() []located {
	if f.located == nil {
		f.located = []located{}
		seen := map[string]bool{}
		for _, m := range f.list {
			for _, l := range locatedOf(m) {
				if !seen[l.path] {
					seen[l.path] = true
					f.located = append(f.located, l)
				}
			}
		}
	}
	return f.located
}
