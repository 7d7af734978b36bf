package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// Unmounting may hang for ever in the kernel; these are X-23's limits.
const (
	unmountTimeout = 15 * time.Second
	forceTimeout   = 10 * time.Second
)

const (
	workDirMode = 0o711
	// mountPointMode refuses writes while nothing is mounted (kubernetes#109955).
	mountPointMode = 0o555
	// bindFlags keep a shared directory's set-uid programs and device nodes harmless.
	bindFlags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// Bind mounts the directory behind d on target, a host path below the work
// root that is made if missing. The mount is private, nosuid and nodev; what is
// mounted inside d is not part of it. If d is bound there already only readOnly
// is brought in line. Errors: ErrBoundElsewhere, ErrBadPath.
func (h *Host) Bind(d *Dir, target string, readOnly bool) error {
	target, err := h.workTarget(target)
	if err != nil {
		return err
	}
	defer h.locks.lock(target)()
	top, err := h.mountedAt(target)
	if err != nil {
		return err
	}
	if top != nil {
		return h.rebind(d, top, readOnly)
	}
	point, err := h.mountPoint(target)
	if err != nil {
		return err
	}
	defer point.Close()
	if err := attach(d, point, readOnly); err != nil {
		return fmt.Errorf("bind %q on %q: %w", d.Path, target, err)
	}
	return h.confirm(d, target)
}

// workTarget cleans a target and insists that it lies below the work root.
func (h *Host) workTarget(target string) (string, error) {
	if problem := schema.AbsolutePathProblem(target); problem != "" {
		return "", &PathError{target, fmt.Errorf("%w: %s", ErrBadPath, problem)}
	}
	clean := path.Clean(target)
	if h.work == "" || clean == h.work || !schema.Covers(h.work, clean) {
		return "", &PathError{target, fmt.Errorf("%w: it is not below the work root", ErrBadPath)}
	}
	return clean, nil
}

// mountedAt is the visible mount on a target, nil for none, by the table alone.
func (h *Host) mountedAt(target string) (*mountEntry, error) {
	entries, err := h.table()
	if err != nil {
		return nil, err
	}
	real, err := h.realTarget(target)
	if errors.Is(err, ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Mountpoint == real {
			return e, nil
		}
	}
	return nil, nil
}

// realTarget is a target's path in the mount table. The work root may be
// reached by links; below it there are none.
func (h *Host) realTarget(target string) (string, error) {
	w, err := h.openIn(h.work)
	if err != nil {
		return "", err
	}
	defer w.Close()
	real, err := fdPath(int(w.Fd()))
	if err != nil {
		return "", err
	}
	return path.Join(real, strings.TrimPrefix(target, h.work)), nil
}

func (h *Host) rebind(d *Dir, top *mountEntry, readOnly bool) error {
	f, err := h.openTop(top)
	if err != nil {
		return err
	}
	defer f.Close()
	id, err := identOf(int(f.Fd()))
	if err != nil {
		return wrap(top.host, err)
	}
	if id != (ident{d.Device, d.Inode}) {
		return &PathError{top.host, ErrBoundElsewhere}
	}
	if hasOption(top.Options, "ro") == readOnly {
		return nil
	}
	attr := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if readOnly {
		attr = &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(int(f.Fd()), "", unix.AT_EMPTY_PATH, attr); err != nil {
		return &PathError{top.host, fmt.Errorf("change to read-only %v: %w", readOnly, err)}
	}
	return nil
}

// openTop opens the root of a mount and makes sure that it is that mount.
func (h *Host) openTop(e *mountEntry) (*os.File, error) {
	return ask(context.Background(), h.probes, e.probeKey(), probeTimeout, func() (*os.File, error) {
		fd, err := openat2(unix.AT_FDCWD, e.Mountpoint, dirFlags, unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_SYMLINKS)
		if err != nil {
			return nil, wrap(e.host, err)
		}
		f := os.NewFile(uintptr(fd), e.host)
		if id, err := mountID(fd); err != nil || id != e.ID {
			return nil, errors.Join(&PathError{e.host, ErrNotMounted}, err, f.Close())
		}
		return f, nil
	}, func(f *os.File) { f.Close() })
}

// attach clones the mount that d is on, at d, and moves the clone to point.
// No path is looked up: there is no window (runc CVE-2021-30465).
func attach(d *Dir, point *os.File, readOnly bool) error {
	tree, flags, err := cloneTree(int(d.File.Fd()))
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(tree)
	attr := &unix.MountAttr{Attr_set: bindFlags, Propagation: unix.MS_PRIVATE}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", flags, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	err = unix.MoveMount(tree, "", int(point.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// cloneTree clones without the mounts inside. In a user namespace those may be
// locked to what they cover, and then the kernel clones all or nothing.
func cloneTree(fd int) (tree int, setattrFlags uint, err error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
	tree, err = unix.OpenTree(fd, "", flags)
	if errors.Is(err, unix.EINVAL) {
		tree, err = unix.OpenTree(fd, "", flags|unix.AT_RECURSIVE)
		return tree, unix.AT_EMPTY_PATH | unix.AT_RECURSIVE, err
	}
	return tree, unix.AT_EMPTY_PATH, err
}

// confirm looks at what is mounted now and takes it away if it is not d.
func (h *Host) confirm(d *Dir, target string) error {
	top, err := h.mountedAt(target)
	if err != nil {
		return err
	}
	if top == nil {
		return &PathError{target, ErrNotMounted}
	}
	f, err := h.openTop(top)
	if err != nil {
		return err
	}
	defer f.Close()
	id, err := identOf(int(f.Fd()))
	if err == nil && id == (ident{d.Device, d.Inode}) {
		return nil
	}
	return errors.Join(&PathError{target, ErrBoundElsewhere}, err, unix.Unmount(top.Mountpoint, unix.MNT_DETACH))
}

// OpenMount opens what is mounted on a target below the work root: a claim's
// network mount, to be bound into a worker. Errors: ErrNotMounted,
// ErrNotAnswering (within 3 s), ErrBadPath.
func (h *Host) OpenMount(ctx context.Context, target string) (*Dir, error) {
	target, err := h.workTarget(target)
	if err != nil {
		return nil, err
	}
	top, err := h.mountedAt(target)
	if err != nil {
		return nil, err
	}
	if top == nil {
		return nil, &PathError{target, ErrNotMounted}
	}
	// First the numbers: a server that is gone must not be found out by a worker.
	if _, err := ask(ctx, h.probes, top.probeKey(), probeTimeout, func() (numbers, error) { return h.numbers(top) }, nil); err != nil {
		return nil, wrap(target, err)
	}
	f, err := h.openTop(top)
	if err != nil {
		return nil, wrap(target, err)
	}
	id, err := identOf(int(f.Fd()))
	if err != nil {
		return nil, errors.Join(wrap(target, err), f.Close())
	}
	return &Dir{File: f, Path: target, FSID: h.fsID(int(f.Fd()), top), Device: id.dev, Inode: id.ino}, nil
}

// MakeMountPoint makes a directory below the work root on which something else
// will mount (see RealPath). While nothing is mounted it refuses writes: mode
// 0555 and, where the filesystem and our rights allow it, immutable.
func (h *Host) MakeMountPoint(target string) error {
	target, err := h.workTarget(target)
	if err != nil {
		return err
	}
	defer h.locks.lock(target)()
	if top, err := h.mountedAt(target); err != nil || top != nil {
		return err
	}
	point, err := h.mountPoint(target)
	if err != nil {
		return err
	}
	return point.Close()
}

// mountPoint makes and opens a target on which nothing is mounted.
func (h *Host) mountPoint(target string) (*os.File, error) {
	cur, err := h.makeWorkRoot()
	if err != nil {
		return nil, err
	}
	segs := strings.Split(strings.TrimPrefix(target, h.work+"/"), "/")
	for i, seg := range segs {
		mode := uint32(workDirMode)
		if i == len(segs)-1 {
			mode = mountPointMode
		}
		next, err := mkdirOpen(cur, seg, path.Join(h.work, path.Join(segs[:i+1]...)), mode)
		cur.Close()
		if err != nil {
			return nil, err
		}
		cur = next
	}
	_ = setImmutable(int(cur.Fd()), true)
	return cur, nil
}

func (h *Host) makeWorkRoot() (*os.File, error) { return h.makeAll(h.work, workDirMode) }

// makeAll makes a host path of the agent's own and opens it. Links on the way
// to what exists are the administrator's and are followed.
func (h *Host) makeAll(hostPath string, mode uint32) (*os.File, error) {
	cur, rest, err := h.openPrefix(hostPath)
	if err != nil {
		return nil, err
	}
	at := strings.TrimSuffix(hostPath, path.Join(rest...))
	for _, seg := range rest {
		at = path.Join(at, seg)
		next, err := mkdirOpen(cur, seg, at, mode)
		cur.Close()
		if err != nil {
			return nil, err
		}
		cur = next
	}
	return cur, nil
}

// setImmutable needs CAP_LINUX_IMMUTABLE and a filesystem that knows the flag.
func setImmutable(fd int, on bool) error {
	r, err := openat2(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, strict)
	if err != nil {
		return err
	}
	defer unix.Close(r)
	flags, err := unix.IoctlGetInt(r, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	want := flags &^ fsImmutable
	if on {
		want |= fsImmutable
	}
	if want == flags {
		return nil
	}
	return unix.IoctlSetPointerInt(r, unix.FS_IOC_SETFLAGS, want)
}

const fsImmutable = 0x10 // FS_IMMUTABLE_FL
