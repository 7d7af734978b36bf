package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// ErrNotLeading: another controller leads, or none; approvals are the leader's.
var ErrNotLeading = errors.New("this controller does not lead")

// OpeningError is what Config.Opening refused. Run returns it: no waiting heals it.
type OpeningError struct{ Err error }

// Error implements error.
func (e *OpeningError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *OpeningError) Unwrap() error { return e.Err }

// shortestPrefix is how much of a commit's id an operator must give.
const shortestPrefix = 7

// request is what an operator asks for, on its way to the loop, which alone writes:
// an approval, or to begin a new epoch without what it waits for.
type request struct {
	commit, by string
	begin      bool
	done       chan answer
}

type answer struct {
	commit  string
	adopted Adoption
	err     error
}

// ask hands a request to the loop. It reports whether there is one.
func (r *Reconciler) ask(q request) bool {
	r.mu.Lock()
	leading := r.fetcher != nil
	if leading {
		r.requests = append(r.requests, q)
	}
	r.mu.Unlock()
	if leading {
		r.Sync()
	}
	return leading
}

// Approve lets the newest commit through when the cluster's sync mode is "approve"
// and returns its id once that is written. commit may be the first seven
// digits or more; by is who asks. Approving again, or what is in force already, is
// no error. Errors: ErrNotLeading, that another commit or none waits, that the
// cluster asks nobody, or the context's.
func (r *Reconciler) Approve(ctx context.Context, commit, by string) (string, error) {
	q := request{commit: commit, by: by, done: make(chan answer, 1)}
	if !r.ask(q) {
		return "", ErrNotLeading
	}
	select {
	case a := <-q.done:
		return a.commit, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (r *Reconciler) takeRequests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.requests
	r.requests = nil
	return list
}

// refuseRequests ends what was asked for in a term that is over.
func (r *Reconciler) refuseRequests() {
	for _, q := range r.takeRequests() {
		q.done <- answer{err: ErrNotLeading}
	}
}

// answer carries out what operators asked for since the last pass. The error is
// the store's, and each of them gets it too.
func (l *leading) answer(ctx context.Context, now time.Time) error {
	list := l.takeRequests()
	if len(list) == 0 {
		return nil
	}
	found, ready := l.fetcher.newest(l.state.Accepted.Head)
	if !ready {
		// The newest commit is being compared with the head; the next pass knows.
		l.mu.Lock()
		l.requests = append(list, l.requests...)
		l.mu.Unlock()
		return nil
	}
	var failed error
	for _, q := range list {
		if q.begin {
			q.done <- answer{err: ErrNoAdoption}
			continue
		}
		commit, due, err := l.approvable(q.commit, found)
		if err == nil && due {
			if err = l.approve(ctx, commit, q.by, now); err != nil {
				failed = err
			}
		}
		q.done <- answer{commit: commit, err: err}
	}
	return failed
}

// approvable finds the commit that is meant; due says that it waits.
func (l *leading) approvable(text string, got found) (commit string, due bool, err error) {
	means := func(id string) bool {
		return id != "" && (text == id || len(text) >= shortestPrefix && strings.HasPrefix(id, text))
	}
	head := l.state.Accepted.Head
	switch {
	case l.cluster().Sync != schema.SyncApprove:
		return "", false, errors.New("this cluster asks for no approval: it applies what its branch says (sync: auto)")
	case means(head):
		return head, false, nil
	case got.desired == nil:
		return "", false, errors.New("no commit was loaded yet")
	case !means(got.desired.Commit):
		waits := "no commit waits for approval"
		if l.pending(got.desired.Commit) {
			waits = "commit " + got.desired.Commit + " does"
		}
		return "", false, fmt.Errorf("commit %q does not wait for approval: %s", text, waits)
	}
	return got.desired.Commit, l.pending(got.desired.Commit), nil
}

// approve writes an approval and tells of it in the cluster's history (G-11).
func (l *leading) approve(ctx context.Context, commit, by string, now time.Time) error {
	d := Approval(l.state, commit, by, now)
	state, err := l.decider.Commit(ctx, d)
	if err != nil {
		l.state = nil
		return err
	}
	l.state = state
	l.cfg.Log.Info("a commit was approved", "commit", commit, "by", by)
	return nil
}

// Approval is what is written when a commit is let through (X-25, G-11).
func Approval(state *store.State, commit, by string, now time.Time) schema.Decisions {
	d := schema.Decisions{Approve: &schema.Approval{Commit: commit, By: by, At: now.UTC()}}
	for key := range state.Accepted.Objects {
		if key.Kind == schema.KindCluster {
			d.Records = append(d.Records, schema.Record{
				At: now, Object: key, Type: schema.RecordApproved, By: by, Commit: schema.CommitInfo{ID: commit},
				Message: "commit " + commit + " was approved",
			})
		}
	}
	return d
}

// pending reports whether a commit waits for an operator.
func (l *leading) pending(commit string) bool {
	head := l.state.Accepted.Head
	return head != "" && commit != head && l.cluster().Sync == schema.SyncApprove && l.state.Approved.Commit != commit
}

// open writes what the configuration wants written before the first pass. A term
// that ended before it was written begins with it again.
func (r *Reconciler) open(ctx context.Context, leader Decider, state *store.State) (*store.State, error) {
	if r.cfg.Opening == nil || r.opened {
		return state, nil
	}
	d, err := r.cfg.Opening(state)
	if err != nil {
		return nil, &OpeningError{err}
	}
	next, err := leader.Commit(ctx, d)
	if errors.Is(err, store.ErrUsed) {
		return nil, &OpeningError{err}
	}
	if err != nil {
		return nil, err
	}
	r.opened = true
	return next, nil
}
