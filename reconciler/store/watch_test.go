package store

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// A view that follows changes holds what a load would, whatever was written.
func TestWatchedStateIsTheLoadedState(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	view := load(t, s)
	writes := []func() error{
		func() error { _, err := l.Commit(t.Context(), many(150, "c1")); return err },
		func() error {
			d := schema.Decisions{Head: "c2", Place: []schema.Placement{placement("train", "m1"), placement("old", "m1")}}
			d.Remove = []schema.Removal{{Key: driveKey("a-001"), UID: "uid-a-001"}}
			d.Bury = []schema.Tombstone{{UID: "uid-a-001", Key: driveKey("a-001")}}
			d.Refuse = []schema.Refused{{Key: driveKey("new"), Refusal: &schema.Refusal{Commit: "c2"}}, {Key: driveKey("a-002"), Refusal: &schema.Refusal{Commit: "c2"}}}
			_, err := l.Commit(t.Context(), d)
			return err
		},
		func() error {
			_, err := l.Commit(t.Context(), schema.Decisions{Accept: []schema.Acceptance{accept("new", "c3")}, Unplace: []schema.Key{runKey("old")}, Exhume: []string{"uid-a-001"}})
			return err
		},
		func() error { _, err := l.PutReports(t.Context(), fullReport("m1"), fullReport("m2")); return err },
		func() error { _, err := l.PutReports(t.Context(), &schema.MachineReport{Name: "m1"}); return err },
		func() error { return l.PutAlive(t.Context(), Alive{Up: []string{"m1"}}) },
		func() error {
			_, err := l.Assign(t.Context(), map[string]*schema.Assignment{"m1": target("m1", ""), "m2": target("m2", "")}, nil)
			return err
		},
		func() error {
			_, err := l.Assign(t.Context(), map[string]*schema.Assignment{"m2": target("m2", "")}, nil)
			return err
		},
		func() error { return tell(l, event("new", "hello")) },
	}
	ctx, stop := context.WithCancel(t.Context())
	for _, write := range writes {
		require.NoError(t, write())
	}
	last := revision(t, s)
	events := 0
	err := s.Watch(ctx, view.Revision, func(c Changes) error {
		events += len(c.Events)
		next, err := s.Update(ctx, view, c)
		if err != nil {
			return err
		}
		view = next
		if c.Revision == last {
			stop()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, events)
	require.Empty(t, cmp.Diff(load(t, s), view, sameState))
}

func TestWatchAfterCompactionReloads(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	old := load(t, s)
	_, err := l.Commit(t.Context(), many(1, "c1"))
	require.NoError(t, err)
	_, err = l.Commit(t.Context(), many(1, "c2"))
	require.NoError(t, err)
	_, err = s.client.Compact(t.Context(), revision(t, s))
	require.NoError(t, err)
	enough := errors.New("enough")
	err = s.Watch(t.Context(), old.Revision-1, func(c Changes) error {
		require.True(t, c.Reload)
		st, err := s.Update(t.Context(), old, c)
		require.NoError(t, err)
		require.Equal(t, "c2", st.Accepted.Head)
		return enough
	})
	require.ErrorIs(t, err, enough)
}
