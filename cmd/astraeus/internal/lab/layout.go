package lab

import (
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Host paths of an agent inside its machine's root.
const (
	workRoot = "/var/lib/astraeus-work"
	stateDir = "/var/lib/astraeus-agent"
)

// layout is where things are in a lab's directory.
type layout struct{ dir string }

func (l layout) repo() string                { return filepath.Join(l.dir, "repo.git") }
func (l layout) store() string               { return filepath.Join(l.dir, "store") }
func (l layout) lock() string                { return filepath.Join(l.dir, "lock") }
func (l layout) address() string             { return filepath.Join(l.dir, "address") }
func (l layout) observed() string            { return filepath.Join(l.dir, "observed.json") }
func (l layout) peers() string               { return filepath.Join(l.dir, "machines.json") }
func (l layout) room() string                { return filepath.Join(l.dir, "room.json") }
func (l layout) machine(name string) string  { return filepath.Join(l.dir, "machines", name) }
func (l layout) root(name string) string     { return filepath.Join(l.machine(name), "root") }
func (l layout) disk(name, at string) string { return filepath.Join(l.machine(name), "disks", at) }
func (l layout) shared(at string) string     { return filepath.Join(l.dir, "shared", at) }

// socketName is the link's socket in the lab's directory. Processes reach it
// relative to that directory, because a unix socket's path has at most 107 bytes.
const socketName = "link.sock"

// machineConf is one machine as the room is told to make it.
type machineConf struct {
	Name        string   `json:"name"`
	Address     string   `json:"address,omitempty"`
	NodeNetwork string   `json:"node_network,omitempty"`
	Disks       []string `json:"disks,omitempty"`  // mount points of disks of its own
	Shared      []string `json:"shared,omitempty"` // mount points of shared filesystems
	Dirs        []string `json:"dirs,omitempty"`   // directories that an operator would have made: grants
}

// roomConf is everything that the room is told.
type roomConf struct {
	Machines []machineConf `json:"machines"`
}

// planRoom says what machines, disks and shared filesystems the objects suppose.
// A lab stands in for the operator who would have mounted them, and who takes no
// disk away that holds copies: before is what there was (D-32).
func planRoom(objects map[schema.Key]*schema.Object, before roomConf) roomConf {
	shared, dirs := sharedMounts(objects), grantDirs(objects)
	paths := slices.Concat(shared, hostPaths(objects))
	var conf roomConf
	for key, object := range objects {
		spec, ok := object.Spec.(*schema.MachineSpec)
		if !ok {
			continue
		}
		m := machineConf{Name: key.Name, Address: spec.Address, NodeNetwork: spec.NodeNetwork, Shared: shared,
			Dirs: slices.Concat(dirs[object.Org], volumeDirs(objects, object.Org, key.Name)), Disks: before.disks(key.Name)}
		if spec.DataLocation != nil {
			m.addDisk(schema.CleanPath(spec.DataLocation.Path), slices.Concat(paths, dirs[object.Org]))
		}
		conf.Machines = append(conf.Machines, m)
	}
	slices.SortFunc(conf.Machines, func(a, b machineConf) int { return strings.Compare(a.Name, b.Name) })
	return conf
}

func (c roomConf) disks(machine string) []string {
	for _, m := range c.Machines {
		if m.Name == machine {
			return slices.Clone(m.Disks)
		}
	}
	return nil
}

// addDisk gives the machine the disk that a data location supposes, unless it
// has it. A disk never hides others, which are host paths in use.
func (m *machineConf) addDisk(location string, others []string) {
	covered := func(at string) bool { return schema.Covers(at, location) }
	at := diskOf(location)
	if at == "" || slices.ContainsFunc(m.Disks, covered) || slices.ContainsFunc(m.Shared, covered) {
		return
	}
	if slices.ContainsFunc(slices.Concat(others, m.Disks), func(other string) bool { return schema.Covers(at, other) }) {
		at = location
	}
	m.Disks = append(m.Disks, at)
}

// diskOf is the mount point that a data location supposes: its parent, unless
// that is the root or a system directory.
func diskOf(location string) string {
	parent := filepath.Dir(location)
	if parent == "/" || parent == "." || schema.Covers("/var", parent) {
		return ""
	}
	return parent
}

// sharedMounts are the mount points that shared sources suppose: the source
// path's first segment, or the path itself where that segment also holds
// something that is not shared.
func sharedMounts(objects map[schema.Key]*schema.Object) []string {
	taken := map[string]bool{}
	for _, other := range hostPaths(objects) {
		taken[firstSegment(other)] = true
	}
	for _, object := range objects {
		if spec, ok := object.Spec.(*schema.MachineSpec); ok && spec.DataLocation != nil {
			taken[firstSegment(spec.DataLocation.Path)] = true
		}
	}
	found := map[string]bool{}
	for path := range sources(objects, schema.ScopeShared) {
		at := firstSegment(path)
		if taken[at] {
			at = path
		}
		found[at] = true
	}
	mounts := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(at string) bool { return at == "/" })
	return slices.DeleteFunc(mounts, func(at string) bool {
		return slices.ContainsFunc(mounts, func(other string) bool { return other != at && schema.Covers(other, at) })
	})
}

func firstSegment(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(schema.CleanPath(path), "/"), "/")
	return "/" + first
}

// hostPaths are the directories that drives have on the machines' own filesystems.
func hostPaths(objects map[schema.Key]*schema.Object) []string {
	return slices.Collect(sources(objects, schema.ScopeOneMachine, schema.ScopeLocalAny))
}

// sources are the paths of the drives' sources of some scopes.
func sources(objects map[schema.Key]*schema.Object, scopes ...schema.NodeScope) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, object := range objects {
			spec, ok := object.Spec.(*schema.DriveSpec)
			if volume, is := object.Spec.(*schema.VolumeSpec); is {
				scope := schema.ScopeOneMachine
				if volume.Shared {
					scope = schema.ScopeShared
				}
				if slices.Contains(scopes, scope) && !yield(schema.CleanPath(volume.HostPath)) {
					return
				}
			}
			if !ok {
				continue
			}
			for _, source := range spec.Sources {
				if slices.Contains(scopes, source.NodeScope) && !yield(schema.CleanPath(source.Path)) {
					return
				}
			}
		}
	}
}

// volumeDirs are the directories of the volumes on a machine: whoever registers a
// volume has made them before (V-1).
func volumeDirs(objects map[schema.Key]*schema.Object, org, machine string) (dirs []string) {
	for _, object := range objects {
		if spec, ok := object.Spec.(*schema.VolumeSpec); ok && object.Org == org && (spec.Shared || spec.NodeID == machine) {
			dirs = append(dirs, schema.CleanPath(spec.HostPath))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// grantDirs are the directories that an organisation's grants name.
func grantDirs(objects map[schema.Key]*schema.Object) map[string][]string {
	dirs := map[string][]string{}
	for _, object := range objects {
		if spec, ok := object.Spec.(*schema.HostPathGrantSpec); ok {
			for _, path := range spec.Paths {
				dirs[object.Org] = append(dirs[object.Org], schema.CleanPath(path))
			}
		}
	}
	for org, list := range dirs {
		slices.Sort(list)
		dirs[org] = slices.Compact(list)
	}
	return dirs
}
