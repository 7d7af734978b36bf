package gitsource

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// content is where the bytes of a tree's files come from. path is the file's path in the tree.
type content interface {
	size(path string, e *entry) (int64, error)
	// read returns the bytes, or a TooLargeError without reading when there are more than limit.
	read(path string, e *entry, limit int64) ([]byte, error)
	hash(path string, e *entry) (plumbing.Hash, bool)
}

// treeFS serves a checked tree.
type treeFS struct {
	root     *node
	content  content
	limit    int64
	when     time.Time
	problems []Problem
}

func (t *treeFS) Problems() []Problem { return t.problems }

func (t *treeFS) Hash(path string) (string, bool) {
	if !fs.ValidPath(path) {
		return "", false
	}
	if path == "." {
		return t.root.hash.String(), !t.root.hash.IsZero()
	}
	e := t.root.walk(path)
	if e == nil {
		return "", false
	}
	if e.dir != nil {
		return e.dir.hash.String(), !e.dir.hash.IsZero()
	}
	h, ok := t.content.hash(path, e)
	if !ok {
		return "", false
	}
	return h.String(), true
}

// lookup finds an entry; the root is an entry without a name.
func (t *treeFS) lookup(op, path string) (*entry, error) {
	if !fs.ValidPath(path) {
		return nil, &fs.PathError{Op: op, Path: path, Err: fs.ErrInvalid}
	}
	if path == "." {
		return &entry{name: ".", dir: t.root}, nil
	}
	if e := t.root.walk(path); e != nil {
		return e, nil
	}
	return nil, &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
}

func (t *treeFS) Open(path string) (fs.File, error) {
	e, err := t.lookup("open", path)
	if err != nil {
		return nil, err
	}
	if e.dir != nil {
		return &openDir{t: t, path: path, e: e}, nil
	}
	data, err := t.readEntry("open", path, e)
	if err != nil {
		return nil, err
	}
	info := t.info(e, int64(len(data)))
	return &openFile{Reader: bytes.NewReader(data), info: info}, nil
}

func (t *treeFS) ReadFile(path string) ([]byte, error) {
	e, err := t.lookup("read", path)
	if err != nil {
		return nil, err
	}
	if e.dir != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is a directory")}
	}
	return t.readEntry("read", path, e)
}

func (t *treeFS) readEntry(op, path string, e *entry) ([]byte, error) {
	data, err := t.content.read(path, e, t.limit)
	if err == nil {
		return data, nil
	}
	var large *TooLargeError
	if errors.As(err, &large) {
		err = &TooLargeError{Path: path, Size: large.Size, Limit: large.Limit}
	}
	return nil, &fs.PathError{Op: op, Path: path, Err: err}
}

func (t *treeFS) Stat(path string) (fs.FileInfo, error) {
	e, err := t.lookup("stat", path)
	if err != nil {
		return nil, err
	}
	return t.stat(path, e)
}

func (t *treeFS) stat(path string, e *entry) (fs.FileInfo, error) {
	if e.dir != nil {
		return t.info(e, 0), nil
	}
	n, err := t.content.size(path, e)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return t.info(e, n), nil
}

func (t *treeFS) ReadDir(path string) ([]fs.DirEntry, error) {
	e, err := t.lookup("readdir", path)
	if err != nil {
		return nil, err
	}
	if e.dir == nil {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: errors.New("not a directory")}
	}
	return t.list(path, e.dir), nil
}

// list makes the entries anew for each call, because they carry the path they were listed under.
func (t *treeFS) list(path string, n *node) []fs.DirEntry {
	items := make([]dirEntry, len(n.entries))
	out := make([]fs.DirEntry, len(n.entries))
	for i, e := range n.entries {
		items[i] = dirEntry{t: t, dir: path, e: e}
		out[i] = &items[i]
	}
	return out
}

func (t *treeFS) info(e *entry, size int64) fileInfo {
	return fileInfo{name: e.name, size: size, mode: modeOf(e), when: t.when}
}

func modeOf(e *entry) fs.FileMode {
	switch {
	case e.dir != nil:
		return fs.ModeDir | 0o555
	case e.exec:
		return 0o555
	}
	return 0o444
}

type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
	when time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return i.when }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

type dirEntry struct {
	t   *treeFS
	dir string
	e   *entry
}

func (d *dirEntry) Name() string      { return d.e.name }
func (d *dirEntry) IsDir() bool       { return d.e.dir != nil }
func (d *dirEntry) Type() fs.FileMode { return modeOf(d.e).Type() }
func (d *dirEntry) String() string    { return fs.FormatDirEntry(d) }
func (d *dirEntry) Info() (fs.FileInfo, error) {
	return d.t.stat(joinPath(d.dir, d.e.name), d.e)
}

type openFile struct {
	*bytes.Reader
	info fileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

type openDir struct {
	t    *treeFS
	path string
	e    *entry
	rest []fs.DirEntry
	read bool
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.t.info(d.e, 0), nil }
func (d *openDir) Close() error               { return nil }
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		d.rest, d.read = d.t.list(d.path, d.e.dir), true
	}
	if n <= 0 {
		out := d.rest
		d.rest = nil
		return out, nil
	}
	if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	out := slices.Clone(d.rest[:n])
	d.rest = d.rest[n:]
	return out, nil
}
