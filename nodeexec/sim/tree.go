package sim

import (
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// node is a directory, a file or a link.
type node struct {
	id       uint64
	name     string
	parent   *node
	children map[string]*node // nil: not a directory
	link     string           // a symbolic link's target
	size     int64            // of a file
	disk     *disk
	covered  *node     // what a mount here hides; the node is then a filesystem's root
	sealed   bool      // a mount point in which nothing can be made (kubernetes#109955)
	data     *location // a data location's own files, when this directory is one
}

// disk is a filesystem.
type disk struct {
	id          string
	number      uint64
	total, used int64
	shared      bool
	dead        bool // every write fails
	point       string
	root        *node
}

func (d *disk) free() int64 { return max(0, d.total-d.used) }

func (n *node) isDir() bool { return n.children != nil }

// hostPath is where the node is.
func (n *node) hostPath() string {
	if n.parent == nil {
		return "/"
	}
	return path.Join(n.parent.hostPath(), n.name)
}

// within reports whether n is dir or lies below it.
func (n *node) within(dir *node) bool {
	for ; n != nil; n = n.parent {
		if n == dir {
			return true
		}
	}
	return false
}

// entries are the node's children by name.
func (n *node) entries() []*node {
	list := make([]*node, 0, len(n.children))
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		list = append(list, n.children[name])
	}
	return list
}

// bytes counts files below, without crossing mounts.
func (n *node) bytes() (bytes, files int64) {
	if !n.isDir() {
		return n.size, 1
	}
	for _, c := range n.children {
		if c.disk == n.disk {
			b, f := c.bytes()
			bytes, files = bytes+b, files+f
		}
	}
	return bytes, files
}

// remove takes everything below away but what is mounted there, and says
// whether the node itself could go.
func (n *node) remove() bool {
	gone := true
	for _, c := range n.entries() {
		if c.covered != nil || !c.remove() {
			gone = false
			continue
		}
		delete(n.children, c.name)
	}
	if gone {
		n.disk.used -= n.size
	}
	return gone
}

// maxLinks as the kernel has it.
const maxLinks = 40

// maker makes a missing directory on the way.
type maker func(parent *node, name string) (*node, error)

// resolve finds what is at a host path. made is nil to have missing missing.
func (m *Machine) resolve(p string, made maker) (*node, error) { return m.walk(m.root, p, false, made) }

// walk resolves p from a directory, which it leaves nowhere when it is bounded.
func (m *Machine) walk(from *node, p string, bounded bool, made maker) (*node, error) {
	root := m.root
	if bounded {
		root = from
	}
	links := 0
	var step func(at *node, p string) (*node, error)
	step = func(at *node, p string) (*node, error) {
		for seg := range strings.SplitSeq(p, "/") {
			switch {
			case seg == "" || seg == ".":
				continue
			case !at.isDir():
				return nil, host.ErrNotDirectory
			case seg == "..":
				switch {
				case at == root && bounded:
					return nil, host.ErrOutsideParent
				case at != root:
					at = at.parent
				}
				continue
			}
			next := at.children[seg]
			if next == nil {
				if made == nil {
					return nil, host.ErrMissing
				}
				var err error
				if next, err = made(at, seg); err != nil {
					return nil, err
				}
			}
			if next.link != "" {
				if links++; links > maxLinks {
					return nil, host.ErrBadPath
				}
				base := at
				if strings.HasPrefix(next.link, "/") {
					if base = root; bounded {
						return nil, host.ErrOutsideParent
					}
				}
				var err error
				if next, err = step(base, next.link); err != nil {
					return nil, err
				}
			}
			at = next
		}
		return at, nil
	}
	return step(from, p)
}

// find is the directory at a host path, nil when there is none.
func (m *Machine) find(p string) *node {
	n, err := m.resolve(p, nil)
	if err != nil || !n.isDir() {
		return nil
	}
	return n
}

// mkdir makes a directory. A full disk has no room for it.
func (m *Machine) mkdir(parent *node, name string) (*node, error) {
	if parent.disk.dead {
		return nil, syscall.EIO
	}
	if parent.sealed {
		return nil, syscall.EPERM
	}
	if parent.disk.free() == 0 {
		return nil, syscall.ENOSPC
	}
	return m.add(parent, &node{name: name, children: map[string]*node{}}), nil
}

func (m *Machine) add(parent, n *node) *node {
	n.id, n.parent, n.disk = m.net.number(), parent, parent.disk
	m.net.nodes[n.id] = n
	parent.children[n.name] = n
	return n
}

// apart reports whether a directory may be used though p is forbidden.
func (m *Machine) apart(n *node, p string) bool {
	if f := m.find(p); f != nil {
		return !n.within(f) && !f.within(n)
	}
	return !schema.Overlaps(n.hostPath(), p)
}
