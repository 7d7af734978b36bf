package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what has to happen.
const patience = 60 * time.Second

// fixture is an engine on a fresh state directory, and workers' logs.
type fixture struct {
	t        testing.TB
	state    string
	logs     string
	opts     Options
	engine   *Engine
	deadline context.Context
}

func newFixture(t testing.TB, change ...func(*Options)) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	f := &fixture{t: t, state: t.TempDir(), logs: t.TempDir(), deadline: ctx}
	f.opts = Options{StateDir: f.state}
	for _, c := range change {
		c(&f.opts)
	}
	t.Cleanup(cancel)
	t.Cleanup(f.cleanup)
	f.open()
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	e, err := New(f.opts)
	require.NoError(f.t, err)
	f.engine = e
}

// reopen stands for a restart of the agent.
func (f *fixture) reopen() {
	f.t.Helper()
	require.NoError(f.t, f.engine.Close())
	f.open()
}

// cleanup leaves nothing running, however the test has ended.
func (f *fixture) cleanup() {
	if f.engine != nil {
		require.NoError(f.t, f.engine.Close())
	}
	f.opts.kill, f.opts.bootID, f.opts.crash = nil, nil, nil
	f.open()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, w := range f.list().Workers {
		if w.State != runtime.Unknown {
			require.NoError(f.t, f.engine.Stop(ctx, w.ID, 0))
			require.NoError(f.t, f.engine.Remove(ctx, w.ID))
		}
	}
	require.NoError(f.t, f.engine.Close())
	if f.engine.cgroups.dir != "" {
		require.NoDirExists(f.t, f.engine.cgroups.dir)
	}
}

func (f *fixture) spec(id, script string, mounts ...runtime.Mount) runtime.Spec {
	return runtime.Spec{ID: id, Command: "sh", Args: []string{"-c", script}, LogDir: f.logs, Mounts: mounts,
		Labels: map[string]string{"run": "r-" + id}}
}

func (f *fixture) start(s runtime.Spec) {
	f.t.Helper()
	require.NoError(f.t, f.engine.Start(f.deadline, s))
}

func (f *fixture) list() runtime.Listing {
	f.t.Helper()
	l, err := f.engine.List(f.deadline)
	require.NoError(f.t, err)
	return l
}

// status gives a worker's status, or one with an empty state.
func (f *fixture) status(id string) runtime.Status {
	f.t.Helper()
	for _, w := range f.list().Workers {
		if w.ID == id {
			return w
		}
	}
	return runtime.Status{}
}

// await waits by the engine's events until a worker is in a state.
func (f *fixture) await(id string, state runtime.State) runtime.Status {
	f.t.Helper()
	for {
		s := f.status(id)
		if s.State == state {
			return s
		}
		select {
		case <-f.engine.Events():
		case <-f.deadline.Done():
			f.t.Fatalf("worker %s is %+v, not %s\n%s", id, s, state, f.log(id))
		}
	}
}

func (f *fixture) log(id string) string {
	b, err := os.ReadFile(filepath.Join(f.logs, id+".log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// run runs a script to its end and gives its log.
func (f *fixture) run(s runtime.Spec) string {
	f.t.Helper()
	f.start(s)
	f.await(s.ID, runtime.Exited)
	return f.log(s.ID)
}

// drive is a directory that workers get as a mount.
func (f *fixture) drive() string {
	f.t.Helper()
	return f.t.(interface{ TempDir() string }).TempDir()
}

func (f *fixture) mount(dir, target string, readOnly bool) runtime.Mount {
	f.t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(f.t, err)
	src := os.NewFile(uintptr(fd), dir)
	f.t.Cleanup(func() { src.Close() })
	return runtime.Mount{Source: src, Target: target, ReadOnly: readOnly}
}

// fifo is how workers talk to a test: lines, and an end when all processes
// that have it open are gone.
type fifo struct {
	f     *fixture
	file  *os.File
	lines *bufio.Reader
	mount runtime.Mount
}

// newFIFO makes /io/out for a worker.
func (f *fixture) newFIFO() *fifo {
	f.t.Helper()
	dir := f.drive()
	path := filepath.Join(dir, "out")
	require.NoError(f.t, unix.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { file.Close() })
	require.NoError(f.t, file.SetReadDeadline(time.Now().Add(patience)))
	return &fifo{f: f, file: file, mount: f.mount(dir, "/io", false), lines: bufio.NewReader(pollReader{file})}
}

// pollReader waits for a first writer: before it, a FIFO reads as ended.
type pollReader struct{ *os.File }

func (r pollReader) Read(p []byte) (int, error) {
	conn, err := r.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var readErr error
	err = conn.Control(func(fd uintptr) {
		// Blocks this thread only; POLLHUP comes with the last writer's end.
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, readErr = unix.Poll(fds, int(patience.Milliseconds())); readErr != unix.EINTR {
				break
			}
		}
		if readErr == nil {
			n, readErr = unix.Read(int(fd), p)
		}
	})
	if err = errors.Join(err, readErr); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// line is the next line.
func (q *fifo) line() string {
	q.f.t.Helper()
	s, err := q.lines.ReadString('\n')
	require.NoError(q.f.t, err, "worker log so far:\n%s", q.f.allLogs())
	return strings.TrimSuffix(s, "\n")
}

// end waits until no process has the FIFO open any more.
func (q *fifo) end() {
	q.f.t.Helper()
	_, err := io.Copy(io.Discard, q.lines)
	require.NoError(q.f.t, err)
}

func (f *fixture) allLogs() string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(f.logs, "*.log"))
	for _, n := range names {
		b, _ := os.ReadFile(n)
		all.WriteString(filepath.Base(n) + ":\n" + string(b))
	}
	return all.String()
}
