package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errUnanswered: an earlier question of the same name is still open. No second
// one is asked, or a dead server collects threads (node_exporter#578).
var errUnanswered = errors.New("an earlier question is not answered yet")

// probes are the questions to the machine that are open, by name.
type probes struct {
	mu   sync.Mutex
	open map[string]bool
	all  sync.WaitGroup
}

func (p *probes) begin(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[name] {
		return false
	}
	if p.open == nil {
		p.open = map[string]bool{}
	}
	p.open[name] = true
	p.all.Add(1)
	return true
}

func (p *probes) end(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, name)
	p.all.Done()
}

type answer[T any] struct {
	value T
	err   error
}

// ask puts a question that may never be answered: it waits for at most within.
// A late answer is given to late, where there is one.
func ask[T any](ctx context.Context, p *probes, name string, within time.Duration,
	question func(context.Context) (T, error), late func(T)) (T, error) {
	var zero T
	if !p.begin(name) {
		return zero, fmt.Errorf("%s: %w", name, errUnanswered)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	answers := make(chan answer[T])
	go func() {
		defer cancel()
		value, err := question(ctx)
		p.end(name)
		select {
		case answers <- answer[T]{value, err}:
		case <-ctx.Done():
			if late != nil && err == nil {
				late(value)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: %w", name, ctx.Err())
	}
}
