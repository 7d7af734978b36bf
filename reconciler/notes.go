package reconciler

import (
	"context"
	"errors"
	"sync"
	"time"

	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// notes writes down what is observed, beside the loop: reports are known again to
// the next leader, and readable by the status API, but nothing waits for them.
type notes struct {
	signal func() // wakes the loop when writing fails or works again
	wake   chan struct{}

	mu      sync.Mutex
	reports map[string]*schema.MachineReport
	alive   *store.Alive
	err     error
}

func newNotes(signal func()) *notes {
	return &notes{signal: signal, wake: make(chan struct{}, 1), reports: map[string]*schema.MachineReport{}}
}

// add hands over reports that nobody changes any more; an older one of the same machine is not written.
func (n *notes) add(reports []*schema.MachineReport) {
	if len(reports) == 0 {
		return
	}
	n.mu.Lock()
	for _, r := range reports {
		n.reports[r.Name] = r
	}
	n.mu.Unlock()
	n.poke()
}

func (n *notes) setAlive(a store.Alive) {
	n.mu.Lock()
	n.alive = &a
	n.mu.Unlock()
	n.poke()
}

func (n *notes) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// failure is why the newest writing failed, nil when it did not.
func (n *notes) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

func (n *notes) run(ctx context.Context, to Recorder) {
	retry := newBackoff(200*time.Millisecond, 2*time.Second)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		err := n.write(ctx, to)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			retry.reset()
			continue
		}
		if errors.Is(err, store.ErrNotLeader) || !sleep(ctx, retry.next()) {
			return
		}
		n.poke()
	}
}

// write writes what is pending; what fails is pending again unless something newer came.
func (n *notes) write(ctx context.Context, to Recorder) error {
	n.mu.Lock()
	reports, alive := n.reports, n.alive
	n.reports, n.alive = map[string]*schema.MachineReport{}, nil
	n.mu.Unlock()
	list := make([]*schema.MachineReport, 0, len(reports))
	for _, r := range reports {
		list = append(list, r)
	}
	var err error
	if len(list) > 0 {
		_, err = to.PutReports(ctx, list...)
	}
	if alive != nil {
		err = errors.Join(err, to.PutAlive(ctx, *alive))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		for name, r := range reports {
			if n.reports[name] == nil {
				n.reports[name] = r
			}
		}
		if n.alive == nil {
			n.alive = alive
		}
	}
	if (err == nil) != (n.err == nil) {
		defer n.signal()
	}
	n.err = err
	return err
}
