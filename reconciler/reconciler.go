package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
)

// Reconciler is one controller. Its methods are safe for concurrent use.
type Reconciler struct {
	cfg    Config
	status board
	passes atomic.Int64
	wake   chan struct{}

	mu       sync.Mutex
	requests []request // of operators, not answered yet
	fetcher  *fetcher  // nil while not leading
	opened   bool      // Config.Opening is written; only Run's goroutine uses it
}

// New makes a controller that Run starts. Errors: something required is missing.
func New(cfg Config) (*Reconciler, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	r := &Reconciler{cfg: cfg, wake: make(chan struct{}, 1)}
	r.status.init()
	return r, nil
}

// Run stands for election, leads, and starts again when a term ends, until the
// context ends, whose error it returns. Another error is one that no waiting
// heals: a value in the store that cannot be understood, or a store that was lost or
// restored.
func (r *Reconciler) Run(ctx context.Context) error {
	retry := newBackoff(100*time.Millisecond, 5*time.Second)
	for {
		err := r.term(ctx)
		var refused *OpeningError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return err
		case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrNewerFormat), errors.Is(err, store.ErrOlder):
			r.status.update(func(s *Status) { s.StoreError = err.Error() })
			return err
		case err == nil:
			retry.reset()
			continue
		}
		r.cfg.Log.Warn("the term of leading ended", "error", err)
		r.status.update(func(s *Status) { s.StoreError = err.Error() })
		if !sleep(ctx, retry.next()) {
			return ctx.Err()
		}
	}
}

// term is one time of standing for election and leading.
func (r *Reconciler) term(ctx context.Context) error {
	leader, err := r.campaign(ctx)
	if err != nil {
		return err
	}
	defer func() {
		r.cfg.Link.Follow("")
		r.status.update(func(s *Status) { s.Leading, s.Leader = false, "" })
		// Not the caller's context: that may be what ended the term.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		leader.Resign(ctx)
	}()
	return r.lead(ctx, leader)
}

// campaign waits to lead, and tells machines meanwhile who does.
func (r *Reconciler) campaign(ctx context.Context) (Leader, error) {
	watching, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { r.followLeader(watching) })
	defer done.Wait()
	defer stop()
	return r.cfg.Store.Campaign(ctx, r.cfg.Address)
}

// followLeader sends machines to whoever leads, until the context ends. A store
// that is away for a while must not leave them with an address of yesterday.
func (r *Reconciler) followLeader(ctx context.Context) {
	retry := newBackoff(100*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		err := r.cfg.Store.WatchLeader(ctx, func(address string) {
			retry.reset()
			r.cfg.Link.Follow(address)
			r.status.update(func(s *Status) {
				s.Leader = address
				if address != "" && address != r.cfg.Address {
					s.StoreError = "" // of an earlier term here: the store works for another leader
				}
			})
		})
		if ctx.Err() == nil {
			r.cfg.Log.Warn("who leads is not known", "error", err)
			sleep(ctx, retry.next())
		}
	}
}

// poke asks for a pass; requests are merged.
func (r *Reconciler) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Sync asks for a fetch and a pass now. It returns at once.
func (r *Reconciler) Sync() {
	r.mu.Lock()
	f := r.fetcher
	r.mu.Unlock()
	if f != nil {
		f.poke()
	}
	r.poke()
}

// lead runs passes until the term or the context ends. Everything it starts has
// ended when it returns.
func (r *Reconciler) lead(ctx context.Context, leader Leader) error {
	ctx, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	state, err := leader.Load(ctx)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if state, err = r.open(ctx, leader, state); err != nil {
		return err
	}
	l := newLeading(r, leader, state)
	r.mu.Lock()
	r.fetcher = l.fetcher
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.fetcher = nil
		r.mu.Unlock()
		r.refuseRequests()
	}()
	r.serve(state)
	parts.Go(func() { l.fetcher.run(ctx) })
	parts.Go(func() { l.notes.run(ctx, leader) })
	l.fetcher.poke()
	return l.loop(ctx, leader.Done())
}

// serve opens the link. Not before machines are served is it said that this
// controller leads: who reads it may send them here.
func (r *Reconciler) serve(state *store.State) {
	r.cfg.Link.Lead(link.Term{ClusterUID: state.Meta.ClusterUID, Epoch: state.Meta.Epoch, Revision: state.Revision,
		Adopting: state.Meta.Adopting, Known: state.Observed})
	r.status.update(func(s *Status) {
		s.Leading, s.Leader = true, r.cfg.Address
		s.settled, s.settledOnce = notPlanned, notPlanned
	})
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
