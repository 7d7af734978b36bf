package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	linkservice "astraeus.io/astraeus/schema/link"
)

// controller is a whole one: a real store, a real link, the fake planner.
type controller struct {
	*Reconciler
	t    testing.TB
	link *link.Server
	conn *grpc.ClientConn
	stop func()
}

func openStore(t testing.TB, change ...func(*store.Options)) *store.Store {
	t.Helper()
	o := store.Options{Cluster: "test", Dir: t.TempDir(), NoSync: true}
	for _, f := range change {
		f(&o)
	}
	s, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run starts a controller; stop ends it as a crash would as far as the store can see.
func run(t testing.TB, s *store.Store, source *fakeSource, address string, change ...func(*Config)) *controller {
	t.Helper()
	c := &controller{t: t, link: link.New(link.Options{})}
	listener := bufconn.Listen(1 << 20)
	stopLink := c.link.Serve(listener)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	c.conn = conn
	cfg := Config{
		Source: source, Load: source.load, Store: Etcd(s), Link: c.link, Plan: fakePlan, Address: address,
		Coalesce: time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	c.Reconciler, err = New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		_ = conn.Close()
		stopLink()
	})
	t.Cleanup(c.stop)
	return c
}

// until waits for a status.
func (c *controller) until(what string, ok func(Status) bool) Status {
	c.t.Helper()
	updates, cancel := c.Subscribe()
	defer cancel()
	late := time.After(20 * time.Second)
	for {
		select {
		case u := <-updates:
			if ok(u.Status) {
				return u.Status
			}
		case <-late:
			s := c.Status()
			c.t.Fatalf("never: %s; pass %+v, head %s, commit %s, %s, %s, %s", what, s.Pass, s.Head, s.Commit, s.StoreError, s.FetchError, s.settled)
		}
	}
}

// machine is an agent that takes assignments and reports that it runs what they name.
type machine struct {
	name     string
	fill     func(*schema.MachineReport)
	stream   linkservice.ClientStream
	got      chan *schema.Assignment
	sender   *linkservice.Sender
	sequence int64
	stop     context.CancelFunc
	err      error
	ended    chan struct{}

	cluster string             // pinned
	last    *schema.Assignment // newest
	blobs   map[string][]byte
}

// machine connects one to the leader.
func (c *controller) machine(name string) *machine {
	c.t.Helper()
	c.until("leading", func(s Status) bool { return s.Leading && s.Pass.Number > 0 })
	return c.connect(name)
}

func (c *controller) connect(name string) *machine { return c.connectAs(name, nil) }

// connectAs connects a machine whose reports are completed by fill.
func (c *controller) connectAs(name string, fill func(*schema.MachineReport)) *machine {
	c.t.Helper()
	return c.connectAgain(name, fill, nil)
}

// connectAgain connects a machine that goes on with what another one had.
func (c *controller) connectAgain(name string, fill func(*schema.MachineReport), was *machine) *machine {
	c.t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), linkservice.MachineHeader, name))
	c.t.Cleanup(cancel)
	stream, err := linkservice.Connect(ctx, c.conn)
	require.NoError(c.t, err)
	m := &machine{name: name, fill: fill, stream: stream, sender: linkservice.NewSender(nil, nil), got: make(chan *schema.Assignment, 100), stop: cancel, ended: make(chan struct{})}
	hello := &schema.Hello{Version: schema.AssignmentVersion, Machine: name, Incarnation: "i"}
	m.blobs = map[string][]byte{}
	if was != nil {
		m.cluster, m.last, m.blobs = was.cluster, was.last, was.blobs
		hello.ClusterUID = was.cluster
		if was.last != nil {
			hello.Epoch, hello.Revision = was.last.Epoch, was.last.Revision
		}
	}
	_ = stream.Send(&schema.Up{Hello: hello}) // one that is turned away says why in Recv
	m.report(m.last)
	go m.work()
	return m
}

func (m *machine) work() {
	defer close(m.ended)
	for {
		down, err := m.stream.Recv()
		if err != nil {
			m.err = err
			return
		}
		maps.Copy(m.blobs, down.Blobs)
		if down.Welcome != nil && down.Welcome.Recall {
			_ = m.stream.Send(&schema.Up{Held: &schema.Held{Assignment: m.last, Blobs: m.blobs}})
		}
		if down.Assignment != nil {
			m.cluster, m.last = down.Assignment.ClusterUID, down.Assignment
			m.report(down.Assignment)
			m.got <- down.Assignment
		}
	}
}

func (m *machine) report(a *schema.Assignment) {
	m.sequence++
	r := &schema.MachineReport{Name: m.name, Incarnation: "i", Sequence: m.sequence, Workers: []schema.Worker{}}
	if a != nil {
		r.Epoch, r.Applied = a.Epoch, a.Revision
		for _, w := range a.Workers {
			r.Workers = append(r.Workers, schema.Worker{Run: w.Run.Scoped(), RunUID: w.RunUID, Generation: w.Generation, Attempt: w.Attempt, Name: w.Name, Rank: w.Rank, Index: w.Index, State: schema.WorkerRunning})
		}
	}
	if m.fill != nil {
		m.fill(r)
	}
	parts, err := m.sender.Messages(r)
	if err != nil {
		panic(err)
	}
	for _, part := range parts {
		_ = m.stream.Send(&schema.Up{Report: part})
	}
}

// from a commit to a running worker, over the real store and link.
func TestFromCommitToConverged(t *testing.T) {
	s, source := openStore(t), newSource()
	source.push("c1", machineObject("m1"))
	c := run(t, s, source, "one")
	c.machine("m1")
	c.until("m1 is Up", func(s Status) bool { return s.Machines["m1"].State == schema.MachineUp })
	source.push("c2", machineObject("m1"), runObject("train"))
	status := c.until("converged", func(s Status) bool { yes, _ := s.Converged(false); return yes && s.Head == "c2" })
	require.Equal(t, schema.MachineUp, status.Machines["m1"].State)
	yes, why := status.Converged(true)
	require.False(t, yes)
	require.Equal(t, "run/ws-1.train has not ended", why)

	events, err := s.ListEvents(t.Context(), store.EventFilter{})
	require.NoError(t, err)
	var said []string
	for _, e := range events {
		said = append(said, e.Object.String()+" "+e.Type)
	}
	slices.Sort(said)
	require.Equal(t, []string{"machine/m1 Accepted", "machine/m1 Up", "run/ws-1.train Accepted", "run/ws-1.train Started"}, said)
}

// reports and the summary of machines are kept; a later leader begins with them.
func TestReportsAreWrittenDown(t *testing.T) {
	s, source := openStore(t), newSource()
	source.push("c1", machineObject("m1"), runObject("train"))
	c := run(t, s, source, "one")
	c.machine("m1")
	written := func(st *store.State) bool {
		return st.Observed["m1"] != nil && len(st.Observed["m1"].Workers) == 1 && slices.Equal(st.Alive.Up, []string{"m1"})
	}
	st, err := s.Load(t.Context())
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if written(st) {
		stop()
	}
	err = s.Watch(ctx, st.Revision, func(ch store.Changes) error {
		if st, err = s.Update(ctx, st, ch); err == nil && written(st) {
			stop()
		}
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	c.stop()
	c = run(t, s, source, "two")
	status := c.until("a plan", func(s Status) bool { return s.Head == "c1" && s.Commit == "c1" })
	require.Equal(t, schema.MachineUnknown, status.Machines["m1"].State, "a new leader declares nobody Down (X-24)")
	require.Empty(t, status.Plan.Steps, "the worker is known from the store")
}

// one leads, the other says who; the other takes over and machines get the
// same assignment from it.
func TestTwoControllers(t *testing.T) {
	s, source := openStore(t), newSource()
	source.push("c1", machineObject("m1"), runObject("train"))
	one := run(t, s, source, "one:1")
	one.until("leading", func(s Status) bool { return s.Head == "c1" })
	second := newSource()
	second.push("c1", machineObject("m1"), runObject("train"))
	two := run(t, s, second, "two:2")
	two.until("following", func(s Status) bool { return s.Leader == "one:1" && !s.Leading })
	m := two.connect("m1")
	<-m.ended
	require.ErrorContains(t, m.err, "not leader, try one:1")
	first := <-one.machine("m1").got
	one.stop()
	two.until("leading", func(s Status) bool { return s.Leading && s.Head == "c1" })
	again := <-two.machine("m1").got
	require.Equal(t, first.Epoch, again.Epoch)
	require.Equal(t, first.Revision, again.Revision, "nothing changed, so the revision stays")
}

// a controller that dies at any crash point, and its successor, end in
// the same state as one that did not die.
func TestCrashAnywhere(t *testing.T) {
	want := endState(t, "", 0)
	for _, point := range store.CrashPoints {
		for n := 1; ; n++ {
			crashed := false
			t.Run(fmt.Sprintf("%s-%d", point, n), func(t *testing.T) {
				got := endStateAfter(t, point, n, &crashed)
				require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
			})
			if !crashed || t.Failed() {
				break
			}
		}
	}
}

func endState(t *testing.T, point string, n int) map[string]any {
	crashed := false
	return endStateAfter(t, point, n, &crashed)
}

// endStateAfter runs two commits through controllers of which one dies the nth time that it passes the point.
func endStateAfter(t *testing.T, point string, n int, crashed *bool) map[string]any {
	var armed atomic.Bool
	var count atomic.Int64
	dead := make(chan struct{})
	s := openStore(t, func(o *store.Options) {
		o.Point = func(name string) error {
			if !armed.Load() || name != point || count.Add(1) != int64(n) {
				return nil
			}
			close(dead)
			return errors.New("crash")
		}
	})
	source := newSource()
	first, second := bigCommits()
	source.push("c1", first...)
	c := run(t, s, source, "one")
	c.until("c1", func(s Status) bool { return s.Head == "c1" && !s.Pass.Decided })
	armed.Store(true)
	source.push("c2", second...)
	c.machine("m000")
	arrived := make(chan struct{})
	go func() {
		defer close(arrived)
		c.until("c2", func(s Status) bool {
			select {
			case <-dead:
				return true
			default:
				yes, _ := s.Converged(false)
				return yes || s.Head == "c2" && !s.Pass.Decided && len(s.Plan.Steps) == 0
			}
		})
	}()
	select {
	case <-dead:
		*crashed = true
	case <-arrived:
	}
	c.stop()
	<-arrived
	armed.Store(false)
	c = run(t, s, newSourceWith(source), "two")
	m := c.machine("m000")
	c.until("the end", func(s Status) bool { return s.Head == "c2" && !s.Pass.Decided && len(s.Plan.Steps) == 0 })
	m.stop()
	c.stop()
	return summary(t, s)
}

func newSourceWith(old *fakeSource) *fakeSource {
	s := newSource()
	s.commits, s.line = old.commits, old.line
	return s
}

// bigCommits are two commits whose decisions need several transactions.
func bigCommits() (first, second []*schema.Object) {
	for i := range 130 {
		first = append(first, machineObject(fmt.Sprintf("m%03d", i)))
	}
	second = slices.Clone(first[:110])
	for i := range 120 {
		first = append(first, runObject(fmt.Sprintf("r%03d", i)))
		second = append(second, runObject(fmt.Sprintf("r%03d", i+60), "changed"))
	}
	return first, second
}

// summary is what must be the same whatever happened on the way.
func summary(t *testing.T, s *store.Store) map[string]any {
	st, err := s.Load(t.Context())
	require.NoError(t, err)
	objects := map[string]string{}
	for key, a := range st.Accepted.Objects {
		objects[key.String()] = a.UID + " " + a.Object.Hash + " " + fmt.Sprint(a.Generation)
	}
	given := map[string]string{}
	for name, a := range st.Assigned {
		given[name] = a.Hash
	}
	return map[string]any{
		"head": st.Accepted.Head, "objects": objects, "placed": slices.Sorted(maps.Keys(keyTexts(st.Placed))), "assigned": given,
	}
}

func keyTexts(placed map[schema.Key]schema.Placement) map[string]bool {
	out := map[string]bool{}
	for key := range placed {
		out[key.String()] = true
	}
	return out
}

// what was not committed is not published.
func TestUncommittedIsNotPublished(t *testing.T) {
	var broken atomic.Bool
	s := openStore(t, func(o *store.Options) {
		o.Point = func(name string) error {
			if broken.Load() && name == "assign.before" {
				return errors.New("the disk is full")
			}
			return nil
		}
	})
	source := newSource()
	source.push("c1", machineObject("m1"))
	c := run(t, s, source, "one")
	m := c.machine("m1")
	require.Empty(t, (<-m.got).Workers)
	broken.Store(true)
	source.push("c2", machineObject("m1"), runObject("train"))
	c.until("the error", func(s Status) bool { return s.StoreError != "" })
	require.Empty(t, m.got)
	require.Equal(t, "c1", c.Status().Head, "the status is that of the last pass that worked")
	broken.Store(false)
	require.Len(t, (<-m.got).Workers, 1)
}

// A value that cannot be understood ends Run with the key's name.
func TestCorruptStoreStopsTheController(t *testing.T) {
	f := newFakeStore()
	f.fail(fmt.Errorf("store: the value of key /astraeus/c/head %w: odd", store.ErrCorrupt))
	source := newSource()
	r, err := New(Config{Source: source, Load: source.load, Store: f, Link: newFakeLink()})
	require.NoError(t, err)
	err = r.Run(t.Context())
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "/astraeus/c/head")
	require.Contains(t, r.Status().StoreError, "/astraeus/c/head")
}

// Quiet cycles do not move the store's revision at all.
func TestQuietCyclesDoNotTouchTheStore(t *testing.T) {
	s, source := openStore(t), newSource()
	source.push("c1", machineObject("m1"), runObject("train"))
	passed := make(chan Pass, 1000)
	c := run(t, s, source, "one", func(c *Config) { c.Hooks.Passed = func(p Pass) { passed <- p } })
	m := c.machine("m1")
	c.until("converged", func(s Status) bool { yes, _ := s.Converged(false); return yes })
	a := <-m.got
	for len(m.got) > 0 {
		a = <-m.got
	}
	settle(t, s)
	before, err := s.Load(t.Context())
	require.NoError(t, err)
	for len(passed) > 0 {
		<-passed
	}
	for range 100 {
		m.report(a)
		c.Sync()
		p := <-passed
		require.NoError(t, p.Err)
		require.False(t, p.Decided)
	}
	after, err := s.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Revision, after.Revision)
	require.Empty(t, m.got, "nothing was sent")
}

// settle waits until reports are written down: they are beside the loop.
func settle(t *testing.T, s *store.Store) {
	t.Helper()
	for {
		st, err := s.Load(t.Context())
		require.NoError(t, err)
		if r := st.Observed["m1"]; r != nil && len(r.Workers) == 1 && r.Applied > 0 && len(st.Alive.Up) == 1 {
			return
		}
		require.NoError(t, t.Context().Err())
	}
}
