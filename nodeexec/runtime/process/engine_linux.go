package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// Engine runs workers as plain processes. It implements runtime.Engine.
type Engine struct {
	opts    Options
	bootID  string
	userNS  bool // makes a user namespace for every worker
	cgroups cgroups
	lock    *os.File
	events  chan struct{}

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// mu guards the fields below and those of every worker; it is never held
	// over I/O.
	mu         sync.Mutex
	closed     bool
	incomplete bool
	workers    map[string]*worker
}

var _ runtime.Engine = (*Engine)(nil)

// worker is what the engine knows of one record.
type worker struct {
	status runtime.Status
	dir    *os.File // the record's directory
	pidfd  *os.File // nil when there is no process
	cgroup string
	stop   *stopRecord

	settled  chan struct{} // closed when Start has finished; err is its result
	err      error
	ended    chan struct{} // closed when all processes are gone
	stuck    chan struct{} // closed when a killed worker stays too long
	hurry    chan struct{} // wakes the stop for a shorter grace
	stopDone chan struct{} // closed when the stop is over; nil when there was none
}

func newWorker(dir *os.File, spec specRecord) *worker {
	return &worker{
		dir:     dir,
		status:  runtime.Status{ID: spec.ID, Labels: spec.Labels, State: runtime.Created},
		settled: make(chan struct{}), ended: make(chan struct{}), stuck: make(chan struct{}),
		hurry: make(chan struct{}, 1),
	}
}

// New opens a state directory and takes over the workers that are recorded
// there. One engine at a time holds a directory.
func New(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.bootID == nil {
		o.bootID = readBootID
	}
	if o.kill == nil {
		o.kill = killTree
	}
	e := &Engine{opts: o, events: make(chan struct{}, 1), workers: map[string]*worker{},
		userNS: !hasCapability(unix.CAP_SYS_ADMIN)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if e.bootID, err = o.bootID(); err != nil {
		return nil, fmt.Errorf("boot id: %w", err)
	}
	for _, dir := range []string{o.StateDir, e.rootDir(), e.workersDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if e.lock, err = lockDir(o.StateDir); err != nil {
		return nil, err
	}
	if e.cgroups, err = newCgroups(o.CgroupParent, o.StateDir); err != nil {
		o.Logger.Info("workers run without cgroups", "error", err)
	}
	if err := e.adoptAll(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Engine) rootDir() string    { return filepath.Join(e.opts.StateDir, "root") }
func (e *Engine) workersDir() string { return filepath.Join(e.opts.StateDir, "workers") }

// lockDir waits for nothing: an agent that was killed has no lock any more.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("state directory %s: another engine uses it: %w", dir, err)
	}
	return f, nil
}

// Events implements runtime.Engine.
func (e *Engine) Events() <-chan struct{} { return e.events }

// changed wakes the caller; it must hold mu, so that Close cannot come between.
func (e *Engine) changed() {
	if e.closed {
		return
	}
	select {
	case e.events <- struct{}{}:
	default:
	}
}

// List implements runtime.Engine.
func (e *Engine) List(ctx context.Context) (runtime.Listing, error) {
	if err := ctx.Err(); err != nil {
		return runtime.Listing{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return runtime.Listing{}, runtime.ErrClosed
	}
	l := runtime.Listing{Complete: !e.incomplete}
	for _, w := range e.workers {
		s := w.status
		s.Labels = maps.Clone(s.Labels)
		if s.ExitCode != nil {
			code := *s.ExitCode
			s.ExitCode = &code
		}
		l.Workers = append(l.Workers, s)
	}
	slices.SortFunc(l.Workers, func(a, b runtime.Status) int { return cmp.Compare(a.ID, b.ID) })
	return l, nil
}

// find gives a worker once its Start has finished; nil when there is none.
func (e *Engine) find(ctx context.Context, id string) (*worker, error) {
	e.mu.Lock()
	w, closed := e.workers[id], e.closed
	e.mu.Unlock()
	if closed {
		return nil, runtime.ErrClosed
	}
	if w == nil {
		return nil, ctx.Err()
	}
	select {
	case <-w.settled:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.err != nil {
		return nil, nil // it never was
	}
	return w, nil
}

// Remove implements runtime.Engine.
func (e *Engine) Remove(ctx context.Context, id string) error {
	w, err := e.find(ctx, id)
	if err != nil || w == nil {
		return err
	}
	e.mu.Lock()
	state, stopDone := w.status.State, w.stopDone
	e.mu.Unlock()
	if state != runtime.Exited {
		return fmt.Errorf("removing worker %s: %w (%s)", id, runtime.ErrRunning, state)
	}
	if stopDone != nil {
		select { // it writes into the record, and sees the worker's end right away
		case <-stopDone:
		case <-ctx.Done():
			return fmt.Errorf("removing worker %s: %w", id, ctx.Err())
		}
	}
	if err := e.dropRecord(id); err != nil {
		return fmt.Errorf("removing worker %s: %w", id, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.workers[id] == w {
		delete(e.workers, id)
		w.dir.Close()
		e.changed()
	}
	return nil
}

// dropRecord takes a record away in one step, then deletes it.
func (e *Engine) dropRecord(id string) error {
	trash := filepath.Join(e.workersDir(), trashPrefix+id)
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(e.workersDir(), id), trash)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The record is gone by now. Its shim may still be putting its last file there,
	// by the directory's descriptor; what is left then goes with the next New.
	if err := os.RemoveAll(trash); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// Close implements runtime.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.events)
	pidfds := []*os.File{}
	for _, w := range e.workers {
		if w.pidfd != nil {
			pidfds = append(pidfds, w.pidfd)
		}
	}
	e.mu.Unlock()
	e.cancel()
	for _, f := range pidfds {
		f.Close() // wakes its watcher
	}
	e.tasks.Wait()
	for _, w := range e.workers {
		if w.dir != nil {
			w.dir.Close()
		}
	}
	removeCgroup(e.cgroups.dir) // stays while workers are in it
	return e.lock.Close()
}
