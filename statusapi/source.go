package statusapi

import (
	"context"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Source hands out the current state. It is called for every request, from many
// goroutines, and answers from memory.
type Source interface {
	// View is the newest state. The caller only reads it. The same pointer means
	// that nothing changed. An error becomes a 503 with its text.
	View(ctx context.Context) (*View, error)
}

// View is one consistent state of the cluster.
type View struct {
	// Input is what the last pass looked at, Plan what it decided.
	Input planner.Input
	Plan  schema.Plan
	// Commit is the newest commit seen; Input.Accepted.Head is the newest that is in force.
	Commit string
	// Events, the oldest first.
	Events []schema.Event
	// NotReady says what keeps the controller from working; empty when it works.
	NotReady []string
	// Diagnostics of the newest commit.
	Diagnostics []schema.Diagnostic
	// Log reads what is kept beside the state; nil where nothing is.
	Log Log
}

// Log reads the audit log and what became of commits (G-11). It is read when it is
// asked for: histories of all objects do not fit in a View.
type Log interface {
	// History is an object's records, the oldest first; none is no error.
	History(ctx context.Context, object schema.Key) ([]schema.Record, error)
	// CommitStatus is nil for a commit that nothing is known of.
	CommitStatus(ctx context.Context, commit string) (*schema.CommitStatus, error)
}

// state is a View with what is derived from it.
type state struct {
	*View
	derived *planner.View
	cluster string
	index   map[schema.Kind][]*schema.AcceptedObject // sorted by key
	reports map[string]*schema.MachineReport
}

func newState(v *View) *state {
	s := &state{
		View: v, derived: planner.NewView(v.Input, v.Plan),
		index: map[schema.Kind][]*schema.AcceptedObject{}, reports: map[string]*schema.MachineReport{},
	}
	for _, m := range v.Input.Observed.Machines {
		if m != nil {
			s.reports[m.Name] = m
		}
	}
	for _, key := range sortedKeys(v.Input.Accepted.Objects) {
		if o := shown(v.Input.Accepted.Objects[key]); o != nil {
			s.index[key.Kind] = append(s.index[key.Kind], o)
		}
	}
	for _, o := range s.index[schema.KindCluster] {
		s.cluster = o.Object.Key.Name
	}
	return s
}

// shown is what stands for an accepted object in answers. One of which nothing is
// in force yet has no uid and is shown by the candidate that is held back (G-9).
func shown(o *schema.AcceptedObject) *schema.AcceptedObject {
	switch {
	case o == nil:
		return nil
	case o.Object != nil:
		return o
	case o.Refused == nil || o.Refused.Candidate == nil:
		return nil
	}
	return &schema.AcceptedObject{Object: o.Refused.Candidate, Commit: o.Refused.Commit, Refused: o.Refused}
}

func held(o *schema.AcceptedObject) bool { return o.UID == "" && o.Refused != nil }
