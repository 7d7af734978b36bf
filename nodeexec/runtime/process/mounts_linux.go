package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cloneTree makes a detached copy of the mount that path (from dirfd) lies in,
// rooted there. An empty path means dirfd itself.
func cloneTree(dirfd int, path string, recursive bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return unix.OpenTree(dirfd, path, flags)
}

// restrict adds mount flags and takes the tree out of any peer group. Unlike a
// remount, mount_setattr keeps flags that are locked in a user namespace.
func restrict(tree int, attrs uint64, recursive bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(tree, "", flags, &unix.MountAttr{Attr_set: attrs, Propagation: unix.MS_PRIVATE})
}

// attach puts a detached tree onto an open directory or file.
func attach(tree, target int) error {
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// mountAttrs are what every mount of a worker has.
func mountAttrs(readOnly bool) uint64 {
	attrs := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if readOnly {
		attrs |= unix.MOUNT_ATTR_RDONLY
	}
	return attrs
}

// bindPath mounts what source names onto target, both as the shim sees them.
func bindPath(source, target string, attrs uint64, recursive bool) error {
	tree, err := cloneTree(unix.AT_FDCWD, source, recursive)
	if err != nil {
		return fmt.Errorf("cloning: %w", err)
	}
	defer unix.Close(tree)
	if err := restrict(tree, attrs, recursive); err != nil {
		return fmt.Errorf("restricting: %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	return nil
}

// openVerified opens path from the root without following any link and makes
// sure that it is what the descriptor refers to (CVE-2021-25741).
func openVerified(path string, verified int) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("opening %s again: %w", path, err)
	}
	same, err := sameFile(fd, verified)
	if err == nil && !same {
		err = fmt.Errorf("%s is not any more what was verified", path)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sameFile(a, b int) (bool, error) {
	sa, err := statFD(a)
	if err != nil {
		return false, err
	}
	sb, err := statFD(b)
	if err != nil {
		return false, err
	}
	return sa.Dev_major == sb.Dev_major && sa.Dev_minor == sb.Dev_minor && sa.Ino == sb.Ino, nil
}

// statFD asks the kernel only: a server that is away must not block.
func statFD(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st)
	return st, err
}

func isDir(st unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// openBeneath opens an absolute path of the new root (the current directory)
// without following links.
func openBeneath(path string, flags, mode uint64) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, relative(path), &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Mode:    mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

func relative(path string) string {
	if path == "/" {
		return "."
	}
	return strings.TrimPrefix(path, "/")
}

// makeDirs creates path and its parents in the new root.
func makeDirs(path string) error {
	if path == "/" {
		return nil
	}
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	parent, err := openBeneath(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, filepath.Base(path), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// makeFile creates a file of the new root; what is there already is an error.
func makeFile(path string, content []byte, mode fs.FileMode) error {
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	fd, err := openBeneath(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint64(mode.Perm()))
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
