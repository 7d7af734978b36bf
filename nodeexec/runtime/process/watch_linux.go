package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// watchLocked makes a worker Running and watches its pid 1 by a descriptor,
// which it takes over. The caller holds mu.
func (e *Engine) watchLocked(w *worker, pidfd, pid int, started time.Time, cgroup string) {
	// Non-blocking, so that the runtime's poller waits and no thread does.
	_, _ = unix.FcntlInt(uintptr(pidfd), unix.F_SETFL, unix.O_NONBLOCK)
	w.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	w.cgroup = cgroup
	w.status.State, w.status.PID, w.status.Started = runtime.Running, pid, started
	if e.closed {
		w.pidfd.Close()
		return
	}
	e.changed()
	e.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		if err := waitExit(w.pidfd); err != nil {
			return // closed
		}
		e.markEnded(w)
	}()
}

// waitExit returns when the process has ended, or with an error when the
// descriptor is closed.
func waitExit(pidfd *os.File) error {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n > 0
	})
	if err != nil {
		return err
	}
	// Not a child of ours after a restart of the agent: ECHILD is fine.
	return conn.Control(func(fd uintptr) {
		_ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
	})
}

// markEnded reads how a worker whose processes are gone has ended.
func (e *Engine) markEnded(w *worker) {
	e.mu.Lock()
	cgroup, stop := w.cgroup, w.stop
	e.mu.Unlock()
	exit := e.readExit(w, stop, "ended while nobody watched")
	if exit.Signal == unix.SignalName(unix.SIGKILL) && ranOutOfMemory(cgroup) {
		exit.Reason = "ended by SIGKILL: it went above its memory limit"
	}
	removeCgroup(cgroup)

	e.mu.Lock()
	defer e.mu.Unlock()
	w.settleExit(exit)
	if w.pidfd != nil {
		w.pidfd.Close()
		w.pidfd = nil
	}
	close(w.ended)
	e.changed()
}

// settleExit puts an ending into the status; the caller holds mu.
func (w *worker) settleExit(exit exitRecord) {
	s := &w.status
	s.State, s.PID = runtime.Exited, 0
	s.ExitCode, s.Signal, s.Reason, s.Ended = exit.Code, exit.Signal, exit.Reason, exit.Ended
}

// readExit gives the shim's record of a worker that is gone, or else records
// what is known without it, so that the answer stays the same from now on.
func (e *Engine) readExit(w *worker, stop *stopRecord, otherwise string) exitRecord {
	var exit exitRecord
	err := readRecord(w.dir, exitFile, &exit)
	if err == nil {
		return exit
	}
	exit = exitRecord{Version: recordVersion, Reason: otherwise, Ended: time.Now().UTC()}
	switch {
	case !errors.Is(err, os.ErrNotExist):
		exit.Reason = fmt.Sprintf("ended, but its exit record cannot be read: %v", err)
	case stop != nil && !stop.Killed.IsZero():
		code := 128 + int(unix.SIGKILL)
		exit.Code, exit.Signal = &code, unix.SignalName(unix.SIGKILL)
		exit.Reason = fmt.Sprintf("killed: it did not end within %s of being asked to",
			stop.KillAt.Sub(stop.Asked).Round(time.Millisecond))
	}
	if err := writeRecord(w.dir, exitFile, exit); err != nil {
		e.opts.Logger.Error("an ending could not be recorded", "worker", w.status.ID, "error", err)
	}
	return exit
}
