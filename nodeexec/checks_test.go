package nodeexec

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// clinic answers checks as a test wants it to, and counts them.
type clinic struct {
	mu    sync.Mutex
	err   error
	hangs bool
	asked int
}

func (c *clinic) check(ctx context.Context, t schema.CheckTarget) error {
	c.mu.Lock()
	c.asked++
	err, hangs := c.err, c.hangs
	c.mu.Unlock()
	if !hangs {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t.Timeout.Std()):
		return errors.New("no answer")
	}
}

func (c *clinic) answer(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.hangs = err, false
}

func (c *clinic) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (r *rig) checked(failures int) func(*schema.Assignment) {
	return func(a *schema.Assignment) {
		r.upSteps(a)
		a.Checks = []schema.CheckTarget{{Endpoint: schema.Key{Kind: schema.KindEndpoint, Namespace: ns, Name: "api"}, Run: train, RunUID: "run-1",
			Generation: 1, Worker: "train-0", Address: "10.0.0.1", Port: 80, Every: schema.Duration(10 * time.Second),
			Timeout: schema.Duration(2 * time.Second), Failures: failures}}
	}
}

func newClinic(t *testing.T) (*rig, *clinic) {
	r, c := newRig(t), &clinic{}
	r.cfg.Check = c.check
	return r, c
}

// N-1: a worker passes with its first good answer and fails after so many bad ones
// in a row; only the change is told.
func TestHealthChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newClinic(t)
		c.answer(errors.New("connection refused"))
		r.start()
		defer r.stop()
		r.assign(r.checked(3))
		after(500 * time.Millisecond)
		id := r.base.Checks[0].ID()
		require.Equal(t, []schema.CheckState{{CheckID: id, Message: "connection refused"}}, r.report().Checks)
		c.answer(nil)
		after(time.Second)
		require.Equal(t, []schema.CheckState{{CheckID: id, Passing: true}}, r.report().Checks, "asked each second until it passes once")
		sequence, asked := r.report().Sequence, c.count()
		after(4 * time.Second)
		require.Equal(t, asked, c.count(), "then as often as the endpoint says")
		after(26 * time.Second)
		require.Equal(t, asked+3, c.count())
		require.LessOrEqual(t, r.report().Sequence-sequence, int64(6), "heartbeats alone")

		c.answer(errors.New("HTTP 503"))
		after(20 * time.Second)
		require.True(t, r.report().Checks[0].Passing, "two in a row are not enough")
		c.answer(nil)
		after(10 * time.Second)
		c.answer(errors.New("HTTP 503"))
		after(20 * time.Second)
		require.True(t, r.report().Checks[0].Passing, "a good one in between counts anew")
		after(10 * time.Second)
		require.Equal(t, []schema.CheckState{{CheckID: id, Message: "HTTP 503"}}, r.report().Checks)
		c.answer(errors.New("connection refused"))
		after(20 * time.Second)
		require.Equal(t, "HTTP 503", r.report().Checks[0].Message)
		after(10 * time.Second)
		require.Equal(t, "connection refused", r.report().Checks[0].Message, "another reason, as often")
		c.answer(nil)
		after(10 * time.Second)
		require.True(t, r.report().Checks[0].Passing)
	})
}

// N-1: only running workers are asked; one that is asked something else is not
// taken for passing meanwhile.
func TestChecksFollowTheirWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newClinic(t)
		r.start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			r.checked(3)(a)
			a.Steps = nil // nothing starts
		})
		after(time.Minute)
		require.Zero(t, c.count())
		require.Empty(t, r.report().Checks)
		require.NotNil(t, r.report().Checks, "known: there is nothing to ask")
		r.assign(r.checked(3))
		after(time.Second)
		require.True(t, r.report().Checks[0].Passing)

		c.mu.Lock()
		c.hangs = true
		c.mu.Unlock()
		r.assign(func(a *schema.Assignment) {
			r.checked(3)(a)
			a.Checks[0].Port = 81
		})
		after(time.Second)
		require.Empty(t, r.report().Checks)
		after(2 * time.Second)
		require.Equal(t, []schema.CheckState{{CheckID: r.base.Checks[0].ID(), Message: "no answer"}}, r.report().Checks)

		c.answer(nil)
		after(10 * time.Second)
		r.w.end(trainID(), 0)
		after(5 * time.Second)
		asked := c.count()
		after(time.Minute)
		require.Equal(t, asked, c.count(), "it has ended")
		require.Empty(t, r.report().Checks)
	})
}

// N-1, X-9: an agent that begins anew does not know yet who is well, which is not
// the same as nobody.
func TestChecksAreUnknownAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newClinic(t)
		r.start()
		r.assign(r.checked(3))
		after(time.Second)
		require.True(t, r.report().Checks[0].Passing)
		r.stop()
		c.hangs = true
		r.start()
		defer r.stop()
		after(time.Second)
		require.Nil(t, r.report().Checks)
		c.answer(nil)
		after(3 * time.Second)
		require.True(t, r.report().Checks[0].Passing)
	})
}
