package nodeexec

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// clock is a boot clock that a test moves.
type clock struct{ at time.Duration }

func (c *clock) now() time.Duration { return c.at }

func openContact(t *testing.T, dir, boot string, at *clock) *contact {
	t.Helper()
	c, err := loadContact(dir, boot, at.now)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.file.Close() })
	return c
}

// What was sent and answered counts from when it was sent; what was not answered
// counts nothing, also over a restart of the agent: X-13.
func TestContactIsWhatWasAnswered(t *testing.T) {
	dir, at := t.TempDir(), &clock{time.Hour}
	c := openContact(t, dir, "boot-1", at)
	require.True(t, c.away(time.Hour), "never heard")
	require.NoError(t, c.opened(at.at))
	require.False(t, c.away(time.Second))

	c.sending(1)
	at.at += 10 * time.Second
	c.sending(2)
	at.at += 10 * time.Second
	require.True(t, c.away(20*time.Second))
	require.NoError(t, c.heard(1))
	require.True(t, c.away(20*time.Second), "it was sent that long ago")
	require.NoError(t, c.heard(2))
	require.True(t, c.away(10*time.Second))
	require.False(t, c.away(11*time.Second))
	require.NoError(t, c.heard(1), "an older answer changes nothing")
	require.NoError(t, c.heard(7), "nor does one to what was never sent")
	require.False(t, c.away(11*time.Second))

	c.sending(3)
	require.NoError(t, c.opened(at.at-15*time.Second))
	require.NoError(t, c.heard(3), "of the stream before")
	require.True(t, c.away(10*time.Second))

	again := openContact(t, dir, "boot-1", at)
	require.False(t, again.away(11*time.Second))
	require.True(t, again.away(10*time.Second))
	for range 2 * mostUnanswered {
		again.sending(9)
	}
	require.LessOrEqual(t, len(again.sent), mostUnanswered)
}

// A contact of another boot, or one that cannot be read, is none: X-13.
func TestContactOfAnotherBootIsNone(t *testing.T) {
	dir, at := t.TempDir(), &clock{time.Hour}
	path := filepath.Join(dir, contactFile)
	require.NoError(t, openContact(t, dir, "boot-1", at).opened(at.at))
	require.False(t, openContact(t, dir, "boot-1", at).away(time.Second))
	require.True(t, openContact(t, dir, "boot-2", at).away(time.Hour))
	require.True(t, openContact(t, dir, "boot-1", at).away(time.Hour), "it was dropped")

	for name, damage := range map[string]func([]byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"short": func(b []byte) []byte { return b[:7] },
		"torn":  func(b []byte) []byte { b[3] ^= 1; return b },
	} {
		require.NoError(t, openContact(t, dir, "boot-1", at).opened(at.at))
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, damage(body), 0o600))
		c := openContact(t, dir, "boot-1", at)
		require.True(t, c.away(time.Hour), name)
		require.NoError(t, c.opened(at.at))
		require.False(t, c.away(time.Second), name)
	}
	at.at = time.Minute // a clock that is behind
	require.True(t, openContact(t, dir, "boot-1", at).away(time.Hour))
}

// An agent that is connected and not answered does not start what it would have to
// stop, and starts it once it is; the engine is told how long, and by what.
func TestStopIfAwayIsToldToTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		r.cfg.Uptime = func() time.Duration { return time.Hour + time.Since(began) }
		engine := &stoppingEngine{fakeEngine: fakeEngine{r.w}}
		r.cfg.Engine = engine
		r.start()
		defer r.stop()
		template := r.blob(schema.TaskTemplate{Command: "sh"})
		w := workerTarget(template)
		w.StopIfAwayAfter = schema.Duration(2 * time.Minute)
		r.assign(func(a *schema.Assignment) {
			a.Workers = []schema.WorkerTarget{w}
			a.Steps = []schema.Step{step(schema.ActionStartWorker, train, workerArgs)}
		})
		after(10 * time.Second)
		require.Zero(t, r.w.count("Start train-0"))
		require.Equal(t, CodeBusy, r.failure(schema.ActionStartWorker).Code)
		require.True(t, r.report().Engine.StopsAway)

		r.a.contact.sending(1)
		require.NoError(t, r.a.take(&schema.Down{Heard: 1}))
		after(time.Minute)
		require.Len(t, engine.specs, 1)
		require.Equal(t, 2*time.Minute, engine.specs[0].StopIfAway)
		at, err := runtime.LastContact(engine.specs[0].Contact)
		require.NoError(t, err)
		require.Equal(t, time.Hour+10*time.Second, at)
		require.False(t, engine.specs[0].Away(at+2*time.Minute-1))
		require.True(t, engine.specs[0].Away(at+2*time.Minute))
	})
}

// stoppingEngine says that it stops workers for want of a contact.
type stoppingEngine struct {
	fakeEngine
	specs []runtime.Spec
}

func (e *stoppingEngine) StopsAway() bool { return true }

func (e *stoppingEngine) Start(ctx context.Context, spec runtime.Spec) error {
	e.specs = append(e.specs, spec)
	return e.fakeEngine.Start(ctx, spec)
}

// What was stopped so has failed, whatever it made of it, and says why.
func TestStoppedAwayIsReportedAsThat(t *testing.T) {
	zero := 0
	state, reason := stateOf(runtime.Status{State: runtime.Exited, ExitCode: &zero, Reason: runtime.ReasonAway})
	require.Equal(t, schema.WorkerFailed, state)
	require.Equal(t, schema.AwayReason, reason)
}
