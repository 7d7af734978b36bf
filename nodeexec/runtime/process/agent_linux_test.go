package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const agentEnv = "ASTRAEUS_PROCESS_TEST_AGENT"

// agentOrder is what a test's agent process does: start one worker, and die at
// a step of it, or wait to be killed.
type agentOrder struct {
	StateDir, LogDir string
	ID, Script       string
	Drive            string // mounted at /io
	CrashAt          string
	// Contact is the file that is noted now, before the start, "" for none; a worker
	// ends when that is older than a second.
	Contact string
}

// maybeAgent runs this test binary as an agent.
func maybeAgent() {
	body := os.Getenv(agentEnv)
	if body == "" {
		return
	}
	os.Unsetenv(agentEnv)
	if err := agentMain(body); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func agentMain(body string) error {
	var o agentOrder
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		return err
	}
	e, err := New(Options{StateDir: o.StateDir, awayGrace: 100 * time.Millisecond, crash: func(step string) {
		if step == o.CrashAt {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		return err
	}
	fd, err := unix.Open(o.Drive, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	spec := runtime.Spec{ID: o.ID, Command: "sh", Args: []string{"-c", o.Script},
		LogDir: o.LogDir, Mounts: []runtime.Mount{{Source: os.NewFile(uintptr(fd), o.Drive), Target: "/io"}}}
	if o.Contact != "" {
		if spec.Contact, err = os.Create(o.Contact); err != nil {
			return err
		}
		spec.StopIfAway = time.Second
		if err := runtime.NoteContact(spec.Contact, runtime.Uptime()); err != nil {
			return err
		}
	}
	if err := e.Start(context.Background(), spec); err != nil {
		return err
	}
	fmt.Println("started")
	_, err = io.Copy(io.Discard, os.Stdin) // until killed
	return err
}

// runAgent starts an agent process, waits for its start or its death, and
// makes sure that it is killed with -9.
func (f *fixture) runAgent(o agentOrder) {
	f.t.Helper()
	require.NoError(f.t, f.engine.Close())
	o.StateDir, o.LogDir = f.state, f.logs
	body, err := json.Marshal(o)
	require.NoError(f.t, err)
	cmd := exec.CommandContext(f.deadline, "/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), agentEnv+"="+string(body))
	stdin, err := cmd.StdinPipe()
	require.NoError(f.t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	cmd.Stderr = os.Stderr
	require.NoError(f.t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if o.CrashAt == "" {
		require.Equal(f.t, "started\n", line)
		require.NoError(f.t, err)
		require.NoError(f.t, cmd.Process.Kill())
	}
	require.Error(f.t, cmd.Wait())
	require.Equal(f.t, unix.SIGKILL, signalOf(cmd), line)
}

func signalOf(cmd *exec.Cmd) unix.Signal {
	return cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal()
}

// A worker outlives its agent, and the next agent takes it over.
func TestWorkerOutlivesItsAgent(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	f.runAgent(agentOrder{ID: "w", Drive: q.mount.Source.Name(),
		Script: `exec 3>/io/out; trap 'echo bye >&3; exit 4' TERM; echo hello >&3; while :; do :; done`})
	require.Equal(t, "hello", q.line())

	f.open()
	s := f.status("w")
	require.Equal(t, runtime.Running, s.State)
	require.NotZero(t, s.PID)
	require.NotZero(t, s.Started)
	f.start(f.spec("w", "exit 1")) // already there: nothing happens

	require.NoError(t, f.engine.Stop(f.deadline, "w", patience))
	require.Equal(t, "bye", q.line())
	s = f.await("w", runtime.Exited)
	require.Equal(t, 4, *s.ExitCode)
}

// An exit code that happened while no agent was there is kept.
func TestWorkerExitCodeOutlivesItsAgent(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	gate := f.drive()
	require.NoError(t, unix.Mkfifo(gate+"/go", 0o600))
	require.NoError(t, os.Link(gate+"/go", q.mount.Source.Name()+"/go"))
	f.runAgent(agentOrder{ID: "w", Drive: q.mount.Source.Name(),
		Script: `exec 3>/io/out; echo up >&3; read x </io/go; exit 7`})
	require.Equal(t, "up", q.line())
	release(t, gate+"/go")
	q.end()

	f.open()
	s := f.await("w", runtime.Exited)
	require.Equal(t, 7, *s.ExitCode)
	require.Equal(t, "exit code 7", s.Reason)
	require.NotZero(t, s.Ended)
	f.start(f.spec("w", "exit 1"))
	require.Equal(t, 7, *f.status("w").ExitCode)
}

// release lets a worker go on that reads from a FIFO.
func release(t *testing.T, path string) {
	t.Helper()
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	require.NoError(t, err)
	_, err = w.WriteString("go\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// An agent killed at any step of a start leaves a worker that runs, or none:
// the start is repeated, and the command has run exactly once.
func TestWorkerStartSurvivesCrashes(t *testing.T) {
	for step, running := range map[string]bool{"recorded": false, "launched": false, "released": true} {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t)
			q := f.newFIFO()
			const script = `echo ran >>/io/count; exec 3>/io/out; echo up >&3; exec sleep 1000`
			f.runAgent(agentOrder{ID: "w", Drive: q.mount.Source.Name(), Script: script, CrashAt: step})
			f.open()
			l := f.list()
			require.True(t, l.Complete)
			if running {
				require.Equal(t, runtime.Running, f.status("w").State)
			} else {
				require.Empty(t, l.Workers)
			}
			f.start(f.spec("w", script, q.mount))
			require.Equal(t, "up", q.line())
			require.Equal(t, runtime.Running, f.status("w").State)
			require.NoError(t, f.engine.Stop(f.deadline, "w", 0))
			q.end()
			b, err := os.ReadFile(q.mount.Source.Name() + "/count")
			require.NoError(t, err)
			require.Equal(t, "ran\n", string(b))
		})
	}
}

// A worker whose machine has no controller ends although its agent is dead and it
// ignores being asked to, and it and all that it runs write no more: X-13.
func TestWorkerStopsAwayWithoutAnAgent(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	contact := f.drive() + "/contact"
	f.runAgent(agentOrder{ID: "w", Drive: q.mount.Source.Name(), Script: stubborn, Contact: contact})
	require.Equal(t, "up", q.line())
	q.end() // all of the tree is gone, while no agent is there
	f.open()
	s := f.await("w", runtime.Exited)
	require.Equal(t, runtime.ReasonAway, s.Reason)
	require.Equal(t, "SIGKILL", s.Signal)
}

// One that ends well when it is asked to has been stopped all the same: X-13.
func TestWorkerStopsAwayByItself(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	f.runAgent(agentOrder{ID: "w", Drive: q.mount.Source.Name(), Contact: f.drive() + "/contact",
		Script: `exec 3>/io/out; trap 'echo saved >&3; exit 0' TERM; echo up >&3; while :; do :; done`})
	require.Equal(t, "up", q.line())
	require.Equal(t, "saved", q.line())
	f.open()
	s := f.await("w", runtime.Exited)
	require.Equal(t, runtime.ReasonAway, s.Reason)
	require.Equal(t, 0, *s.ExitCode)
}
