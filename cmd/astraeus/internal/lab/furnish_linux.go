package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// build makes what every machine's host root has.
func (r *room) build(machine string) error {
	for _, dir := range []string{r.root(machine), r.shared(""), r.disk(machine, "")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	var errs []error
	for _, dir := range []string{workRoot, stateDir, "/tmp"} {
		errs = append(errs, makeIn(r.root(machine), dir))
	}
	return errors.Join(append(errs, r.resolver(machine))...)
}

// noWayOut is a machine's /etc/resolv.conf: its network reaches the lab's machines
// alone, so that names which are not the cluster's are asked of nobody.
const noWayOut = `# Nothing answers here: a lab has no way out. Names of the cluster are answered by the machine's agent.
nameserver 127.0.0.1
`

// resolver gives a machine the resolver that its name server asks for other names. A
// file that is there stays.
func (r *room) resolver(machine string) error {
	root, err := os.OpenRoot(r.root(machine)) // workers may have written links in it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir("etc", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	file, err := root.OpenFile("etc/resolv.conf", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(noWayOut)
	return errors.Join(err, file.Close())
}

// furnish mounts a machine's disks and the shared filesystems, and makes the
// directories that grants name. All of these may lie in what workers write.
func (r *room) furnish(conf machineConf) error {
	root := r.root(conf.Name)
	var errs []error
	for _, at := range conf.Disks {
		errs = append(errs, bind(r.disk(conf.Name, ""), root, at))
	}
	for _, at := range conf.Shared {
		errs = append(errs, bind(r.shared(""), root, at))
	}
	for _, dir := range conf.Dirs { // after the mounts: in what is mounted there
		errs = append(errs, makeIn(root, dir))
	}
	return errors.Join(errs...)
}

// bind mounts a path below one directory at the same path below another, once.
func bind(source, target, at string) error {
	from, err := directoryIn(source, at)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := directoryIn(target, at)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	is, shall := unix.Stat_t{}, unix.Stat_t{}
	if err := errors.Join(unix.Fstat(int(to.Fd()), &is), unix.Fstat(int(from.Fd()), &shall)); err != nil {
		return err
	}
	if is.Dev == shall.Dev && is.Ino == shall.Ino {
		return nil
	}
	name := func(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
	if err := unix.Mount(name(from), name(to), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", from.Name(), to.Name(), err)
	}
	return nil
}

func makeIn(root, dir string) error {
	made, err := directoryIn(root, dir)
	if err != nil {
		return err
	}
	return made.Close()
}

// directoryIn makes a directory below root and opens it. It follows no link: one
// that a worker made could lead out of the machine, or past a grant.
func directoryIn(root, dir string) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	at := os.NewFile(uintptr(fd), root)
	for seg := range strings.SplitSeq(path.Clean("/" + dir)[1:], "/") {
		name := at.Name() + "/" + seg
		err := unix.Mkdirat(int(at.Fd()), seg, 0o755)
		if err == nil || errors.Is(err, unix.EEXIST) {
			fd, err = unix.Openat(int(at.Fd()), seg, flags, 0)
		}
		_ = at.Close()
		if err != nil {
			return nil, &os.PathError{Op: "make directory", Path: name, Err: err}
		}
		at = os.NewFile(uintptr(fd), name)
	}
	return at, nil
}
