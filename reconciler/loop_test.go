package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a controller on fakes, in a synctest bubble.
type bench struct {
	*Reconciler
	source *fakeSource
	store  *fakeStore
	link   *fakeLink
	stop   func()

	mu   sync.Mutex
	list []Pass
}

func (b *bench) passes() []Pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list)
}

// start runs a controller; stop ends it and waits.
func start(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{source: newSource(), store: newFakeStore(), link: newFakeLink()}
	cfg := Config{Source: b.source, Load: b.source.load, Store: b.store, Link: b.link, Plan: fakePlan, Address: "here"}
	cfg.Hooks.Passed = func(p Pass) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.list = append(b.list, p)
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	b.Reconciler, err = New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.stop = func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	return b
}

func in(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// G-8, X-6: a commit goes from the source to the machines within the debounce.
func TestCommitIsPublished(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		synctest.Wait()
		require.True(t, b.link.isLeading())
		begin := time.Now()
		b.source.push("c1", machineObject("m1"), runObject("train"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "c1", b.Status().Head)
		require.Len(t, b.link.last()["m1"].Workers, 1)
		require.Equal(t, int64(1), b.link.last()["m1"].Revision)
		require.LessOrEqual(t, time.Since(begin), 100*time.Millisecond)
	})
}

// The first change goes at once, those that come right after go together.
func TestChangesAreCoalesced(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		synctest.Wait()
		before := len(b.passes())
		for i := range 100 {
			b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: int64(i), Applied: int64(i)})
			synctest.Wait()
			if i == 0 {
				require.Len(t, b.passes(), before+1, "the first at once")
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.InDelta(t, before+5, len(b.passes()), 1, "100 ms of reports in passes 30 ms apart")
	})
}

// G-5: an error of fetching or loading is never emptiness; the last commit stays.
func TestErrorsKeepTheLastCommit(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"), runObject("train"))
		time.Sleep(time.Second)
		synctest.Wait()
		b.source.fail(errors.New("the network is down"))
		time.Sleep(time.Minute)
		synctest.Wait()
		s := b.Status()
		require.Contains(t, s.FetchError, "the network is down")
		require.Equal(t, "c1", s.Commit)
		require.Len(t, b.store.state.Accepted.Objects, 2)
		yes, why := s.Converged(false)
		require.False(t, yes)
		require.Contains(t, why, "the network is down")
		b.source.mu.Lock()
		b.source.err = nil
		b.source.mu.Unlock()
		b.source.push("c2", machineObject("m1"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, b.Status().FetchError)
		require.Len(t, b.store.state.Accepted.Objects, 1)
	})
}

// Before any commit could be read, the pass works by what is accepted (G-9).
func TestWithoutACommitTheAcceptedIsInForce(t *testing.T) {
	in(t, func(t *testing.T) {
		var inputs []planner.Input
		b := start(t, func(c *Config) {
			c.Plan = func(in planner.Input) schema.Plan { inputs = append(inputs, in); return fakePlan(in) }
		})
		defer b.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotEmpty(t, inputs)
		for _, in := range inputs {
			require.Nil(t, in.Desired)
		}
		require.Contains(t, b.Status().FetchError, "has no commit")
		require.Less(t, b.source.fetches, 12, "retries back off")
	})
}

// G-5
func TestRewrittenHistoryIsSaid(t *testing.T) {
	in(t, func(t *testing.T) {
		var last planner.Input
		b := start(t, func(c *Config) {
			c.Plan = func(in planner.Input) schema.Plan { last = in; return fakePlan(in) }
		})
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		b.source.push("c2", machineObject("m1"), machineObject("m2"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, last.Rewritten)
		require.Equal(t, "c2", b.Status().Head)
		b.source.rewrite()
		b.source.push("d1")
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, last.Rewritten)
		require.True(t, b.Status().Rewritten)
		require.Equal(t, "c2", b.Status().Head)
		require.Equal(t, "d1", b.Status().Commit)
	})
}

//
func TestApproveMode(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		cluster := clusterObject(func(c *schema.ClusterSpec) { c.Sync = schema.SyncApprove })
		b.source.push("c1", cluster, machineObject("m1"))
		time.Sleep(time.Second)
		b.source.push("c2", cluster)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "c2", b.Status().Pending)
		require.Equal(t, "c1", b.Status().Head)
		_, why := b.Converged(false)
		require.Equal(t, "commit c2 waits for approval", why)
		commit, err := b.Approve(t.Context(), "c2", "ada")
		require.NoError(t, err)
		require.Equal(t, "c2", commit)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, b.Status().Pending)
		require.Equal(t, "c2", b.Status().Head)
	})
}

// 100 quiet cycles write nothing and emit nothing.
func TestQuietCyclesWriteNothing(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"), runObject("train"))
		synctest.Wait()
		b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		writes, events, passes := b.store.writes, len(b.store.events), len(b.passes())
		for i := range 100 {
			b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: int64(i + 2)})
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		require.GreaterOrEqual(t, len(b.passes()), passes+100)
		require.Equal(t, writes, b.store.writes)
		require.Len(t, b.store.events, events)
		require.Equal(t, int64(1), b.link.last()["m1"].Revision)
		for _, p := range b.passes()[passes:] {
			require.False(t, p.Decided)
			require.Zero(t, p.Assigned)
		}
	})
}

// a store error freezes publishing; nothing is lost when it works again.
func TestStoreErrorFreezesPublishing(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		synctest.Wait()
		b.store.fail(errors.New("disk full"))
		before := b.link.passes()
		b.source.push("c2", machineObject("m1"), runObject("train"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, before, b.link.passes())
		require.Contains(t, b.Status().StoreError, "disk full")
		require.True(t, b.link.isLeading(), "not given up yet")
		b.store.fail(nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Empty(t, b.Status().StoreError)
		require.Equal(t, "c2", b.Status().Head)
		require.Len(t, b.link.last()["m1"].Workers, 1)
	})
}

// without a successful write for 10 s the leader closes its streams.
func TestLeaderGivesUp(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		b.store.fail(errors.New("disk full"))
		b.source.push("c2", machineObject("m1"), runObject("train"))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.True(t, b.link.isLeading())
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.False(t, b.link.isLeading())
		require.False(t, b.Status().Leading)
		b.store.fail(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.True(t, b.link.isLeading())
		require.Equal(t, "c2", b.Status().Head)
	})
}

// A planner that decides at each pass does not spin.
func TestUnsettledPlannerDoesNotSpin(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t, func(c *Config) {
			c.Plan = func(planner.Input) schema.Plan {
				return schema.Plan{Decisions: schema.Decisions{Unplace: []schema.Key{runKey("ghost")}}}
			}
		})
		defer b.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, len(b.passes()), maxBusy+15)
		require.True(t, b.Status().Unsettled)
	})
}

// a machine is Up while heard, Down after down_after, Unknown to a new leader; the store learns it.
func TestMachinesGoDown(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		synctest.Wait()
		state := func() schema.MachineState { return b.Status().Machines["m1"].State }
		require.Equal(t, schema.MachineUnknown, state())
		_, why := b.Converged(false)
		require.Equal(t, "machine m1 was not heard yet", why)
		b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: 1, Epoch: 1, Applied: 1})
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, schema.MachineUp, state())
		yes, why := b.Converged(false)
		require.True(t, yes, why)
		time.Sleep(28 * time.Second)
		synctest.Wait()
		require.Equal(t, schema.MachineUp, state())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, schema.MachineDown, state())
		b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: 2, Epoch: 1, Applied: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, schema.MachineUp, state())
		var said []string
		for _, e := range b.store.events {
			if e.Object.Kind == schema.KindMachine && e.Type != "Accepted" {
				said = append(said, e.Message)
			}
		}
		require.Equal(t, []string{"machine m1 is Up", "machine m1 is Down", "machine m1 is Up"}, said)
	})
}

// A pass is due when a placement's next attempt is.
func TestBackoffWakesTheLoop(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t, func(c *Config) { c.Resync = time.Hour })
		defer b.stop()
		b.source.push("c1", machineObject("m1"), runObject("r"))
		synctest.Wait()
		b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		b.store.mu.Lock()
		b.store.state.Placed[runKey("r")] = schema.Placement{Run: runKey("r"), NotBefore: time.Now().Add(7 * time.Second)}
		b.store.mu.Unlock()
		b.Sync()
		time.Sleep(time.Second)
		synctest.Wait()
		before := len(b.passes())
		time.Sleep(7 * time.Second)
		synctest.Wait()
		require.Greater(t, len(b.passes()), before)
	})
}

// a commit that came while a pass was planning is not said to be reached by it.
func TestStatusIsOfThePlannedCommit(t *testing.T) {
	in(t, func(t *testing.T) {
		var b *bench
		meanwhile := func() {}
		b = start(t, func(c *Config) {
			c.Plan = func(in planner.Input) schema.Plan {
				meanwhile()
				return fakePlan(in)
			}
		})
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: 1, Epoch: 1, Applied: 9})
		time.Sleep(time.Second)
		synctest.Wait()
		yes, why := b.Converged(false)
		require.True(t, yes, why)
		updates, cancel := b.Subscribe()
		defer cancel()
		<-updates
		meanwhile = func() {
			meanwhile = func() {}
			b.source.push("c2", machineObject("m1"), runObject("train"))
			synctest.Wait() // c2 is loaded, and this pass plans c1
		}
		b.Sync()
		s := (<-updates).Status
		require.Equal(t, "c1", s.Commit)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "c2", b.Status().Commit)
	})
}

// A follower goes on looking for the leader when the store was away, and does not
// keep the error of an earlier term.
func TestFollowerFindsTheLeaderAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		synctest.Wait()
		b.store.fail(errors.New("disk full"))
		b.store.mu.Lock()
		b.store.blind = errors.New("no leader of the store")
		b.store.mu.Unlock()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(12 * time.Second)
		<-b.store.free // another controller takes over
		synctest.Wait()
		require.False(t, b.Status().Leading)
		require.NotEmpty(t, b.Status().StoreError)
		b.store.mu.Lock()
		b.store.blind, b.store.leader = nil, "the other one"
		b.store.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, "the other one", b.Status().Leader)
		require.Empty(t, b.Status().StoreError)
	})
}

func TestSubscription(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		updates, cancel := b.Subscribe()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		for i := range 5 {
			b.source.push(fmt.Sprint("n", i), machineObject("m1"), runObject("train", fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		u := <-updates
		require.Equal(t, "n4", u.Status.Head)
		require.Len(t, u.Events, 6, "a slow reader gets the newest status and every event")
		b.stop()
		cancel()
		for range updates {
		}
		cancel()
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "are needed")
}

// a plan is told what each machine was last assigned.
func TestPlanKnowsWhatWasAssigned(t *testing.T) {
	in(t, func(t *testing.T) {
		var given []map[string]*schema.Assignment
		b := start(t, func(c *Config) {
			c.Plan = func(in planner.Input) schema.Plan {
				given = append(given, in.Given)
				return fakePlan(in)
			}
		})
		defer b.stop()
		b.source.push("c1", machineObject("m1"), runObject("train"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, given[0])
		require.Equal(t, b.link.last(), given[len(given)-1])
		require.Positive(t, given[len(given)-1]["m1"].Revision)
	})
}
