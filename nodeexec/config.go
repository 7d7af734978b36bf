package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/nodeexec/health"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// Errors of New and Run that callers act upon.
var (
	// ErrLocked: another agent uses the state directory.
	ErrLocked = errors.New("another agent uses this state directory")
	// ErrState: a file of the state directory is corrupt or of a newer
	// program; it is left as it is.
	ErrState = errors.New("the state directory cannot be used")
)

// Config is what an agent is made of. Machine, StateDir, WorkRoot, Host,
// Shares, Engine and Dial are needed.
type Config struct {
	Machine string
	// StateDir is the agent's own directory, WorkRoot the one under
	// which exports and mounts are, as the machine names it.
	StateDir, WorkRoot string
	// Address is announced as the machine's; "" leaves it to the repository.
	Address string
	RDMA    []schema.RDMAPort

	Host       Host
	Shares     nfs.Shares
	Engine     runtime.Engine
	EngineKind schema.EngineKind

	// Check asks a worker whether it is well (N-1); nil is health.Check, from the
	// network namespace of this process.
	Check CheckFunc

	// Names binds a name server's sockets; nil is dnszone.Listen. ResolvConf names the
	// machine's own resolvers, to which other names go (N-5); "" is /etc/resolv.conf.
	Names      func(dnszone.Config) (NameServer, error)
	ResolvConf string

	// Dial gives a connection to a controller; the agent closes it when it can
	// be closed. It is called again, with backoff, whenever a stream ends.
	Dial func(context.Context) (grpc.ClientConnInterface, error)
	// Refused is told how a stream ended, so that a dialer with several
	// addresses can follow "not leader, try X". Optional.
	Refused func(error)

	// ReportEvery is the time between heartbeats; 0 is 5 s.
	ReportEvery time.Duration
	// Parallel is how many steps run at once, of those that wait for another
	// machine and of the others each; 0 is 8. Stops are not bounded.
	Parallel int
	// ConnectJitter delays reconnects by up to this much; a lab has none, 0 is 0.
	ConnectJitter time.Duration

	Log *slog.Logger
	// Now is wall-clock time; nil is time.Now.
	Now func() time.Time
	// Uptime is the boot clock; nil is runtime.Uptime.
	Uptime func() time.Duration
	// Random gives a number in [0,1) for jitter; nil is math/rand.
	Random func() float64
	// CrashPoint is called at each place of CrashPoints; tests die there.
	CrashPoint func(CrashPoint)
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Machine == "":
		return c, fmt.Errorf("agent: no machine name")
	case !filepath.IsAbs(c.StateDir) || c.WorkRoot == "":
		return c, fmt.Errorf("agent: state directory %q and work root %q must be absolute", c.StateDir, c.WorkRoot)
	case c.Host == nil || c.Shares == nil || c.Engine == nil || c.Dial == nil:
		return c, fmt.Errorf("agent: host, shares, engine and dial are needed")
	}
	if c.ReportEvery <= 0 {
		c.ReportEvery = 5 * time.Second
	}
	if c.Parallel <= 0 {
		c.Parallel = 8
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Uptime == nil {
		c.Uptime = runtime.Uptime
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Check == nil {
		c.Check = health.Check
	}
	if c.Names == nil {
		c.Names = func(cfg dnszone.Config) (NameServer, error) { return dnszone.Listen(cfg) }
	}
	if c.Refused == nil {
		c.Refused = func(error) {}
	}
	if c.CrashPoint == nil {
		c.CrashPoint = func(CrashPoint) {}
	}
	if c.EngineKind == "" {
		c.EngineKind = schema.EngineProcess
	}
	return c, nil
}
