package reconciler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

// found is the newest commit that was loaded.
type found struct {
	desired *schema.Desired // nil before the first
	info    schema.CommitInfo
	touched map[string]schema.CommitInfo // by path: which commit since head did; nil for info's
	// rewritten says that the commit does not descend from head, the head at the time of asking.
	rewritten bool
	head      string
	err       error // of the newest attempt; desired is then an older one
}

// fetcher brings commits in beside the loop, one at a time, so that a slow remote
// delays no pass.
type fetcher struct {
	cfg    *Config
	signal func() // wakes the loop
	pokes  chan struct{}

	mu   sync.Mutex
	last found
	head string
}

func newFetcher(cfg *Config, signal func()) *fetcher {
	return &fetcher{cfg: cfg, signal: signal, pokes: make(chan struct{}, 1)}
}

// poke asks for a fetch; requests are merged.
func (f *fetcher) poke() {
	select {
	case f.pokes <- struct{}{}:
	default:
	}
}

// newest is what was found, judged against the accepted head. ready is false
// while the judgement is not there yet, which poke brings.
func (f *fetcher) newest(head string) (got found, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head = head
	got = f.last
	if got.desired == nil || got.head == head || got.desired.Commit == head {
		got.rewritten = got.rewritten && got.head == head
		return got, true
	}
	return got, false
}

// run fetches at each poke and each signal of the source, until the context ends.
func (f *fetcher) run(ctx context.Context) {
	watch := f.watch(ctx)
	retry := newBackoff(time.Second, time.Minute)
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.pokes:
		case <-again:
		case _, ok := <-watch:
			if !ok {
				watch = nil
				again = time.After(retry.next())
				continue
			}
		}
		again = nil
		if err := f.fetch(ctx); err != nil {
			again = time.After(retry.next())
		} else {
			retry.reset()
		}
		if watch == nil {
			watch = f.watch(ctx)
		}
	}
}

// watch is nil when the source cannot be watched now; fetching by retry and resync goes on.
func (f *fetcher) watch(ctx context.Context) <-chan struct{} {
	signals, err := f.cfg.Source.Watch(ctx)
	if err != nil && ctx.Err() == nil {
		f.cfg.Log.Warn("the repository cannot be watched", "error", err)
	}
	return signals
}

func (f *fetcher) fetch(ctx context.Context) error {
	f.mu.Lock()
	next, head := f.last, f.head
	f.mu.Unlock()
	next.err = f.advance(ctx, &next, head)
	if ctx.Err() != nil {
		return nil
	}
	f.mu.Lock()
	changed := next.desired != f.last.desired || next.head != f.last.head || errText(next.err) != errText(f.last.err)
	f.last = next
	f.mu.Unlock()
	if changed {
		if next.err != nil {
			f.cfg.Log.Warn("the newest commit cannot be used; the last one stays", "error", next.err)
		}
		f.signal()
	}
	return next.err
}

// advance fetches, loads what is new, and judges it against the head.
func (f *fetcher) advance(ctx context.Context, next *found, head string) error {
	fetching, end := f.cfg.Hooks.Span(ctx, "fetch", "")
	snap, err := f.cfg.Source.Fetch(fetching)
	end(err)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	desired := next.desired
	if desired == nil || snap.Commit == "" || snap.Commit != desired.Commit {
		loading, end := f.cfg.Hooks.Span(ctx, "load", snap.Commit)
		desired, err = f.cfg.Load(loading, snap.FS, snap.Commit, snap.Time)
		end(err)
		if err != nil {
			return fmt.Errorf("load %s: %w", snap.Commit, err)
		}
	}
	rewritten := false
	if head != "" && snap.Commit != "" && snap.Commit != head {
		descends, err := f.cfg.Source.IsAncestor(ctx, head, snap.Commit)
		if err != nil {
			return fmt.Errorf("compare %s with %s: %w", snap.Commit, head, err)
		}
		rewritten = !descends
	}
	if next.desired != desired || next.head != head {
		next.touched = f.touched(ctx, head, snap.Commit, rewritten)
	}
	next.desired, next.rewritten, next.head = desired, rewritten, head
	next.info = schema.NewCommitInfo(snap.Commit, snap.Author, snap.Subject, snap.Time)
	return nil
}

// touched asks who changed what since the head. That it cannot be told keeps no
// commit from being used.
func (f *fetcher) touched(ctx context.Context, head, commit string, rewritten bool) map[string]schema.CommitInfo {
	h, ok := f.cfg.Source.(Historian)
	if !ok || head == "" || commit == "" || commit == head || rewritten {
		return nil
	}
	out, err := h.Touched(ctx, head, commit)
	if err != nil && ctx.Err() == nil {
		f.cfg.Log.Warn("which commits touched what is not known", "commit", commit, "error", err)
	}
	return out
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// backoff doubles from low to high.
type backoff struct{ low, high, at time.Duration }

func newBackoff(low, high time.Duration) *backoff { return &backoff{low: low, high: high, at: low} }

func (b *backoff) next() time.Duration {
	d := b.at
	b.at = min(2*b.at, b.high)
	return d
}

func (b *backoff) reset() { b.at = b.low }
