package sim

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// Net is what simulated machines share. Its lock is every machine's: a mount
// looks at two of them.
type Net struct {
	mu       sync.Mutex
	machines []*Machine
	nodes    map[uint64]*node
	last     uint64
}

// NewNet makes an empty network.
func NewNet() *Net { return &Net{nodes: map[uint64]*node{}} }

func (n *Net) number() uint64 {
	n.last++
	return n.last
}

// at is the machine that has one of the addresses and answers.
func (n *Net) at(addresses []string) (m *Machine, address string) {
	for _, a := range addresses {
		for _, m := range n.machines {
			if !m.away && slices.Contains(m.o.Addresses, a) {
				return m, a
			}
		}
	}
	return nil, ""
}

// Effect is one change that an agent makes of a machine.
type Effect struct {
	Machine string
	// Name is the method: "MakeDir", "CreateCopy", "DeleteCopy", "MarkUsed",
	// "SetFilled", "Export", "Unexport", "Mount", "Unmount", "Start", "Stop" or "Remove".
	Name   string
	Path   string    // MakeDir
	UID    string    // of the drive, for copies and claims
	Claim  nfs.Claim // of exports and mounts
	Export *schema.ExportTarget
	Mount  *schema.MountTarget
	ID     string // of the worker
	Spec   *runtime.Spec
}

// String names the effect in a trace.
func (e *Effect) String() string {
	return fmt.Sprintf("%s %s%s%s", e.Name, e.Path, e.UID, e.ID)
}

// Hook is called around each effect: before it is made, when an error keeps it
// from happening, and after it was made, when an error says that it failed though
// it happened. It may wait.
type Hook func(ctx context.Context, e *Effect, done bool) error

// Options of a machine.
type Options struct {
	Name               string
	Addresses          []string
	WorkRoot, StateDir string
	Resources          schema.Resources
	Now                func() time.Time
	// Uptime is the boot clock; the default is this computer's.
	Uptime func() time.Duration
	// Effect and Look are optional. Look is called with "workers", "copies",
	// "exports", "mounts", "filesystems": an error is the answer; for workers,
	// ErrIncomplete makes the listing incomplete.
	Effect Hook
	Look   func(what string) error
}

// Machine is a simulated machine. Its methods may be called concurrently.
type Machine struct {
	net       *Net
	o         Options
	root      *node
	disks     []*disk
	boots     int
	away      bool
	record    record // in the agent's state directory, of the cluster remembers
	remembers string
	table     []*export
	mounts    map[string]*mount // by mount point
	engine    map[string]*worker
	ports     map[int]int // what listens: HTTP status by port
	events    chan struct{}
}

// New adds a machine with one filesystem of a terabyte.
func (n *Net) New(o Options) *Machine {
	m := &Machine{net: n, o: o, record: record{}, mounts: map[string]*mount{}, engine: map[string]*worker{}, ports: map[int]int{}, events: make(chan struct{}, 1)}
	if m.o.Now == nil {
		m.o.Now = time.Now
	}
	if m.o.Uptime == nil {
		m.o.Uptime = runtime.Uptime
	}
	if m.o.Effect == nil {
		m.o.Effect = func(context.Context, *Effect, bool) error { return nil }
	}
	if m.o.Look == nil {
		m.o.Look = func(string) error { return nil }
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m.root = &node{children: map[string]*node{}, id: n.number()}
	m.root.disk = m.newDisk("root", "/", 1<<40, false)
	m.root.disk.root = m.root
	n.nodes[m.root.id] = m.root
	n.machines = append(n.machines, m)
	return m
}

func (m *Machine) newDisk(name, point string, total int64, shared bool) *disk {
	d := &disk{id: "fs-" + m.o.Name + "-" + name, number: m.net.number(), total: total, shared: shared, point: point}
	if shared {
		d.id = "fs-" + name
	}
	m.disks = append(m.disks, d)
	return d
}

// effect makes a change under the lock, with the hook around it.
func (m *Machine) effect(ctx context.Context, e *Effect, change func() error) error {
	e.Machine = m.o.Name
	if err := m.o.Effect(ctx, e, false); err != nil {
		return err
	}
	if err := m.changed(change); err != nil {
		return err
	}
	return m.o.Effect(ctx, e, true)
}

func (m *Machine) changed(change func() error) error {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	return change()
}

func (m *Machine) lock() func() {
	m.net.mu.Lock()
	return m.net.mu.Unlock
}

// BootID implements the agent's Host.
func (m *Machine) BootID() (string, error) {
	defer m.lock()()
	return fmt.Sprintf("boot-%s-%d", m.o.Name, m.boots), nil
}

// Resources implements the agent's Host.
func (m *Machine) Resources(context.Context) (schema.Resources, error) { return m.o.Resources, nil }

// Addresses implements the agent's Host.
func (m *Machine) Addresses(context.Context) ([]string, error) {
	defer m.lock()()
	return slices.Clone(m.o.Addresses), nil
}

// Filesystems implements the agent's Host.
func (m *Machine) Filesystems(context.Context) ([]schema.Filesystem, error) {
	if err := m.o.Look("filesystems"); err != nil {
		return nil, err
	}
	defer m.lock()()
	list := []schema.Filesystem{}
	for _, d := range m.disks {
		if d.point == "" {
			continue // not mounted
		}
		list = append(list, schema.Filesystem{MountPoint: d.point, ID: d.id, Type: "ext4", System: d.point == "/", Shared: d.shared,
			TotalBytes: d.total, FreeBytes: d.free(), UsedBytes: d.used, FreeInodes: 1 << 20})
	}
	return list, nil
}

// AddDisk mounts a new filesystem at a path; machines that name a shared one
// alike have the same.
func (m *Machine) AddDisk(name, at string, total int64, shared bool) {
	defer m.lock()()
	d := m.newDisk(name, "", total, shared)
	d.root = &node{children: map[string]*node{}, id: m.net.number(), disk: d}
	m.net.nodes[d.root.id] = d.root
	m.attach(d, at)
}

func (m *Machine) attach(d *disk, at string) {
	point := m.makeAll(at)
	point.sealed = true
	d.root.name, d.root.parent, d.root.covered = point.name, point.parent, point
	point.parent.children[point.name] = d.root
	d.point = at
}

// MountDisk mounts a disk that UnmountDisk took away.
func (m *Machine) MountDisk(name, at string) {
	defer m.lock()()
	if d := m.diskNamed(name); d != nil && d.point == "" {
		m.attach(d, at)
	}
}

// UnmountDisk takes a disk away, with everything on it; the mount point stays.
func (m *Machine) UnmountDisk(name string) {
	defer m.lock()()
	d := m.diskNamed(name)
	if d == nil || d.point == "" {
		return
	}
	d.root.parent.children[d.root.name] = d.root.covered
	d.root.covered, d.point = nil, ""
}

func (m *Machine) diskNamed(name string) *disk {
	for _, d := range m.disks {
		if d.id == "fs-"+m.o.Name+"-"+name {
			return d
		}
	}
	return nil
}

// makeAll makes the directories of a path, as an operator would.
func (m *Machine) makeAll(p string) *node {
	n, err := m.resolve(p, func(parent *node, name string) (*node, error) {
		return m.add(parent, &node{name: name, children: map[string]*node{}}), nil
	})
	if err != nil {
		panic(fmt.Sprintf("sim: %s: %v", p, err))
	}
	return n
}

// MakeAll makes a directory and those above it.
func (m *Machine) MakeAll(p string) {
	defer m.lock()()
	m.makeAll(p)
}

// Symlink makes a link.
func (m *Machine) Symlink(target, at string) {
	defer m.lock()()
	m.add(m.makeAll(path.Dir(at)), &node{name: path.Base(at), link: target})
}

// Write makes a file of a size, or gives one another size. The error is that of
// a full disk.
func (m *Machine) Write(p string, size int64) error {
	defer m.lock()()
	return m.write(m.makeAll(path.Dir(p)), path.Base(p), size)
}

func (m *Machine) write(dir *node, name string, size int64) error {
	f := dir.children[name]
	if f == nil {
		f = m.add(dir, &node{name: name})
	}
	if size-f.size > dir.disk.free() {
		return syscall.ENOSPC
	}
	dir.disk.used += size - f.size
	f.size = size
	return nil
}

// Exists reports whether something is at a path.
func (m *Machine) Exists(p string) bool {
	defer m.lock()()
	_, err := m.resolve(p, nil)
	return err == nil
}

// Free is what is left on the filesystem of a path.
func (m *Machine) Free(p string) (free, total int64) {
	defer m.lock()()
	n, err := m.resolve(p, nil)
	if err != nil {
		return 0, 0
	}
	return n.disk.free(), n.disk.total
}

// SetAway cuts the machine off from the others' mounts, or joins it again.
func (m *Machine) SetAway(away bool) {
	defer m.lock()()
	m.away = away
}

// Reboot ends all workers and takes network mounts and exports away; what was
// written stays.
func (m *Machine) Reboot() {
	defer m.lock()()
	m.boots++
	for _, w := range m.engine {
		if w.status.State != runtime.Exited {
			w.status.State, w.status.Reason, w.status.Ended = runtime.Exited, runtime.ReasonRebooted, m.o.Now()
			w.status.PID = 0
		}
	}
	for _, e := range m.table {
		e.bound = false
	}
	for _, mt := range m.mounts {
		mt.bound = false
	}
}

// Remove takes a file, or an empty directory, away as an operator would.
func (m *Machine) Remove(p string) {
	defer m.lock()()
	n, err := m.resolve(p, nil)
	if err == nil && n.parent != nil && len(n.children) == 0 && n.covered == nil {
		n.disk.used -= n.size
		delete(n.parent.children, n.name)
	}
}
