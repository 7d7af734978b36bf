package conform

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
)

var engineTests = []test{
	{"worker", one(worker)},
	{"stopped", one(stopped)},
	{"adoptedWorker", one(adoptedWorker)},
	{"invalid", one(invalid)},
	{"woken", one(woken)},
	{"stopsAway", one(stopsAway)},
}

// status is one worker's, nil for one that is not known.
func status(t *testing.T, m *Machine, id string) *runtime.Status {
	t.Helper()
	list, err := m.Engine.List(t.Context())
	must(t, err)
	require.True(t, list.Complete)
	for i := range list.Workers {
		if list.Workers[i].ID == id {
			return &list.Workers[i]
		}
	}
	return nil
}

// ended waits for a worker's end.
func ended(t *testing.T, m *Machine, id string) *runtime.Status {
	t.Helper()
	require.Eventually(t, func() bool { return status(t, m, id).State == runtime.Exited }, 10*time.Second, time.Millisecond)
	return status(t, m, id)
}

// worker: started once, kept after its end until it is removed.
func worker(t *testing.T, m *Machine) {
	spec := m.Worker("w-1")
	spec.Labels = map[string]string{"whose": "mine"}
	for range 2 {
		must(t, m.Engine.Start(t.Context(), spec))
	}
	s := status(t, m, "w-1")
	require.Equal(t, runtime.Running, s.State)
	require.Equal(t, spec.Labels, s.Labels)
	require.Nil(t, s.ExitCode)
	require.False(t, s.Started.IsZero())
	require.ErrorIs(t, m.Engine.Remove(t.Context(), "w-1"), runtime.ErrRunning)

	m.Exit("w-1", 3)
	s = ended(t, m, "w-1")
	require.Equal(t, 3, *s.ExitCode)
	require.False(t, s.Ended.Before(s.Started))
	must(t, m.Engine.Start(t.Context(), spec)) // known, ended: left as it is
	require.Equal(t, runtime.Exited, status(t, m, "w-1").State)
	for range 2 {
		must(t, m.Engine.Remove(t.Context(), "w-1"))
	}
	require.Nil(t, status(t, m, "w-1"))
}

// stopped: a stop returns when the worker is gone.
func stopped(t *testing.T, m *Machine) {
	must(t, m.Engine.Start(t.Context(), m.Worker("w-1")))
	must(t, m.Engine.Stop(t.Context(), "w-1", time.Second))
	s := status(t, m, "w-1")
	require.Equal(t, runtime.Exited, s.State)
	require.NotEmpty(t, s.Signal)
	must(t, m.Engine.Stop(t.Context(), "w-1", time.Second))
	must(t, m.Engine.Stop(t.Context(), "unknown", time.Second))
}

// adoptedWorker: workers live on over a restart of the agent.
func adoptedWorker(t *testing.T, m *Machine) {
	spec := m.Worker("w-1")
	must(t, m.Engine.Start(t.Context(), spec))
	before := status(t, m, "w-1")
	m.Restart()
	after := status(t, m, "w-1")
	require.Equal(t, runtime.Running, after.State)
	require.Equal(t, before.Labels, after.Labels)
	require.WithinDuration(t, before.Started, after.Started, time.Second)
	must(t, m.Engine.Start(t.Context(), spec))
	m.Exit("w-1", 0)
	require.Equal(t, 0, *ended(t, m, "w-1").ExitCode)
}

// invalid: what can never start says so and leaves nothing.
func invalid(t *testing.T, m *Machine) {
	for name, change := range map[string]func(*runtime.Spec){
		"id":      func(s *runtime.Spec) { s.ID = "../w" },
		"command": func(s *runtime.Spec) { s.Command = "" },
		"mount":   func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{Target: "/x"}} },
	} {
		spec := m.Worker("w-1")
		change(&spec)
		require.ErrorIs(t, m.Engine.Start(t.Context(), spec), runtime.ErrInvalid, name)
	}
	require.Nil(t, status(t, m, "w-1"))
}

// woken: an event tells that the listing changed.
func woken(t *testing.T, m *Machine) {
	must(t, m.Engine.Start(t.Context(), m.Worker("w-1")))
	for drained := false; !drained; {
		select {
		case <-m.Engine.Events():
		default:
			drained = true
		}
	}
	m.Exit("w-1", 0)
	select {
	case <-m.Engine.Events():
	case <-time.After(10 * time.Second):
		t.Fatal("no event came")
	}
	ended(t, m, "w-1")
}

// stopsAway: a worker ends by itself once the machine had no controller for too long,
// whether or not an agent is there, and does not begin then.
func stopsAway(t *testing.T, m *Machine) {
	require.True(t, runtime.StopsAway(m.Engine))
	contact, err := os.Create(filepath.Join(t.TempDir(), "contact"))
	must(t, err)
	t.Cleanup(func() { _ = contact.Close() })
	away := func(id string) runtime.Spec {
		spec := m.Worker(id)
		spec.StopIfAway, spec.Contact = time.Hour, contact
		return spec
	}
	must(t, m.Engine.Start(t.Context(), away("w-none")))
	require.Equal(t, runtime.ReasonAway, ended(t, m, "w-none").Reason, "no contact was ever noted")

	must(t, runtime.NoteContact(contact, runtime.Uptime()))
	must(t, m.Engine.Start(t.Context(), away("w-1")))
	must(t, m.Engine.Start(t.Context(), m.Worker("w-2"))) // was not told to
	require.Equal(t, runtime.Running, status(t, m, "w-1").State)
	m.Restart()
	require.Equal(t, runtime.Running, status(t, m, "w-1").State)

	must(t, runtime.NoteContact(contact, runtime.Uptime()-time.Hour))
	require.Equal(t, runtime.ReasonAway, ended(t, m, "w-1").Reason)
	require.Equal(t, runtime.Running, status(t, m, "w-2").State)
	must(t, m.Engine.Start(t.Context(), away("w-3")))
	require.Equal(t, runtime.ReasonAway, ended(t, m, "w-3").Reason)
	must(t, m.Engine.Stop(t.Context(), "w-2", time.Second))
}
