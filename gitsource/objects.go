package gitsource

import (
	"bufio"
	"compress/zlib"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// objects reads the objects of one repository. go-git's storage is not safe for concurrent use, so packs are read
// under a lock; loose objects are read without it. Everything read is checked against its hash.
type objects struct {
	cache cache.Object

	mu     sync.Mutex
	stores []objectStore
}

// objectStore is one object directory: the repository's own or one it borrows from (objects/info/alternates).
type objectStore struct {
	dir string // the objects directory; "" when nothing lies loose in it
	st  *filesystem.Storage
}

const objectCacheBytes = 32 << 20

func newObjects() *objects {
	return &objects{cache: cache.NewObjectLRU(objectCacheBytes)}
}

// use replaces what is read. Snapshots made before go on reading from the new stores, by hash.
func (o *objects) use(stores []objectStore) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeLocked()
	o.stores = stores
}

func (o *objects) close() { o.use(nil) }

func (o *objects) closeLocked() {
	for _, s := range o.stores {
		_ = s.st.Close()
	}
}

func (o *objects) current() []objectStore {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stores
}

var errNoObject = fail(ErrCorrupt, "an object is missing")

// read returns an object's bytes. Larger than limit (when > 0) is a TooLargeError and is not inflated. Missing is
// errNoObject.
func (o *objects) read(want plumbing.ObjectType, h plumbing.Hash, limit int64) ([]byte, error) {
	for _, s := range o.current() {
		typ, data, err := readLoose(s.dir, h, limit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return checked(want, typ, h, data, err)
	}
	return o.readPacked(want, h, limit)
}

func (o *objects) readPacked(want plumbing.ObjectType, h plumbing.Hash, limit int64) (out []byte, err error) {
	err = o.packed(func(st *filesystem.Storage) error {
		typ, data, err := readStore(st, h, limit)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return err
		}
		out, err = checked(want, typ, h, data, err)
		return err
	})
	return out, err
}

// packed calls f with each store until one has the object. Another process may have packed it since the index was
// read, so a miss is asked again with a fresh one.
func (o *objects) packed(f func(*filesystem.Storage) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.stores) == 0 {
		return ErrClosed
	}
	for try := 0; try < 2; try++ {
		for _, s := range o.stores {
			if try > 0 {
				s.st.Reindex()
			}
			if err := f(s.st); !errors.Is(err, plumbing.ErrObjectNotFound) {
				return err
			}
		}
	}
	return errNoObject
}

func readStore(st *filesystem.Storage, h plumbing.Hash, limit int64) (plumbing.ObjectType, []byte, error) {
	if limit > 0 {
		size, err := st.EncodedObjectSize(h)
		if err != nil {
			return 0, nil, err
		}
		if size > limit {
			return 0, nil, &TooLargeError{Size: size, Limit: limit}
		}
	}
	obj, err := st.EncodedObject(plumbing.AnyObject, h)
	if err != nil {
		return 0, nil, err
	}
	r, err := obj.Reader()
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	data := make([]byte, obj.Size())
	if _, err := io.ReadFull(r, data); err != nil {
		return 0, nil, err
	}
	return obj.Type(), data, nil
}

// checked verifies what was read. Anything but a clean read of the wanted object is damage.
func checked(want, typ plumbing.ObjectType, h plumbing.Hash, data []byte, err error) ([]byte, error) {
	var large *TooLargeError
	switch {
	case errors.As(err, &large):
		return nil, err
	case err != nil:
		return nil, fail(ErrCorrupt, "object %s: %w", h, err)
	case typ != want:
		return nil, fail(ErrCorrupt, "object %s is a %s, not a %s", h, typ, want)
	case hashObject(typ, data) != h:
		return nil, fail(ErrCorrupt, "object %s does not match its hash", h)
	}
	return data, nil
}

func hashObject(typ plumbing.ObjectType, data []byte) plumbing.Hash {
	d := sha1.New()
	d.Write(objectHeader(typ, int64(len(data))))
	d.Write(data)
	var h plumbing.Hash
	d.Sum(h[:0])
	return h
}

func objectHeader(typ plumbing.ObjectType, size int64) []byte {
	b := append([]byte(typ.String()), ' ')
	return append(strconv.AppendInt(b, size, 10), 0)
}

var inflaters sync.Pool

// readLoose reads objects/ab/cdef… in one open, without a lock. limit < 0 reads the header only: data is nil.
func readLoose(dir string, h plumbing.Hash, limit int64) (plumbing.ObjectType, []byte, error) {
	if dir == "" {
		return 0, nil, fs.ErrNotExist
	}
	hex := h.String()
	f, err := os.Open(filepath.Join(dir, hex[:2], hex[2:]))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	z, _ := inflaters.Get().(io.ReadCloser)
	if z == nil {
		z, err = zlib.NewReader(f)
	} else {
		err = z.(zlib.Resetter).Reset(f, nil)
	}
	if err != nil {
		return 0, nil, err
	}
	defer inflaters.Put(z)
	br := bufio.NewReader(z)
	head, err := br.ReadString(0)
	if err != nil {
		return 0, nil, err
	}
	name, size, err := parseHeader(head)
	if err != nil {
		return 0, nil, err
	}
	if limit > 0 && size > limit || limit < 0 {
		return name, nil, &TooLargeError{Size: size, Limit: limit}
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(br, data); err != nil {
		return 0, nil, err
	}
	// Reading past the end verifies the checksum and that nothing follows.
	if _, err := br.ReadByte(); err != io.EOF {
		return 0, nil, fmt.Errorf("it is longer than its header says or its checksum is wrong")
	}
	return name, data, nil
}

func parseHeader(head string) (plumbing.ObjectType, int64, error) {
	name, digits, _ := strings.Cut(strings.TrimSuffix(head, "\x00"), " ")
	typ, err := plumbing.ParseObjectType(name)
	if err != nil {
		return 0, 0, err
	}
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || size < 0 {
		return 0, 0, errors.New("malformed object header")
	}
	return typ, size, nil
}

// size of a blob without inflating it.
func (o *objects) size(h plumbing.Hash) (int64, error) {
	for _, s := range o.current() {
		_, _, err := readLoose(s.dir, h, -1)
		var large *TooLargeError
		if errors.As(err, &large) {
			return large.Size, nil
		}
	}
	var size int64
	err := o.packed(func(st *filesystem.Storage) (err error) {
		size, err = st.EncodedObjectSize(h)
		if err != nil && !errors.Is(err, plumbing.ErrObjectNotFound) {
			return fail(ErrCorrupt, "object %s: %w", h, err)
		}
		return err
	})
	return size, err
}

// maxTreeBytes and maxCommitBytes end the reading of absurd objects; git's own tools grow slow long before.
const (
	maxTreeBytes   = 256 << 20
	maxCommitBytes = 16 << 20
)

func (o *objects) tree(h plumbing.Hash) ([]byte, error) {
	if h == emptyTree {
		return nil, nil // git itself does not require it to be stored
	}
	return o.read(plumbing.TreeObject, h, maxTreeBytes)
}

var emptyTree = hashObject(plumbing.TreeObject, nil)

func (o *objects) commit(h plumbing.Hash) (*object.Commit, error) {
	data, err := o.read(plumbing.CommitObject, h, maxCommitBytes)
	if err != nil {
		return nil, err
	}
	c := &object.Commit{}
	if err := decode(plumbing.CommitObject, data, c); err != nil {
		return nil, fail(ErrCorrupt, "commit %s: %w", h, err)
	}
	return c, nil
}

func decode(typ plumbing.ObjectType, data []byte, into interface {
	Decode(plumbing.EncodedObject) error
}) error {
	m := &plumbing.MemoryObject{}
	m.SetType(typ)
	if _, err := m.Write(data); err != nil {
		return err
	}
	return into.Decode(m)
}

// typeOf tells what an object is: errNoObject when it is not here, other errors when it cannot be read.
func (o *objects) typeOf(h plumbing.Hash) (typ plumbing.ObjectType, err error) {
	for _, s := range o.current() {
		typ, _, err := readLoose(s.dir, h, -1)
		var large *TooLargeError
		if errors.As(err, &large) {
			return typ, nil
		}
	}
	err = o.packed(func(st *filesystem.Storage) error {
		obj, err := st.EncodedObject(plumbing.AnyObject, h)
		switch {
		case err == nil:
			typ = obj.Type()
		case !errors.Is(err, plumbing.ErrObjectNotFound):
			err = fail(ErrCorrupt, "object %s: %w", h, err)
		}
		return err
	})
	return typ, err
}

func openStore(fsys billy.Filesystem, c cache.Object, exclusive bool) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(fsys, c, filesystem.Options{
		ExclusiveAccess:      exclusive,
		KeepDescriptors:      true,
		LargeObjectThreshold: 8 << 20,
	})
}
