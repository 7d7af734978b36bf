package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// retryTrash is how soon trash that could not be removed is tried again.
	retryTrash = 10 * time.Minute
	// maxNest bounds open descriptors: deeper directories are moved up first.
	maxNest = 100
)

// remover empties the trash in the background, one former copy after the other.
type remover struct {
	c      *Copies
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	running bool
	closed  bool
	queue   []trashEntry
	pending map[trashEntry]bool
	failed  map[trashEntry]failedTrash
}

type failedTrash struct {
	at      time.Time
	problem string
}

func newRemover(c *Copies) *remover {
	r := &remover{c: c, pending: map[trashEntry]bool{}, failed: map[trashEntry]failedTrash{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *remover) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

// add queues an entry once; what failed lately waits.
func (r *remover) add(t trashEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.failed[t]; ok && r.c.now().Sub(f.at) < retryTrash {
		return
	}
	if r.closed || r.pending[t] {
		return
	}
	r.pending[t] = true
	r.queue = append(r.queue, t)
	if !r.running {
		r.running = true
		r.wg.Go(r.run)
	}
}

// problems are what could not be removed, in words.
func (r *remover) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, f := range r.failed {
		list = append(list, f.problem)
	}
	slices.Sort(list)
	return list
}

// stuck reports whether an entry could not be removed completely.
func (r *remover) stuck(t trashEntry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, failed := r.failed[t]
	return failed
}

func (r *remover) next() (trashEntry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.closed {
		r.running = false
		return trashEntry{}, false
	}
	t := r.queue[0]
	r.queue = r.queue[1:]
	return t, true
}

func (r *remover) run() {
	for {
		t, ok := r.next()
		if !ok {
			return
		}
		err := r.remove(t)
		r.mu.Lock()
		delete(r.pending, t)
		delete(r.failed, t)
		if err != nil && r.ctx.Err() == nil {
			where := path.Join(t.location, drivesName, metaName, trashName, t.name)
			r.failed[t] = failedTrash{r.c.now(), fmt.Sprintf("%q cannot be removed completely: %v", where, err)}
		}
		r.mu.Unlock()
	}
}

// remove empties one entry, if its location is still the right one and its
// sidecar still says that it is ours, and then drops that sidecar.
func (r *remover) remove(t trashEntry) error {
	l, err := r.c.openLocation(t.location)
	if err != nil {
		return err
	}
	defer l.close()
	s, err := readTrashSidecar(l.trash, t.name)
	if err != nil {
		return err
	}
	if s.ClusterUID != r.c.cluster {
		return ErrForeignCopy
	}
	fd, err := openat2(int(l.trash.Fd()), t.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, strict)
	if err == nil {
		err = r.empty(fd)
		err = errors.Join(err, unix.Close(fd))
		if err == nil {
			err = unix.Unlinkat(int(l.trash.Fd()), t.name, unix.AT_REMOVEDIR)
		}
	} else if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	if err != nil {
		return err
	}
	r.c.h.sys.step("removed")
	return errors.Join(unix.Unlinkat(int(l.trash.Fd()), t.name+jsonSuffix, 0), syncDir(int(l.trash.Fd())))
}

// empty removes all below fd, as often as something went.
func (r *remover) empty(fd int) error {
	w := &wiper{ctx: r.ctx, top: fd, step: r.c.h.sys.step}
	for {
		w.removed, w.left = 0, nil
		if err := w.wipe(fd, 0); err != nil {
			return err
		}
		if w.removed == 0 {
			return w.left
		}
	}
}

// wiper removes a tree by descriptor. No link is followed and no filesystem
// entered that is mounted inside (docker-volume-netshare#104): what cannot go
// is left and told.
type wiper struct {
	ctx     context.Context
	top     int
	step    func(string)
	removed int64
	serial  int
	left    error // the first thing left behind
	free    [][]byte
}

func (w *wiper) leave(name string, err error) {
	if w.left == nil {
		w.left = fmt.Errorf("%q: %w", name, err)
	}
}

func (w *wiper) buffer() []byte {
	if n := len(w.free); n > 0 {
		b := w.free[n-1]
		w.free = w.free[:n-1]
		return b
	}
	return make([]byte, dirBuffer)
}

// wipe removes all below fd. Errors are for what makes going on pointless.
func (w *wiper) wipe(fd, depth int) error {
	buf := w.buffer()
	defer func() { w.free = append(w.free, buf) }()
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return err
	}
	return eachEntry(fd, buf, func(raw []byte, kind byte) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		name := string(raw[:len(raw)-1])
		if kind == unix.DT_DIR {
			return w.wipeDir(fd, name, depth)
		}
		err := unix.Unlinkat(fd, name, 0)
		switch {
		case err == nil:
			w.removed++
			w.step("unlinked")
		case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM) && kind == unix.DT_UNKNOWN:
			return w.wipeDir(fd, name, depth)
		case errors.Is(err, unix.EBUSY):
			w.leave(name, ErrMountPoint)
		case !errors.Is(err, unix.ENOENT):
			w.leave(name, err)
		}
		return nil
	})
}

func (w *wiper) wipeDir(parent int, name string, depth int) error {
	err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) // empty ones go at once
	if err == nil {
		w.removed++
		return nil
	}
	if depth >= maxNest && !errors.Is(err, unix.EBUSY) {
		return w.moveUp(parent, name)
	}
	fd, err := openat2(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, strict)
	switch {
	case errors.Is(err, unix.EXDEV):
		w.leave(name, ErrMountPoint)
		return nil
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		w.leave(name, err)
		return nil
	}
	err = errors.Join(w.wipe(fd, depth+1), unix.Close(fd))
	if err != nil {
		return err
	}
	switch err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); {
	case err == nil:
		w.removed++
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOENT):
	default:
		w.leave(name, err)
	}
	return nil
}

// moveUp takes a very deep directory to the top of the trash, where the next
// pass finds it.
func (w *wiper) moveUp(parent int, name string) error {
	for {
		w.serial++
		to := fmt.Sprintf(".deep-%d-%d", os.Getpid(), w.serial)
		err := unix.Renameat2(parent, name, w.top, to, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			w.removed++
			return nil
		case errors.Is(err, unix.EEXIST):
			continue
		}
		w.leave(name, err)
		return nil
	}
}
