package nodeexec

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// Measuring (D-91).
const (
	measureEvery  = 5 * time.Minute // where the assignment does not say
	measureWithin = 4 * time.Minute
	leaveAlone    = 5 * time.Minute // a path that does not answer
	firstWithin   = 2 * time.Second // of a path's appearance, spread
	measureAtOnce = 2
)

// measureKey is one measured path.
type measureKey struct {
	uid    string
	source int
	path   string // "" for a copy
}

func copyMeasure(uid string) measureKey { return measureKey{uid: uid} }

// measurer measures in the background; it delays neither reports nor steps.
type measurer struct {
	a    *Agent
	kick chan struct{}

	mu   sync.Mutex
	due  map[measureKey]time.Time
	busy map[measureKey]bool
	last map[measureKey]schema.Measurement
}

func newMeasurer(a *Agent) *measurer {
	return &measurer{a: a, kick: make(chan struct{}, 1), due: map[measureKey]time.Time{},
		busy: map[measureKey]bool{}, last: map[measureKey]schema.Measurement{}}
}

// poke makes it look at a new assignment.
func (m *measurer) poke() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// made makes the paths of a drive due that did not answer, now that one was made.
func (m *measurer) made(uid string) {
	m.mu.Lock()
	for key, last := range m.last {
		if key.uid == uid && last.Answers == 0 {
			m.due[key] = time.Now()
		}
	}
	m.mu.Unlock()
	m.poke()
}

func (m *measurer) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		wait := m.begin(ctx, &running)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-m.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// begin starts what is due and says when the next one is.
func (m *measurer) begin(ctx context.Context, running *sync.WaitGroup) time.Duration {
	t := m.a.target.Load()
	if t == nil {
		return measureEvery
	}
	every := t.MeasureEvery.Std()
	if every <= 0 {
		every = measureEvery
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, wait := m.a.cfg.Now(), every
	wanted := map[measureKey]bool{}
	for _, target := range t.Measure {
		key := measureKey{target.UID, target.Source, target.Path}
		wanted[key] = true
		if _, ok := m.due[key]; !ok {
			m.due[key] = now.Add(spread(key, min(firstWithin, every)))
		}
		if m.busy[key] {
			continue
		}
		if left := m.due[key].Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		if len(m.busy) >= measureAtOnce {
			continue // the end of one of them pokes
		}
		m.busy[key] = true
		m.due[key] = now.Add(every)
		running.Go(func() { m.one(ctx, t, key, target) })
	}
	m.forget(wanted)
	return wait
}

func (m *measurer) forget(wanted map[measureKey]bool) {
	for key := range m.due {
		if !wanted[key] {
			delete(m.due, key)
			delete(m.last, key)
		}
	}
}

// spread puts a key at a fixed place within a span.
func spread(key measureKey, within time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.uid + key.path))
	return time.Duration(float64(within) * float64(h.Sum32()) / (1 << 32))
}

// one measures one path. A path that does not answer keeps its last numbers.
func (m *measurer) one(ctx context.Context, t *schema.Assignment, key measureKey, target schema.MeasureTarget) {
	usage, err := m.usage(ctx, t, key, target)
	m.mu.Lock()
	delete(m.busy, key)
	if _, wanted := m.due[key]; wanted && ctx.Err() == nil {
		result := m.last[key]
		result.Drive, result.UID, result.Source = target.Drive.Scoped(), target.UID, target.Source
		result.At, result.Answers = m.a.cfg.Now(), 0
		if err == nil {
			result.Answers = 1
			result.Bytes, result.Files = usage.Bytes, usage.Files
			result.FreeBytes, result.FreeInodes = usage.FreeBytes, usage.FreeInodes
		} else {
			m.due[key] = laterOf(m.due[key], m.a.cfg.Now().Add(leaveAlone))
		}
		m.last[key] = result
	}
	m.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		m.a.log.Warn("a path cannot be measured", "drive", target.Drive, "source", target.Source, "error", err)
	}
	m.poke()
	m.a.wake()
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *measurer) usage(ctx context.Context, t *schema.Assignment, key measureKey, target schema.MeasureTarget) (host.Usage, error) {
	a := m.a
	open := func(ctx context.Context) (*host.Dir, error) {
		if key.path != "" {
			return a.openDir(ctx, "measure", target.Path, target.Grant, a.forbidden(t))
		}
		copies := a.copies()
		if copies == nil {
			return nil, host.ErrNoCopy
		}
		return ask(ctx, &a.probes, "measure copy "+key.uid, observeWithin, func(context.Context) (*host.Dir, error) {
			return copies.Open(key.uid, "")
		}, closeLate)
	}
	dir, err := open(ctx)
	if err != nil {
		return host.Usage{}, err
	}
	usage, err := ask(ctx, &a.probes, "measure "+key.uid+" "+key.path, measureWithin, func(ctx context.Context) (host.Usage, error) {
		defer dir.Close()
		return a.cfg.Host.Measure(ctx, dir)
	}, nil)
	if errors.Is(err, errUnanswered) {
		_ = dir.Close() // the question was not asked
	}
	return usage, err
}

// of is the last measurement of a key.
func (m *measurer) of(key measureKey) (schema.Measurement, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.last[key]
	return r, ok
}

func (m *measurer) all() []schema.Measurement {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]schema.Measurement, 0, len(m.last))
	for _, r := range m.last {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b schema.Measurement) int {
		return cmp.Or(cmp.Compare(a.Drive, b.Drive), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Source, b.Source))
	})
	return list
}

// hurry has copies measured sooner where room gets short: each once a nearEvery
// at most. One that does not answer is left alone as ever.
func (m *measurer) hurry(uids []string) {
	m.mu.Lock()
	sooner := false
	for _, uid := range uids {
		key := copyMeasure(uid)
		due, wanted := m.due[key]
		last, measured := m.last[key]
		if at := last.At.Add(nearEvery); wanted && measured && last.Answers == 1 && !m.busy[key] && at.Before(due) {
			m.due[key], sooner = at, true
		}
	}
	m.mu.Unlock()
	if sooner {
		m.poke()
	}
}
