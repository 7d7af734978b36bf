package lab

import (
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

// plan of the room: what machines, disks and shared filesystems the declared
// objects suppose. A lab stands in for the operator who would have mounted them.
func planRoom(objects map[schema.Key]*schema.Object) roomConf {
	shared := sharedMounts(objects)
	var conf roomConf
	for key, object := range objects {
		spec, ok := object.Spec.(*schema.MachineSpec)
		if !ok {
			continue
		}
		m := machineConf{Name: key.Name, Address: spec.Address, NodeNetwork: spec.NodeNetwork, Shared: shared,
			Dirs: grantDirs(objects, object.Org)}
		if spec.DataLocation != nil {
			if at := diskOf(spec.DataLocation.Path); at != "" && !slices.Contains(shared, at) {
				m.Disks = []string{at}
			}
		}
		conf.Machines = append(conf.Machines, m)
	}
	slices.SortFunc(conf.Machines, func(a, b machineConf) int { return strings.Compare(a.Name, b.Name) })
	return conf
}

// diskOf is the mount point that a data location supposes: its parent, unless
// that is the root or a system directory.
func diskOf(location string) string {
	parent := filepath.Dir(schema.CleanPath(location))
	if parent == "/" || parent == "." || schema.Covers("/var", parent) {
		return ""
	}
	return parent
}

// sharedMounts are the mount points that shared sources suppose: the source
// path's first segment, or the path itself where that segment also holds
// something that is not shared.
func sharedMounts(objects map[schema.Key]*schema.Object) []string {
	var shared, others []string
	for _, object := range objects {
		switch spec := object.Spec.(type) {
		case *schema.DriveSpec:
			for _, source := range spec.Sources {
				switch source.NodeScope {
				case schema.ScopeShared:
					shared = append(shared, schema.CleanPath(source.Path))
				case schema.ScopeOneMachine, schema.ScopeLocalAny:
					others = append(others, schema.CleanPath(source.Path))
				}
			}
		case *schema.MachineSpec:
			if spec.DataLocation != nil {
				others = append(others, schema.CleanPath(spec.DataLocation.Path))
			}
		}
	}
	var mounts []string
	for _, path := range shared {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		at := "/" + first
		if slices.ContainsFunc(others, func(other string) bool { return schema.Covers(at, other) }) {
			at = path
		}
		if at != "/" && !slices.Contains(mounts, at) {
			mounts = append(mounts, at)
		}
	}
	slices.Sort(mounts)
	return slices.DeleteFunc(mounts, func(at string) bool {
		return slices.ContainsFunc(mounts, func(other string) bool { return other != at && schema.Covers(other, at) })
	})
}

func grantDirs(objects map[schema.Key]*schema.Object, org string) []string {
	var dirs []string
	for _, object := range objects {
		if spec, ok := object.Spec.(*schema.HostPathGrantSpec); ok && object.Org == org {
			for _, path := range spec.Paths {
				dirs = append(dirs, schema.CleanPath(path))
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// keeping adds the machines of before that are not there any more.
func (c roomConf) keeping(before roomConf) roomConf {
	for _, m := range before.Machines {
		if !slices.ContainsFunc(c.Machines, func(now machineConf) bool { return now.Name == m.Name }) {
			c.Machines = append(c.Machines, m)
		}
	}
	return c
}
