package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// stage is a status API whose view a test changes.
type stage struct {
	mu      sync.Mutex
	view    *statusapi.View
	err     error
	changed chan struct{}
	asks    int
	// asked is called at each question, with how many there were before.
	asked func(n int)
}

func (s *stage) View(context.Context) (*statusapi.View, error) {
	s.mu.Lock()
	n := s.asks
	s.asks++
	s.mu.Unlock()
	if s.asked != nil {
		s.asked(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.err
}

func (s *stage) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *stage) set(view *statusapi.View, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view, s.err = view, err
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *stage) client(t *testing.T) *client {
	t.Helper()
	server := httptest.NewServer(statusapi.NewHandler(statusapi.Options{Source: s}))
	t.Cleanup(server.Close)
	base, err := parseServerURL(server.URL)
	require.NoError(t, err)
	return &client{base: base, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func happened(at time.Time, messages ...string) *statusapi.View {
	v := &statusapi.View{}
	for i, m := range messages {
		v.Events = append(v.Events, schema.Event{At: at.Add(time.Duration(i) * time.Second), Object: schema.Key{Kind: schema.KindMachine, Name: "gpu-01"}, Message: m})
	}
	return v
}

// Each event is told once, also one that is written later than a newer one, and a
// server that is away for a while is asked again.
func TestFollow(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := &stage{view: happened(noon, "one", "two")}
	s.asked = func(n int) {
		switch n {
		case 1:
			s.set(nil, errors.New("away"))
		case 2:
			late := happened(noon, "one", "two", "three")
			late.Events = append(late.Events, happened(noon.Add(-time.Second), "late").Events...)
			s.set(late, nil)
		case 3:
			s.set(happened(noon.Add(time.Hour), "four"), nil)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := follow(ctx, s.client(t), url.Values{}, time.Millisecond, func(e schema.Event) error {
		got = append(got, e.Message)
		if e.Message == "four" {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"one", "two", "late", "three", "four"}, got)

	// One that never answered is an error at once.
	s = &stage{err: errors.New("no state yet")}
	require.ErrorContains(t, follow(t.Context(), s.client(t), url.Values{}, time.Millisecond, nil), "no state yet")
}

func runIn(outcome schema.RunOutcome) *statusapi.View {
	key := schema.Key{Kind: schema.KindRun, Namespace: "ws-1", Name: "train"}
	spec := &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{Image: "x"}}
	return &statusapi.View{Input: planner.Input{Placed: map[schema.Key]schema.Placement{key: {
		Run: key, RunUID: "u", Spec: spec, Outcome: outcome, Workers: []schema.PlacedWorker{{Name: "train-0", Machine: "gpu-01"}},
	}}}}
}

func TestWait(t *testing.T) {
	s := &stage{view: runIn("")}
	s.asked = func(n int) {
		switch n {
		case 2:
			s.set(nil, errors.New("away"))
		case 4:
			s.set(runIn(schema.RunSucceeded), nil)
		}
	}
	w := waiting{server: s.client(t), kind: schema.KindRun, name: "train", state: "Succeeded"}
	require.NoError(t, w.until(t.Context(), 0, time.Millisecond))

	// What cannot come any more is not waited for.
	s = &stage{view: runIn(schema.RunFailed)}
	w.server = s.client(t)
	require.ErrorContains(t, w.until(t.Context(), 0, time.Millisecond), "the run has Failed")

	// A server that never answered, an interrupt, and time that is up.
	s.set(nil, errors.New("no state yet"))
	require.ErrorContains(t, w.until(t.Context(), 0, time.Millisecond), "no state yet")
	s.set(runIn(""), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.until(ctx, 0, time.Millisecond), context.Canceled)
	err := w.until(t.Context(), 5*time.Millisecond, time.Millisecond)
	require.Equal(t, exitWaiting, codeOf(t.Context(), err))
}

func TestSinceTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at, err := sinceTime("10m", now)
	require.NoError(t, err)
	require.Equal(t, now.Add(-10*time.Minute), at)
	at, err = sinceTime("2026-01-02T11:00:00+01:00", now)
	require.NoError(t, err)
	require.True(t, at.Equal(now.Add(-2*time.Hour)))
	for _, bad := range []string{"", "-5m", "noon", "2026-01-02"} {
		_, err := sinceTime(bad, now)
		require.Error(t, err, bad)
	}
}
