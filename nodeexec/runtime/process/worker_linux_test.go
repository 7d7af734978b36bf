package process

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"astraeus.io/astraeus/nodeexec/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWorkerRunsAndEnds(t *testing.T) {
	f := newFixture(t)
	dir := f.drive()
	s := f.spec("w", `echo out; echo err >&2; echo ran >>/d/count; exit 3`, f.mount(dir, "/d", false))
	s.Env = []string{"A=b"}
	f.start(s)
	got := f.await("w", runtime.Exited)
	require.Equal(t, 3, *got.ExitCode)
	require.Equal(t, "exit code 3", got.Reason)
	require.Equal(t, map[string]string{"run": "r-w"}, got.Labels)
	require.False(t, got.Started.IsZero())
	require.False(t, got.Ended.Before(got.Started))
	require.Zero(t, got.PID)
	require.Equal(t, "out\nerr\n", f.log("w"))

	f.start(s) // an ended worker counts as known
	f.reopen()
	f.start(s)
	require.Equal(t, got, f.status("w"))
	b, err := os.ReadFile(dir + "/count")
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(b))

	require.NoError(t, f.engine.Remove(f.deadline, "w"))
	require.NoError(t, f.engine.Remove(f.deadline, "w"))
	require.Empty(t, f.list().Workers)
	require.NoError(t, f.engine.Stop(f.deadline, "w", 0))
	f.reopen()
	require.Empty(t, f.list().Workers)
}

func TestWorkerSurroundings(t *testing.T) {
	leak, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // inheritable, by mistake
	require.NoError(t, err)
	defer unix.Close(leak)
	f := newFixture(t)
	s := f.spec("w", `hostname; pwd; id -u; echo $PATH $HOME $FOO $CUDA_VISIBLE_DEVICES $ASTRAEUS_GPUS; umask
		cat /run/astraeus/config; stat -c %a /run/astraeus/config /etc/app/x; echo $1
		ls /proc/self/fd | tr '\n' ' '; echo
		grep -E 'SigIgn|SigBlk|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp:' /proc/self/status | tr '\t\n' ' ,'; echo
		test -c /dev/null && test -e /dev/ptmx && echo x >/dev/shm/x && echo y | cat >/dev/stdout
		getent hosts localhost >/dev/null && echo resolves`)
	s.Args = append(s.Args, "sh", "arg with space")
	s.Hostname, s.WorkDir, s.GPUs = "train-0", "/tmp", []int{2, 3}
	s.Env = []string{"FOO=bar", "CUDA_VISIBLE_DEVICES=9"}
	s.Files = []runtime.File{
		{Path: "/run/astraeus/config", Content: []byte("given\n"), Mode: 0o640},
		{Path: "/etc/app/x"},
		{Path: "/etc/hosts", Content: []byte("127.0.0.1 localhost\n")},
	}
	log := f.run(s)
	require.Equal(t, strings.Join([]string{
		"train-0", "/tmp", "0", defaultPath + " /root bar 2,3 2,3", "0022",
		"given", "440", "444", "arg with space",
		"0 1 2 3 ", // 3 is the listing itself
		"SigBlk: 0000000000000000,SigIgn: 0000000000000000,CapEff: 0000000000000000,CapBnd: 0000000000000000," +
			"CapAmb: 0000000000000000,NoNewPrivs: 1,Seccomp: 2,",
		"y", "resolves", "",
	}, "\n"), log)
}

// What the agent left open does not stay open for as long as a worker runs.
func TestWorkerHoldsNoDescriptorOfTheAgent(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], 0)) // inheritable
	f.start(f.spec("w", `exec 3>/io/out; echo up >&3; exec sleep 1000`, q.mount))
	require.Equal(t, "up", q.line())
	unix.Close(p[1])
	fds := []unix.PollFd{{Fd: int32(p[0]), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	unix.Close(p[0])
	require.NoError(t, err)
	require.Equal(t, 1, n, "the writing end is still open somewhere")
	require.NotZero(t, fds[0].Revents&unix.POLLHUP)
}

func TestWorkerCommandProblems(t *testing.T) {
	f := newFixture(t)
	dir := f.drive()
	for name, content := range map[string]string{"plain": "x", "noshebang": "\x01\x02", "badinterp": "#!/no/such\n"} {
		mode := os.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(content), mode))
	}
	for i, c := range []struct {
		command, workDir string
		code             int
		reason           string
	}{
		{"foo", "", 127, "command not found: foo"},
		{"/no/such", "", 127, "command not found: /no/such"},
		{"/d/plain", "", 126, "command cannot be run: /d/plain: permission denied"},
		{"./plain", "/d", 126, "command cannot be run: /d/plain: permission denied"},
		{"/d", "", 126, "command cannot be run: /d: is a directory"},
		{"/d/noshebang", "", 126, "command cannot be run: /d/noshebang: not a program for this machine, and no #! line"},
		{"/d/badinterp", "", 127, "command cannot be run: /d/badinterp: its interpreter or loader is not found"},
		{"sh", "/no/such", 126, "working directory not found: /no/such"},
	} {
		s := f.spec(fmt.Sprint("w", i), "", f.mount(dir, "/d", true))
		s.Command, s.Args, s.WorkDir = c.command, nil, c.workDir
		f.start(s)
		got := f.await(s.ID, runtime.Exited)
		require.Equal(t, c.code, *got.ExitCode, c.command)
		require.Equal(t, c.reason, got.Reason)
		require.Contains(t, f.log(s.ID), c.reason)
	}
}

// Many calls for one worker start it once; many workers start at once.
func TestWorkerConcurrentStarts(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	const workers, callsEach = 8, 3
	var calls sync.WaitGroup
	for i := range workers * callsEach {
		s := f.spec(fmt.Sprint("w", i/callsEach), `exec 3>/io/out; echo $1 >&3; exec sleep 1000`, q.mount)
		s.Args = append(s.Args, "sh", s.ID)
		calls.Go(func() {
			if err := f.engine.Start(f.deadline, s); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	var want, ran []string
	for i := range workers {
		want, ran = append(want, fmt.Sprint("w", i)), append(ran, q.line())
	}
	require.ElementsMatch(t, want, ran)
	l := f.list()
	require.Len(t, l.Workers, workers)
	for _, w := range l.Workers {
		require.Equal(t, runtime.Running, w.State)
		calls.Go(func() {
			if err := f.engine.Stop(f.deadline, w.ID, patience); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	rest, err := io.ReadAll(q.lines)
	require.NoError(t, err)
	require.Empty(t, rest, "none ran twice")
}

func TestWorkerLogIsCapped(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.LogMaxBytes = 10_000 })
	log := f.run(f.spec("w", `seq 1 20000; echo last`))
	require.LessOrEqual(t, len(log), 10_000)
	require.True(t, strings.HasSuffix(log, "last\n"))
	old, err := os.ReadFile(f.logs + "/w.log.1")
	require.NoError(t, err)
	require.Len(t, old, 10_000)
	require.Contains(t, string(old)+log, "19999\n20000\nlast\n")
	entries, err := os.ReadDir(f.logs)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestWorkerNetworkNamespace(t *testing.T) {
	f := newFixture(t)
	s := f.spec("w", `readlink /proc/self/ns/net; cat /proc/net/dev | wc -l`)
	if mode() == modeRootless || f.engine.userNS {
		s.NetNS = "/proc/self/ns/net"
		require.ErrorContains(t, f.engine.Start(f.deadline, s), "network namespace /proc/self/ns/net: joining it")
		require.Empty(t, f.list().Workers)
		return
	}
	var path string
	require.NoError(t, onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		path = fmt.Sprintf("/proc/self/fd/%d", fd)
		t.Cleanup(func() { unix.Close(fd) })
		return err
	}))
	want, err := os.Readlink(path)
	require.NoError(t, err)
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	s.NetNS = path
	log := f.run(s)
	require.Equal(t, want, strings.Fields(log)[0])
	require.NotEqual(t, own, want)
	after, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Equal(t, own, after)
}

func TestWorkerCgroup(t *testing.T) {
	f := newFixture(t)
	if f.engine.cgroups.dir == "" {
		if mode() == modeDirect {
			lacking(t, "no writable cgroup v2 hierarchy here")
		}
		t.Skip("an ordinary user has no cgroup to write to")
	}
	q := f.newFIFO()
	s := f.spec("w", `exec 3>/io/out; echo up >&3; exec sleep 1000`, q.mount)
	s.CPU, s.MemoryBytes = 0.5, 256<<20
	f.start(s)
	require.Equal(t, "up", q.line())
	dir := f.engine.cgroups.dir + "/w"
	procs, err := os.ReadFile(dir + "/cgroup.procs")
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(procs)), 2, "the shim and the command")
	for name, want := range map[string]string{"cpu": "50000 100000\n", "memory": "268435456\n"} {
		if !f.engine.cgroups.controllers[name] {
			continue // this machine keeps them in its v1 hierarchy
		}
		b, err := os.ReadFile(dir + "/" + name + ".max")
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
	require.NoError(t, f.engine.Stop(f.deadline, "w", 0))
	require.NoDirExists(t, dir)
}
