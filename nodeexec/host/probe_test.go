package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that never answers costs one goroutine, however often and by however
// many it is asked (node_exporter#578). D-91, X-23.
func TestOneQuestionAMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber()
		release := make(chan struct{})
		var asked atomic.Int32
		hang := func() (int, error) { asked.Add(1); <-release; return 7, nil }
		look := func() (int, error) {
			return ask(t.Context(), p, "m", probeTimeout, hang, nil)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, err := look()
				require.ErrorIs(t, err, ErrNotAnswering)
			})
		}
		wg.Wait()
		require.Equal(t, probeTimeout, time.Since(start))
		require.Equal(t, int32(1), asked.Load())
		for range 50 {
			_, err := look()
			require.ErrorIs(t, err, ErrNotAnswering)
		}
		require.Equal(t, probeTimeout, time.Since(start), "at once, as it is known to hang")
		require.Equal(t, int32(1), asked.Load())

		v, err := ask(t.Context(), p, "other", probeTimeout, func() (int, error) { return 1, nil }, nil)
		require.NoError(t, err)
		require.Equal(t, 1, v, "other mounts go on")

		close(release)
		synctest.Wait()
		v, err = look()
		require.NoError(t, err)
		require.Equal(t, 7, v, "it answers again")
		require.Zero(t, p.outstanding())
	})
}

func TestLateAnswersAreDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber()
		release := make(chan struct{})
		var discarded []int
		fn := func() (int, error) { <-release; return 3, nil }
		_, err := ask(t.Context(), p, "m", time.Second, fn, func(v int) { discarded = append(discarded, v) })
		require.ErrorIs(t, err, ErrNotAnswering)
		close(release)
		synctest.Wait()
		require.Equal(t, []int{3}, discarded)
		require.Zero(t, p.outstanding())
	})
}

func TestAskerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber()
		release := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ask(ctx, p, "m", probeTimeout, func() (int, error) { <-release; return 0, nil }, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(release)
		synctest.Wait()
		boom := errors.New("boom")
		_, err = ask(t.Context(), p, "m", probeTimeout, func() (int, error) { return 0, boom }, nil)
		require.ErrorIs(t, err, boom)
	})
}

// A walk that hangs is left 3 s after its caller gave up, and is known to hang.
func TestGraced(t *testing.T) { // D-91
	synctest.Test(t, func(t *testing.T) {
		p := newProber()
		release := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		patient, stop := graced(ctx, probeTimeout)
		defer stop()
		start := time.Now()
		hang := func() (int, error) { <-release; return 0, nil }
		_, err := ask(patient, p, "m", time.Hour, hang, nil)
		require.ErrorIs(t, err, ErrNotAnswering)
		require.Equal(t, time.Minute+probeTimeout, time.Since(start))
		_, err = ask(t.Context(), p, "m", time.Hour, hang, nil)
		require.ErrorIs(t, err, ErrNotAnswering)
		require.Equal(t, time.Minute+probeTimeout, time.Since(start))
		close(release)
		synctest.Wait()

		ctx2, cancel2 := context.WithCancel(t.Context())
		patient, stop = graced(ctx2, probeTimeout)
		defer stop()
		_, err = ask(patient, p, "m", time.Hour, func() (int, error) { cancel2(); return 0, ctx2.Err() }, nil)
		require.ErrorIs(t, err, context.Canceled, "it stopped by itself")
	})
}

func TestKeyLocks(t *testing.T) {
	var l keyLocks
	var wg sync.WaitGroup
	n := 0
	for range 100 {
		wg.Go(func() {
			defer l.lock("a")()
			n++
		})
	}
	unlock := l.lock("b")
	wg.Wait()
	unlock()
	require.Equal(t, 100, n)
	require.Empty(t, l.held)
}
