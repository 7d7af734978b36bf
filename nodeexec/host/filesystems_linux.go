package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// numbers is what a filesystem answered.
type numbers struct {
	total, free, used int64 // bytes
	inodes            int64 // free ones, -1 without a limit
	id                string
	readOnly          bool
}

// Filesystems are those that can hold data, in plain words, sorted by mount
// point, one of them recommended if one fits (D-33). A filesystem that does not
// answer within 3 s is listed with all numbers -1; all are asked at once.
func (h *Host) Filesystems(ctx context.Context) ([]schema.Filesystem, error) {
	entries, err := h.table()
	if err != nil {
		return nil, err
	}
	cands := candidates(entries, view{lab: h.lab(), shared: h.shared, hide: h.own()})
	list := make([]schema.Filesystem, len(cands))
	usable := make([]bool, len(cands))
	var wg sync.WaitGroup
	for i, c := range cands {
		wg.Go(func() { list[i], usable[i] = h.describe(ctx, c) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	kept := []schema.Filesystem{}
	for i := range list {
		if usable[i] {
			kept = append(kept, list[i])
		}
	}
	recommend(kept)
	return kept, nil
}

// FilesystemOf is the filesystem that holds a path with its links followed, or
// would hold it once made. MountPoint is where that filesystem is mounted above
// the path. Errors: ErrNotAnswering, ErrBadPath.
func (h *Host) FilesystemOf(ctx context.Context, hostPath string) (schema.Filesystem, error) {
	none := schema.Filesystem{}
	if problem := schema.AbsolutePathProblem(hostPath); problem != "" {
		return none, &PathError{hostPath, fmt.Errorf("%w: %s", ErrBadPath, problem)}
	}
	entries, err := h.table()
	if err != nil {
		return none, err
	}
	id, err := ask(ctx, h.probes, "dir "+hostPath, probeTimeout, func() (int, error) {
		f, _, err := h.openPrefix(hostPath)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return mountID(int(f.Fd()))
	}, nil)
	if err != nil && !errors.Is(err, ErrNotAnswering) {
		return none, wrap(hostPath, err)
	}
	e := entryByID(entries, id)
	if err != nil || e == nil {
		e = covering(entries, schema.CleanPath(hostPath))
	}
	if e == nil {
		return none, &PathError{hostPath, ErrMissing}
	}
	return h.describeEntry(ctx, e, entries), nil
}

func (h *Host) describeEntry(ctx context.Context, e *mountEntry, entries []*mountEntry) schema.Filesystem {
	c := &candidate{mountEntry: e, kind: kindOf(e.FSType, e.Source)}
	if h.isShared(e.host) {
		c.kind = fsShared
	}
	root := covering(entries, "/")
	c.system = c.kind != fsShared && (e.host == "/" || !h.lab() &&
		(systemPlace(e.host) || root != nil && root.device() == e.device()))
	fs, _ := h.describe(ctx, c)
	return fs
}

func (h *Host) isShared(mountPoint string) bool { return slices.Contains(h.shared, mountPoint) }

// describe asks a filesystem. ok is false for what turns out not to be a
// directory that can be reached.
func (h *Host) describe(ctx context.Context, c *candidate) (fs schema.Filesystem, ok bool) {
	fs = schema.Filesystem{
		MountPoint: c.host, Type: c.FSType, System: c.system, Shared: c.kind == fsShared,
		ReadOnly:   hasOption(c.Options, "ro") || hasOption(c.VFSOptions, "ro"),
		TotalBytes: -1, FreeBytes: -1, UsedBytes: -1, FreeInodes: -1,
	}
	switch c.kind {
	case fsShared:
		fs.Medium = schema.MediumShared
	case fsMemory:
		fs.Medium = schema.MediumVirtual
	default:
		fs.Medium = h.medium(c.Info)
	}
	if remote(c.Info) {
		fs.ID = c.FSType + ":" + c.Source
	}
	n, err := ask(ctx, h.probes, c.probeKey(), probeTimeout, func() (numbers, error) { return h.numbers(c.mountEntry) }, nil)
	if err != nil {
		return fs, errors.Is(err, ErrNotAnswering)
	}
	fs.TotalBytes, fs.FreeBytes, fs.UsedBytes, fs.FreeInodes = n.total, n.free, n.used, n.inodes
	fs.ID, fs.ReadOnly = n.id, fs.ReadOnly || n.readOnly
	return fs, true
}

// probeKey is of one mount: its number may be given to another one later.
func (e *mountEntry) probeKey() string {
	return fmt.Sprintf("mount %d %s %s", e.ID, e.device(), e.Mountpoint)
}

// numbers may block for ever.
func (h *Host) numbers(e *mountEntry) (numbers, error) {
	at := e.Mountpoint
	if e.host == "/" && h.lab() {
		at = h.prefix
	}
	var st unix.Statfs_t
	if err := h.sys.statfs(at, &st); err != nil {
		return numbers{}, err
	}
	fd, err := openat2(unix.AT_FDCWD, at, dirFlags, unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return numbers{}, wrap(e.host, err)
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	n := numbersOf(&st)
	n.id = h.fsID(fd, e)
	return n, nil
}

func numbersOf(st *unix.Statfs_t) numbers {
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	n := numbers{
		total: scale(st.Blocks, unit), free: scale(st.Bavail, unit), inodes: scale(st.Ffree, 1),
		readOnly: st.Flags&unix.ST_RDONLY != 0,
	}
	if st.Blocks >= st.Bfree {
		n.used = scale(st.Blocks-st.Bfree, unit)
	}
	if st.Files == 0 { // btrfs and others make inodes as they go
		n.inodes = -1
	}
	return n
}

// scale is blocks of unit bytes as bytes. NFS servers answer nonsense at times;
// more than fits is the most there is.
func scale(blocks, unit uint64) int64 {
	if unit != 0 && blocks > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return int64(blocks * unit)
}

// Probe asks the filesystem that holds a path for its numbers, within 3 s. It
// fails with ErrNotAnswering, at once if an earlier question of that mount is
// still open. D-91, X-23.
func (h *Host) Probe(ctx context.Context, hostPath string) error {
	if problem := schema.AbsolutePathProblem(hostPath); problem != "" {
		return &PathError{hostPath, fmt.Errorf("%w: %s", ErrBadPath, problem)}
	}
	entries, err := h.table()
	if err != nil {
		return err
	}
	e := covering(entries, schema.CleanPath(hostPath))
	if e == nil {
		return &PathError{hostPath, ErrMissing}
	}
	_, err = ask(ctx, h.probes, e.probeKey(), probeTimeout, func() (numbers, error) { return h.numbers(e) }, nil)
	return wrap(hostPath, err)
}
