package gitsource

import (
	"compress/zlib"
	"crypto/sha1"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// writeLoose stores an object unless it is there. As in git, objects are renamed into place but not synced one by one.
func writeLoose(dir string, typ plumbing.ObjectType, data []byte) (plumbing.Hash, error) {
	h := hashObject(typ, data)
	hex := h.String()
	if _, err := os.Lstat(filepath.Join(dir, hex[:2], hex[2:])); err == nil {
		return h, nil
	}
	l, err := newLoose(dir, typ, int64(len(data)))
	if err != nil {
		return h, err
	}
	defer l.discard()
	if _, err := l.z.Write(data); err != nil {
		return h, err
	}
	return h, l.finish(h)
}

// streamLoose stores a file of any size as a blob.
func streamLoose(dir, root, path string) (plumbing.Hash, error) {
	var h plumbing.Hash
	f, st, err := openLie(root, path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	l, err := newLoose(dir, plumbing.BlobObject, st.key.size)
	if err != nil {
		return h, err
	}
	defer l.discard()
	sum := sha1.New()
	sum.Write(objectHeader(plumbing.BlobObject, st.key.size))
	n, err := io.Copy(io.MultiWriter(sum, l.z), io.LimitReader(f, st.key.size+1))
	if err != nil {
		return h, err
	}
	if n != st.key.size {
		return h, errChanged
	}
	sum.Sum(h[:0])
	return h, l.finish(h)
}

// deflaters are kept because each is most of a megabyte.
var deflaters sync.Pool

// looseWriter is an object being written under a temporary name.
type looseWriter struct {
	dir string
	f   *os.File
	z   *zlib.Writer
}

func newLoose(dir string, typ plumbing.ObjectType, size int64) (*looseWriter, error) {
	f, err := os.CreateTemp(dir, "tmp_obj_")
	if err != nil {
		return nil, err
	}
	z, _ := deflaters.Get().(*zlib.Writer)
	if z == nil {
		z, _ = zlib.NewWriterLevel(f, zlib.BestSpeed)
	} else {
		z.Reset(f)
	}
	l := &looseWriter{dir: dir, f: f, z: z}
	if _, err := z.Write(objectHeader(typ, size)); err != nil {
		l.discard()
		return nil, err
	}
	return l, nil
}

func (l *looseWriter) finish(h plumbing.Hash) error {
	err := l.z.Close()
	deflaters.Put(l.z)
	if cerr := l.f.Chmod(0o444); err == nil && cerr != nil && !errors.Is(cerr, errors.ErrUnsupported) {
		err = cerr
	}
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	hex := h.String()
	to := filepath.Join(l.dir, hex[:2], hex[2:])
	err = os.Rename(l.f.Name(), to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
			err = os.Rename(l.f.Name(), to)
		}
	}
	if err == nil {
		l.f = nil
	}
	return err
}

// discard removes the temporary file unless it became the object.
func (l *looseWriter) discard() {
	if l.f != nil {
		_ = l.f.Close()
		_ = os.Remove(l.f.Name())
	}
}

func readStored(m *plumbing.MemoryObject) ([]byte, error) {
	r, err := m.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
