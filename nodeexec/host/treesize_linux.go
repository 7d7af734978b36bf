package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// Going down, directories stay open up to maxOpenDirs. One below those is
	// found again by its names, and then up to keepOpen of the ones above it
	// stay open too, as they come next; mostOpen bounds it all.
	maxOpenDirs = 256
	keepOpen    = 64
	mostOpen    = 640
	statMask    = unix.STATX_BLOCKS | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_TYPE
	statFlags   = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	// walkRules let nothing out of the tree that is measured.
	walkRules = strict
)

// TreeSize sums up what is below d, and d itself: allocated bytes (as du does,
// so a sparse file counts its blocks), and the number of entries that are not
// directories. Each hard-linked file counts once; links are not followed; other
// filesystems mounted inside are left out. What disappears during the walk does
// not count. workers below 1 means 2; more than 4 gain nothing on one disk.
// An error of any directory ends the walk: half a number is none. D-91.
func TreeSize(ctx context.Context, d *Dir, workers int) (bytes, files int64, err error) {
	if workers < 1 {
		workers = 2
	}
	fd, err := openat2(int(d.File.Fd()), ".", walkOpen, beneath)
	if err != nil {
		return 0, 0, wrap(d.Path, err)
	}
	w := &walk{ctx: ctx, links: map[ident]uint32{}}
	w.cond.L = &w.mu
	w.open.Add(1)
	root := &node{fd: fd}
	root.refs.Store(2) // and us: it stays open as the last resort
	w.todo = []*node{root}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { w.work() })
	}
	wg.Wait()
	for _, n := range w.todo { // left by an error
		w.release(n.parent)
	}
	w.release(root)
	if w.err != nil {
		return 0, 0, wrap(d.Path, w.err)
	}
	return w.blocks.Load() * 512, w.files.Load(), nil
}

const walkOpen = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK

// node is a directory of the tree. fd is -1 while it is not open.
type node struct {
	parent *node
	name   string
	mu     sync.Mutex
	fd     int
	refs   atomic.Int32 // itself until it is read, and each child that is not open yet
}

type walk struct {
	ctx    context.Context
	blocks atomic.Int64
	files  atomic.Int64
	open   atomic.Int32

	mu   sync.Mutex
	cond sync.Cond
	todo []*node // last in, first out, so that few directories are open
	busy int
	err  error

	linkMu sync.Mutex
	links  map[ident]uint32 // hard links of a file that were not met yet
}

// work takes directories until none is left and nobody can add one.
func (w *walk) work() {
	buf := make([]byte, dirBuffer)
	var tally struct{ blocks, files int64 }
	for {
		n := w.next()
		if n == nil {
			break
		}
		for n != nil { // go on with a child directly, while its parent is open
			blocks, files, child, err := w.read(n, buf)
			tally.blocks += blocks
			tally.files += files
			if err != nil {
				w.fail(err)
			}
			n = child
		}
		w.done()
	}
	w.blocks.Add(tally.blocks)
	w.files.Add(tally.files)
}

func (w *walk) next() *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.err != nil || len(w.todo) == 0 && w.busy == 0 {
			w.cond.Broadcast()
			return nil
		}
		if last := len(w.todo) - 1; last >= 0 {
			n := w.todo[last]
			w.todo[last] = nil
			w.todo = w.todo[:last]
			w.busy++
			return n
		}
		w.cond.Wait()
	}
}

func (w *walk) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.busy == 0 && len(w.todo) == 0 {
		w.cond.Broadcast()
	}
}

func (w *walk) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.cond.Broadcast()
}

func (w *walk) push(nodes []*node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo = append(w.todo, nodes...)
	w.cond.Broadcast()
}

// read counts one directory. It hands back one child, open, to go on with.
func (w *walk) read(n *node, buf []byte) (blocks, files int64, child *node, err error) {
	defer w.release(n)
	defer w.closeEarly(n)
	fd, err := w.fdOf(n)
	if w.ctx.Err() != nil {
		return 0, 0, nil, w.ctx.Err()
	}
	if gone(err) {
		return 0, 0, nil, nil
	}
	if err != nil {
		return 0, 0, nil, err
	}
	var st unix.Statx_t
	if err := statEntry(fd, []byte{0}, unix.AT_EMPTY_PATH, &st); err != nil {
		return 0, 0, nil, err
	}
	blocks = int64(st.Blocks)
	var children []*node
	err = eachEntry(fd, buf, func(name []byte, kind byte) error {
		if kind != unix.DT_DIR {
			dir, b, f, err := w.count(fd, name, &st)
			if err != nil || !dir {
				blocks, files = blocks+b, files+f
				return err
			}
		}
		c := &node{parent: n, name: string(name[:len(name)-1]), fd: -1}
		c.refs.Store(1)
		children = append(children, c)
		return nil
	})
	n.refs.Add(int32(len(children)))
	if err != nil {
		for range children {
			w.release(n)
		}
		return blocks, files, nil, err
	}
	return blocks, files, w.handOver(fd, children), nil
}

// handOver gives the children to all workers but the last one, which it opens.
func (w *walk) handOver(fd int, children []*node) *node {
	if len(children) == 0 {
		return nil
	}
	last := len(children) - 1
	if last > 0 {
		w.push(children[:last])
	}
	c := children[last]
	if f, err := openat2(fd, c.name, walkOpen, walkRules); err == nil {
		w.open.Add(1)
		c.fd = f
		w.release(c.parent)
	}
	return c
}

// count adds what is no directory.
func (w *walk) count(fd int, name []byte, st *unix.Statx_t) (dir bool, blocks, files int64, err error) {
	err = statEntry(fd, name, 0, st)
	if gone(err) {
		return false, 0, 0, nil
	}
	if err != nil {
		return false, 0, 0, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return true, 0, 0, nil
	}
	if st.Nlink > 1 && !w.firstLink(st) {
		return false, 0, 0, nil
	}
	return false, int64(st.Blocks), 1, nil
}

// firstLink reports whether a hard-linked file is met for the first time. A file
// all of whose links were met is forgotten, so that memory stays small.
func (w *walk) firstLink(st *unix.Statx_t) bool {
	id := ident{uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), st.Ino}
	w.linkMu.Lock()
	defer w.linkMu.Unlock()
	left, met := w.links[id]
	switch {
	case !met:
		w.links[id] = st.Nlink - 1
	case left > 1:
		w.links[id] = left - 1
	default:
		delete(w.links, id)
	}
	return !met
}

// gone reports what may happen to a name between being read and being opened;
// EXDEV is a filesystem mounted there, which is not part of the tree.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOTDIR)
}

// fdOf opens a directory from the nearest one above it that is open.
func (w *walk) fdOf(n *node) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd >= 0 {
		return n.fd, nil
	}
	fd, err := w.openFrom(n)
	w.release(n.parent)
	if err != nil {
		return -1, err
	}
	w.open.Add(1)
	n.fd = fd
	return fd, nil
}

// openFrom goes up to an open directory and down again by name.
func (w *walk) openFrom(n *node) (int, error) {
	down := []*node{n}
	for up := n.parent; up != nil; up = up.parent {
		up.mu.Lock()
		if up.fd >= 0 {
			fd, err := w.descend(up.fd, down)
			up.mu.Unlock()
			return fd, err
		}
		up.mu.Unlock()
		down = append(down, up)
	}
	return -1, unix.ENOENT // the root is open as long as anything is to do
}

// descend opens the directories of a list that has the deepest first.
func (w *walk) descend(from int, down []*node) (int, error) {
	cur, owned := from, false
	for i := len(down) - 1; i >= 0; i-- {
		next, err := openat2(cur, down[i].name, walkOpen, walkRules)
		if owned {
			unix.Close(cur)
		}
		if err != nil {
			return -1, err
		}
		cur, owned = next, true
		if i > 0 && i <= keepOpen && w.open.Load() < mostOpen {
			owned = !w.keep(down[i], next)
		}
	}
	return cur, nil
}

// keep leaves a descriptor with its directory, which has work to do below it.
func (w *walk) keep(n *node, fd int) bool {
	if !n.mu.TryLock() { // another worker opens it
		return false
	}
	defer n.mu.Unlock()
	if n.fd >= 0 || n.refs.Load() == 0 {
		return false
	}
	n.fd = fd
	w.open.Add(1)
	return true
}

// release gives up one claim on a directory, which is closed with the last one.
func (w *walk) release(n *node) {
	if n != nil && n.refs.Add(-1) == 0 {
		w.close(n)
	}
}

// closeEarly is for a directory that was read: what is still to be opened below it
// finds it again.
func (w *walk) closeEarly(n *node) {
	if n.parent != nil && w.open.Load() > maxOpenDirs {
		w.close(n)
	}
}

func (w *walk) close(n *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd >= 0 {
		unix.Close(n.fd)
		n.fd = -1
		w.open.Add(-1)
	}
}

// statEntry is statx without copying the name: name ends with a NUL byte.
func statEntry(fd int, name []byte, flags int, st *unix.Statx_t) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
			uintptr(flags|statFlags), statMask, uintptr(unsafe.Pointer(st)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}
