package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// adoptAll takes over what an earlier engine has left. It is done before New
// returns, so that no caller sees a part of it.
func (e *Engine) adoptAll() error {
	entries, err := os.ReadDir(e.workersDir())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id := entry.Name()
		if strings.HasPrefix(id, tempPrefix) || strings.HasPrefix(id, trashPrefix) {
			if err := os.RemoveAll(filepath.Join(e.workersDir(), id)); err != nil {
				return err
			}
			continue
		}
		if err := e.adopt(id); err != nil {
			e.opts.Logger.Error("a worker's record cannot be read", "worker", id, "error", err)
			e.addUnknown(id, err)
		}
	}
	return nil
}

// addUnknown keeps the id taken: the worker may be running.
func (e *Engine) addUnknown(id string, err error) {
	w := newWorker(nil, specRecord{ID: id})
	w.status.State, w.status.Reason = runtime.Unknown, err.Error()
	close(w.settled)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workers[id], e.incomplete = w, true
}

// record is all of a record directory that is needed to take a worker over.
type record struct {
	spec specRecord
	proc *processRecord // nil: the go-ahead was never given
	stop *stopRecord    // nil: no stop was asked for
}

func readAll(dir *os.File, id string) (r record, err error) {
	if err := readRecord(dir, specFile, &r.spec); err != nil {
		return r, err
	}
	if r.spec.ID != id {
		return r, fmt.Errorf("%s: it is of worker %q", specFile, r.spec.ID)
	}
	if r.proc, err = readOptional[processRecord](dir, processFile); err != nil {
		return r, err
	}
	r.stop, err = readOptional[stopRecord](dir, stopFile)
	return r, err
}

func readOptional[T any](dir *os.File, name string) (*T, error) {
	v := new(T)
	err := readRecord(dir, name, v)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return v, err
}

func (e *Engine) adopt(id string) error {
	dir, err := os.Open(filepath.Join(e.workersDir(), id))
	if err != nil {
		return err
	}
	r, err := readAll(dir, id)
	if err == nil && r.proc == nil {
		// The agent died before the go-ahead: nothing has run, and a shim
		// that is still there will find nothing in its record either.
		return errors.Join(dir.Close(), e.dropRecord(id))
	}
	pidfd := -1
	if err == nil {
		pidfd, err = e.reattach(*r.proc)
	}
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	w := newWorker(dir, r.spec)
	w.stop = r.stop
	w.status.Started = r.proc.Started
	close(w.settled)
	if pidfd < 0 {
		e.adoptEnded(w, *r.proc)
		return nil
	}
	e.mu.Lock()
	e.workers[id] = w
	e.watchLocked(w, pidfd, r.proc.PID, r.proc.Started, r.proc.Cgroup)
	e.mu.Unlock()
	e.resumeStop(w)
	return nil
}

// adoptEnded is for a worker whose process is not there any more.
func (e *Engine) adoptEnded(w *worker, proc processRecord) {
	reason, stop := "ended while nobody watched", w.stop
	if proc.BootID != e.bootID {
		reason, stop = runtime.ReasonRebooted, nil
	}
	exit := e.readExit(w, stop, reason)
	removeCgroup(proc.Cgroup)
	e.mu.Lock()
	defer e.mu.Unlock()
	w.settleExit(exit)
	close(w.ended)
	e.workers[w.status.ID] = w
}

// reattach opens the recorded process, or gives -1 when it is gone. The
// descriptor is opened first, so that what is compared cannot change any more.
func (e *Engine) reattach(proc processRecord) (int, error) {
	if proc.BootID != e.bootID {
		return -1, nil
	}
	pidfd, err := unix.PidfdOpen(proc.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	ticks, alive, err := startTicks(proc.PID)
	if err != nil || !alive || ticks != proc.StartTicks {
		unix.Close(pidfd)
		return -1, err
	}
	return pidfd, nil
}
