package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// token is the descriptor of a directory: a real one, of nothing, whose name
// says which directory is meant. The caller closes it.
func token(n *node) (*os.File, error) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), tokenPrefix+strconv.FormatUint(n.id, 10)), nil
}

const tokenPrefix = "sim:"

// Of is the number of the directory that a descriptor is of, 0 for another file.
func Of(f *os.File) uint64 {
	if f == nil {
		return 0
	}
	text, ok := strings.CutPrefix(f.Name(), tokenPrefix)
	if !ok {
		return 0
	}
	id, _ := strconv.ParseUint(text, 10, 64)
	return id
}

func (m *Machine) dir(n *node) (*host.Dir, error) {
	f, err := token(n)
	if err != nil {
		return nil, err
	}
	return &host.Dir{File: f, Path: n.hostPath(), FSID: n.disk.id, Device: n.disk.number, Inode: n.id}, nil
}

func wrap(p string, err error) error {
	var own *host.PathError
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &host.PathError{Path: p, Err: err}
}

// OpenDir implements the agent's Host.
func (m *Machine) OpenDir(p, grant string, forbidden []string) (*host.Dir, error) {
	defer m.lock()()
	n, err := m.open(p, grant, forbidden)
	if err != nil {
		return nil, wrap(p, err)
	}
	return m.dir(n)
}

func (m *Machine) open(p, grant string, forbidden []string) (*node, error) {
	for _, text := range []string{p, grant} {
		if problem := schema.AbsolutePathProblem(text); problem != "" {
			return nil, wrap(text, fmt.Errorf("%w: %s", host.ErrBadPath, problem))
		}
	}
	n, err := m.resolve(p, nil)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, host.ErrNotDirectory
	}
	g, err := m.resolve(grant, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("grant: %w", err)
	case !n.within(g):
		return nil, host.ErrOutsideGrant
	}
	return n, m.allowed(n, forbidden)
}

func (m *Machine) allowed(n *node, forbidden []string) error {
	for _, f := range append([]string{m.o.WorkRoot, m.o.StateDir}, forbidden...) {
		if f != "" && !m.apart(n, f) {
			return host.ErrForbidden
		}
	}
	return nil
}

// MakeDir implements the agent's Host.
func (m *Machine) MakeDir(p, grant string, forbidden []string) (*host.Dir, error) {
	dir, err := m.OpenDir(p, grant, forbidden)
	if !errors.Is(err, host.ErrMissing) {
		return dir, err
	}
	if !schema.Covers(grant, p) {
		return nil, wrap(p, host.ErrOutsideGrant)
	}
	err = m.effect(context.Background(), &Effect{Name: "MakeDir", Path: p}, func() error {
		g, err := m.grantDir(grant, forbidden)
		if err != nil {
			return err
		}
		rest := strings.TrimPrefix(schema.CleanPath(p), strings.TrimSuffix(schema.CleanPath(grant), "/"))
		_, err = m.walk(g, rest, false, func(parent *node, name string) (*node, error) {
			if !parent.within(g) {
				return nil, host.ErrOutsideGrant
			}
			if err := m.mayMake(parent, name, forbidden); err != nil {
				return nil, err
			}
			return m.mkdir(parent, name)
		})
		return err
	})
	if err != nil {
		return nil, wrap(p, err)
	}
	return m.OpenDir(p, grant, forbidden)
}

// grantDir is the grant's directory, made where its parent is there.
func (m *Machine) grantDir(grant string, forbidden []string) (*node, error) {
	above, err := m.resolve(path.Dir(grant), nil)
	if err != nil {
		return nil, err
	}
	g, err := m.walk(above, path.Base(grant), false, m.mkdir)
	if err != nil {
		return nil, err
	}
	return g, m.allowed(g, forbidden)
}

func (m *Machine) mayMake(parent *node, name string, forbidden []string) error {
	probe := &node{name: name, parent: parent, children: map[string]*node{}}
	return m.allowed(probe, forbidden)
}

// OpenBeneath implements the agent's Host.
func (m *Machine) OpenBeneath(d *host.Dir, sub string) (*host.Dir, error) {
	return m.beneath(d, sub, nil)
}

func (m *Machine) beneath(d *host.Dir, sub string, made maker) (*host.Dir, error) {
	if problem := schema.RelativePathProblem(sub); problem != "" {
		return nil, wrap(sub, fmt.Errorf("%w: %s", host.ErrBadPath, problem))
	}
	defer m.lock()()
	from := m.net.nodes[d.Inode]
	if from == nil {
		return nil, wrap(d.Path, host.ErrMissing)
	}
	n, err := m.walk(from, sub, true, made)
	switch {
	case err != nil:
		return nil, wrap(d.Path+"/"+sub, err)
	case !n.isDir():
		return nil, wrap(d.Path+"/"+sub, host.ErrNotDirectory)
	}
	return m.dir(n)
}

// Measure implements the agent's Host.
func (m *Machine) Measure(_ context.Context, d *host.Dir) (host.Usage, error) {
	if err := m.o.Look("measure"); err != nil {
		return host.Usage{}, err
	}
	defer m.lock()()
	n := m.net.nodes[d.Inode]
	if n == nil {
		return host.Usage{}, wrap(d.Path, host.ErrMissing)
	}
	bytes, files := n.bytes()
	return host.Usage{Bytes: bytes, Files: files, FreeBytes: n.disk.free(), FreeInodes: 1 << 20}, nil
}
