package nodeexec

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"astraeus.io/astraeus/schema"
)

// Agent is one machine's agent. Make it with New and run it once with Run.
type Agent struct {
	cfg         Config
	log         *slog.Logger
	lock        *os.File
	incarnation string

	disk     *disk
	blobs    *blobs
	uses     *uses
	failures *failures
	places   *places
	evicted  *evictions
	past     *past
	contact  *contact
	sizes    trashSizes
	measured *measurer
	checks   *checker
	naming   *naming

	target atomic.Pointer[schema.Assignment] // newest accepted; never changed after that
	online atomic.Bool                       // the open stream confirmed target
	pinned atomic.Pointer[string]            // cluster uid
	accept sync.Mutex                        // one assignment at a time

	copiesOnce sync.Once
	ourCopies  Copies

	wakeLoop  chan struct{}
	out       outbox
	republish atomic.Bool // a stream opened: it gets a whole report
	lookAgain atomic.Bool // data was removed: the next look takes all numbers anew
	probes    probes

	ops     ops
	spawn   func(func()) // runs an operation beside the loop
	steps   sync.WaitGroup
	actedMu sync.Mutex
	acted   map[failKey]bool     // succeeded since the last look began
	tidied  map[string]time.Time // not to be tidied again before
}

// leaveWithin is how long Run waits for operations that ignore its end.
const leaveWithin = 10 * time.Second

// New opens the state directory, which it locks, and loads the last
// assignment. Errors wrap ErrLocked or ErrState where these are the cause.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Log.With("machine", cfg.Machine), lock: lock, incarnation: rand.Text(),
		disk: &disk{dir: cfg.StateDir}, wakeLoop: make(chan struct{}, 1), ops: newOps(),
		acted: map[failKey]bool{}, tidied: map[string]time.Time{}, spawn: func(f func()) { go f() }}
	a.out.ready = make(chan struct{}, 1)
	if err := a.load(); err != nil {
		if a.contact != nil {
			_ = a.contact.file.Close()
		}
		_ = lock.Close()
		return nil, err
	}
	return a, nil
}

// Run works until the context ends and returns nil then. It lets go of the
// state directory; workers, mounts and exports stay.
func (a *Agent) Run(ctx context.Context) error {
	defer func() { _ = a.Close() }()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.loop(groupCtx) })
	group.Go(func() error { return a.holdLink(groupCtx) })
	group.Go(func() error { return a.measured.run(groupCtx) })
	group.Go(func() error { return a.checks.run(groupCtx) })
	group.Go(func() error { return a.naming.run(groupCtx) })
	err := group.Wait()
	a.leave()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Close lets go of the state directory of an agent that is not run.
func (a *Agent) Close() error { return errors.Join(a.contact.file.Close(), a.lock.Close()) }

// leave waits for the operations and questions in flight, whose context has
// ended: the caller takes host and engine away next.
func (a *Agent) leave() {
	done := make(chan struct{})
	go func() { a.steps.Wait(); a.probes.all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(leaveWithin):
		a.log.Warn("an operation or a question does not end; it is left behind")
	}
	if a.ourCopies != nil {
		a.ourCopies.Close()
	}
}

// wake makes the loop look at everything again.
func (a *Agent) wake() {
	select {
	case a.wakeLoop <- struct{}{}:
	default:
	}
}

// loop looks, acts and reports, over and over: whenever something may have
// changed, when a backoff ends, and at each heartbeat.
func (a *Agent) loop(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.ReportEvery)
	defer tick.Stop()
	events := a.cfg.Engine.Events()
	var last turn
	beat := true
	for {
		next, err := a.turn(ctx, &last, beat)
		if err != nil {
			return err
		}
		beat = false
		retry, stop := a.at(next)
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case <-a.wakeLoop:
		case _, open := <-events:
			if !open {
				events = nil
			}
		case <-tick.C:
			beat = true
		case <-retry:
		}
		stop()
	}
}

// turn is what one turn of the loop leaves to the next.
type turn struct {
	facts facts
	say   reporter
}

// turn looks, acts and reports once, and says when a backoff ends.
func (a *Agent) turn(ctx context.Context, last *turn, beat bool) (next time.Time, err error) {
	a.ops.looking()
	acted, target := a.takeActed(), a.target.Load()
	a.applied(&last.say, target)
	seen := a.observe(ctx, target, last.facts, a.lookAgain.Swap(false) || beat)
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	last.facts = seen.facts
	a.checks.want(target, seen)
	a.naming.watch(target, seen)
	next = a.pass(ctx, target, seen, acted)
	a.publish(&last.say, target, seen, beat)
	return next, nil
}

// at is a channel that is ready at a time; none for the zero time.
func (a *Agent) at(t time.Time) (<-chan time.Time, func()) {
	if t.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(max(0, t.Sub(a.cfg.Now())))
	return timer.C, func() { timer.Stop() }
}
