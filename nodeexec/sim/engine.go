package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
)

// ErrIncomplete, answered by Options.Look, makes a listing incomplete.
var ErrIncomplete = errors.New("the listing is incomplete")

type worker struct {
	status runtime.Status
	spec   runtime.Spec
	mounts []WorkerMount
	stuck  bool
}

// Engine implements runtime.Engine for one machine. Workers do nothing until
// Finish ends them.
type Engine struct{ *Machine }

var _ runtime.Engine = Engine{}

// Engine is the machine's worker engine.
func (m *Machine) Engine() Engine { return Engine{m} }

func (m *Machine) wake() {
	select {
	case m.events <- struct{}{}:
	default:
	}
}

// Start implements runtime.Engine.
func (e Engine) Start(ctx context.Context, spec runtime.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if e.known(spec.ID) {
		return nil
	}
	defer e.wake()
	return e.effect(ctx, &Effect{Name: "Start", ID: spec.ID, Spec: &spec}, func() error {
		if e.engine[spec.ID] != nil {
			return nil
		}
		w := &worker{spec: spec, status: runtime.Status{ID: spec.ID, Labels: maps.Clone(spec.Labels), State: runtime.Running, PID: 1, Started: e.o.Now()}}
		for _, m := range spec.Mounts {
			w.mounts = append(w.mounts, WorkerMount{Target: m.Target, Dir: Of(m.Source), ReadOnly: m.ReadOnly})
		}
		e.engine[spec.ID] = w
		return nil
	})
}

func (e Engine) known(id string) bool {
	defer e.lock()()
	return e.engine[id] != nil
}

// Stop implements runtime.Engine.
func (e Engine) Stop(ctx context.Context, id string, _ time.Duration) error {
	defer e.wake()
	return e.effect(ctx, &Effect{Name: "Stop", ID: id}, func() error {
		w := e.engine[id]
		if w == nil || w.status.State == runtime.Exited {
			return nil
		}
		if w.stuck {
			w.status.State = runtime.Stuck
			return fmt.Errorf("worker %s: %w", id, runtime.ErrStuck)
		}
		code := 143
		w.end(&code, e.o.Now())
		w.status.Signal = "SIGTERM"
		return nil
	})
}

func (w *worker) end(code *int, now time.Time) {
	w.status.State, w.status.ExitCode, w.status.Ended, w.status.PID, w.status.Reason = runtime.Exited, code, now, 0, ""
}

// StopsAway implements runtime.AwayStopper.
func (e Engine) StopsAway() bool { return true }

// stopAway ends the workers that are to stop because the machine has no controller,
// as what outlives an agent does on a real one. The lock is held.
func (m *Machine) stopAway() {
	now := m.o.Uptime()
	for _, w := range m.engine {
		if w.status.State == runtime.Exited || w.stuck || w.spec.StopIfAway == 0 || !w.away(now) {
			continue
		}
		code := 143
		w.end(&code, m.o.Now())
		w.status.Signal, w.status.Reason = "SIGTERM", runtime.ReasonAway
		m.wake()
	}
}

// away reads the contact by its path: the agent that gave it may be dead.
func (w *worker) away(now time.Duration) bool {
	spec := w.spec
	file, err := os.Open(w.spec.Contact.Name())
	if err != nil {
		return true
	}
	defer file.Close()
	spec.Contact = file
	return spec.Away(now)
}

// List implements runtime.Engine.
func (e Engine) List(context.Context) (runtime.Listing, error) {
	err := e.o.Look("workers")
	if err != nil && !errors.Is(err, ErrIncomplete) {
		return runtime.Listing{}, err
	}
	if err != nil {
		return runtime.Listing{}, nil
	}
	defer e.lock()()
	e.stopAway()
	list := runtime.Listing{Complete: true}
	for _, id := range slices.Sorted(maps.Keys(e.engine)) {
		list.Workers = append(list.Workers, e.engine[id].status)
	}
	return list, nil
}

// Remove implements runtime.Engine.
func (e Engine) Remove(ctx context.Context, id string) error {
	return e.effect(ctx, &Effect{Name: "Remove", ID: id}, func() error {
		w := e.engine[id]
		switch {
		case w == nil:
			return nil
		case w.status.State != runtime.Exited:
			return fmt.Errorf("worker %s: %w", id, runtime.ErrRunning)
		}
		delete(e.engine, id)
		return nil
	})
}

// Events implements runtime.Engine.
func (e Engine) Events() <-chan struct{} { return e.events }

// Close implements runtime.Engine.
func (e Engine) Close() error { return nil }

// Finish ends a running worker with an exit code.
func (m *Machine) Finish(id string, code int) {
	defer m.lock()()
	if w := m.engine[id]; w != nil && w.status.State != runtime.Exited {
		w.end(&code, m.o.Now())
		m.wake()
	}
}

// SetStuck makes a worker survive being killed, or not any more.
func (m *Machine) SetStuck(id string, stuck bool) {
	defer m.lock()()
	w := m.engine[id]
	if w == nil {
		return
	}
	w.stuck = stuck
	if !stuck && w.status.State == runtime.Stuck {
		code := 137
		w.end(&code, m.o.Now())
	}
}
