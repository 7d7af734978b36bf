package reconciler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// Snapshot is the files at one commit, or of a directory as it lies (Commit "").
type Snapshot struct {
	Commit string
	Time   time.Time
	FS     fs.FS
	// Author and Subject are what the commit says of itself; nothing is verified (G-11).
	Author  string
	Subject string
}

// Source says what is declared. Git adapts a gitsource.Source. All methods are
// called from one goroutine.
type Source interface {
	// Fetch returns the newest snapshot. An error is never an empty snapshot (G-5).
	Fetch(ctx context.Context) (Snapshot, error)
	// Watch signals when Fetch may have something new, until the context ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
	// IsAncestor reports whether newer descends from older, or is it.
	IsAncestor(ctx context.Context, older, newer string) (bool, error)
}

// Historian is a Source that also knows which commit touched what. A source that is
// none has everything touched by the newest commit.
type Historian interface {
	// Touched gives, by path, the last commit of those after older up to newer that
	// changed a file. A path that is not there was touched by newer, as far as it is known.
	Touched(ctx context.Context, older, newer string) (map[string]schema.CommitInfo, error)
}

// LoadFunc reads a snapshot's files: schema/load's Load.
type LoadFunc func(ctx context.Context, files fs.FS, commit string, at time.Time) (*schema.Desired, error)

// Store keeps decisions. Etcd adapts a store.Store.
type Store interface {
	// Campaign waits until this process leads; the address is where machines find it.
	Campaign(ctx context.Context, address string) (Leader, error)
	// WatchLeader calls f with the leader's address ("" for none) now and at each change.
	WatchLeader(ctx context.Context, f func(address string)) error
}

// Leader is a term of leadership; store.Leader says what each method promises.
type Leader interface {
	Decider
	Recorder
	// Done is closed when the term is over.
	Done() <-chan struct{}
	// Resign ends the term and lets another one lead.
	Resign(ctx context.Context)
}

// Decider is the part of a Leader that the loop uses.
type Decider interface {
	// Term is a number that is larger for each later leader of the store.
	Term() int64
	Load(ctx context.Context) (*store.State, error)
	Commit(ctx context.Context, d schema.Decisions) (*store.State, error)
	Assign(ctx context.Context, targets map[string]*schema.Assignment, blobs map[string][]byte) (int, error)
	// SetMeta changes the store's identity.
	SetMeta(ctx context.Context, meta store.Meta) (*store.State, error)
}

// Recorder is the part of a Leader that writes down what is observed. It is used
// from another goroutine than the Decider.
type Recorder interface {
	PutReports(ctx context.Context, reports ...*schema.MachineReport) (int, error)
	PutAlive(ctx context.Context, alive store.Alive) error
}

// Link reaches the machines: link.Server.
type Link interface {
	Gate
	// Publish makes these the machines' assignments; nobody changes them afterwards.
	Publish(targets map[string]*schema.Assignment, blobs map[string][]byte)
	// PublishNames makes zones what machines are sent of names, and orgs says whose
	// each machine gets; nobody changes orgs afterwards.
	PublishNames(orgs map[string]string, zones link.Zones)
	// Changed signals a report, or a machine that came or went. Signals are merged.
	Changed() <-chan struct{}
	// Take returns the newest report of each machine that sent one since the last
	// call, and whether a machine came or went.
	Take() (reports []*schema.MachineReport, moved bool)
	// Machines returns every machine heard in this term.
	Machines() map[string]link.Presence
	// Claims returns what every machine that came in this term says of itself, and Held
	// what it was assigned last, where the term adopts.
	Claims() map[string]link.Claim
	Held() map[string]link.Held
}

// Gate opens and closes the link as leadership comes and goes.
type Gate interface {
	Lead(link.Term)
	// Identify says whose machines are served from now on.
	Identify(clusterUID string, epoch int64, adopting bool)
	Follow(leader string)
}

// Hooks are called by the loop, for tracing and tests. Nil ones are left out. They must not block.
type Hooks struct {
	// Span is called around "fetch", "load" and "pass"; the returned function ends it.
	Span func(ctx context.Context, name, commit string) (context.Context, func(error))
	// Committed is called with decisions that were written, before machines hear of them.
	Committed func(schema.Decisions)
	// Passed is called after each pass.
	Passed func(Pass)
}

// Pass says what one pass did.
type Pass struct {
	Number   int64
	Took     time.Duration
	Planning time.Duration // of that
	Decided  bool          // decisions were written
	Assigned int           // machines whose assignment changed
	Err      error
}

// Config of New. Source, Load, Store and Link are required; zero values of the
// others are defaults.
type Config struct {
	Source Source
	Load   LoadFunc
	Store  Store
	Link   Link
	// Plan is planner.Plan by default.
	Plan func(planner.Input) schema.Plan
	// Opening gives what is written before the first pass of leading, judged by the
	// state at that moment: the saved plan that is applied (G-7), an approval.
	// An error of it ends Run with an *OpeningError. May be nil.
	Opening func(*store.State) (schema.Decisions, error)
	// Address is where machines find this controller.
	Address string
	// Coalesce is the shortest time from one pass's start to the next: the first
	// change goes at once, a burst together. Default 30 ms.
	Coalesce time.Duration
	// Resync is how often a pass runs without cause. Default 10 s.
	Resync time.Duration
	// GiveUp is how long writes may fail before the leader closes its streams. Default 10 s.
	GiveUp time.Duration
	// Seed makes each plan's new uids. Default rand.Text: they must be random.
	Seed func() string
	// Now is the clock, monotonic. Default time.Now.
	Now   func() time.Time
	Log   *slog.Logger
	Hooks Hooks
}

func (c *Config) setDefaults() error {
	if c.Source == nil || c.Load == nil || c.Store == nil || c.Link == nil {
		return errors.New("reconciler: a source, a loader, a store and a link are needed")
	}
	c.Coalesce = cmp.Or(c.Coalesce, 30*time.Millisecond)
	c.Resync = cmp.Or(c.Resync, 10*time.Second)
	c.GiveUp = cmp.Or(c.GiveUp, 10*time.Second)
	if c.Plan == nil {
		c.Plan = planner.Plan
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Seed == nil {
		c.Seed = rand.Text
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Hooks.Span == nil {
		c.Hooks.Span = func(ctx context.Context, _, _ string) (context.Context, func(error)) { return ctx, func(error) {} }
	}
	if c.Hooks.Committed == nil {
		c.Hooks.Committed = func(schema.Decisions) {}
	}
	if c.Hooks.Passed == nil {
		c.Hooks.Passed = func(Pass) {}
	}
	return nil
}
