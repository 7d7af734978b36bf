package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// maxStacked bounds how many mounts on one target are taken off in one call.
const maxStacked = 32

// Unmount takes off all that is mounted on target, a host path below the work
// root, and removes the empty mount point. Nothing mounted, or no target at
// all, is nil. force gives up on a dead server's open requests; lazy detaches
// the mount while it is still in use. Errors: ErrBusy, ErrNotAnswering after
// 15 s (10 s with force or lazy), while the kernel goes on trying; then the
// same way of unmounting is refused at once and the next one may be tried.
func (h *Host) Unmount(target string, force, lazy bool) error {
	target, err := h.workTarget(target)
	if err != nil {
		return err
	}
	// Not under the target's lock: a plain unmount that hangs must not keep a
	// forced one out (aws-fsx-csi-driver#495).
	flags, limit := unix.UMOUNT_NOFOLLOW, unmountTimeout
	if force {
		flags, limit = flags|unix.MNT_FORCE, forceTimeout
	}
	if lazy {
		flags, limit = flags|unix.MNT_DETACH, forceTimeout
	}
	key := fmt.Sprintf("umount %d %s", flags, target)
	_, err = ask(context.Background(), h.probes, key, limit, func() (struct{}, error) {
		return struct{}{}, h.unmountAll(target, flags)
	}, nil)
	switch {
	case errors.Is(err, unix.EBUSY):
		return &PathError{target, ErrBusy}
	case err != nil:
		return fmt.Errorf("unmount: %w", wrap(target, err))
	}
	return nil
}

func (h *Host) unmountAll(target string, flags int) error {
	var failed error
	last := -1
	for range maxStacked {
		top, err := h.mountedAt(target)
		switch {
		case err != nil:
			return err
		case top == nil:
			h.removePoint(target)
			return nil
		case top.ID == last && failed != nil:
			return failed // it is there, and the kernel says it is not
		}
		last, failed = top.ID, h.unmountOne(target, flags)
		if failed != nil && !errors.Is(failed, unix.EINVAL) && !errors.Is(failed, ErrMissing) {
			return failed
		}
	}
	return fmt.Errorf("more than %d mounts on one another: %w", maxStacked, ErrBusy)
}

// unmountOne fails with EINVAL or ErrMissing when somebody was quicker; the
// table says what is left. It goes by the parent's descriptor: the name below it is not
// followed, and a descriptor of the mount itself would keep it busy.
func (h *Host) unmountOne(target string, flags int) error {
	parent, err := h.openIn(path.Dir(target))
	if err != nil {
		return err
	}
	defer parent.Close()
	p := "/proc/self/fd/" + strconv.Itoa(int(parent.Fd())) + "/" + path.Base(target)
	err = h.sys.umount(p, flags)
	if errors.Is(err, unix.EPERM) && flags&unix.MNT_FORCE != 0 {
		err = h.sys.umount(p, flags&^unix.MNT_FORCE) // a user namespace may not force
	}
	if errors.Is(err, unix.ENOENT) {
		return ErrMissing
	}
	return err
}

// removePoint removes the mount point and the directories that it leaves empty,
// by rmdir alone: what holds anything stays.
func (h *Host) removePoint(target string) {
	defer h.locks.lock(target)()
	for p := target; p != h.work && schema.Covers(h.work, p); p = path.Dir(p) {
		parent, err := h.openIn(path.Dir(p))
		if err != nil {
			return
		}
		fd, err := openat2(int(parent.Fd()), path.Base(p), dirFlags, strict)
		if err == nil {
			_ = setImmutable(fd, false)
			unix.Close(fd)
		}
		err = unix.Unlinkat(int(parent.Fd()), path.Base(p), unix.AT_REMOVEDIR)
		parent.Close()
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		if path.Dir(path.Dir(p)) == h.work { // exports/ and datavolumes/ stay
			return
		}
	}
}

// Mounts are the mounts below the work root, by the mount table alone: nothing
// is asked or touched. A mount that another one covers is listed too.
func (h *Host) Mounts(ctx context.Context) ([]MountInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	real, err := h.realTarget(h.work)
	if h.work == "" || errors.Is(err, ErrMissing) {
		return []MountInfo{}, nil
	}
	if err != nil {
		return nil, err
	}
	infos, err := h.rawTable()
	if err != nil {
		return nil, err
	}
	list := []MountInfo{}
	for _, m := range infos {
		rest, ok := strings.CutPrefix(m.Mountpoint, real+"/")
		if !ok {
			continue
		}
		list = append(list, MountInfo{
			ID: m.ID, Parent: m.Parent, Target: h.work + "/" + rest, Source: m.Source, FSType: m.FSType,
			Root: m.Root, Options: m.Options, SuperOptions: m.VFSOptions,
			Device: fmt.Sprintf("%d:%d", m.Major, m.Minor),
		})
	}
	return list, nil
}
