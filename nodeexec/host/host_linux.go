package host

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// system is the outside world that tests replace; realSystem is the only other one.
type system struct {
	mountinfo func() (io.ReadCloser, error)
	statfs    func(path string, st *unix.Statfs_t) error
	umount    func(path string, flags int) error
	addrs     func() ([]net.Interface, func(*net.Interface) ([]net.Addr, error), error)
	now       func() time.Time
	sys       string // "/sys"
	dev       string // "/dev"
	proc      string // "/proc"
	// step is called between two durable steps; a test kills the process there.
	step func(name string)
}

func realSystem() system {
	return system{
		mountinfo: func() (io.ReadCloser, error) { return os.Open("/proc/self/mountinfo") },
		statfs: func(p string, st *unix.Statfs_t) error {
			return retry(func() error { return unix.Statfs(p, st) })
		},
		umount: unix.Unmount,
		addrs: func() ([]net.Interface, func(*net.Interface) ([]net.Addr, error), error) {
			ifs, err := net.Interfaces()
			return ifs, (*net.Interface).Addrs, err
		},
		now: time.Now,
		sys: "/sys", dev: "/dev", proc: "/proc",
		step: func(string) {},
	}
}

// Host is the machine. Its methods may be called concurrently.
type Host struct {
	sys    system
	root   *os.File // O_PATH; every host path resolves in it
	prefix string   // the root's path in this process, "" for the real root
	shared []string
	work   string // host paths
	state  string
	probes *prober
	locks  keyLocks // one operation a mount target at a time
}

// New opens the machine. It touches nothing but Options.Root: work root and
// state directory need not exist yet.
func New(o Options) (*Host, error) { return newHost(o, realSystem()) }

func newHost(o Options, sys system) (*Host, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	for _, p := range append([]string{o.WorkRoot, o.StateDir}, o.Shared...) {
		if p != "" && (!path.IsAbs(p) || path.Clean(p) == "/") {
			return nil, fmt.Errorf("host: %w", &PathError{p, ErrBadPath})
		}
	}
	fd, err := openat2(unix.AT_FDCWD, o.Root, dirFlags, unix.RESOLVE_NO_MAGICLINKS)
	if errors.Is(err, unix.ENOSYS) {
		return nil, errNeedsLinux
	}
	if err != nil {
		return nil, fmt.Errorf("host: root: %w", wrap(o.Root, err))
	}
	h := &Host{sys: sys, root: os.NewFile(uintptr(fd), o.Root), probes: newProber()}
	if h.prefix, err = fdPath(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("host: root: %w", err), h.root.Close())
	}
	if h.prefix == "/" {
		h.prefix = ""
	}
	h.work, h.state = cleanOrEmpty(o.WorkRoot), cleanOrEmpty(o.StateDir)
	for _, p := range o.Shared {
		h.shared = append(h.shared, path.Clean(p))
	}
	return h, nil
}

func cleanOrEmpty(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

// Close lets go of the root. Directories opened through the host stay usable;
// questions that a filesystem never answered stay with the kernel.
func (h *Host) Close() error { return h.root.Close() }

// RealPath is where a host path is for this process: beneath Options.Root. It
// is for programs that take a path (mount, exportfs) and resolves nothing.
func (h *Host) RealPath(hostPath string) string {
	if h.prefix == "" {
		return hostPath
	}
	return h.prefix + path.Clean("/"+hostPath)
}

// hostPath is the inverse of RealPath; ok is false outside the root.
func (h *Host) hostPath(real string) (p string, ok bool) {
	if h.prefix == "" {
		return real, strings.HasPrefix(real, "/")
	}
	rest, ok := strings.CutPrefix(real, h.prefix)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return "/", true
	}
	return rest, rest[0] == '/'
}

// lab reports whether the machine is a directory of this computer.
func (h *Host) lab() bool { return h.prefix != "" }

// own are the agent's directories, which no worker may see.
func (h *Host) own() []string {
	return slices.DeleteFunc([]string{h.work, h.state}, func(p string) bool { return p == "" })
}

// BootID changes when the machine starts again; all machines of a lab share it.
func (h *Host) BootID() (string, error) {
	raw, err := os.ReadFile(path.Join(h.sys.proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
