package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// maxEvents is how many events the status API keeps at hand, the newest.
const maxEvents = 5000

// Source is the status API's view of a controller: what the store holds, and what
// the reconciler says of itself. A controller that does not lead shows the store.
type Source struct {
	store      *store.Store
	reconciler *reconciler.Reconciler

	mu      sync.Mutex
	state   *store.State // nil until it was read
	events  []schema.Event
	failure string // why the store is not followed
	status  reconciler.Status
	view    *statusapi.View // nil when something changed since it was made
	changed chan struct{}   // closed at the next change

	making  sync.Mutex // held while a view is made
	log     *logBook
	metrics *metrics
}

func newSource(s *store.Store, r *reconciler.Reconciler) *Source {
	return &Source{
		store: s, reconciler: r, failure: "the store was not read yet", changed: make(chan struct{}), log: newLogBook(s), metrics: newMetrics(),
	}
}

// View implements statusapi.Source. Making one may take a while where this
// controller does not lead: changes go on meanwhile.
func (s *Source) View(context.Context) (*statusapi.View, error) {
	s.making.Lock()
	defer s.making.Unlock()
	s.mu.Lock()
	if s.state == nil {
		defer s.mu.Unlock()
		return nil, errors.New(s.failure)
	}
	if s.view != nil {
		defer s.mu.Unlock()
		return s.view, nil
	}
	from := snapshot{s.state, s.events, s.status, s.notReady()}
	changed := s.changed
	s.mu.Unlock()
	view := from.view(s.log)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == changed {
		s.view = view
	}
	return view, nil
}

// Changed implements statusapi.Source.
func (s *Source) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// set changes what a view is made from.
func (s *Source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.view = nil
	close(s.changed)
	s.changed = make(chan struct{})
}

// run follows the store and the reconciler until the context ends.
func (s *Source) run(ctx context.Context, log *slog.Logger) {
	updates, cancel := s.reconciler.Subscribe()
	var done sync.WaitGroup
	done.Go(func() {
		for u := range updates {
			s.metrics.note(u.Status)
			s.set(func() { s.status = u.Status })
		}
	})
	defer done.Wait()
	defer cancel()
	for ctx.Err() == nil {
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		log.Warn("the status view does not follow the store", "error", err)
		s.set(func() { s.failure = "the store is not followed: " + err.Error() })
		pause(ctx, time.Second)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// follow reads the state and then every change of it.
func (s *Source) follow(ctx context.Context) error {
	state, err := s.store.Load(ctx)
	if err != nil {
		return err
	}
	events, err := s.store.ListEvents(ctx, store.EventFilter{Limit: maxEvents})
	if err != nil {
		return err
	}
	s.log.forgetAll()
	s.set(func() { s.state, s.events, s.failure = state, events, "" })
	return s.store.Watch(ctx, state.Revision, func(c store.Changes) error {
		next, err := s.store.Update(ctx, state, c)
		if err != nil {
			return err
		}
		state = next
		s.log.forget(c)
		if c.Empty() && len(c.Events) == 0 {
			return nil
		}
		s.set(func() {
			s.state, s.events = next, withEvents(s.events, c.Events)
		})
		return nil
	})
}

// withEvents is the newest events in an array of their own: views share the old
// one. An event that came again is written again with its count and replaces
// what it counts on.
func withEvents(list, more []schema.Event) []schema.Event {
	list = slices.Clone(list)
	for _, e := range more {
		if at := lastOf(list, e.Object); e.Count > 1 && at >= 0 && list[at].Message == e.Message {
			list = slices.Delete(list, at, at+1)
		}
		list = append(list, e)
	}
	return list[max(0, len(list)-maxEvents):]
}

// lastOf is where an object's newest event is, -1 for nowhere.
func lastOf(list []schema.Event, object schema.Key) int {
	for i, e := range slices.Backward(list) {
		if e.Object == object {
			return i
		}
	}
	return -1
}

// snapshot is what one view is made from.
type snapshot struct {
	state    *store.State
	events   []schema.Event
	status   reconciler.Status
	notReady []string
}

func (s snapshot) view(log statusapi.Log) *statusapi.View {
	v := &statusapi.View{
		Input: planner.Input{
			Accepted: s.state.Accepted, Placed: s.state.Placed, Now: time.Now(),
			Observed: schema.Observed{Machines: s.observed()},
		},
		Plan: s.status.Plan, Commit: s.status.Commit, Events: s.events, Diagnostics: s.status.Diagnostics, NotReady: s.notReady,
		Leading: s.status.Leading, Log: log,
	}
	v.Input.Observed.At = v.Input.Now
	if !s.status.Leading {
		v.Plan, v.Commit = planner.Plan(v.Input), s.state.Accepted.Head
	}
	return v
}

// observed is what machines reported, with the states that the leader gives them.
func (s snapshot) observed() []*schema.MachineReport {
	states := map[string]schema.MachineState{}
	for name := range s.state.Alive.Down {
		states[name] = schema.MachineDown
	}
	for _, name := range s.state.Alive.Up {
		states[name] = schema.MachineUp
	}
	if s.status.Leading {
		for name, m := range s.status.Machines {
			states[name] = m.State
		}
	}
	out := make([]*schema.MachineReport, 0, len(s.state.Observed))
	for _, name := range slices.Sorted(maps.Keys(s.state.Observed)) {
		report := *s.state.Observed[name]
		report.Name, report.State = name, schema.MachineUnknown
		if state, known := states[name]; known {
			report.State = state
		}
		out = append(out, &report)
	}
	return out
}

func (s *Source) notReady() (reasons []string) {
	add := func(text string) {
		if text != "" {
			reasons = append(reasons, text)
		}
	}
	add(s.failure)
	if s.status.StoreError != "" {
		add("the store failed: " + s.status.StoreError)
	}
	switch {
	case s.status.Adopting != nil:
		add(s.status.Adopting.Why())
	case !s.status.Leading && s.status.Leader == "":
		add("no controller leads")
	case s.status.Leading && s.status.FetchError != "":
		add("the newest commit is not in use: " + s.status.FetchError)
	case s.status.Leading && s.status.Commit == "":
		add("no commit was loaded yet")
	case s.state == nil || s.state.Accepted.Head == "":
		add("no commit is in force yet")
	}
	if s.status.MassDown > 0 {
		add(fmt.Sprintf("%d machines went silent at once and are not declared Down", s.status.MassDown))
	}
	return reasons
}
