package gitsource

import (
	"context"
	"crypto/sha1"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// lieKind is what lies under a name in a directory.
type lieKind uint8

const (
	lieFile lieKind = iota
	lieDirectory
	lieLink
	lieSpecial
	lieNested     // a directory that is a repository of its own
	lieUnreadable // looking at it failed
)

// statKey changes when a file's content does, as far as a filesystem tells.
type statKey struct {
	size, mtime, ctime int64
	dev, ino           uint64
}

type fileStat struct {
	kind lieKind
	exec bool
	key  statKey
}

// racy tells that a write right after the hash was taken could have left the same stat: timestamps tick, whole seconds
// mean a filesystem that has nothing finer.
func (k statKey) racy(hashed time.Time) bool {
	newest := max(k.mtime, k.ctime)
	window := 20 * time.Millisecond
	if k.mtime%int64(time.Second) == 0 {
		window = 2 * time.Second
	}
	return hashed.UnixNano()-newest < int64(window)
}

// lie is what a directory holds, as it lies: everything, with names as they are.
type lie struct {
	fileStat
	name string
	sub  []*lie // of a directory, by name
	blob *lieBlob
}

// lieBlob is the content of a file at one stat, hashed when first asked for. The first hash stays: content that no
// longer has it is an error, so that nobody mixes two versions of one file.
type lieBlob struct {
	mu     sync.Mutex
	known  bool
	hash   plumbing.Hash
	hashed time.Time
	stored bool // in the Recorder's repository
}

var errChanged = errors.New("it changed while it was read")

// pin notes the hash of content that was read, begun at the given time.
func (b *lieBlob) pin(h plumbing.Hash, begun time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known && b.hash != h {
		return errChanged
	}
	if !b.known {
		b.known, b.hash, b.hashed = true, h, begun
	}
	return nil
}

func (b *lieBlob) get() (h plumbing.Hash, known, stored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hash, b.known, b.stored
}

// fresh tells that the blob can stand for a file with the same stat in a later listing.
func (b *lieBlob) fresh(k statKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.known || !k.racy(b.hashed)
}

// scanner lists one directory again and again and keeps the hashes of files that did not change.
type scanner struct {
	path  string
	max   int
	last  *lie
	count int
}

// scan lists everything below the directory. Errors: the directory itself cannot be listed (ErrUnavailable), too many
// entries (ErrTooMany), ctx.
func (s *scanner) scan(ctx context.Context) (*lie, error) {
	d, err := openRootDir(s.path)
	if err != nil {
		return nil, &classified{kind: ErrUnavailable, err: err}
	}
	defer d.close()
	s.count = 0
	root := &lie{fileStat: fileStat{kind: lieDirectory}}
	if err := s.fill(ctx, d, root, s.last, 0); err != nil {
		return nil, err
	}
	s.last = root
	return root, nil
}

func (s *scanner) fill(ctx context.Context, d *dirFD, l, old *lie, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names, err := d.names()
	if err != nil {
		return &classified{kind: ErrUnavailable, err: err}
	}
	if s.count += len(names); s.count > s.max {
		return fail(ErrTooMany, "more than %d entries", s.max)
	}
	slices.Sort(names)
	l.sub = make([]*lie, 0, len(names))
	for _, name := range names {
		if name == ".git" {
			if depth > 0 {
				l.kind = lieNested
				l.sub = nil
				return nil
			}
			continue
		}
		var before *lie
		if old != nil {
			before = old.child(name)
		}
		e, err := s.entry(ctx, d, name, before, depth)
		if err != nil {
			return err
		}
		if e != nil {
			l.sub = append(l.sub, e)
		}
	}
	return nil
}

func (l *lie) child(name string) *lie {
	i, ok := slices.BinarySearchFunc(l.sub, name, func(e *lie, n string) int { return strings.Compare(e.name, n) })
	if !ok {
		return nil
	}
	return l.sub[i]
}

// entry looks at one name. nil is one that went away since it was listed.
func (s *scanner) entry(ctx context.Context, d *dirFD, name string, before *lie, depth int) (*lie, error) {
	st, err := d.lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return &lie{name: name, fileStat: fileStat{kind: lieUnreadable}}, nil
	}
	e := &lie{name: name, fileStat: st}
	switch st.kind {
	case lieFile:
		if before != nil && before.fileStat == st && before.blob.fresh(st.key) {
			return before, nil
		}
		e.blob = &lieBlob{}
	case lieDirectory:
		if depth >= 4*maxDepth {
			return nil, fail(ErrTooMany, "directories are nested more than %d deep", 4*maxDepth)
		}
		sub, err := d.openDir(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			e.kind = lieUnreadable
			return e, nil
		}
		defer sub.close()
		if before != nil && before.kind != lieDirectory {
			before = nil
		}
		err = s.fill(ctx, sub, e, before, depth+1)
		var c *classified
		if errors.As(err, &c) && c.kind == ErrUnavailable {
			e.kind, e.sub = lieUnreadable, nil
			return e, nil
		}
		return e, err
	}
	return e, nil
}

// openLie opens a file below root without following any link.
func openLie(root, path string) (*os.File, fileStat, error) {
	d, err := openRootDir(root)
	if err != nil {
		return nil, fileStat{}, err
	}
	for {
		name, rest, more := cutPath(path)
		if !more {
			defer d.close()
			return d.openFile(name)
		}
		sub, err := d.openDir(name)
		d.close()
		if err != nil {
			return nil, fileStat{}, err
		}
		d, path = sub, rest
	}
}

// readLie reads a whole file of at most limit bytes and its blob hash.
func readLie(root, path string, limit int64) ([]byte, plumbing.Hash, error) {
	f, st, err := openLie(root, path)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	defer f.Close()
	if st.key.size > limit {
		return nil, plumbing.ZeroHash, &TooLargeError{Path: path, Size: st.key.size, Limit: limit}
	}
	data := make([]byte, st.key.size+1)
	n, err := io.ReadFull(f, data)
	if err == nil {
		return nil, plumbing.ZeroHash, errChanged // it has grown
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, plumbing.ZeroHash, err
	}
	data = data[:n]
	return data, hashObject(plumbing.BlobObject, data), nil
}

// hashLie is the blob hash of a file of any size.
func hashLie(root, path string) (plumbing.Hash, error) {
	var h plumbing.Hash
	f, st, err := openLie(root, path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	sum := sha1.New()
	sum.Write(objectHeader(plumbing.BlobObject, st.key.size))
	n, err := io.Copy(sum, io.LimitReader(f, st.key.size+1))
	if err != nil {
		return h, err
	}
	if n != st.key.size {
		return h, errChanged
	}
	sum.Sum(h[:0])
	return h, nil
}
