package nodeexec

import (
	"context"
	"maps"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

// ByHand is an agent that does nothing by itself: its caller decides when it
// looks, when its operations go on and what comes over the link, so that a
// simulation can be repeated exactly. One goroutine uses it.
type ByHand struct {
	a    *Agent
	last turn
}

// NewByHand makes an agent as New does. spawn is called with each operation
// instead of a goroutine; it may run it at any time, or never. Dial is not used.
func NewByHand(cfg Config, spawn func(func())) (*ByHand, error) {
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	a.spawn = spawn
	return &ByHand{a: a}, nil
}

// Turn is one turn of the agent's loop, with what is measured and checked between two: it
// gives the report that is to be sent, nil for none, and when the agent would
// turn again by itself, zero for at its next heartbeat.
func (b *ByHand) Turn(ctx context.Context, beat bool) (report *schema.MachineReport, next time.Time, err error) {
	var measuring sync.WaitGroup
	b.a.measured.begin(ctx, &measuring)
	b.a.checks.begin(ctx, &measuring)
	measuring.Wait()
	next, err = b.a.turn(ctx, &b.last, beat)
	if report = b.a.out.take(); report != nil {
		b.a.contact.sending(report.Sequence)
	}
	return report, next, err
}

// Connect opens a stream: its first message.
func (b *ByHand) Connect() *schema.Hello {
	b.a.republish.Store(true)
	return b.a.hello()
}

// Held is what the agent tells when its assignment is recalled, as one message.
func (b *ByHand) Held() *schema.Held {
	parts := b.a.held()
	held := *parts[len(parts)-1]
	held.Blobs = map[string][]byte{}
	for _, part := range parts {
		maps.Copy(held.Blobs, part.Blobs)
	}
	return &held
}

// Welcome is the answer to a hello that was sent at a time of the boot clock.
func (b *ByHand) Welcome(sent time.Duration) error { return b.a.contact.opened(sent) }

// Disconnect ends the stream.
func (b *ByHand) Disconnect() { b.a.online.Store(false) }

// Take is a message that came down the stream. An error ends the stream.
func (b *ByHand) Take(down *schema.Down) error { return b.a.take(down) }

// Target is the newest assignment that was accepted, nil for none; it is for
// reading only.
func (b *ByHand) Target() *schema.Assignment { return b.a.target.Load() }

// Close lets go of the state directory, as the end of the process would.
func (b *ByHand) Close() error { return b.a.Close() }
