package gitsource

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// treeReader gives the bytes of a tree object, verified against its hash.
type treeReader interface {
	tree(plumbing.Hash) ([]byte, error)
}

// builder makes the nodes of one commit. It takes over what an earlier snapshot has and reads each other tree once,
// so that a tree that refers to one subtree a million times costs no more than its bytes.
type builder struct {
	ctx    context.Context
	r      treeReader
	max    int
	made   map[plumbing.Hash]*node
	parent int
}

// build makes the node of the tree h, taking over nodes of old, which may be nil.
func (b *builder) build(h plumbing.Hash, old *node) (*node, error) {
	if old != nil && old.hash == h {
		return old, nil
	}
	if n := b.made[h]; n != nil {
		return n, nil
	}
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	// A tree cannot contain itself, but a chain of them can be long enough to end the stack.
	if b.parent++; b.parent > 4*maxDepth {
		return nil, fail(ErrTooMany, "directories are nested more than %d deep", 4*maxDepth)
	}
	defer func() { b.parent-- }()
	data, err := b.r.tree(h)
	if err != nil {
		return nil, err
	}
	n, err := b.fill(h, data, old)
	if err != nil {
		return nil, err
	}
	n.seal()
	if n.total > b.max {
		return nil, fail(ErrTooMany, "more than %d entries", b.max)
	}
	b.made[h] = n
	return n, nil
}

func (b *builder) fill(h plumbing.Hash, data []byte, old *node) (*node, error) {
	n := &node{hash: h, entries: make([]*entry, 0, len(data)/34)}
	var failed error
	err := parseTree(data, func(raw rawEntry) {
		if failed == nil {
			failed = b.add(n, raw, old)
		}
	})
	if err == nil {
		err = failed
	}
	return n, err
}

func (b *builder) add(n *node, raw rawEntry, old *node) error {
	var before *entry
	if old != nil {
		before = old.find(raw.name)
	}
	e := &entry{name: raw.name, hash: raw.hash}
	switch raw.mode & modeType {
	case modeDir:
		return b.addDir(n, e, before)
	case modeFile & modeType:
		if before != nil && before.dir == nil && before.hash == raw.hash && before.exec == (raw.mode&0o111 != 0) {
			n.entries = append(n.entries, before)
			return nil
		}
		e.exec = raw.mode&0o111 != 0
		e.size.Store(-1)
		n.entries = append(n.entries, e)
	case modeLink:
		n.reject(e, CodeSymlink, "symbolic links are not followed")
	case modeGitlink:
		n.reject(e, CodeSubmodule, "submodules are not read")
	default:
		n.reject(e, CodeBadMode, "it is neither a file nor a directory")
	}
	return nil
}

// addDir builds the directory below. One whose name is refused is not read at all.
func (b *builder) addDir(n *node, e *entry, before *entry) error {
	if why := nameProblem(e.name); why != "" {
		n.reject(e, CodeUnsafeName, why)
		return nil
	}
	var old *node
	if before != nil {
		old = before.dir
	}
	if before != nil && old != nil && old.hash == e.hash {
		n.entries = append(n.entries, before)
		return nil
	}
	d, err := b.build(e.hash, old)
	if err != nil {
		return err
	}
	e.dir = d
	n.entries = append(n.entries, e)
	return nil
}
