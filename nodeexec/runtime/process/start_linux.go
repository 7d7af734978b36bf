package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"golang.org/x/sys/unix"
)

// Prefixes of directories beside the records; no id begins with a dot.
const (
	tempPrefix  = ".new-"
	trashPrefix = ".trash-"
)

// startTimeout bounds a Start whose context has no deadline.
const startTimeout = time.Minute

// Start implements runtime.Engine.
func (e *Engine) Start(ctx context.Context, spec runtime.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	record := specRecord{Version: recordVersion, ID: spec.ID, Labels: spec.Labels, Command: spec.Command,
		BootID: e.bootID, Created: time.Now().UTC()}
	w, mine, err := e.reserve(record)
	if err != nil {
		return err
	}
	if !mine {
		return waitSettled(ctx, w)
	}
	defer e.tasks.Done()
	if err := e.start(ctx, w, spec, record); err != nil {
		err = fmt.Errorf("starting worker %s: %w", spec.ID, err)
		e.forget(w, err)
		return err
	}
	e.mu.Lock()
	close(w.settled)
	e.changed()
	e.mu.Unlock()
	return nil
}

// reserve takes the id, or gives the worker that has it already.
func (e *Engine) reserve(record specRecord) (w *worker, mine bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, false, runtime.ErrClosed
	}
	if w := e.workers[record.ID]; w != nil {
		return w, false, nil
	}
	w = newWorker(nil, record)
	e.workers[record.ID] = w
	e.tasks.Add(1)
	return w, true, nil
}

func waitSettled(ctx context.Context, w *worker) error {
	select {
	case <-w.settled:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forget undoes a Start that failed before anything ran.
func (e *Engine) forget(w *worker, err error) {
	if dropErr := e.dropRecord(w.status.ID); dropErr != nil {
		e.opts.Logger.Error("a record could not be removed", "worker", w.status.ID, "error", dropErr)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.workers, w.status.ID)
	if w.dir != nil {
		w.dir.Close()
	}
	w.err = err
	close(w.settled)
	e.changed()
}

// start goes from the record to a running command. Until process.json is
// written, the shim will not run anything.
func (e *Engine) start(ctx context.Context, w *worker, spec runtime.Spec, record specRecord) error {
	dir, err := e.createRecord(record)
	if err != nil {
		return err
	}
	e.mu.Lock()
	w.dir = dir
	e.mu.Unlock()
	e.opts.crash("recorded")

	cgroup, unlimited := e.cgroups.make(spec.ID, spec.CPU, spec.MemoryBytes)
	if len(unlimited) > 0 {
		e.opts.Logger.Warn("limits are not applied", "worker", spec.ID, "limits", unlimited)
	}
	p, err := e.launch(ctx, spec, dir, cgroup)
	if err != nil {
		removeCgroup(cgroup)
		return err
	}
	defer p.close()
	e.opts.crash("launched")
	if err := e.release(w, p, cgroup); err != nil {
		p.kill()
		removeCgroup(cgroup)
		return err
	}
	// From here on the worker exists, whatever happens to this call.
	if _, err := p.next(ctx); err != nil && !errors.Is(err, io.EOF) {
		e.opts.Logger.Warn("the shim did not say that the command runs", "worker", spec.ID, "error", err)
	}
	return nil
}

// createRecord makes the record appear in one step, on disk for good.
func (e *Engine) createRecord(record specRecord) (*os.File, error) {
	temp := filepath.Join(e.workersDir(), tempPrefix+record.ID)
	if err := os.RemoveAll(temp); err != nil {
		return nil, err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(temp)
	if err != nil {
		return nil, err
	}
	err = writeRecord(dir, specFile, record)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, filepath.Join(e.workersDir(), record.ID), unix.RENAME_NOREPLACE)
	}
	if err == nil {
		err = syncDir(e.workersDir())
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// launch starts the shim and waits until it has built the root.
func (e *Engine) launch(ctx context.Context, spec runtime.Spec, dir *os.File, cgroup string) (*shimProcess, error) {
	mounts, sources, err := prepareMounts(spec.Mounts, e.userNS)
	defer closeAll(sources)
	if err != nil {
		return nil, err
	}
	p, err := e.clone(spec, dir, sources, cgroup)
	if err != nil {
		return nil, err
	}
	err = p.configure(ctx, shimConfig{
		ID: spec.ID, Command: spec.Command, Args: spec.Args, Env: spec.Env, WorkDir: spec.WorkDir,
		Hostname: spec.Hostname, Files: spec.Files, Mounts: mounts, GPUs: spec.GPUs,
		RootDir: e.rootDir(), TmpfsBytes: spec.MemoryBytes, LogMaxBytes: e.opts.LogMaxBytes, StopIfAway: spec.StopIfAway, AwayGrace: e.opts.awayGrace,
	})
	if err == nil {
		var r shimReport
		if r, err = p.next(ctx); err == nil && !r.Ready {
			err = errors.New("the shim answered out of order")
		}
	}
	if err != nil {
		p.kill()
		p.close()
		return nil, err
	}
	return p, nil
}

// release writes the process record, which is the go-ahead, and lets go.
func (e *Engine) release(w *worker, p *shimProcess, cgroup string) error {
	ticks, alive, err := startTicks(p.pid)
	if err == nil && !alive {
		err = errors.New("the shim is gone")
	}
	if err != nil {
		return err
	}
	started := time.Now().UTC()
	err = writeRecord(w.dir, processFile, processRecord{Version: recordVersion, PID: p.pid, StartTicks: ticks,
		BootID: e.bootID, Cgroup: cgroup, Started: started})
	if err != nil {
		return err
	}
	e.opts.crash("released")
	p.config.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watchLocked(w, p.takePidfd(), p.pid, started, cgroup)
	return nil
}

// next waits for the next report of the shim; its errors are returned as such.
func (p *shimProcess) next(ctx context.Context) (r shimReport, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.reports.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = p.decoder.Decode(&r)
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("waiting for the shim: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF):
		return r, fmt.Errorf("the shim ended without a word (see the worker's log): %w", err)
	case err != nil:
		return r, err
	case r.Error != "":
		return r, errors.New(r.Error)
	}
	return r, nil
}

// configure sends the config; a shim that is gone is reported by next.
func (p *shimProcess) configure(ctx context.Context, c shimConfig) error {
	stop := context.AfterFunc(ctx, func() { _ = p.config.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	err := sendConfig(p.config, c)
	if errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}
