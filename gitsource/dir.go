package gitsource

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Dir reads a directory as it lies, whether or not it is a git repository: no commit, no ignore rules, hidden files
// included, .git left out. What is unsafe in a repository is a problem here too; so are special files, what cannot be
// read, and directories that are repositories of their own.
type Dir struct {
	path  string
	limit int64

	mu   sync.Mutex
	scan scanner
}

// NewDir prepares to read a directory repeatedly; hashes of files that did not change are kept between snapshots.
// maxFileBytes 0 is DefaultMaxFileBytes.
func NewDir(path string, maxFileBytes int64) *Dir {
	setDefault(&maxFileBytes, DefaultMaxFileBytes)
	return &Dir{path: path, limit: maxFileBytes, scan: scanner{max: DefaultMaxEntries}}
}

// DirSnapshot is one snapshot of a directory as it lies.
func DirSnapshot(dir string) (*Snapshot, error) {
	return NewDir(dir, 0).Snapshot(context.Background())
}

// Snapshot lists the directory. Files are read when asked for; one that changed after its hash was taken is an error,
// never a mix. Errors: ErrUnavailable when the directory itself cannot be listed, ErrTooMany.
func (d *Dir) Snapshot(ctx context.Context) (*Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	abs, err := filepath.Abs(d.path)
	if err != nil {
		return nil, redactor{}.wrap("list", d.path, err)
	}
	d.scan.path = abs
	when := time.Now()
	root, err := d.scan.scan(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, redactor{}.wrap("list", d.path, err)
	}
	return newSnapshot(CommitInfo{}, when, nodeOf(root), lieContent{root: abs}, d.limit), nil
}

// nodeOf applies the rules of names to what lies in a directory.
func nodeOf(l *lie) *node {
	n := &node{entries: make([]*entry, 0, len(l.sub))}
	for _, s := range l.sub {
		e := &entry{name: s.name, exec: s.exec}
		switch s.kind {
		case lieFile:
			e.lies = s.blob
			e.size.Store(s.key.size)
		case lieDirectory:
			e.dir = nodeOf(s)
		case lieLink:
			n.reject(e, CodeSymlink, "symbolic links are not followed")
			continue
		case lieNested:
			n.reject(e, CodeSubmodule, "it is a repository of its own, which is not read")
			continue
		case lieSpecial:
			n.reject(e, CodeSpecialFile, "it is a device, socket or pipe")
			continue
		default:
			n.reject(e, CodeUnreadable, "it cannot be read")
			continue
		}
		n.entries = append(n.entries, e)
	}
	n.seal()
	return n
}

// lieContent reads the files of a directory.
type lieContent struct{ root string }

func (c lieContent) size(_ string, e *entry) (int64, error) { return e.size.Load(), nil }

func (c lieContent) read(path string, e *entry, limit int64) ([]byte, error) {
	begun := time.Now()
	data, h, err := readLie(c.root, path, limit)
	if err == nil {
		err = e.lies.pin(h, begun)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (c lieContent) hash(path string, e *entry) (plumbing.Hash, bool) {
	if h, known, _ := e.lies.get(); known {
		return h, true
	}
	begun := time.Now()
	h, err := hashLie(c.root, path)
	if err == nil {
		err = e.lies.pin(h, begun)
	}
	return h, err == nil
}

// describe is for error texts: a path with the parts that could harm a terminal escaped.
func describe(path string) string { return strconv.Quote(path) }
