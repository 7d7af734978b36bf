//go:build !(linux || darwin || freebsd)

package gitsource

import (
	"io/fs"
	"os"
)

// dirFD is an open directory. os.Root keeps everything inside it; links are told by comparing what was looked at with
// what was opened.
type dirFD struct{ r *os.Root }

func openRootDir(path string) (*dirFD, error) {
	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &dirFD{r}, nil
}

func (d *dirFD) close() { _ = d.r.Close() }

func (d *dirFD) names() ([]string, error) {
	f, err := d.r.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *dirFD) openDir(name string) (*dirFD, error) {
	before, err := d.r.Lstat(name)
	if err != nil {
		return nil, err
	}
	sub, err := d.r.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := sub.Stat(".")
	if err != nil || !before.IsDir() || !os.SameFile(before, after) {
		_ = sub.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return &dirFD{sub}, nil
}

func (d *dirFD) openFile(name string) (*os.File, fileStat, error) {
	before, err := d.r.Lstat(name)
	if err != nil {
		return nil, fileStat{}, err
	}
	if !before.Mode().IsRegular() {
		return nil, infoStat(before), &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := d.r.Open(name)
	if err != nil {
		return nil, fileStat{}, err
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) {
		_ = f.Close()
		return nil, fileStat{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f, infoStat(after), nil
}

func (d *dirFD) lstat(name string) (fileStat, error) {
	info, err := d.r.Lstat(name)
	if err != nil {
		return fileStat{}, err
	}
	return infoStat(info), nil
}

func (d *dirFD) readlink(name string) (string, error) { return d.r.Readlink(name) }

func infoStat(info fs.FileInfo) fileStat {
	s := fileStat{key: statKey{size: info.Size(), mtime: info.ModTime().UnixNano()}}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		s.kind = lieFile
	case mode.IsDir():
		s.kind = lieDirectory
	case mode&fs.ModeSymlink != 0:
		s.kind = lieLink
	default:
		s.kind = lieSpecial
	}
	return s
}
