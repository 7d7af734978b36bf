package runtime

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// Errors that callers act upon; engines wrap them with the worker's id.
var (
	// ErrInvalid marks a Spec that can never start; trying again is useless.
	ErrInvalid = errors.New("invalid worker")
	// ErrRunning is returned by Remove for a worker that has not ended.
	ErrRunning = errors.New("the worker has not ended")
	// ErrStuck is returned by Stop when a killed worker is still there.
	ErrStuck = errors.New("the worker is stuck: it was killed and has not ended")
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("the engine is closed")
)

// ReasonRebooted is the Reason of a worker that a reboot of the machine ended,
// which is no failure of the worker's.
const ReasonRebooted = "the machine rebooted"

// Spec is one worker to start. The descriptors in Mounts stay the caller's:
// an engine uses them during Start only and never closes them.
type Spec struct {
	// ID names the worker on this machine for ever: run uid, generation,
	// attempt and index, put together by the caller. See ValidID.
	ID string
	// Labels are opaque; List gives them back.
	Labels map[string]string

	// Command is looked up in the PATH of Env, inside the worker's root.
	Command string
	Args    []string
	// Env holds KEY=value entries; PATH and HOME have defaults.
	Env []string
	// WorkDir is absolute, inside the worker's root; "" means "/".
	WorkDir string

	// Files are placed read-only inside the root.
	Files []File
	// Mounts may be nested (/data and /data/sub); the order does not matter.
	Mounts []Mount

	// Hostname is the name the worker sees; "" keeps the machine's.
	Hostname string
	// NetNS is the path of a network namespace to join; "" is the caller's.
	NetNS string
	// LogDir is an existing directory; stdout and stderr are appended to
	// <LogDir>/<ID>.log, which is capped with one older file <ID>.log.1.
	LogDir string

	// CPU (cores) and MemoryBytes are limits, applied where the machine lets
	// the engine do so; 0 means none.
	CPU         float64
	MemoryBytes int64
	// GPUs are device indices, given as CUDA_VISIBLE_DEVICES and ASTRAEUS_GPUS.
	GPUs []int

	// StopIfAway ends the worker once Contact, the agent's, is older than this, also
	// while the agent is dead; 0 is never. Engines that can are AwayStoppers.
	StopIfAway time.Duration
	Contact    *os.File
}

// File is a config file of a worker. The write bits of Mode are ignored; a
// Mode of 0 means 0444.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
}

// Mount is a directory or file of the machine that a worker sees.
type Mount struct {
	// Source is an O_PATH descriptor, or a detached mount, that the caller
	// has verified. The engine mounts what it refers to and never resolves a
	// path on its own authority (CVE-2021-25741, CVE-2021-30465).
	Source *os.File
	// Target is absolute and clean, inside the worker's root.
	Target   string
	ReadOnly bool
	// Recursive takes along what is mounted below Source.
	Recursive bool
}

// State says where a worker is in its life.
type State string

// The states of a worker.
const (
	// Created: recorded, its process does not run the command yet.
	Created State = "Created"
	// Running: its processes are there (also when they are being stopped).
	Running State = "Running"
	// Exited: all its processes are gone; never changes again.
	Exited State = "Exited"
	// Stuck: killed and still there; it may still be writing.
	Stuck State = "Stuck"
	// Unknown: there is a record that the engine cannot read.
	Unknown State = "Unknown"
)

// Status is what an engine knows about one worker.
type Status struct {
	ID     string
	Labels map[string]string
	State  State
	// PID is the worker's first process as the machine sees it, 0 when ended.
	PID int
	// ExitCode is nil while the worker runs and when nobody saw it end. A
	// worker ended by a signal has 128 plus the signal's number.
	ExitCode *int
	// Signal is the name ("SIGKILL") when a signal ended the worker.
	Signal  string
	Started time.Time
	Ended   time.Time
	// Reason is for people: why it ended or is stuck; "" after exit code 0.
	Reason string
}

// Listing is every worker an engine knows, sorted by id. When Complete is
// false something could not be read, and absence means nothing.
type Listing struct {
	Workers  []Status
	Complete bool
}

// Engine runs workers. All methods may be called concurrently.
//
// Idempotence comes from the worker's id alone: whatever the caller does
// not know about, it may ask for again.
type Engine interface {
	// Start records and starts a worker and returns when its command runs, or
	// has turned out not to be runnable (then the worker is Exited with code
	// 126 or 127 and a reason). An id that is known in any state, ended ones
	// included, is left as it is. After an error nothing has run and no
	// record is left: trying again is safe. ErrInvalid is for ever.
	Start(ctx context.Context, spec Spec) error
	// Stop sends SIGTERM to all processes of the worker, kills them after
	// grace and returns when all are gone, with ErrStuck when they are still
	// there 30 s after that, or with the context's error; the stop itself
	// goes on regardless, also over a restart of the caller. A later Stop can
	// shorten the grace. An ended or unknown worker is nothing to do.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// List gives all workers; ended ones until Remove.
	List(ctx context.Context) (Listing, error)
	// Remove forgets an ended worker; its log stays. ErrRunning when it has
	// not ended; an unknown id is nothing to do.
	Remove(ctx context.Context, id string) error
	// Events wakes the caller when List would answer differently. Several
	// changes may be one event. Closed by Close.
	Events() <-chan struct{}
	// Close lets go of the workers and leaves them running.
	Close() error
}

// AwayStopper is an engine that keeps Spec.StopIfAway whatever becomes of the agent.
type AwayStopper interface{ StopsAway() bool }

// StopsAway reports whether an engine is one.
func StopsAway(e Engine) bool {
	a, ok := e.(AwayStopper)
	return ok && a.StopsAway()
}
