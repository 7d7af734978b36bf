package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/nodeexec/runtime/process"
)

const (
	envInside = "E2E_INSIDE" // set: in namespaces of our own
	envPID    = "E2E_PID"    // our pid outside, so that temporary directories are ours
)

func TestMain(m *testing.M) {
	process.MaybeShim() // does not return in a worker's process
	switch {
	case os.Geteuid() != 0:
		os.Exit(m.Run()) // they skip, or fail in CI
	case os.Getenv(envInside) == "":
		os.Exit(inside())
	}
	if err := ownMounts(); err != nil {
		fmt.Fprintln(os.Stderr, "namespaces:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// inside runs this program again as pid 1 of namespaces of its own: when it ends,
// however it does, the kernel ends its workers and unmounts its disks, and loop
// devices clear themselves with their mounts.
func inside() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envInside+"=1", fmt.Sprintf("%s=%d", envPID, os.Getpid()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return max(0, cmd.ProcessState.ExitCode())
}

func ownMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	unix.Umask(0o022)
	return unix.Mount("proc", "/proc", "proc", 0, "")
}

// needRoot skips where the tests do not run as root, or mkfs.ext4 is not there,
// and fails there in CI.
func needRoot(t testing.TB) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "needs root: loop devices cannot be mounted in a user namespace"
	} else if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		why = "there is no mkfs.ext4 here"
	}
	switch {
	case why != "" && os.Getenv("CI") != "":
		t.Fatal("in CI these tests must run: " + why)
	case why != "":
		t.Skip(why)
	}
}

// mountDisk mounts a new ext4 of so many MB on a directory. The loop device is
// one that clears itself.
func mountDisk(t testing.TB, dir string, sizeMB int64) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(sizeMB<<20))
	require.NoError(t, f.Close())
	run(t, "mkfs.ext4", "-q", image)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	run(t, "mount", "-t", "ext4", "-o", "loop", image, dir)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// room is what a filesystem has, as X-18 counts: free of free and used.
type room struct{ free, total int64 }

func roomOf(t testing.TB, dir string) room {
	t.Helper()
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	free, used := int64(st.Bavail)*st.Bsize, int64(st.Blocks-st.Bfree)*st.Bsize
	return room{free, free + used}
}

func (r room) percent() float64 { return 100 * float64(r.free) / float64(r.total) }

// leave fills a disk until only so many percent are free.
func leave(t testing.TB, dir string, percent float64) {
	t.Helper()
	filler := filepath.Join(dir, "filler")
	f, err := os.OpenFile(filler, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	st, err := f.Stat()
	require.NoError(t, err)
	r := roomOf(t, dir)
	size := st.Size() + r.free - int64(percent/100*float64(r.total))
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, size))
	require.NoError(t, f.Close())
	require.InDelta(t, percent, roomOf(t, dir).percent(), 0.2)
}
