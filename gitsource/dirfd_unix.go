//go:build linux || darwin || freebsd

package gitsource

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// dirFD is an open directory. Everything below is reached through descriptors and no link is followed, so that a link
// swapped in between two calls leads nowhere.
type dirFD struct{ f *os.File }

const openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK

func openRootDir(path string) (*dirFD, error) {
	fd, err := retryFD(func() (int, error) { return unix.Open(path, openFlags|unix.O_DIRECTORY, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &dirFD{os.NewFile(uintptr(fd), path)}, nil
}

func retryFD(f func() (int, error)) (int, error) {
	for {
		if fd, err := f(); err != unix.EINTR {
			return fd, err
		}
	}
}

func (d *dirFD) close() { _ = d.f.Close() }

func (d *dirFD) names() ([]string, error) {
	if _, err := d.f.Seek(0, 0); err != nil {
		return nil, err
	}
	return d.f.Readdirnames(-1)
}

func (d *dirFD) at(name string, flags int) (*os.File, error) {
	fd, err := retryFD(func() (int, error) {
		return unix.Openat(int(d.f.Fd()), name, openFlags|unix.O_NOFOLLOW|flags, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (d *dirFD) openDir(name string) (*dirFD, error) {
	f, err := d.at(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &dirFD{f}, nil
}

// openFile opens a regular file; O_NONBLOCK keeps a pipe that took its place from hanging us.
func (d *dirFD) openFile(name string) (*os.File, fileStat, error) {
	f, err := d.at(name, 0)
	if err != nil {
		return nil, fileStat{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		_ = f.Close()
		return nil, fileStat{}, err
	}
	s := statOf(&st)
	if s.kind != lieFile {
		_ = f.Close()
		return nil, s, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f, s, nil
}

func (d *dirFD) lstat(name string) (fileStat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fileStat{}, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return statOf(&st), nil
}

func (d *dirFD) readlink(name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(int(d.f.Fd()), name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

func statOf(st *unix.Stat_t) fileStat {
	s := fileStat{exec: st.Mode&0o100 != 0, key: statKey{
		size: st.Size, dev: uint64(st.Dev), ino: uint64(st.Ino), //nolint:unconvert // types differ by system
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}}
	switch uint32(st.Mode) & unix.S_IFMT { //nolint:unconvert // 16 bits on darwin
	case unix.S_IFREG:
		s.kind = lieFile
	case unix.S_IFDIR:
		s.kind = lieDirectory
	case unix.S_IFLNK:
		s.kind = lieLink
	default:
		s.kind = lieSpecial
	}
	return s
}
