package store

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Errors of this package. All are wrapped; test with errors.Is.
var (
	// ErrNotLeader: the write was refused because another controller leads. Nothing of it was written.
	ErrNotLeader = errors.New("not the leader any more")
	// ErrLocked: another process uses the embedded store's directory.
	ErrLocked = errors.New("the store's directory is in use by another process")
	// ErrCorrupt: a value cannot be decoded. The error names the key.
	ErrCorrupt = errors.New("cannot be understood")
	// ErrNewerFormat: a value was written by a newer version of Astraeus.
	ErrNewerFormat = errors.New("was written by a newer version")
	// ErrTooLarge: a value is larger than MaxValueBytes.
	ErrTooLarge = errors.New("is too large")
	// ErrStale: an earlier write of this leader failed, so what it knows may be wrong: Load first.
	ErrStale = errors.New("the state must be loaded again after a failed write")
	// ErrUsed: the saved plan was applied before. Nothing was written.
	ErrUsed = errors.New("was applied already")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Limits of one transaction and one value.
const (
	MaxBatchOps   = 100
	MaxBatchBytes = 1 << 20
	MaxValueBytes = 1 << 20
)

// Options of Open. Cluster is required, and Dir or Endpoints; zero values of the others are defaults.
type Options struct {
	// Cluster names the keys' root; a name without "/".
	Cluster string
	// Dir is the embedded store's own directory; unused with Endpoints.
	Dir string
	// Endpoints of an external etcd.
	Endpoints []string
	// TLS, Username and Password are for an external etcd.
	TLS      *tls.Config
	Username string
	Password Secret
	// NewEpoch makes assignments of this store newer than all before, and what machines
	// report accepted facts first.
	NewEpoch bool
	// MarkFile remembers how far the store had come, so that one that was lost or
	// restored is noticed at Open. It belongs outside of Dir; "" remembers nothing.
	MarkFile string
	// Timeout bounds one request. Default 5 s.
	Timeout time.Duration
	// LeaderTTL is how long a leader that is cut off from the store counts as leader. Default 10 s.
	LeaderTTL time.Duration
	// EventTTL is how long events are kept, to the hour. Default 72 h.
	EventTTL time.Duration
	// EventsPerObject is the cap of events an object. Default 50.
	EventsPerObject int
	// HistoryPerObject is the cap of an object's audit log, which has no other end. Default 200.
	HistoryPerObject int
	// Commits is how many commits' statuses, and used plans, are kept. Default 1000.
	Commits int
	// QuotaBytes of the embedded store. Default 8 GB.
	QuotaBytes int64
	// NoSync skips fsync of the embedded store: for labs and tests, whose state may be lost with the machine.
	NoSync bool
	Log    *slog.Logger
	// Now is the clock of event stamps. Default time.Now.
	Now func() time.Time
	// Point is called at each crash point of CrashPoints; an error ends the call there, as a crash would.
	Point func(name string) error
}

// CrashPoints lists the names that Options.Point is called with.
var CrashPoints = []string{"commit.before", "commit.batch", "commit.after", "assign.before", "assign.batch", "observe.batch"}

func (o *Options) setDefaults() error {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.LeaderTTL = cmp.Or(o.LeaderTTL, 10*time.Second)
	o.EventTTL = cmp.Or(o.EventTTL, 72*time.Hour)
	o.EventsPerObject = cmp.Or(o.EventsPerObject, 50)
	o.HistoryPerObject = cmp.Or(o.HistoryPerObject, 200)
	o.Commits = cmp.Or(o.Commits, 1000)
	o.QuotaBytes = cmp.Or(o.QuotaBytes, 8<<30)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Point == nil {
		o.Point = func(string) error { return nil }
	}
	if o.Cluster == "" || strings.Contains(o.Cluster, "/") {
		return fmt.Errorf("store: cluster name %q: want a name without \"/\"", o.Cluster)
	}
	if len(o.Endpoints) == 0 && o.Dir == "" {
		return errors.New("store: a directory or endpoints are needed")
	}
	for i, endpoint := range o.Endpoints {
		if u, err := url.Parse(endpoint); err == nil && u.User != nil {
			return fmt.Errorf("store: endpoint %d carries credentials; give them apart from the address", i+1)
		}
	}
	return nil
}

// Secret is text that no formatter or marshaler shows.
type Secret string

const redacted = "[redacted]"

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter: String alone leaves %d to show the text.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
