package process

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
)

// DefaultLogMaxBytes is the size at which a worker's log is rotated.
const DefaultLogMaxBytes = 10 << 20

// ShimArg as first argument makes MaybeShim take over the program.
const ShimArg = "worker-shim"

// DefaultShimCommand runs the running program again as a shim.
func DefaultShimCommand() []string { return []string{"/proc/self/exe", ShimArg} }

// Options of an engine.
type Options struct {
	// StateDir is absolute and the engine's own; created with mode 0700.
	StateDir string
	// ShimCommand runs ShimMain; nil means DefaultShimCommand.
	ShimCommand []string
	// CgroupParent is the cgroup v2 directory in which the engine makes one
	// directory a worker; "" means the agent's own cgroup. Limits need the cpu
	// and memory controllers there, and no process in it.
	CgroupParent string
	// LogMaxBytes caps a worker's log file; 0 means DefaultLogMaxBytes. One
	// older file of this size is kept.
	LogMaxBytes int64
	// Logger gets what has no caller to be returned to; nil discards it.
	Logger *slog.Logger

	// stuckAfter is how long a killed worker may take to be gone.
	stuckAfter time.Duration
	// awayGrace is how long a worker has to end that is stopped because its machine has
	// no controller.
	awayGrace time.Duration
	// bootID tells one boot of the machine from another.
	bootID func() (string, error)
	// kill ends a worker's whole tree.
	kill func(pidfd *os.File, cgroup string) error
	// crash is called at named steps of Start; tests die there.
	crash func(step string)
}

func (o Options) withDefaults() (Options, error) {
	if !filepath.IsAbs(o.StateDir) {
		return o, fmt.Errorf("state directory %q: want an absolute path", o.StateDir)
	}
	if len(o.ShimCommand) == 0 {
		o.ShimCommand = DefaultShimCommand()
	}
	if o.LogMaxBytes <= 0 {
		o.LogMaxBytes = DefaultLogMaxBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.stuckAfter == 0 {
		o.stuckAfter = 30 * time.Second
	}
	if o.awayGrace == 0 {
		o.awayGrace = runtime.AwayGrace
	}
	if o.crash == nil {
		o.crash = func(string) {}
	}
	return o, nil
}
