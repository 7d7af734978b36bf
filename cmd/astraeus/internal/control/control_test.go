package control

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
	"astraeus.io/astraeus/statusapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still is a source of one commit with a cluster, an org and a machine.
type still struct{}

const commit = "0123456789012345678901234567890123456789"

func (still) Fetch(context.Context) (reconciler.Snapshot, error) {
	return reconciler.Snapshot{Commit: commit, FS: fstest.MapFS{}}, nil
}

func (still) Watch(ctx context.Context) (<-chan struct{}, error) {
	never := make(chan struct{})
	context.AfterFunc(ctx, func() { close(never) })
	return never, nil
}

func (still) IsAncestor(context.Context, string, string) (bool, error) { return true, nil }

func declared(context.Context, fs.FS, string, time.Time) (*schema.Desired, error) {
	d := &schema.Desired{Commit: commit, Objects: map[schema.Key]*schema.Object{}}
	for kind, name := range map[schema.Kind]string{schema.KindCluster: "test", schema.KindOrg: "acme", schema.KindMachine: "gpu-01"} {
		o := &schema.Object{Key: schema.Key{Kind: kind, Name: name}, Metadata: schema.Metadata{Name: name}, Spec: schema.NewSpec(kind)}
		if kind != schema.KindCluster {
			o.Org = "acme"
		}
		o.Rehash()
		d.Objects[o.Key] = o
	}
	return d, nil
}

func open(t *testing.T, plan func(planner.Input) schema.Plan) *Controller {
	t.Helper()
	c, err := Open(t.Context(), Options{
		Source: still{}, Load: declared, Plan: plan, Address: "here",
		Store: store.Options{Cluster: "test", Dir: filepath.Join(t.TempDir(), "store"), NoSync: true},
	})
	require.NoError(t, err)
	return c
}

// until reads updates until one fits.
func until(t *testing.T, c *Controller, fits func(reconciler.Status) bool) reconciler.Status {
	t.Helper()
	updates, cancel := c.Reconciler.Subscribe()
	defer cancel()
	for {
		select {
		case u := <-updates:
			if fits(u.Status) {
				return u.Status
			}
		case <-t.Context().Done():
			t.Fatal("the test ended first")
		}
	}
}

// A commit comes into force, a machine connects, and the status API shows both.
func TestControllerFromCommitToStatus(t *testing.T) {
	c := open(t, nil)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	c.Listen(listener)
	_, err = c.Source().View(t.Context())
	require.ErrorContains(t, err, "not read yet")

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	until(t, c, func(s reconciler.Status) bool { return s.Head == commit })

	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	stream, err := link.Connect(metadata.AppendToOutgoingContext(ctx, link.MachineHeader, "gpu-01"), conn)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&schema.Up{Hello: &schema.Hello{Version: 1, Machine: "gpu-01", Incarnation: "1"}}))
	parts, err := link.NewSender(nil, nil).Messages(&schema.MachineReport{Name: "gpu-01", Incarnation: "1", Sequence: 1, Address: "192.0.2.1"})
	require.NoError(t, err)
	require.NoError(t, stream.Send(&schema.Up{Report: parts[0]}))
	until(t, c, func(s reconciler.Status) bool { return s.Machines["gpu-01"].State == schema.MachineUp })

	// The view follows the store: ask until it has got there.
	require.Eventually(t, func() bool {
		v, err := c.Source().View(t.Context())
		return err == nil && v.Input.Accepted.Head == commit && len(v.Input.Observed.Machines) == 1 &&
			v.Input.Observed.Machines[0].State == schema.MachineUp && len(v.NotReady) == 0
	}, 10*time.Second, time.Millisecond)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/machines/gpu-01", nil)
	statusapi.NewHandler(statusapi.Options{Source: c.Source()}).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"address":"192.0.2.1"`)

	stop()
	require.NoError(t, <-done)
	require.NoError(t, conn.Close())
	require.NoError(t, c.Close())
}

// The same view while nothing changes, another one after a change.
func TestViewIsMadeOnce(t *testing.T) {
	s := newSource(nil, nil)
	s.state, s.status = &store.State{}, reconciler.Status{Leading: true}
	view := func() *statusapi.View {
		v, err := s.View(t.Context())
		require.NoError(t, err)
		return v
	}
	one := view()
	require.Same(t, one, view())
	changed := s.Changed()
	s.set(func() { s.status.Commit = commit })
	require.NotSame(t, one, view())
	<-changed
	select {
	case <-s.Changed():
		t.Fatal("nothing changed since")
	default:
	}
}

// An event that came again is shown once, with its count.
func TestEventsThatCameAgain(t *testing.T) {
	event := func(name, message string, count int) schema.Event {
		return schema.Event{Object: schema.Key{Kind: schema.KindRun, Name: name}, Message: message, Count: count}
	}
	before := []schema.Event{event("a", "x", 0), event("b", "x", 0)}
	after := withEvents(before, []schema.Event{event("a", "x", 2), event("b", "y", 0), event("a", "x", 3)})
	require.Equal(t, []schema.Event{event("b", "x", 0), event("b", "y", 0), event("a", "x", 3)}, after)
	require.Len(t, before, 2)
	require.Equal(t, event("a", "x", 0), before[0])
	require.Len(t, withEvents(make([]schema.Event, maxEvents), after), maxEvents)
}

// with the brake on, nothing new is decided and no new step released, and
// what was released may finish.
func TestBrake(t *testing.T) {
	step := func(id string) *schema.Step { return &schema.Step{ID: id, Machine: "gpu-01"} }
	steps := []*schema.Step{step("1"), step("2")}
	b := &Brake{plan: func(planner.Input) schema.Plan {
		return schema.Plan{
			Commit: "c", Decisions: schema.Decisions{Head: "c"}, Steps: steps,
			Targets: map[string]*schema.Assignment{"gpu-01": {Machine: "gpu-01", Steps: []schema.Step{*steps[0]}}},
		}
	}}
	before := b.Plan(planner.Input{})
	require.Equal(t, "c", before.Decisions.Head)
	require.Equal(t, 1, b.Stop(), "only step 1 was released")
	require.Equal(t, 1, b.Stop())

	steps = []*schema.Step{step("1"), step("2"), step("3")}
	held := b.Plan(planner.Input{})
	require.True(t, held.Decisions.Empty())
	require.Equal(t, []*schema.Step{step("1")}, held.Steps)
	require.Equal(t, before.Targets["gpu-01"], held.Targets["gpu-01"])
	require.NotSame(t, before.Targets["gpu-01"], held.Targets["gpu-01"], "the store stamps what it is given")

	steps = steps[1:]
	require.Empty(t, b.Plan(planner.Input{}).Steps)
}

func TestProgress(t *testing.T) {
	var p Progress
	require.Zero(t, p.Total())
	p.Note([]*schema.Step{{ID: "1"}, {ID: "2"}})
	require.Equal(t, []int{0, 2}, []int{p.Done(), p.Total()})
	p.Note([]*schema.Step{{ID: "2"}, {ID: "3"}})
	require.Equal(t, []int{1, 3}, []int{p.Done(), p.Total()})
	p.Note(nil)
	require.Equal(t, []int{3, 3}, []int{p.Done(), p.Total()})
}
