package host

import (
	"context"
	"errors"
	"sync"
	"time"
)

// probeTimeout is how long a filesystem may take to answer.
const probeTimeout = 3 * time.Second

// prober asks things that may never answer: one question a key is under way
// at any time, so that a dead server costs one goroutine for ever and not one
// more at each look (node_exporter#578).
type prober struct {
	mu    sync.Mutex
	slots map[string]*slot
}

type slot struct {
	free  chan struct{} // holds a token while nothing is under way
	users int
	stuck bool // somebody waited its whole time for the question under way
}

func newProber() *prober { return &prober{slots: map[string]*slot{}} }

func (p *prober) enter(key string) (s *slot, stuck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.slots[key]
	if s == nil {
		s = &slot{free: make(chan struct{}, 1)}
		s.free <- struct{}{}
		p.slots[key] = s
	}
	if s.stuck {
		return nil, true
	}
	s.users++
	return s, false
}

func (p *prober) leave(key string, s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(p.slots, key)
	}
}

func (p *prober) setStuck(s *slot, stuck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.stuck = stuck
}

// outstanding is how many questions (or people waiting to ask) there are.
func (p *prober) outstanding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots)
}

// ask runs fn in a goroutine and waits at most timeout for its answer. While an
// earlier question of the same key is known to be stuck it fails at once with
// ErrNotAnswering. An answer that comes too late goes to discard.
func ask[T any](ctx context.Context, p *prober, key string, timeout time.Duration,
	fn func() (T, error), discard func(T)) (T, error) {
	var zero T
	s, stuck := p.enter(key)
	if stuck {
		return zero, ErrNotAnswering
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.free:
	case <-timer.C:
		p.setStuck(s, true)
		p.leave(key, s)
		return zero, ErrNotAnswering
	case <-ctx.Done():
		p.leave(key, s)
		return zero, ctx.Err()
	}
	answer := start(p, key, s, fn, discard)
	select {
	case a := <-answer.done:
		return a.value, a.err
	case <-timer.C:
		p.setStuck(s, true)
		answer.abandon()
		return zero, ErrNotAnswering
	case <-ctx.Done():
		answer.abandon()
		if errors.Is(context.Cause(ctx), ErrNotAnswering) {
			p.setStuck(s, true)
			return zero, ErrNotAnswering
		}
		return zero, ctx.Err()
	}
}

type result[T any] struct {
	value T
	err   error
}

// answer is what is still to come; abandon says that nobody waits for it.
type answer[T any] struct {
	done      chan result[T]
	abandoned chan struct{}
}

func (a *answer[T]) abandon() { close(a.abandoned) }

func start[T any](p *prober, key string, s *slot, fn func() (T, error), discard func(T)) *answer[T] {
	a := &answer[T]{done: make(chan result[T]), abandoned: make(chan struct{})}
	go func() {
		v, err := fn()
		p.setStuck(s, false)
		s.free <- struct{}{}
		p.leave(key, s)
		select {
		case a.done <- result[T]{v, err}:
		case <-a.abandoned:
			if err == nil && discard != nil {
				discard(v)
			}
		}
	}()
	return a
}

// graced ends when ctx has ended for that long, with ErrNotAnswering as cause.
func graced(ctx context.Context, grace time.Duration) (context.Context, func()) {
	patient, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(ErrNotAnswering)
		case <-patient.Done():
		}
	})
	return patient, func() { unhook(); cancel(nil) }
}
