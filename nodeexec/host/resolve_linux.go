package host

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	dirFlags = unix.O_PATH | unix.O_DIRECTORY
	// inRoot keeps a host path inside the machine's root; a magic link of /proc
	// would jump out of any of these rules.
	inRoot  = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	// strict is for our own trees: no links, no other filesystem.
	strict = beneath | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV
)

// ident is a directory of this boot, whatever its path.
type ident struct{ dev, ino uint64 }

// retry repeats what a signal interrupted.
func retry(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openat2 opens path below dirfd. The kernel answers EAGAIN when something was
// renamed while it resolved ".." or a root; then the answer is just not known.
func openat2(dirfd int, p string, flags int, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: resolve}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dirfd, p, how)
		again := errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) && tries < 1000
		if !again {
			return fd, err
		}
	}
}

// wrap turns the errno of looking for a directory into the errors of this package.
func wrap(hostPath string, err error) error {
	if err == nil {
		return nil
	}
	var already *PathError
	if errors.As(err, &already) {
		return err
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		err = ErrMissing
	case errors.Is(err, unix.ENOTDIR):
		err = ErrNotDirectory
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w: %w", ErrBadPath, err)
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: its links lead in a circle or through /proc", ErrBadPath)
	}
	return &PathError{hostPath, err}
}

// openIn resolves a host path inside the machine's root to an O_PATH descriptor.
func (h *Host) openIn(hostPath string) (*os.File, error) {
	rel := strings.TrimLeft(hostPath, "/")
	if rel == "" {
		rel = "."
	}
	fd, err := openat2(int(h.root.Fd()), rel, dirFlags, inRoot)
	if err != nil {
		return nil, wrap(hostPath, err)
	}
	return os.NewFile(uintptr(fd), hostPath), nil
}

// openPrefix opens the deepest directory on the way to hostPath that exists.
// rest are the segments below it. Something that is no directory counts as not
// existing: nothing can be below it either.
func (h *Host) openPrefix(hostPath string) (f *os.File, rest []string, err error) {
	for p := path.Clean(hostPath); ; p = path.Dir(p) {
		f, err = h.openIn(p)
		if err == nil {
			return f, rest, nil
		}
		if p == "/" || !errors.Is(err, ErrMissing) && !errors.Is(err, ErrNotDirectory) {
			return nil, nil, err
		}
		rest = append([]string{path.Base(p)}, rest...)
	}
}

// fdPath is where a descriptor's directory is now, for this process.
func fdPath(fd int) (string, error) {
	for size := 512; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// fdHostPath is fdPath as a host path. It fails with ErrMissing for a directory
// that was removed, and with ErrOutsideGrant for one outside the root.
func (h *Host) fdHostPath(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	real, err := fdPath(fd)
	if err != nil {
		return "", err
	}
	if st.Nlink == 0 {
		return "", &PathError{real, ErrMissing}
	}
	p, ok := h.hostPath(real)
	if !ok {
		return "", &PathError{real, ErrOutsideGrant}
	}
	return p, nil
}

func identOf(fd int) (ident, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return ident{}, err
	}
	return ident{uint64(st.Dev), st.Ino}, nil
}

// mountID is the kernel's number of the mount that a descriptor is on.
func mountID(fd int) (int, error) {
	var st unix.Statx_t
	err := retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st)
	})
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = errNeedsLinux
	}
	return int(st.Mnt_id), err
}

// maxDepth bounds walks towards the root: PATH_MAX of one-letter names.
const maxDepth = 2048

// ancestors are the directory itself and all directories above it, up to the
// machine's root, across mounts. It goes by descriptor: names play no part.
func (h *Host) ancestors(fd int) ([]ident, error) {
	top, err := identOf(int(h.root.Fd()))
	if err != nil {
		return nil, err
	}
	var chain []ident
	for cur, own := fd, false; ; own = true {
		id, err := identOf(cur)
		if err == nil && len(chain) == maxDepth {
			err = unix.ENAMETOOLONG
		}
		end := err != nil || id == top || len(chain) > 0 && id == chain[len(chain)-1]
		next := -1
		if err == nil {
			chain = append(chain, id)
			if !end {
				next, err = openat2(cur, "..", dirFlags, unix.RESOLVE_NO_MAGICLINKS)
			}
		}
		if own {
			unix.Close(cur)
		}
		if end || err != nil {
			return chain, err
		}
		cur = next
	}
}
