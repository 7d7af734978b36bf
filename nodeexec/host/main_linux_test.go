package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

const (
	envNamespace = "HOST_TEST_NAMESPACE" // set: we are in a mount namespace of our own
	envRootless  = "HOST_TEST_ROOTLESS"  // set: and not root on the machine
	envCrash     = "HOST_TEST_CRASH"     // the step at which the process kills itself
	cluster      = "cluster-1"
)

// TestMain runs the tests in a mount namespace of their own: whatever happens
// to them, the machine has no mount and no loop device of theirs afterwards.
func TestMain(m *testing.M) {
	if os.Getenv(envNamespace) == "" {
		os.Exit(reexec(os.Args[1:], os.Geteuid() != 0, os.Stdout, os.Stderr))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "private mounts:", err)
		os.Exit(1)
	}
	unix.Umask(0o077) // modes must not depend on it
	if crashed := os.Getenv(envCrash); crashed != "" {
		runCrash(crashed)
		return
	}
	goleak.VerifyTestMain(m)
}

// reexec runs this binary in new namespaces; rootless maps one user only.
func reexec(args []string, rootless bool, stdout, stderr io.Writer) int {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), envNamespace+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if rootless {
		uid, gid := os.Geteuid(), os.Getegid()
		if uid == 0 {
			uid, gid = 65534, 65534
			cmd.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
		}
		cmd.Env = append(cmd.Env, envRootless+"=1")
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	if err := cmd.Run(); err != nil {
		if code := cmd.ProcessState.ExitCode(); code > 0 {
			return code
		}
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func rootless() bool { return os.Getenv(envRootless) != "" }

// needRoot skips a test that needs loop devices or real rights.
func needRoot(t testing.TB) {
	t.Helper()
	if rootless() {
		if os.Getenv("CI") != "" && os.Getenv("HOST_TEST_INNER") == "" {
			t.Fatal("in CI the tests run as root")
		}
		t.Skip("needs root: loop devices cannot be mounted in a user namespace")
	}
}

func ctx(t testing.TB) context.Context { return t.Context() }

// mountTmpfs mounts a small disk of memory on dir.
func mountTmpfs(t testing.TB, dir, options string) {
	t.Helper()
	mkdir(t, dir)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// loopDisk mounts a real filesystem in a file on a new directory.
func loopDisk(t testing.TB, fstype string, sizeMB int64) (dir string) {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("mkfs." + fstype); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("in CI mkfs.%s must be there", fstype)
		}
		t.Skipf("no mkfs.%s here", fstype)
	}
	base := t.TempDir()
	image := filepath.Join(base, "image")
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, sizeMB<<20))
	require.NoError(t, f.Close())
	run(t, "mkfs."+fstype, "-q", image)
	device := strings.TrimSpace(run(t, "losetup", "--find", "--show", image))
	dir = filepath.Join(base, "disk")
	mkdir(t, dir)
	err = unix.Mount(device, dir, fstype, 0, "")
	detach := exec.Command("losetup", "-d", device).Run() // at once: it goes with the mount
	require.NoError(t, err)
	require.NoError(t, detach)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %v: %s", name, args, stderr.String())
	return string(out)
}

func bindMount(t testing.TB, from, to string) {
	t.Helper()
	mkdir(t, to)
	require.NoError(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

func mkdir(t testing.TB, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func write(t testing.TB, file, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(file))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

func symlink(t testing.TB, to, at string) {
	t.Helper()
	mkdir(t, filepath.Dir(at))
	require.NoError(t, os.Symlink(to, at))
}

// machine is a lab's machine in a tmpfs of its own.
type machine struct {
	*Host
	dir string // its root on this computer
}

func (m *machine) at(hostPath string) string { return filepath.Join(m.dir, hostPath) }

func newMachine(t testing.TB, change ...func(*Options, *system)) *machine {
	t.Helper()
	dir := t.TempDir()
	mountTmpfs(t, dir, "size=64m,mode=755")
	return machineIn(t, dir, change...)
}

func machineIn(t testing.TB, dir string, change ...func(*Options, *system)) *machine {
	t.Helper()
	o, sys := Options{Root: dir, WorkRoot: "/work", StateDir: "/var/lib/astraeus-agent"}, realSystem()
	for _, fn := range change {
		fn(&o, &sys)
	}
	h, err := newHost(o, sys)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return &machine{h, dir}
}

func (m *machine) copies(t testing.TB) *Copies {
	t.Helper()
	c := m.Copies(cluster)
	t.Cleanup(c.Close)
	return c
}

func drive(name string) schema.Key {
	return schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: name}
}

var here = schema.DataLocation{Path: "/data/astraeus", Present: true}

// settled closes the copies, after the remover did all that it has to do.
func settled(t testing.TB, c *Copies) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.remover.mu.Lock()
		defer c.remover.mu.Unlock()
		return !c.remover.running
	}, 2*time.Minute, time.Millisecond)
}

func closeDir(t testing.TB, d *Dir) {
	t.Helper()
	require.NoError(t, d.Close())
}
