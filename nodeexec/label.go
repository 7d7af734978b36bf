package nodeexec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// labelKey is the engine label that says whose a worker is, so that adopting it
// after a restart needs no memory.
const labelKey = "astraeus.io/worker"

const labelVersion = 1

// label is the value of labelKey. Fill is set for a fill's worker alone.
type label struct {
	Version int           `json:"version"`
	Worker  schema.Worker `json:"worker"`
	Run     schema.Key    `json:"run,omitzero"`
	Fill    *fillLabel    `json:"fill,omitempty"`
	// Template and WorldSize are kept of an ended worker too.
	Template  string `json:"template,omitempty"`
	WorldSize int    `json:"world_size,omitempty"`
}

type fillLabel struct {
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

func (l label) labels() map[string]string {
	l.Version = labelVersion
	body, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("nodeexec: label: %v", err)) // plain values always marshal
	}
	return map[string]string{labelKey: string(body)}
}

// localWorker is a worker as the engine lists it.
type localWorker struct {
	id    string
	state runtime.State
	label label
	// worker is what is reported; its State is set by stateOf.
	worker schema.Worker
}

// live reports whether the worker may still touch data (X-8: Stuck does).
func (w *localWorker) live() bool { return w.state != runtime.Exited }

func (w *localWorker) uses(uid string) bool {
	for _, u := range w.label.Worker.Uses {
		if u.UID == uid {
			return true
		}
	}
	return w.label.Fill != nil && w.label.Fill.UID == uid
}

// readWorker understands one entry of the engine's listing. ours is false for
// a worker that something else started with the same engine.
func readWorker(s runtime.Status) (w localWorker, ours bool, err error) {
	text, ours := s.Labels[labelKey]
	if !ours {
		return w, false, nil
	}
	w = localWorker{id: s.ID, state: s.State}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&w.label); err != nil {
		return w, true, fmt.Errorf("worker %s: its label cannot be read: %w", s.ID, err)
	}
	if w.label.Version != labelVersion {
		return w, true, fmt.Errorf("worker %s: its label has version %d, this program knows %d", s.ID, w.label.Version, labelVersion)
	}
	w.worker = w.label.Worker
	w.worker.State, w.worker.Reason = stateOf(s)
	w.worker.ExitCode, w.worker.Started, w.worker.Ended = s.ExitCode, s.Started, s.Ended
	return w, true, nil
}

func stateOf(s runtime.Status) (schema.WorkerState, string) {
	switch s.State {
	case runtime.Created:
		return schema.WorkerPreparing, s.Reason
	case runtime.Stuck:
		return schema.WorkerStuck, s.Reason
	case runtime.Exited:
		if s.Reason == runtime.ReasonAway {
			return schema.WorkerFailed, schema.AwayReason // whatever it made of being stopped
		}
		if s.ExitCode != nil && *s.ExitCode == 0 {
			return schema.WorkerSucceeded, s.Reason
		}
		return schema.WorkerFailed, exitReason(s)
	}
	return schema.WorkerRunning, s.Reason
}

func exitReason(s runtime.Status) string {
	switch {
	case s.Reason == runtime.ReasonRebooted:
		return schema.RebootedReason // the controller goes by this one
	case s.Reason != "":
		return s.Reason
	case s.Signal != "":
		return "ended by " + s.Signal
	case s.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *s.ExitCode)
	}
	return "it ended while nobody watched"
}
