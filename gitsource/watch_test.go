package gitsource

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func await(ctx context.Context, t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-ch:
		require.True(t, ok, "closed")
	case <-ctx.Done():
		t.Fatal("no signal")
	}
}

// seen takes signals until Fetch gives the commit.
func seen(ctx context.Context, t testing.TB, s *Source, ch <-chan struct{}, commit string) *Snapshot {
	t.Helper()
	for {
		await(ctx, t, ch)
		if snap, err := s.Fetch(ctx); err == nil && snap.Commit == commit {
			return snap
		}
	}
}

// G-8: commits, new branches in new directories and packed refs are noticed without polling.
func TestWatchLocal(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "0")
	ctx := testCtx(t)
	s := r.open(Options{Poll: -1})
	ch, err := s.Watch(ctx)
	require.NoError(t, err)
	seen(ctx, t, s, ch, r.commit("a", "1"))
	r.git("checkout", "-q", "-b", "team/deep/branch")
	seen(ctx, t, s, ch, r.commit("a", "2"))
	seen(ctx, t, s, ch, r.commit("a", "3"))
	r.git("pack-refs", "--all")
	r.git("gc", "-q")
	seen(ctx, t, s, ch, r.commit("a", "4"))
}

func TestWatchPollAndEnd(t *testing.T) { // G-8
	r := newRepo(t)
	r.commit("a", "0")
	srv := serve(t, r)
	s := openTest(t, Options{URL: srv.url(""), Poll: time.Millisecond})
	ctx, cancel := context.WithCancel(testCtx(t))
	ch, err := s.Watch(ctx)
	require.NoError(t, err)
	for range 3 {
		await(ctx, t, ch)
	}
	cancel()
	for range ch { // closed when the context ends
	}
	other, err := s.Watch(testCtx(t))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for range other { // and when the source ends
	}
	_, err = s.Watch(testCtx(t))
	require.ErrorIs(t, err, ErrClosed)
}

func TestWatchDir(t *testing.T) {
	dir := t.TempDir()
	ctx := testCtx(t)
	ch, err := WatchDir(ctx, dir, -1, time.Millisecond)
	require.NoError(t, err)
	put(t, dir, "a", "1")
	await(ctx, t, ch)
	d := NewDir(dir, 0)
	for want := 2; want < 4; want++ {
		put(t, dir, filepath.Join("new", "deep", string(rune('a'+want))), "1")
		for {
			snap, err := d.Snapshot(ctx)
			require.NoError(t, err)
			if snap.Files == want {
				break
			}
			await(ctx, t, ch)
		}
	}
	_, err = WatchDir(ctx, filepath.Join(dir, "nothing"), -1, 0)
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	_, err = WatchDir(ctx, filepath.Join(dir, "f"), -1, 0)
	require.ErrorIs(t, err, ErrUnavailable)
}
