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
	// Changed is closed at the first change after the call; nil when nothing ever
	// changes. Who asks for it before a View misses no change.
	Changed() <-chan struct{}
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
	// Leading says that this controller is the one that decides.
	Leading bool
	// Diagnostics of the newest commit.
	Diagnostics []schema.Diagnostic
	// Log reads what is kept beside the state; nil where nothing is.
	Log Log
}

// Log reads the audit log and what became of commits (G-11). It is asked for one
// object or commit: histories of all objects do not fit in a View.
type Log interface {
	// History is an object's records, the oldest first; none is no error.
	History(ctx context.Context, object schema.Key) ([]schema.Record, error)
	// CommitStatus is nil for a commit that nothing is known of.
	CommitStatus(ctx context.Context, commit string) (*schema.CommitStatus, error)
}
