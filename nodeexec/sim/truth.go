package sim

import (
	"maps"
	"path"
	"slices"

	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// What is true of a machine, whatever its agent was told: for tests alone.

// Worker is a worker as it is.
type Worker struct {
	runtime.Status
	Spec   runtime.Spec
	Mounts []WorkerMount
}

// Live reports whether the worker may touch data.
func (w *Worker) Live() bool { return w.State != runtime.Exited }

// WorkerMount is a directory that a worker sees.
type WorkerMount struct {
	Target   string
	Dir      uint64 // the directory's number, on this machine or on another
	ReadOnly bool
}

// Workers lists all workers, ended ones too, by id.
func (m *Machine) Workers() []Worker {
	defer m.lock()()
	m.stopAway()
	list := []Worker{}
	for _, id := range slices.Sorted(maps.Keys(m.engine)) {
		w := m.engine[id]
		list = append(list, Worker{w.status, w.spec, w.mounts})
	}
	return list
}

// TrueCopy is a copy, or something in the place of one.
type TrueCopy struct {
	Location, Name string
	Cluster, UID   string // "" without a sidecar
	Filled         int64
	Dir            uint64 // 0: not there
}

// TrueCopies lists what is in the data locations that are mounted.
func (m *Machine) TrueCopies() []TrueCopy {
	defer m.lock()()
	list := []TrueCopy{}
	var visit func(n *node)
	visit = func(n *node) {
		if n.data != nil {
			names := map[string]bool{}
			for name := range n.data.sidecars {
				names[name] = true
			}
			for name := range n.children[drivesName].children {
				names[name] = true
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				c := TrueCopy{Location: n.hostPath(), Name: name}
				if s := n.data.sidecars[name]; s != nil {
					c.Cluster, c.UID, c.Filled = s.cluster, s.uid, s.filled
				}
				if d := n.children[drivesName].children[name]; d != nil {
					c.Dir = d.id
				}
				list = append(list, c)
			}
			return
		}
		for _, c := range n.entries() {
			visit(c)
		}
	}
	visit(m.root)
	return list
}

// TrueExport is an export that clients can mount.
type TrueExport struct {
	Claim     nfs.Claim
	Path      string
	Addresses []string
	Mode      schema.Mode
	Dir       uint64
}

// TrueExports lists the exports.
func (m *Machine) TrueExports() []TrueExport {
	defer m.lock()()
	list := []TrueExport{}
	for _, e := range m.table {
		if e.bound {
			list = append(list, TrueExport{e.claim, e.path, e.addresses, e.mode, e.dir})
		}
	}
	return list
}

// TrueMount is a network mount.
type TrueMount struct {
	Claim nfs.Claim
	From  string
	Point string
	Mode  schema.Mode
	Dir   uint64
}

// TrueMounts lists the network mounts.
func (m *Machine) TrueMounts() []TrueMount {
	defer m.lock()()
	list := []TrueMount{}
	for _, point := range slices.Sorted(maps.Keys(m.mounts)) {
		if mt := m.mounts[point]; mt.bound {
			list = append(list, TrueMount{mt.claim, mt.from, path.Clean(point), mt.mode, mt.dir})
		}
	}
	return list
}

// DirAt is the number of the directory at a path, 0 when there is none.
func (m *Machine) DirAt(p string) uint64 {
	defer m.lock()()
	if n := m.find(p); n != nil {
		return n.id
	}
	return 0
}

// WriteIn makes a file in a directory of any machine, as a worker that sees it would.
func (m *Machine) WriteIn(dir uint64, name string, size int64) error {
	defer m.lock()()
	n := m.net.nodes[dir]
	if n == nil {
		return nil
	}
	return m.write(n, name, size)
}

// Inside reports whether a directory is another one or lies in it.
func (m *Machine) Inside(dir, in uint64) bool {
	defer m.lock()()
	n, top := m.net.nodes[dir], m.net.nodes[in]
	return n != nil && top != nil && n.within(top)
}

// Used is the bytes of all files below a path, 0 where there is none.
func (m *Machine) Used(p string) int64 {
	defer m.lock()()
	n := m.find(p)
	if n == nil {
		return 0
	}
	bytes, _ := n.bytes()
	return bytes
}
