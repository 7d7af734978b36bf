package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func event(name, message string) schema.Event {
	return schema.Event{Object: driveKey(name), Type: "Accepted", Message: message}
}

// D-71, X-24: events are kept for people, listed by object, capped an object, with
// one lease an hour.
func TestEvents(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := open(t, func(o *Options) {
		o.EventsPerObject = 10
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	l := lead(t, s)
	add := func(e ...schema.Event) { require.NoError(t, tell(l, e...)) }
	list := func(f EventFilter) []schema.Event {
		out, err := s.ListEvents(t.Context(), f)
		require.NoError(t, err)
		return out
	}
	add(event("b", "one"), schema.Event{Type: "Started", Message: "the controller"})
	for i := range 35 {
		add(event("a", fmt.Sprint(i)), event("a", fmt.Sprint(i, "'")))
	}
	got := list(EventFilter{Object: driveKey("a")})
	require.LessOrEqual(t, len(got), 10)
	require.Equal(t, "34'", got[len(got)-1].Message)
	require.Len(t, list(EventFilter{Object: driveKey("b")}), 1, "the cap is an object's own")
	require.Len(t, list(EventFilter{Limit: 3}), 3)
	require.Len(t, list(EventFilter{Since: got[len(got)-1].At}), 1)
	leases, err := s.client.Leases(t.Context())
	require.NoError(t, err)
	require.Len(t, leases.Leases, 2, "the leader's and the hour's")
	now = now.Add(time.Hour)
	add(event("b", "two"))
	leases, err = s.client.Leases(t.Context())
	require.NoError(t, err)
	require.Len(t, leases.Leases, 3)

	// The cap holds over a change of leaders.
	l.Resign(t.Context())
	l = lead(t, s)
	for i := range 15 {
		add(event("a", fmt.Sprint("more ", i)))
	}
	got = list(EventFilter{Object: driveKey("a")})
	require.LessOrEqual(t, len(got), 10)
	require.Equal(t, "more 14", got[len(got)-1].Message)
}

func TestEqualEventsAreCounted(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	for range 5 {
		require.NoError(t, tell(l, event("a", "again"), event("a", "again")))
	}
	got, err := s.ListEvents(t.Context(), EventFilter{})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, 10, got[0].Count)
}

func TestEventsAreCommittedWithDecisions(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	d := many(120, "c1")
	for _, a := range d.Accept {
		d.Events = append(d.Events, schema.Event{Object: a.Object.Object.Key, Type: "Accepted"})
	}
	_, err := l.Commit(t.Context(), d)
	require.NoError(t, err)
	got, err := s.ListEvents(t.Context(), EventFilter{})
	require.NoError(t, err)
	require.Len(t, got, 120)
}
