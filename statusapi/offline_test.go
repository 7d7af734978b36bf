package statusapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const nsFit = "ws-research"

func runKey(name string) schema.Key {
	return schema.Key{Kind: schema.KindRun, Namespace: nsFit, Name: name}
}

func template(machines, gpus int) *schema.TaskTemplate {
	return &schema.TaskTemplate{RequestedResources: schema.RequestedResources{Machines: machines, GPURequests: schema.GPURequest{Count: gpus}}}
}

// fitCluster is what a commit alone knows: objects with uids of its own.
func fitCluster() schema.Accepted {
	return schema.Accepted{Objects: accept(
		object(schema.KindDrive, nsFit, "cache", placedDrive()),
		object(schema.KindDrive, nsFit, "scratch", &schema.DriveSpec{Sources: []schema.DriveSource{{NodeScope: schema.ScopeLocalAny, Path: "/scratch/"}}}),
		object(schema.KindRun, nsFit, "train", &schema.RunSpec{TaskTemplate: template(2, 4), RestartPolicy: schema.RestartOnFailure}),
		object(schema.KindRun, nsFit, "prepare", &schema.RunSpec{TaskTemplate: template(1, 0), RestartPolicy: schema.RestartNever}),
		object(schema.KindRun, nsFit, "late", &schema.RunSpec{TaskTemplate: template(2, 0)}),
		object(schema.KindDeletion, nsFit, "gone", &schema.DeletionSpec{}),
	)}
}

// The leader's record stands, with how workers ended, whatever machines list.
func TestFitTakesTheLeadersRecord(t *testing.T) {
	acc := fitCluster()
	gone := schema.Key{Kind: schema.KindDeletion, Namespace: nsFit, Name: "gone"}
	acc.Objects[gone].Target = "uid-cache"
	failed := &schema.Outcome{State: schema.WorkerFailed}
	observed := schema.Observed{
		Placements: []schema.PlacementRecord{
			{Run: nsFit + ".train", Worker: "train-0", Machine: "gpu-01", RunUID: "u-train", Generation: 3, Attempt: 1, GPUs: []int{6, 7}, Address: "10.0.0.2"},
			{Run: nsFit + ".train", Worker: "train-1", Machine: "gpu-02", RunUID: "u-train", Generation: 3, Attempt: 1, GPUs: []int{0, 1}},
			{Run: nsFit + ".prepare", Worker: "prepare-0", Machine: "gpu-01", RunUID: "u-prepare", Generation: 1, Outcome: failed},
		},
		Machines: []*schema.MachineReport{{
			Name:    "gpu-01",
			Copies:  []schema.Copy{{Drive: nsFit + ".cache", UID: "u-cache"}, {Drive: nsFit + ".cache", UID: "u-old", State: schema.CopyTrash}},
			Paths:   []schema.PathState{{UID: "u-scratch", Path: "/scratch"}, {UID: "u-cache", Path: "/scratch"}},
			Workers: []schema.Worker{{Run: nsFit + ".train", Name: "train-0", RunUID: "u-before", State: schema.WorkerFailed}},
		}, nil},
	}
	got, placed := Fit(acc, observed)
	require.Equal(t, "u-cache", got.Objects[key(nsFit, "cache")].UID)
	require.Equal(t, "u-scratch", got.Objects[key(nsFit, "scratch")].UID)
	require.Equal(t, "u-cache", got.Objects[gone].Target, "a deletion stays bound to its drive")
	require.Equal(t, "u-train", got.Objects[runKey("train")].UID)
	require.EqualValues(t, 3, got.Objects[runKey("train")].Generation)
	require.Equal(t, "uid-train", acc.Objects[runKey("train")].UID, "the argument is not changed")

	train := placed[runKey("train")]
	require.Equal(t, 1, train.Attempt)
	require.Equal(t, schema.PlacedWorker{Name: "train-0", Machine: "gpu-01", GPUs: []int{6, 7}, Address: "10.0.0.2"}, train.Workers[0])
	require.Equal(t, 1, train.Workers[1].Rank)
	require.Equal(t, schema.RunFailed, placed[runKey("prepare")].Outcome)
	require.NotContains(t, placed, runKey("late"))
}

// A file without records, or with short ones, is completed by the workers that
// machines report; what reports contradict each other about is not believed.
func TestFitReadsWorkers(t *testing.T) {
	two := 2
	worker := func(name, uid string, attempt int, state schema.WorkerState) schema.Worker {
		w := schema.Worker{Run: nsFit + "." + name, RunUID: uid, Generation: 2, Attempt: attempt, Name: name + "-0", State: state}
		if state == schema.WorkerFailed {
			w.ExitCode = &two
		}
		return w
	}
	second := worker("train", "u-train", 1, schema.WorkerRunning)
	second.Name = "train-1"
	observed := schema.Observed{
		Placements: []schema.PlacementRecord{{Run: nsFit + ".prepare", Worker: "prepare-0", Machine: "gpu-01"}},
		Machines: []*schema.MachineReport{
			{Name: "gpu-01", Copies: []schema.Copy{{Drive: nsFit + ".cache", UID: "u-1"}}, Workers: []schema.Worker{
				worker("train", "u-train", 0, schema.WorkerFailed), worker("train", "u-train", 1, schema.WorkerRunning),
				worker("prepare", "u-prepare", 0, schema.WorkerSucceeded), worker("late", "u-late", 0, schema.WorkerRunning),
			}},
			{Name: "gpu-02", Copies: []schema.Copy{{Drive: nsFit + ".cache", UID: "u-2"}}, Workers: []schema.Worker{second, worker("prepare", "u-prepare", 0, schema.WorkerFailed)}},
		},
	}
	got, placed := Fit(fitCluster(), observed)
	require.Equal(t, "uid-cache", got.Objects[key(nsFit, "cache")].UID, "two machines know two drives of that name")
	train := placed[runKey("train")]
	require.Equal(t, "u-train", train.RunUID)
	require.EqualValues(t, 2, train.Generation)
	require.Equal(t, 1, train.Attempt)
	require.Nil(t, train.Workers[0].Outcome, "an earlier attempt failed, this one runs")
	require.Equal(t, []int{0, 1}, train.Workers[0].GPUs)
	require.Equal(t, []int{0, 1}, train.Workers[1].GPUs)
	prepare := placed[runKey("prepare")]
	require.Equal(t, "gpu-01", prepare.Workers[0].Machine)
	require.Equal(t, schema.RunSucceeded, prepare.Outcome)
	require.NotContains(t, placed, runKey("late"), "one of its two workers has no place")

	_, placed = Fit(fitCluster(), schema.Observed{})
	require.NotNil(t, placed)
	require.Empty(t, placed)
}
