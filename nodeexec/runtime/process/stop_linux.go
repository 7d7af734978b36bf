package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// Stop implements runtime.Engine.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	w, err := e.find(ctx, id)
	if err != nil || w == nil {
		return err
	}
	if err := e.askStop(w, max(grace, 0)); err != nil {
		return fmt.Errorf("stopping worker %s: %w", id, err)
	}
	select {
	case <-w.ended:
		return nil
	case <-w.stuck:
		select {
		case <-w.ended: // late, but it did
			return nil
		default:
		}
		_ = e.kill(w) // again: what kept it may be over
		return fmt.Errorf("stopping worker %s: %w", id, runtime.ErrStuck)
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ctx.Done():
		return runtime.ErrClosed
	}
}

// askStop begins a stop, or shortens the one that is going on.
func (e *Engine) askStop(w *worker, grace time.Duration) error {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case w.status.State == runtime.Unknown:
		return fmt.Errorf("its record cannot be read: %s", w.status.Reason)
	case e.closed:
		return runtime.ErrClosed
	case w.pidfd == nil:
		return nil // ended
	case w.stop == nil:
		w.stop = &stopRecord{Version: recordVersion, Asked: now, KillAt: now.Add(grace)}
		e.beginStop(w)
	case w.stop.Killed.IsZero() && now.Add(grace).Before(w.stop.KillAt):
		w.stop.KillAt = now.Add(grace)
		select {
		case w.hurry <- struct{}{}:
		default:
		}
	}
	return nil
}

// resumeStop goes on with a stop that an earlier engine began. The worker may
// get a second SIGTERM: the earlier engine may have died before the first.
func (e *Engine) resumeStop(w *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.stop != nil && w.pidfd != nil {
		e.beginStop(w)
	}
}

// beginStop is called with the lock held.
func (e *Engine) beginStop(w *worker) {
	w.stopDone = make(chan struct{})
	e.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		defer close(w.stopDone)
		e.carryOutStop(w)
	}()
}

// carryOutStop asks the worker to end, kills it when its grace is over, and
// calls it Stuck when even that does not help. It returns early when the
// worker ends or the engine is closed. Only it writes the stop record.
func (e *Engine) carryOutStop(w *worker) {
	if e.stopOf(w).Killed.IsZero() {
		e.recordStop(w) // first: a stop goes on after a restart
		if err := e.signal(w, unix.SIGTERM); err != nil {
			e.opts.Logger.Error("a worker could not be asked to end", "worker", w.status.ID, "error", err)
		}
		if !e.waitGrace(w) {
			return
		}
		e.mu.Lock()
		w.stop.Killed = time.Now()
		e.mu.Unlock()
		e.recordStop(w)
	}
	if err := e.kill(w); err != nil {
		e.opts.Logger.Error("a worker could not be killed", "worker", w.status.ID, "error", err)
	}
	killed := e.stopOf(w).Killed
	if !e.wait(w, killed.Add(e.opts.stuckAfter), nil) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.status.State == runtime.Running {
		w.status.State = runtime.Stuck
		w.status.Reason = fmt.Sprintf("killed at %s and still there", killed.UTC().Format(time.RFC3339))
		close(w.stuck)
		e.changed()
	}
}

func (e *Engine) stopOf(w *worker) stopRecord {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *w.stop
}

// recordStop does not fail the stop: it would only be forgotten in a restart,
// and the caller asks again then.
func (e *Engine) recordStop(w *worker) {
	if err := writeRecord(w.dir, stopFile, e.stopOf(w)); err != nil {
		e.opts.Logger.Error("a stop could not be recorded", "worker", w.status.ID, "error", err)
	}
}

// waitGrace returns true when the grace, which may become shorter, is over.
func (e *Engine) waitGrace(w *worker) bool {
	for {
		at := e.stopOf(w).KillAt
		if !time.Now().Before(at) {
			return true
		}
		if !e.wait(w, at, w.hurry) {
			return false
		}
	}
}

// wait returns false when the worker or the engine ends first, true at the
// given time or on a hurry.
func (e *Engine) wait(w *worker, until time.Time, hurry <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-hurry:
		return true
	case <-w.ended:
	case <-e.ctx.Done():
	}
	return false
}

// process gives what signals go to; nil when there is nothing left.
func (e *Engine) process(w *worker) (pidfd *os.File, cgroup string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return w.pidfd, w.cgroup
}

func (e *Engine) signal(w *worker, sig unix.Signal) error {
	pidfd, _ := e.process(w)
	return signalPidfd(pidfd, sig)
}

func (e *Engine) kill(w *worker) error {
	pidfd, cgroup := e.process(w)
	if pidfd == nil {
		return nil
	}
	return e.opts.kill(pidfd, cgroup)
}

// killTree ends the whole tree: with pid 1, the kernel ends its pid namespace.
func killTree(pidfd *os.File, cgroup string) error {
	killCgroup(cgroup)
	return signalPidfd(pidfd, unix.SIGKILL)
}

// signalPidfd reaches pid 1 of a worker; one that is gone is fine.
func signalPidfd(pidfd *os.File, sig unix.Signal) error {
	if pidfd == nil {
		return nil
	}
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return nil // closed: it has ended
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return nil // likewise
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil
	}
	return sent
}
