package statusapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// G-11: the audit log of an object, page by page, and of one that is gone.
func TestHistory(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	list := body[List[schema.Record]](t, h, "/v1/objects/drive/cache/history?limit=1")
	require.Len(t, list.Items, 1)
	require.Equal(t, "unverified author ada <ada@example.org>", list.Items[0].Commit.By())
	rest := body[List[schema.Record]](t, h, "/v1/objects/drive/cache/history?limit=1&continue="+list.Continue)
	require.Equal(t, schema.RecordEvicted, rest.Items[0].Type)
	require.Empty(t, body[List[schema.Record]](t, h, "/v1/objects/run/train/history").Items)

	gone := cluster()
	delete(gone.Input.Accepted.Objects, key(nsResearch, "cache"))
	gone.Events = nil
	h = serve(t, fixed{view: gone})
	require.Len(t, body[List[schema.Record]](t, h, "/v1/objects/drive/ws-research.cache/history").Items, 2)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/objects/drive/cache"), http.StatusNotFound, codeNotFound)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/objects/drive/never/history"), http.StatusNotFound, codeNotFound)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/objects/drive/ws-x.never/history"), http.StatusNotFound, codeNotFound)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/objects/thing/cache/history"), http.StatusBadRequest, codeBadRequest)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/objects/drive/cache/future"), http.StatusNotFound, codeNotFound)
	requireProblem(t, ask(t, h, http.MethodGet, long+"/objects/drive/ws-serving.imagenet/history"), http.StatusNotFound, codeNotFound)
}

// brokenLog cannot be read.
type brokenLog struct{}

func (brokenLog) History(context.Context, schema.Key) ([]schema.Record, error) {
	return nil, errors.New("etcd: secret detail")
}

func (brokenLog) CommitStatus(context.Context, string) (*schema.CommitStatus, error) {
	return nil, errors.New("etcd: secret detail")
}

// G-11: a commit's status by its id, for a commit-status check.
func TestCommitStatus(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	s := body[schema.CommitStatus](t, h, "/v1/commits/"+commitC0ffee)
	require.Equal(t, schema.CommitHeld, s.State)
	require.Len(t, s.Objects, 2)
	require.Equal(t, "refused", s.Objects[0].Object.Name, "what a person must look at comes first")
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/commits/dead000000000000000000000000000000000000"), http.StatusNotFound, codeNotFound)
	for _, bad := range []string{"c0ffee", "main", "%2e%2e%2fhead", "..", commitC0ffee + "/x"} {
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, ask(t, h, http.MethodGet, "/v1/commits/"+bad).Code, bad)
	}
	// Below a workspace: what became of its own objects, and of a commit without them nothing.
	require.Len(t, body[schema.CommitStatus](t, h, long+"/commits/"+commitC0ffee).Objects, 2)
	requireProblem(t, ask(t, h, http.MethodGet, strings.Replace(long, "research", "serving", 1)+"/commits/"+commitC0ffee), http.StatusNotFound, codeNotFound)

	view := cluster()
	view.Log = brokenLog{}
	h = serve(t, fixed{view: view})
	for _, path := range []string{"/v1/commits/" + commitC0ffee, "/v1/objects/drive/cache/history", "/v1/explain/drive/cache"} {
		p := requireProblem(t, ask(t, h, http.MethodGet, path), http.StatusServiceUnavailable, codeUnavailable)
		require.NotContains(t, p.Detail, "secret")
	}
}

// The states that `wait` compares with.
func TestObjectStates(t *testing.T) {
	view := cluster()
	gone := key(nsResearch, "old")
	view.Input.Accepted.Tombstones = map[string]*schema.Tombstone{"t": {UID: "t", Key: gone}, "t2": {UID: "t2", Key: gone}}
	h := serve(t, fixed{view: view})
	for path, want := range map[string][]string{
		"drive/cache": {"Accepted", "Available"}, "drive/refused": {"Held"}, "drive/old": {"Deleting"}, "machine/gpu-01": {"Accepted", "Up"},
		"run/train": {"Accepted", "Waiting"}, "workspace/research": {"Accepted"}, "volume/vol-3f9c2a1b8e4d6071": {"Accepted"},
	} {
		require.Equal(t, want, body[Object](t, h, "/v1/objects/"+path).States, path)
	}
}

// G-9, G-11: what is in force with its commit and file, and what is refused with its hold and its fields.
func TestExplainAcceptedAndRefused(t *testing.T) {
	view := cluster()
	cache := view.Input.Accepted.Objects[key(nsResearch, "cache")]
	candidate := object(schema.KindDrive, nsResearch, "cache", &schema.DriveSpec{
		Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced, MountPath: "/elsewhere", Mode: schema.ReadWrite}}, Evictable: true,
	})
	changed := *cache
	changed.Refused = &schema.Refusal{Commit: "c1", Candidate: candidate, Hold: schema.Hold{Object: candidate.Key, Code: schema.CodeDatavolumeInUse, Status: 409, Message: "in use"}}
	view.Input.Accepted.Objects[candidate.Key] = &changed
	x := body[Explanation](t, serve(t, fixed{view: view}), "/v1/explain/drive/cache")
	require.Equal(t, []string{"Accepted", "Held", "Available"}, x.States)
	require.Equal(t, "ada <ada@example.org>", x.Accepted.Commit.Author)
	require.Equal(t, "orgs/acme/cache.cue", x.Accepted.File)
	require.Equal(t, 1, x.Accepted.Line)
	require.Equal(t, []string{"spec.sources[0].mount_path"}, x.Refused.Differs)
	require.Equal(t, schema.CodeDatavolumeInUse, x.Refused.Hold.Code)
	require.Len(t, x.Events, 2)
	require.Len(t, x.Steps, 1)
	require.Equal(t, StepWithheld, x.Steps[0].State)

	held := body[Explanation](t, serve(t, fixed{view: view}), "/v1/explain/drive/refused")
	require.Nil(t, held.Accepted)
	require.NotNil(t, held.Refused)
}

// crowd is a cluster with a run that fits on none of n machines.
func crowd(n int) *View {
	view := cluster()
	for i := range n {
		name := fmt.Sprintf("full-%03d", i)
		machine := object(schema.KindMachine, "", name, &schema.MachineSpec{Engine: schema.EngineProcess})
		for k, o := range accept(machine) {
			view.Input.Accepted.Objects[k] = o
		}
		view.Input.Observed.Machines = append(view.Input.Observed.Machines, &schema.MachineReport{
			Name: name, State: schema.MachineUp, Resources: &schema.Resources{CPUCores: 1, MemoryBytes: 1}, Engine: &schema.EngineState{Kind: schema.EngineProcess, Ready: true},
		})
	}
	run := object(schema.KindRun, nsResearch, "big", &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{
		Image: "x", RequestedResources: schema.RequestedResources{CPUCores: 650},
	}})
	for k, o := range accept(run) {
		view.Input.Accepted.Objects[k] = o
	}
	view.Plan = planner.Plan(view.Input)
	return view
}

// an explanation lists every machine with its reason, not ten of them.
func TestExplainListsAllMachines(t *testing.T) {
	h := serve(t, fixed{view: crowd(25)})
	x := body[Explanation](t, h, "/v1/explain/run/big")
	require.Len(t, x.Waits, 1)
	machines := map[string]bool{}
	for _, r := range x.Waits[0].Reasons {
		machines[r.Machine] = true
	}
	require.GreaterOrEqual(t, len(machines), 25)
	require.True(t, machines["full-024"])
}

// Unknown ids are told apart from ambiguous ones.
func TestExplainUnknown(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	for path, code := range map[string]string{
		"drive/never": codeNotFound, "drive/imagenet": codeAmbiguous, "step-9": codeNotFound, "st": codeNotFound, "train/never": codeNotFound,
		"never/train-0": codeNotFound, "run/train/never": codeNotFound, "drive/cache/x": codeNotFound,
	} {
		w := ask(t, h, http.MethodGet, "/v1/explain/"+path)
		require.GreaterOrEqual(t, w.Code, 400, path)
		require.Contains(t, w.Body.String(), code, path)
	}
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/v1/explain").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/v1/explain/a/b/c/d").Code)
	requireProblem(t, ask(t, h, http.MethodGet, long+"/explain/drive/ws-serving.imagenet"), http.StatusNotFound, codeNotFound)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/events?since=yesterday"), http.StatusBadRequest, codeBadRequest)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/events?object=drive"), http.StatusBadRequest, codeBadRequest)
	require.Len(t, body[List[schema.Event]](t, h, "/v1/events?since=2026-01-02T12:00:01Z").Items, 1)
	require.Len(t, body[List[schema.Event]](t, h, "/v1/events?object=drive/cache").Items, 2)
}

// What is done stays in the explanation although it is in no plan: the report shows its effect.
func TestExplainSteps(t *testing.T) {
	view := cluster()
	run := object(schema.KindRun, nsResearch, "reader", &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{
		Image: "x", DatavolumeRefs: []schema.DatavolumeRef{{Name: "cache"}},
	}})
	for k, o := range accept(run) {
		view.Input.Accepted.Objects[k] = o
	}
	view.Input.Placed = map[schema.Key]schema.Placement{run.Key: {
		Run: run.Key, RunUID: "uid-reader", Generation: 1, Spec: run.Spec.(*schema.RunSpec), Org: "acme", Workspace: "research",
		Workers: []schema.PlacedWorker{{Name: "reader-0", Machine: "gpu-01", Since: noon}},
	}}
	m := view.Input.Observed.Machines[0]
	m.Copies[0].UID, m.Copies[0].State = "uid-cache", schema.CopyPresent
	m.Workers, m.Mounts, m.Exports, m.Paths = []schema.Worker{}, []schema.Mount{}, []schema.Export{}, []schema.PathState{}
	m.Failures = []schema.Failure{{Object: run.Key, Action: schema.ActionStartWorker, Message: "no such image"}}
	view.Plan = planner.Plan(view.Input)
	h := serve(t, fixed{view: view})
	x := body[Explanation](t, h, "/v1/explain/run/reader")
	states := map[schema.Action]StepState{}
	for _, s := range x.Steps {
		states[s.Action] = s.State
	}
	require.Equal(t, map[schema.Action]StepState{schema.ActionCreateCopy: StepDone, schema.ActionStartWorker: StepReleased}, states)
	require.Equal(t, "gpu-01", x.Placements[0].Machine)
	require.Equal(t, noon, x.Placements[0].Since)
	require.Equal(t, "no such image", x.Failures[0].Message)
	require.NotEmpty(t, x.Waits)

	// A step by its id, whole or not: the same work, and what waits for it.
	id := x.Steps[len(x.Steps)-1].ID
	for _, text := range []string{id, id[:8]} {
		s := body[Explanation](t, h, "/v1/explain/"+text)
		require.Equal(t, id, s.Step)
		require.Equal(t, run.Key, s.Object)
		require.Len(t, s.Steps, 1)
	}
	// A drive and a machine tell of the same worker.
	require.Equal(t, "reader-0", body[Explanation](t, h, "/v1/explain/drive/ws-research.cache").Placements[0].Worker)
	machine := body[Explanation](t, h, "/v1/explain/machine/gpu-01")
	require.Equal(t, "reader-0", machine.Placements[0].Worker)
	require.Len(t, machine.Failures, 1)
}
