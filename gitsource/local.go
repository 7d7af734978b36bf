package gitsource

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// local reads a repository of this machine in place: a commit is seen without copying anything, and nothing is ever
// written. Other programs may write, pack and prune meanwhile.
type local struct {
	path string
	ref  string
	obj  *objects

	id os.FileInfo         // of the objects directory that is open
	st *filesystem.Storage // refs
}

func openLocal(path, ref string, obj *objects) (*local, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fail(ErrURL, "the working directory is unknown")
	}
	l := &local{path: abs, ref: ref, obj: obj}
	return l, l.open()
}

func (l *local) open() error {
	dirs, err := findRepo(l.path)
	if err != nil {
		return err
	}
	id, err := os.Stat(filepath.Join(dirs.common, "objects"))
	if err != nil {
		return notRepo(err)
	}
	stores, st, err := openDirs(dirs, l.obj.cache)
	if err != nil {
		return err
	}
	l.obj.use(stores)
	l.st, l.id = st, id
	return nil
}

// refresh reopens when the repository is not the one that was opened (restored, replaced, mounted again). What was a
// repository before and is none now is an outage.
func (l *local) refresh() error {
	dirs, err := findRepo(l.path)
	if err == nil {
		var now os.FileInfo
		if now, err = os.Stat(filepath.Join(dirs.common, "objects")); err == nil && l.id != nil && os.SameFile(now, l.id) {
			return nil
		}
	}
	if err == nil {
		err = l.open()
	}
	if errors.Is(err, ErrNotRepository) || errors.Is(err, os.ErrNotExist) {
		return fail(ErrUnavailable, "%v", err) // as text: a caller must not take this for ErrNotRepository
	}
	return err
}

func (l *local) update(context.Context) (tip, error) {
	if err := l.refresh(); err != nil {
		return tip{}, err
	}
	return refs{l.st, l.obj}.tip(l.ref)
}

func (l *local) resolve(_ context.Context, rev string) (tip, error) {
	if err := l.refresh(); err != nil {
		return tip{}, err
	}
	if h, ok := fullHash(rev); ok {
		return tipOfHash(l.obj, h)
	}
	t, err := refs{l.st, l.obj}.tip(rev)
	if !errors.Is(err, ErrRefNotFound) {
		return t, err
	}
	if h, abbr := l.obj.abbreviated(rev); abbr == nil {
		return tip{commit: h}, nil
	}
	return t, err
}

// tipOfHash finds a commit by hash. One that is not there is a wrong revision, not damage.
func tipOfHash(o *objects, h plumbing.Hash) (tip, error) {
	c, err := o.peel(h)
	if err == errNoObject {
		return tip{}, fail(ErrRefNotFound, "no commit %s", h)
	}
	return tip{commit: c}, err
}

func (l *local) repair(context.Context) error {
	l.id = nil
	return l.refresh()
}

func (l *local) shallow() (map[plumbing.Hash]bool, error) { return shallowOf(l.st) }

func shallowOf(st *filesystem.Storage) (map[plumbing.Hash]bool, error) {
	list, err := st.Shallow()
	if err != nil {
		return nil, fail(ErrCorrupt, "shallow file: %w", err)
	}
	out := make(map[plumbing.Hash]bool, len(list))
	for _, h := range list {
		out[h] = true
	}
	return out, nil
}

func (l *local) close() error { return nil }
