package reconciler

import (
	"context"
	"fmt"

	"astraeus.io/astraeus/schema"
)

// ByHand is one term of leading in which nothing happens by itself: its caller
// decides when a commit is fetched, a pass runs and reports are written down, so
// that a simulation can be repeated exactly. One goroutine uses it.
type ByHand struct {
	l      *leading
	leader Leader
}

// ByHand begins a term as Run does once it leads. Errors: the state cannot be loaded.
func (r *Reconciler) ByHand(ctx context.Context, leader Leader) (*ByHand, error) {
	state, err := leader.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	r.serve(state)
	return &ByHand{newLeading(r, leader, state), leader}, nil
}

// Fetch brings the newest commit in.
func (b *ByHand) Fetch(ctx context.Context) error { return b.l.fetcher.fetch(ctx) }

// Pass runs one pass. over is why the term ends with it, nil when it goes on;
// an error in Pass.Err alone is tried again at the next pass. The plan is the
// pass's own.
func (b *ByHand) Pass(ctx context.Context) (plan schema.Plan, pass Pass, over error) {
	_, err := b.l.pass(ctx)
	b.l.publishNames()
	s := b.l.Status()
	return s.Plan, s.Pass, b.l.over(ctx, err)
}

// Note writes down what is observed and has not been written yet.
func (b *ByHand) Note(ctx context.Context) error { return b.l.notes.write(ctx, b.leader) }

// End closes the link, as the end of a term does.
func (b *ByHand) End() { b.l.cfg.Link.Follow("") }
