package nodeexec

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

// CheckFunc asks a worker once whether it is well, within the check's timeout; the
// error's text says why it is not. Package health's asks for real.
type CheckFunc func(ctx context.Context, check schema.CheckTarget) error

const (
	// checkSoon is how often a worker is asked that has not passed yet: one that just
	// starts is in use as soon as it can be.
	checkSoon = time.Second
	// checkAtOnce bounds the questions in flight.
	checkAtOnce = 64
	maxCheck    = 200 // bytes of a message
)

// checker runs the health checks of the workers that run here (N-1). Its verdicts
// change on the first answer that passes and after so many in a row that do not;
// only a change is news.
type checker struct {
	a    *Agent
	kick chan struct{}

	mu    sync.Mutex
	items map[schema.CheckID]*checked
	busy  int
	// whole: since this process began, every running worker has been asked once. Until
	// then what is not known yet is not taken for failing.
	whole bool
}

// checked is one check with what has been answered.
type checked struct {
	target  schema.CheckTarget
	due     time.Time
	busy    bool
	state   *schema.CheckState // nil before the first answer
	passed  bool               // ever
	failing int                // answers in a row that did not pass
	said    string             // by the last of them
	saying  int                // how many in a row said so
}

func newChecker(a *Agent) *checker {
	return &checker{a: a, kick: make(chan struct{}, 1), items: map[schema.CheckID]*checked{}}
}

// want makes the checks of the assignment whose workers run the ones that are asked.
func (c *checker) want(t *schema.Assignment, seen *view) {
	if t == nil || !seen.engineKnown {
		return
	}
	running := map[string]bool{}
	for i := range seen.workers {
		if w := &seen.workers[i]; w.worker.State == schema.WorkerRunning {
			running[w.id] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.a.cfg.Now()
	old := c.items
	c.items = make(map[schema.CheckID]*checked, len(t.Checks))
	for i := range t.Checks {
		target := &t.Checks[i]
		if !running[checkedWorker(target)] {
			continue
		}
		item := old[target.ID()]
		if item == nil {
			item = &checked{due: now}
		}
		if item.target.Every != target.Every {
			item.due = minTime(item.due, now.Add(target.Every.Std()))
		}
		item.target = *target
		c.items[target.ID()] = item
	}
	c.settle()
	c.poke()
}

// checkedWorker is the id of the worker that a check is about.
func checkedWorker(c *schema.CheckTarget) string {
	return targetID(&schema.WorkerTarget{RunUID: c.RunUID, Generation: c.Generation, Attempt: c.Attempt, Name: c.Worker})
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// settle notes, under the lock, that all there is to ask has been asked.
func (c *checker) settle() {
	for _, item := range c.items {
		if item.state == nil {
			return
		}
	}
	c.whole = true
}

func (c *checker) poke() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *checker) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		timer := time.NewTimer(c.begin(ctx, &running))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-c.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// begin asks what is due and says when the next is.
func (c *checker) begin(ctx context.Context, running *sync.WaitGroup) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, wait := c.a.cfg.Now(), time.Hour
	for _, item := range c.items {
		left := item.due.Sub(now)
		switch {
		case item.busy:
		case left > 0:
			wait = min(wait, left)
		case c.busy < checkAtOnce: // else the end of one of them pokes
			item.busy = true
			c.busy++
			item.due = now.Add(item.every())
			wait = min(wait, item.every())
			target := item.target
			running.Go(func() { c.one(ctx, target, item) })
		}
	}
	return wait
}

func (i *checked) every() time.Duration {
	if !i.passed {
		return min(checkSoon, i.target.Every.Std())
	}
	return i.target.Every.Std()
}

func (c *checker) one(ctx context.Context, target schema.CheckTarget, item *checked) {
	asked := c.a.cfg.Now()
	err := c.a.cfg.Check(ctx, target)
	c.mu.Lock()
	item.busy = false
	c.busy--
	news := false
	if ctx.Err() == nil && c.items[target.ID()] == item {
		if news = item.answer(err); item.passed && item.failing == 0 {
			item.due = asked.Add(target.Every.Std()) // its first good answer may have come in between
		}
		was := c.whole
		c.settle()
		news = news || c.whole != was
	}
	c.mu.Unlock()
	c.poke()
	if news {
		c.a.wake()
	}
}

// answer takes one answer in, and says whether it changes what is reported.
func (i *checked) answer(err error) bool {
	if err == nil {
		i.failing, i.said, i.saying, i.passed = 0, "", 0, true
		if i.state != nil && i.state.Passing {
			return false
		}
		i.state = &schema.CheckState{CheckID: i.target.ID(), Passing: true}
		return true
	}
	text := err.Error()
	if len(text) > maxCheck {
		text = text[:maxCheck]
	}
	if i.failing++; text == i.said {
		i.saying++
	} else {
		i.said, i.saying = text, 1
	}
	most := max(1, i.target.Failures)
	switch {
	case i.state == nil, // it is not ready before it passes once
		i.state.Passing && i.failing >= most,
		!i.state.Passing && i.saying >= most && i.state.Message != text:
		i.state = &schema.CheckState{CheckID: i.target.ID(), Message: text}
		return true
	}
	return false
}

// all is what is reported, nil while it is not known yet.
func (c *checker) all() []schema.CheckState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.whole {
		return nil
	}
	list := []schema.CheckState{}
	for item := range maps.Values(c.items) {
		if item.state != nil {
			list = append(list, *item.state)
		}
	}
	slices.SortFunc(list, func(a, b schema.CheckState) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.RunUID, b.RunUID),
			cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Address, b.Address), cmp.Compare(a.HTTPPath, b.HTTPPath))
	})
	return list
}
