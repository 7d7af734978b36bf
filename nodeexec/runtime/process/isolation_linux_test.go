package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"astraeus.io/astraeus/nodeexec/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// attempts are things a worker must not be able to do. None of them does harm
// if it works. $1 is another drive's directory, $2 the agent's state
// directory, $3 the pid of the test on the machine.
const attempts = `
try() { if "$@" >/dev/null 2>&1; then echo "ESCAPED: $*"; else echo "refused: $*"; fi; }
for c in mount umount unshare nsenter chroot mknod hostname chown date; do
	command -v $c >/dev/null || echo "missing: $c"
done
append() { true >>"$1"; }
try ls "$1"
try ls "$2"
try cat "$2/workers/w/spec.json"
try ls /a/../../../../"$1"
try cat /a/link/secret
try ls /proc/1/root
try ls /proc/1/root/"$1"
try ls /proc/1/cwd/
try readlink /proc/1/fd/0
try ls /proc/1/fd/5/
try ls /proc/1/fd/6/
try cat /proc/1/maps
try readlink /proc/1/exe
try head -c 1 /proc/1/exe
try cat /proc/1/environ
try kill -0 "$3"
try ls /proc/"$3"
try mount -t tmpfs none /tmp
try mount --bind /a /ro
try mount -o remount,bind,rw /ro
try mount -o remount,bind,rw /usr
try mount -t proc proc /tmp
try umount /ro
try umount -l /proc/keys
try umount -l /
try unshare -U true
try unshare -Ur true
try unshare -m true
try unshare -Urm mount -t tmpfs none /tmp
try nsenter -t 1 -m true
try chroot /a /bin/true
try touch /ro/x
try append /ro/secret
try chmod 777 /ro/secret
try touch /usr/x
try touch /etc/x
try append /etc/passwd
try append /given
try chmod 777 /given
try touch /x
try touch /dev/x
try mkdir /home
try append /proc/sys/kernel/core_pattern
try append /proc/sys/vm/drop_caches
try append /proc/sysrq-trigger
try append /proc/self/oom_score_adj
try mknod /tmp/disk b 8 0
try mknod /tmp/mem c 1 1
try head -c 1 /proc/kcore
try grep . /proc/keys
try hostname evil
try chown 12345 /a/mine
try date -s @0
try ls /var/lib
try ls /etc/shadow
try ls /etc/ssl/private
try ls /sys/kernel
try ls /mnt
try ls /opt
for p in /proc/[0-9]*; do echo "process: $(tr '\0' ' ' 2>/dev/null <$p/comm)"; done
echo done
`

// The canary of X-14: what a worker was not given is out of its reach.
func TestWorkerCanary(t *testing.T) {
	f := newFixture(t)
	a, b, ro := f.drive(), f.drive(), f.drive()
	for _, dir := range []string{b, ro} {
		require.NoError(t, os.WriteFile(dir+"/secret", []byte("secret"), 0o666))
	}
	require.NoError(t, os.Symlink(b, a+"/link"))
	require.NoError(t, os.WriteFile(a+"/mine", nil, 0o666))
	s := f.spec("w", attempts, f.mount(a, "/a", false), f.mount(ro, "/ro", true))
	s.Args = append(s.Args, "sh", b, f.state, fmt.Sprint(os.Getpid()))
	s.Files = []runtime.File{{Path: "/given", Content: []byte("x"), Mode: 0o666}}
	s.Hostname = "w" // its own UTS namespace: even so it cannot change it
	log := f.run(s)
	require.NotContains(t, log, "ESCAPED")
	require.NotContains(t, log, "missing: ", "an attempt without its tool shows nothing")
	require.Equal(t, strings.Count(attempts, "\ntry "), strings.Count(log, "refused: "), log)
	require.True(t, strings.HasSuffix(log, "done\n"), log)
	processes := strings.Count(log, "process: ")
	require.LessOrEqual(t, processes, 4, log) // the shim, the shell, its helpers
	require.NoFileExists(t, ro+"/x")
}

// A program that would run as another user gains nothing.
func TestWorkerSetuidGainsNothing(t *testing.T) {
	if os.Geteuid() != 0 || mode() != modeDirect {
		t.Skip("making such a program needs root on the machine")
	}
	f := newFixture(t)
	dir := f.drive()
	id, err := os.ReadFile("/usr/bin/id")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/id", id, 0o755))
	require.NoError(t, os.Chown(dir+"/id", ordinaryUser, ordinaryUser))
	require.NoError(t, os.Chmod(dir+"/id", 0o755|os.ModeSetuid|os.ModeSetgid))
	log := f.run(f.spec("w", "/d/id -u; /d/id -g; id -G", f.mount(dir, "/d", false)))
	require.Equal(t, "0\n0\n0\n", log)
}

// Mounts are as given: nested ones in any order, files, read-only, and without
// what is mounted below the source.
func TestWorkerMounts(t *testing.T) {
	f := newFixture(t)
	outer, inner, single := f.drive(), f.drive(), f.drive()+"/file"
	require.NoError(t, os.Mkdir(outer+"/sub", 0o755))
	require.NoError(t, os.WriteFile(inner+"/i", []byte("inner\n"), 0o644))
	require.NoError(t, os.WriteFile(single, []byte("single\n"), 0o644))
	log := f.run(f.spec("w", `cat /data/sub/i /deep/er/file; touch /data/made || echo ro; touch /data/sub/made
		grep -c ' /data' /proc/self/mounts; touch /tmp/m/x`,
		f.mount(inner, "/data/sub", false), f.mount(outer, "/data", true), f.mount(single, "/deep/er/file", true),
		f.mount(f.drive(), "/tmp/m", false)))
	require.Contains(t, log, "inner\nsingle\n")
	require.Contains(t, log, "Read-only file system\nro\n2\n")
	require.FileExists(t, inner+"/made")
	require.NoFileExists(t, outer+"/made")
	require.NoFileExists(t, outer+"/sub/i")
}

func TestWorkerMountRefusals(t *testing.T) {
	f := newFixture(t)
	dir, other := f.drive(), f.drive()
	require.NoError(t, os.Symlink("/etc", dir+"/link"))
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
	for target, want := range map[string]string{
		"/data/sub":       "mount /data/sub: there is no such directory in what is mounted at /data, and none is created in it",
		"/data/link/x":    "mount /data/link/x: the path goes through a symbolic link",
		"/data/link":      "mount /data/link: the path goes through a symbolic link",
		"/data/file":      "mount /data/file: a directory cannot be mounted onto a file",
		"/etc/ssl/certs2": "",
		"/etc/hosts/x":    "mount /etc/hosts/x: ",
	} {
		s := f.spec("w", "exit 0", f.mount(dir, "/data", false), f.mount(other, target, true))
		err := f.engine.Start(f.deadline, s)
		if want == "" {
			require.NoError(t, err)
			f.await("w", runtime.Exited)
			require.NoError(t, f.engine.Remove(f.deadline, "w"))
			continue
		}
		require.ErrorContains(t, err, want)
		require.Empty(t, f.list().Workers, "nothing is left of a start that failed")
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing was created in the drive")
	invalid := f.spec("w", "exit 0", f.mount(dir, "/usr/foo", false))
	require.ErrorIs(t, f.engine.Start(f.deadline, invalid), runtime.ErrInvalid)
}

// A source that is swapped after it was verified does not get in.
func TestWorkerSourceSwapped(t *testing.T) { // X-14, CVE-2021-25741
	f := newFixture(t)
	base, secret := f.drive(), f.drive()
	require.NoError(t, os.WriteFile(secret+"/secret", []byte("secret"), 0o644))
	swap := func(replace func(path string) error) error {
		dir := filepath.Join(base, "drive")
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.RemoveAll(dir+".old"))
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(dir+"/mine", nil, 0o644))
		s := f.spec("w", "ls /d", f.mount(dir, "/d", true))
		// The path a descriptor was opened by is replaced; where only the
		// path is left to go by, /proc names where the original is now.
		require.NoError(t, os.Rename(dir, dir+".old"))
		require.NoError(t, replace(dir))
		if err := f.engine.Start(f.deadline, s); err != nil {
			require.Empty(t, f.list().Workers)
			return err
		}
		f.await("w", runtime.Exited)
		require.Contains(t, f.log("w"), "mine")
		require.NotContains(t, f.log("w"), "secret")
		return f.engine.Remove(f.deadline, "w")
	}
	require.NoError(t, swap(func(p string) error { return os.Symlink(secret, p) }))
	require.NoError(t, swap(func(p string) error { return os.Mkdir(p, 0o755) }))
}

func TestOpenVerified(t *testing.T) { // X-14, CVE-2021-25741
	base := t.TempDir()
	for _, d := range []string{"a", "b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, d, "x"), 0o755))
	}
	require.NoError(t, os.Symlink("a", base+"/link"))
	fd, err := unix.Open(base+"/a/x", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	good, err := openVerified(base+"/a/x", fd)
	require.NoError(t, err)
	unix.Close(good)
	for path, want := range map[string]string{
		"/b/x": "is not any more what was verified", "/link/x": "too many levels of symbolic links", "/c": "no such file",
	} {
		_, err := openVerified(base+path, fd)
		require.ErrorContains(t, err, want)
	}
}

// The machine's mounts and directories are as before, also while a worker runs.
func TestWorkerLeavesTheMachineAlone(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	before, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	top, err := os.ReadDir("/")
	require.NoError(t, err)
	f.start(f.spec("w", `exec 3>/io/out; echo up >&3; exec sleep 1000`, q.mount, f.mount(f.drive(), "/data/new", false)))
	require.Equal(t, "up", q.line())
	during, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.Equal(t, string(before), string(during))
	topAfter, err := os.ReadDir("/")
	require.NoError(t, err)
	require.Len(t, topAfter, len(top))
	entries, err := os.ReadDir(f.engine.rootDir())
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Mounts below a source stay out unless asked for.
func TestWorkerNestedSources(t *testing.T) {
	if mode() == modeRootless || os.Geteuid() != 0 {
		t.Skip("making a mount to begin with needs CAP_SYS_ADMIN")
	}
	f := newFixture(t)
	dir := f.drive()
	require.NoError(t, os.Mkdir(dir+"/nested", 0o755))
	require.NoError(t, unix.Mount("tmpfs", dir+"/nested", "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+"/nested", unix.MNT_DETACH)) })
	require.NoError(t, os.WriteFile(dir+"/nested/deep", nil, 0o644))
	plain, deep := f.mount(dir, "/plain", true), f.mount(dir, "/deep", true)
	deep.Recursive = true
	log := f.run(f.spec("w", `ls /plain/nested; echo -; ls /deep/nested; touch /deep/nested/x || echo ro`, plain, deep))
	require.True(t, strings.HasPrefix(log, "-\ndeep\n"), log)
	require.True(t, strings.HasSuffix(log, "ro\n"), log)
}
