package process

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stubborn ignores SIGTERM, as do its children; it says "up" and then has the
// FIFO open for as long as one of them lives.
const stubborn = `trap '' TERM; exec 3>/io/out; (setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo up >&3
	while :; do sleep 1000; done`

// A shell in between does not keep SIGTERM from what it runs.
func TestWorkerStopReachesTheTree(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	f.start(f.spec("w", `exec 3>/io/out
		sh -c 'trap "echo inner; exit 0" TERM; echo up >&3; while :; do :; done'; exit 5`, q.mount))
	require.Equal(t, "up", q.line())
	require.NoError(t, f.engine.Stop(f.deadline, "w", patience))
	s := f.status("w")
	require.Equal(t, runtime.Exited, s.State)
	require.Contains(t, f.log("w"), "inner\n")
	require.NoError(t, f.engine.Stop(f.deadline, "w", patience)) // nothing to do
}

func TestWorkerStopKillsAfterGrace(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	f.start(f.spec("w", stubborn, q.mount))
	require.Equal(t, "up", q.line())
	require.NoError(t, f.engine.Stop(f.deadline, "w", 30*time.Millisecond))
	q.end() // all of the tree is gone
	s := f.status("w")
	require.Equal(t, runtime.Exited, s.State)
	require.Equal(t, 137, *s.ExitCode)
	require.Equal(t, "SIGKILL", s.Signal)
	require.Equal(t, "killed: it did not end within 30ms of being asked to", s.Reason)
	f.reopen()
	require.Equal(t, s.Reason, f.status("w").Reason)
}

// A second stop can shorten the grace; a stop goes on when its caller does not.
func TestWorkerStopInAHurry(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	f.start(f.spec("w", stubborn, q.mount))
	require.Equal(t, "up", q.line())
	gone, cancel := context.WithCancel(f.deadline)
	cancel()
	require.ErrorIs(t, f.engine.Stop(gone, "w", time.Hour), context.Canceled)
	require.Equal(t, runtime.Running, f.status("w").State)
	require.NoError(t, f.engine.Stop(f.deadline, "w", 0))
	q.end()
}

// A stop goes on after a restart of the agent.
func TestWorkerStopSurvivesARestart(t *testing.T) {
	f := newFixture(t)
	q := f.newFIFO()
	f.start(f.spec("w", stubborn, q.mount))
	require.Equal(t, "up", q.line())
	require.NoError(t, f.engine.Close())
	dir, err := os.Open(filepath.Join(f.engine.workersDir(), "w"))
	require.NoError(t, err)
	now := time.Now()
	require.NoError(t, writeRecord(dir, stopFile, stopRecord{Version: recordVersion, Asked: now.Add(-time.Minute), KillAt: now}))
	require.NoError(t, dir.Close())
	f.open() // nobody calls Stop
	s := f.await("w", runtime.Exited)
	require.Equal(t, "SIGKILL", s.Signal)
	q.end()
}

// Daemons end with the command, however they hid, and so does a tree that
// forks faster than one can look.
func TestWorkerTreeEndsAsAWhole(t *testing.T) {
	f := newFixture(t)
	t.Run("the command ends", func(*testing.T) {
		q := f.newFIFO()
		f.start(f.spec("d", `exec 3>/io/out; (setsid sh -c 'trap "" TERM HUP; sleep 1000 & exec sleep 1000' &)
			(setsid setsid sleep 1000 &); echo up >&3; exit 0`, q.mount))
		require.Equal(t, "up", q.line())
		q.end()
		s := f.await("d", runtime.Exited)
		require.Equal(t, 0, *s.ExitCode)
		require.Empty(t, s.Reason)
	})
	t.Run("it forks without end", func(*testing.T) {
		q := f.newFIFO()
		f.start(f.spec("f", `trap '' TERM; exec 3>/io/out; echo up >&3
			i=0; while [ $i -lt 300 ]; do i=$((i+1)); (setsid sleep 1000 &); done; echo all >&3; while :; do sleep 1000; done`, q.mount))
		require.Equal(t, "up", q.line()) // and goes on forking
		require.NoError(t, f.engine.Stop(f.deadline, "f", 10*time.Millisecond))
		q.end()
	})
}

func TestWorkerStuck(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.stuckAfter = 10 * time.Millisecond
		o.kill = func(*os.File, string) error { return nil } // the kernel does not let go of it
	})
	q := f.newFIFO()
	f.start(f.spec("w", stubborn, q.mount))
	require.Equal(t, "up", q.line())
	require.ErrorIs(t, f.engine.Stop(f.deadline, "w", 0), runtime.ErrStuck)
	s := f.status("w")
	require.Equal(t, runtime.Stuck, s.State)
	require.Contains(t, s.Reason, "and still there")
	require.ErrorIs(t, f.engine.Remove(f.deadline, "w"), runtime.ErrRunning)
	f.start(f.spec("w", "exit 1")) // known
	f.reopen()
	f.await("w", runtime.Stuck)

	require.NoError(t, f.engine.Close())
	f.opts.kill = nil
	f.open() // the stop goes on by itself
	s = f.await("w", runtime.Exited)
	require.Equal(t, "SIGKILL", s.Signal)
	require.NoError(t, f.engine.Stop(f.deadline, "w", 0))
}

// killUnwatched ends a worker from outside while no engine is open.
func (f *fixture) killUnwatched(id string) {
	f.t.Helper()
	pidfd, err := unix.PidfdOpen(f.status(id).PID, 0)
	require.NoError(f.t, err)
	defer unix.Close(pidfd)
	require.NoError(f.t, f.engine.Close())
	require.NoError(f.t, unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0))
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	require.NoError(f.t, err)
	require.NoError(f.t, unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED, nil))
}

func TestWorkerEndsWhileNobodyWatches(t *testing.T) {
	f := newFixture(t)
	f.start(f.spec("w", "exec sleep 1000"))
	f.killUnwatched("w")
	f.open()
	s := f.status("w")
	require.Equal(t, runtime.Exited, s.State)
	require.Nil(t, s.ExitCode)
	require.Equal(t, "ended while nobody watched", s.Reason)
	require.NotZero(t, s.Ended)
	f.reopen()
	require.Equal(t, s, f.status("w"), "the answer stays the same")
}

func TestWorkerReboot(t *testing.T) {
	f := newFixture(t)
	f.start(f.spec("w", "exec sleep 1000"))
	f.start(f.spec("before", "exit 3"))
	f.await("before", runtime.Exited)
	f.killUnwatched("w")
	f.opts.bootID = func() (string, error) { return "another", nil }
	f.open()
	require.Equal(t, "the machine rebooted", f.status("w").Reason)
	require.Nil(t, f.status("w").ExitCode)
	require.Equal(t, 3, *f.status("before").ExitCode, "it ended before that")
}

// A pid that is another process's now is not taken for the worker.
func TestWorkerPidIsReused(t *testing.T) {
	f := newFixture(t)
	f.start(f.spec("w", "exec sleep 1000"))
	f.killUnwatched("w")
	path := filepath.Join(f.engine.workersDir(), "w", processFile)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var p processRecord
	require.NoError(t, json.Unmarshal(b, &p))
	p.PID = os.Getpid()
	b, err = json.Marshal(p)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f.open()
	require.Equal(t, runtime.Exited, f.status("w").State)
	require.NoError(t, f.engine.Stop(f.deadline, "w", 0)) // this test lives on
}

// What cannot be read is not taken for absent.
func TestWorkerUnreadableRecord(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.engine.Close())
	dir := filepath.Join(f.engine.workersDir(), "w")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, specFile), []byte(`{"version":99}`), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(f.engine.workersDir(), tempPrefix+"x"), 0o700))
	f.open()
	l := f.list()
	require.False(t, l.Complete)
	require.Len(t, l.Workers, 1)
	require.Equal(t, runtime.Unknown, l.Workers[0].State)
	require.Equal(t, "spec.json: version 99, this program knows 1", l.Workers[0].Reason)
	f.start(f.spec("w", "exit 1")) // may be running: not a second time
	require.Error(t, f.engine.Stop(f.deadline, "w", 0))
	require.ErrorIs(t, f.engine.Remove(f.deadline, "w"), runtime.ErrRunning)
	require.NoError(t, f.engine.Close())
	require.NoError(t, os.RemoveAll(dir))
	f.open()
	require.True(t, f.list().Complete)
}

func TestWorkerEngineLifetime(t *testing.T) {
	f := newFixture(t)
	_, err := New(f.opts)
	require.ErrorContains(t, err, "another engine uses it")
	f.start(f.spec("w", "exec sleep 1000"))
	require.NoError(t, f.engine.Close())
	require.NoError(t, f.engine.Close())
	for range f.engine.Events() { // what was there, then closed
	}
	require.ErrorIs(t, f.engine.Start(f.deadline, f.spec("x", "exit 0")), runtime.ErrClosed)
	require.ErrorIs(t, f.engine.Stop(f.deadline, "w", 0), runtime.ErrClosed)
	require.ErrorIs(t, f.engine.Remove(f.deadline, "w"), runtime.ErrClosed)
	_, err = f.engine.List(f.deadline)
	require.ErrorIs(t, err, runtime.ErrClosed)
	f.open()
	require.Equal(t, runtime.Running, f.status("w").State)
	ended, cancel := context.WithCancel(f.deadline)
	cancel()
	require.Error(t, f.engine.Start(ended, f.spec("x", "exit 0")))
	require.Empty(t, f.status("x"))
}
