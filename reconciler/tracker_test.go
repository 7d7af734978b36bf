package reconciler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

func copies(list ...schema.Copy) *schema.MachineReport {
	return &schema.MachineReport{Name: "gpu-01", Copies: append([]schema.Copy{}, list...)}
}

func messages(t *tracker) []string {
	var out []string
	for _, e := range t.take() {
		out = append(out, e.Object.String()+" "+e.Type+": "+e.Message)
	}
	return out
}

// D-71: Copy removed from gpu-01: evicted: ….
func TestCopiesMakeEvents(t *testing.T) {
	tr := newTracker(store.Alive{})
	present := schema.Copy{Drive: "ws-1.hf", UID: "u", State: schema.CopyPresent}
	filled := present
	filled.Filled = true
	steps := func(w []*schema.MachineReport) {
		for i := 1; i < len(w); i++ {
			tr.compare(w[i-1], w[i], at(0))
		}
	}
	steps([]*schema.MachineReport{nil, copies(), copies(present), copies(filled)})
	require.Equal(t, []string{
		"drive/ws-1.hf Copied: Copy made on gpu-01", "drive/ws-1.hf Filled: Copy filled on gpu-01",
	}, messages(&tr))

	tr.planned([]*schema.Step{{
		Machine: "gpu-01", Action: schema.ActionEvictCopy, Args: schema.StepArgs{UID: "u"}, Destructive: true,
		Why: schema.Why{Message: schema.WhyMessage(schema.WhyDiskNearlyFull, "")},
	}})
	trash := filled
	trash.State = schema.CopyTrash
	steps([]*schema.MachineReport{copies(filled), copies(trash), copies()})
	require.Equal(t, []string{"drive/ws-1.hf Removed: Copy removed from gpu-01: evicted: the disk it is on is nearly full"}, messages(&tr))

	// a data location that is not there is not a removal, nor is an unknown part.
	away := filled
	away.State = schema.CopyUnknown
	steps([]*schema.MachineReport{copies(filled), copies(away)})
	steps([]*schema.MachineReport{copies(filled), {Name: "gpu-01"}, copies()})
	require.Empty(t, messages(&tr))
	steps([]*schema.MachineReport{copies(filled), copies()})
	require.Equal(t, []string{"drive/ws-1.hf Removed: Copy removed from gpu-01"}, messages(&tr))
}

// D-71, X-18: what a machine evicted while it was away is told when it is back,
// and a reason that is over is not told of a later removal.
func TestWhyACopyIsGone(t *testing.T) {
	tr := newTracker(store.Alive{})
	present := schema.Copy{Drive: "ws-1.hf", UID: "u", State: schema.CopyPresent}
	back := copies()
	back.Evicted = []schema.Evicted{{Drive: "ws-1.hf", UID: "u", Why: schema.WhyOverLimit}}
	tr.compare(copies(present), back, at(0))
	require.Equal(t, []string{"drive/ws-1.hf Removed: Copy removed from gpu-01: evicted: the machine's data location is over its limit"}, messages(&tr))

	tr.planned([]*schema.Step{{Machine: "gpu-01", Action: schema.ActionEvictCopy, Args: schema.StepArgs{UID: "u"}, Why: schema.Why{Message: "evicted: x"}}})
	tr.planned(nil)
	tr.compare(copies(present), copies(), at(0))
	require.Equal(t, []string{"drive/ws-1.hf Removed: Copy removed from gpu-01"}, messages(&tr))
}

func TestStartsMakeEvents(t *testing.T) {
	tr := newTracker(store.Alive{Up: []string{"m1"}})
	worker := func(state schema.WorkerState, attempt int) *schema.MachineReport {
		return &schema.MachineReport{Name: "m1", Workers: []schema.Worker{{Run: "ws-1.train", RunUID: "r", Name: "train-0", State: state, Attempt: attempt}}}
	}
	tr.compare(worker(schema.WorkerPreparing, 0), worker(schema.WorkerRunning, 0), at(0))
	tr.compare(worker(schema.WorkerRunning, 0), worker(schema.WorkerRunning, 0), at(0))
	tr.compare(worker(schema.WorkerRunning, 0), worker(schema.WorkerRunning, 1), at(0))
	require.Equal(t, []string{
		"run/ws-1.train Started: train-0 is Running on m1", "run/ws-1.train Started: train-0 is Running on m1",
	}, messages(&tr))
	quick := worker(schema.WorkerSucceeded, 2)
	quick.Workers[0].Started = at(1)
	tr.compare(worker(schema.WorkerRunning, 1), quick, at(2))
	tr.compare(quick, quick, at(2))
	require.Equal(t, []string{"run/ws-1.train Started: train-0 ran on m1"}, messages(&tr), "quicker than the reports")
	tr.machines(map[string]schema.MachineState{"m1": schema.MachineUp, "m2": schema.MachineUnknown}, at(0))
	require.Empty(t, messages(&tr))
}

// measurements, stamps of use and the sequence cannot change a plan.
func TestWhatDirties(t *testing.T) {
	now := time.Unix(5, 0)
	base := func() *schema.MachineReport {
		return &schema.MachineReport{Name: "m1", Sequence: 1, Copies: []schema.Copy{{UID: "u", LastUsed: nil}}}
	}
	for name, tc := range map[string]struct {
		change func(*schema.MachineReport)
		want   bool
	}{
		"sequence":       {func(r *schema.MachineReport) { r.Sequence = 2 }, false},
		"measurements":   {func(r *schema.MachineReport) { r.Measurements = []schema.Measurement{{Answers: 1}} }, false},
		"last used":      {func(r *schema.MachineReport) { r.Copies[0].LastUsed = &now }, false},
		"health checks":  {func(r *schema.MachineReport) { r.Checks = []schema.CheckState{{Passing: true}} }, false},
		"bytes":          {func(r *schema.MachineReport) { r.Copies[0].Bytes = 5 }, true},
		"copies unknown": {func(r *schema.MachineReport) { r.Copies = nil }, true},
		"a copy more":    {func(r *schema.MachineReport) { r.Copies = append(r.Copies, schema.Copy{}) }, true},
		"applied":        {func(r *schema.MachineReport) { r.Applied = 3 }, true},
		"workers known":  {func(r *schema.MachineReport) { r.Workers = []schema.Worker{} }, true},
	} {
		r := base()
		tc.change(r)
		require.Equal(t, tc.want, dirties(base(), r), name)
	}
	require.True(t, dirties(nil, base()))
}

// The store and the planner must agree on what decisions lead to.
func TestStoreAndPlannerAgree(t *testing.T) {
	if got, _ := planner.Apply(schema.Accepted{}, nil, schema.Decisions{Head: "c"}); got.Head == "" {
		t.Skip("the planner applies nothing yet")
	}
	rapid.Check(t, func(rt *rapid.T) {
		st := newFakeStore().state
		for range 3 {
			d := drawDecisions(rt)
			accepted, placed := planner.Apply(st.Accepted, st.Placed, d)
			st = st.Apply(d)
			if diff := cmp.Diff(accepted, st.Accepted, cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("accepted: planner (-) and store (+) differ:\n%s", diff)
			}
			if diff := cmp.Diff(placed, st.Placed, cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("placed: planner (-) and store (+) differ:\n%s", diff)
			}
		}
	})
}

func drawDecisions(rt *rapid.T) schema.Decisions {
	d := schema.Decisions{Head: rapid.SampledFrom([]string{"", "c1"}).Draw(rt, "head")}
	for _, name := range []string{"a", "b"} {
		key, o := runKey(name), runObject(name)
		switch rapid.IntRange(0, 4).Draw(rt, name) {
		case 0:
			d.Accept = append(d.Accept, schema.Acceptance{Object: schema.AcceptedObject{UID: name, Object: o}})
		case 1:
			d.Remove = append(d.Remove, schema.Removal{Key: key})
			d.Bury = append(d.Bury, schema.Tombstone{UID: name})
		case 2:
			d.Refuse = append(d.Refuse, schema.Refused{Key: key, Refusal: &schema.Refusal{Commit: "c", Candidate: o}})
		case 3:
			d.Refuse = append(d.Refuse, schema.Refused{Key: key})
			d.Exhume = append(d.Exhume, name)
		case 4:
			d.Place = append(d.Place, schema.Placement{Run: key, RunUID: name})
		}
	}
	if rapid.Bool().Draw(rt, "unplace") {
		d.Unplace = []schema.Key{runKey("a")}
	}
	return d
}

//
func TestConvergence(t *testing.T) {
	wait := func(codes ...schema.ReasonCode) []schema.Wait {
		w := schema.Wait{Run: runKey("train")}
		for _, c := range codes {
			w.Reasons = append(w.Reasons, schema.Reason{Code: c})
		}
		return []schema.Wait{w}
	}
	placed := func(policy schema.RestartPolicy, outcome schema.RunOutcome) map[schema.Key]schema.Placement {
		return map[schema.Key]schema.Placement{runKey("train"): {
			Run: runKey("train"), RunUID: "r", Spec: &schema.RunSpec{RestartPolicy: policy}, Outcome: outcome,
			Workers: []schema.PlacedWorker{{Name: "train-0", Machine: "m1"}},
		}}
	}
	running := map[string]*schema.MachineReport{"m1": {Name: "m1", Workers: []schema.Worker{{RunUID: "r", Name: "train-0", State: schema.WorkerRunning}}}}
	for name, tc := range map[string]struct {
		change     func(*convergence)
		live, once string
	}{
		"nothing": {func(*convergence) {}, "", ""},
		"a step": {func(c *convergence) {
			c.plan.Steps = []*schema.Step{{Machine: "m1", Action: schema.ActionMount, Object: runKey("train")}}
		}, "1 step left: Mount run/ws-1.train on m1", "1 step left: Mount run/ws-1.train on m1"},
		"decided":   {func(c *convergence) { c.info.Decided = true }, "decisions were just written", "decisions were just written"},
		"no commit": {func(c *convergence) { c.leading.found.desired = nil }, "no commit was loaded yet", "no commit was loaded yet"},
		"not compared": {func(c *convergence) {
			c.leading.found.desired.Commit, c.leading.judged = "c2", false
		}, "commit c2 was not compared with the one in force yet", "commit c2 was not compared with the one in force yet"},
		"in flight": {func(c *convergence) {
			c.status.Machines["m1"] = Machine{State: schema.MachineUp, Assigned: 5, Applied: 4}
		}, "machine m1 has not taken its newest assignment yet", "machine m1 has not taken its newest assignment yet"},
		"a machine that is Down has nothing in flight": {func(c *convergence) { c.status.Machines["m1"] = Machine{State: schema.MachineDown, Assigned: 5} }, "", ""},
		"a wait that ends by itself":                   {func(c *convergence) { c.plan.Waits = wait(schema.ReasonStopping) }, "run/ws-1.train waits: its older workers are being stopped first", "run/ws-1.train waits: its older workers are being stopped first"},
		"a wait for a person":                          {func(c *convergence) { c.plan.Waits = wait(schema.ReasonNoDataLocation) }, "", ""},
		"running": {func(c *convergence) {
			c.leading.state.Placed = placed(schema.RestartNever, "")
			c.leading.reports = running
		}, "", "run/ws-1.train has not ended"},
		"running, always": {func(c *convergence) {
			c.leading.state.Placed = placed(schema.RestartAlways, "")
			c.leading.reports = running
		}, "", ""},
		"not running yet": {func(c *convergence) { c.leading.state.Placed = placed(schema.RestartAlways, "") }, "run/ws-1.train: train-0 is not running yet", "run/ws-1.train: train-0 is not running yet"},
		"ended":           {func(c *convergence) { c.leading.state.Placed = placed(schema.RestartNever, schema.RunSucceeded) }, "", ""},
		"lost and waiting": {func(c *convergence) {
			c.leading.state.Placed = placed(schema.RestartNever, "")
			c.plan.Waits = wait(schema.ReasonLost)
		}, "", ""},
		"not decided": {func(c *convergence) {
			c.leading.state.Accepted.Objects[runKey("new")] = &schema.AcceptedObject{UID: "n", Object: runObject("new")}
		}, "run/ws-1.new has no place yet", "run/ws-1.new has no place yet"},
		"only refused": {func(c *convergence) { c.leading.state.Accepted.Objects[runKey("new")] = &schema.AcceptedObject{} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := convergence{
				leading: &leading{state: newFakeStore().state, found: found{desired: &schema.Desired{}}, judged: true},
				status:  &Status{Machines: map[string]Machine{}},
			}
			tc.change(&c)
			require.Equal(t, tc.live, c.why(false))
			require.Equal(t, tc.once, c.why(true))
		})
	}
}

// Writing reports down fails: nothing is lost, and publishing is frozen meanwhile.
func TestFailedNotesAreKept(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineObject("m1"))
		time.Sleep(time.Second)
		synctest.Wait()
		b.store.fail(errTest)
		b.link.hear(schema.MachineReport{Name: "m1", Incarnation: "i", Sequence: 1})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Contains(t, b.Status().StoreError, "broken")
		b.store.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Empty(t, b.Status().StoreError)
		require.Equal(t, schema.MachineUp, b.Status().Machines["m1"].State)
	})
}
