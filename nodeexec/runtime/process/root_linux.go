package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// etcDirs are bound; /etc/ssl/private and the like stay out.
var etcDirs = []string{
	"etc/alternatives", "etc/ssl/certs", "etc/ca-certificates", "etc/pki/tls/certs", "etc/pki/ca-trust",
	"etc/ld.so.conf.d", "etc/terminfo", "etc/libibverbs.d",
}

// etcFiles are copied, through links: what they point at is often elsewhere.
var etcFiles = []string{
	"etc/ld.so.cache", "etc/ld.so.conf", "etc/resolv.conf", "etc/hosts", "etc/host.conf", "etc/nsswitch.conf",
	"etc/gai.conf", "etc/passwd", "etc/group", "etc/services", "etc/protocols", "etc/networks", "etc/rpc",
	"etc/localtime", "etc/timezone", "etc/os-release", "etc/debian_version", "etc/redhat-release",
	"etc/mime.types", "etc/locale.alias", "etc/locale.conf", "etc/bash.bashrc", "etc/profile",
	"etc/ssl/openssl.cnf", "etc/pki/tls/openssl.cnf", "etc/inputrc",
}

// scratchDirs are writable, private and gone with the worker.
var scratchDirs = []struct {
	path string
	mode uint32
}{{"tmp", 0o1777}, {"run", 0o755}, {"root", 0o700}, {"var/tmp", 0o1777}}

// procMasked tell about the machine or other processes.
var procMasked = []string{
	"kcore", "keys", "key-users", "timer_list", "sched_debug", "kpagecount", "kpageflags", "sysrq-trigger",
}

// rootBuilder makes a worker's root. Its steps run with the new root as
// current directory and the machine's root still as "/".
type rootBuilder struct {
	cfg   shimConfig
	given map[string]bool // paths of config files
}

// buildRoot makes the root and switches to it. Nothing of it is visible
// outside of the shim's mount namespace.
func buildRoot(cfg shimConfig) error {
	b := rootBuilder{cfg: cfg, given: map[string]bool{}}
	for _, f := range cfg.Files {
		b.given[f.Path] = true
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"private mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"root tmpfs", b.enter},
		{"system directories", b.system},
		{"/etc", b.etc},
		{"scratch directories", b.scratch},
		{"/dev", b.dev},
		{"/proc", b.proc},
		{"config files", b.files},
		{"mounts", b.mounts},
		{"read-only root", b.seal},
		{"switching to the root", pivot},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (b *rootBuilder) enter() error {
	if err := b.tmpfs(b.cfg.RootDir, 0o755); err != nil {
		return err
	}
	return os.Chdir(b.cfg.RootDir)
}

// tmpfs counts as the worker's memory; without a limit the kernel's default
// of half the machine's memory applies.
func (b *rootBuilder) tmpfs(target string, mode uint32) error {
	opts := "mode=" + strconv.FormatUint(uint64(mode), 8)
	if b.cfg.TmpfsBytes > 0 {
		opts += ",size=" + strconv.FormatInt(b.cfg.TmpfsBytes, 10)
	}
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts)
}

func (b *rootBuilder) system() error {
	for _, dir := range runtime.SystemDirs {
		info, err := os.Lstat("/" + dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			err = copyLink(dir)
		} else {
			err = b.bindDir(dir)
		}
		if err != nil {
			return fmt.Errorf("/%s: %w", dir, err)
		}
	}
	return nil
}

// copyLink takes over links such as /bin -> usr/bin.
func copyLink(name string) error {
	to, err := os.Readlink("/" + name)
	if err != nil {
		return err
	}
	return os.Symlink(to, name)
}

// bindDir binds a directory of the machine and what is mounted below it:
// /usr/local is often a file system of its own.
func (b *rootBuilder) bindDir(dir string) error {
	if err := makeDirs("/" + dir); err != nil {
		return err
	}
	return bindPath("/"+dir, dir, mountAttrs(true), true)
}

func (b *rootBuilder) etc() error {
	if err := makeDirs("/etc"); err != nil {
		return err
	}
	for _, dir := range etcDirs {
		if info, err := os.Stat("/" + dir); err != nil || !info.IsDir() {
			continue
		}
		if err := b.bindDir(dir); err != nil {
			return fmt.Errorf("/%s: %w", dir, err)
		}
	}
	for _, name := range etcFiles {
		info, err := os.Stat("/" + name)
		if b.given["/"+name] || err != nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile("/" + name)
		if err != nil {
			continue // not for us to read, so not for the worker either
		}
		if err := makeFile("/"+name, content, 0o444); err != nil {
			return err
		}
	}
	return nil
}

func (b *rootBuilder) scratch() error {
	for _, d := range scratchDirs {
		if err := makeDirs("/" + d.path); err != nil {
			return err
		}
		if err := b.tmpfs(d.path, d.mode); err != nil {
			return fmt.Errorf("/%s: %w", d.path, err)
		}
	}
	return makeDirs("/sys") // empty: programs expect it to exist
}

// proc is mounted anew, so that it shows the worker's processes only. The
// kernel refuses it in a user namespace whose own /proc is partly covered.
func (b *rootBuilder) proc() error {
	if err := makeDirs("/proc"); err != nil {
		return err
	}
	if err := unix.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting (is the machine's /proc partly covered?): %w", err)
	}
	for _, name := range procMasked {
		target := filepath.Join("proc", name)
		if _, err := os.Lstat(target); err != nil {
			continue
		}
		if err := bindPath("dev/null", target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
			return fmt.Errorf("masking %s: %w", name, err)
		}
	}
	return setReadOnly("proc")
}

// setReadOnly applies to the mount point itself, not to what is below it.
func setReadOnly(path string) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func (b *rootBuilder) files() error {
	for _, f := range b.cfg.Files {
		mode := f.Mode.Perm() &^ 0o222
		if mode == 0 {
			mode = 0o444
		}
		if err := makeFile(f.Path, f.Content, mode); err != nil {
			return err
		}
		if !inScratch(f.Path) {
			continue // the root becomes read-only as a whole
		}
		rel := relative(f.Path)
		if err := bindPath(rel, rel, mountAttrs(true), false); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

func inScratch(path string) bool {
	return slices.ContainsFunc(scratchDirs, func(d struct {
		path string
		mode uint32
	}) bool {
		return runtime.Within(path, "/"+d.path)
	})
}

// mounts attaches the worker's mounts, parents first.
func (b *rootBuilder) mounts() error {
	order := make([]int, len(b.cfg.Mounts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return strings.Compare(b.cfg.Mounts[i].Target, b.cfg.Mounts[j].Target)
	})
	for n, i := range order {
		m := b.cfg.Mounts[i]
		parent := ""
		for _, j := range order[:n] {
			if runtime.Within(m.Target, b.cfg.Mounts[j].Target) {
				parent = b.cfg.Mounts[j].Target
			}
		}
		if err := mountOne(m, fdSources+i, parent); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return nil
}

func mountOne(m shimMount, source int, parent string) error {
	if err := makeTarget(m, parent); err != nil {
		return err
	}
	target, err := openBeneath(m.Target, unix.O_PATH, 0)
	if err != nil {
		return explainTarget(err, parent)
	}
	defer unix.Close(target)
	if err := sameKind(m, target); err != nil {
		return err
	}
	if m.Path != "" {
		if source, err = cloneVerified(m, source); err != nil {
			return err
		}
		defer unix.Close(source)
	}
	if err := attach(source, target); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	return nil
}

// sameKind says what the kernel would only call an invalid argument.
func sameKind(m shimMount, target int) error {
	st, err := statFD(target)
	switch {
	case err != nil:
		return err
	case m.Dir && !isDir(st):
		return errors.New("a directory cannot be mounted onto a file")
	case !m.Dir && isDir(st):
		return errors.New("a file cannot be mounted onto a directory")
	}
	return nil
}

// cloneVerified is for agents that cannot clone a mount themselves.
func cloneVerified(m shimMount, verified int) (int, error) {
	fd, err := openVerified(m.Path, verified)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return detach(fd, m.ReadOnly, m.Recursive)
}

// detach makes a detached, restricted clone of what fd refers to.
func detach(fd int, readOnly, recursive bool) (int, error) {
	tree, err := cloneTree(fd, "", recursive)
	if err != nil {
		return -1, fmt.Errorf("cloning the source's mount: %w", err)
	}
	if err := restrict(tree, mountAttrs(readOnly), recursive); err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("restricting the source's mount: %w", err)
	}
	return tree, nil
}

// makeTarget creates a mount point in the worker's own root. Inside another
// mount, nothing is created: that is the user's data.
func makeTarget(m shimMount, parent string) error {
	if parent != "" {
		return nil
	}
	if m.Dir {
		return makeDirs(m.Target)
	}
	err := makeFile(m.Target, nil, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func explainTarget(err error, parent string) error {
	switch {
	case errors.Is(err, unix.ENOENT) && parent != "":
		return fmt.Errorf("there is no such directory in what is mounted at %s, and none is created in it", parent)
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("the path goes through a symbolic link")
	default:
		return err
	}
}

func (b *rootBuilder) seal() error { return setReadOnly(".") }

// pivot makes the current directory the root and lets go of the machine's.
func pivot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	// The old root now lies over the new one.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the machine's root: %w", err)
	}
	return os.Chdir("/")
}
