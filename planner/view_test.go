package planner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const twoMachines = `
machines:
- {name: gpu-01, state: Up, address: 192.0.2.1, resources: {cpu_cores: 4, memory_bytes: 10000, gpus: 0}, copies: [], exports: [], mounts: [], workers: [],
   rdma: [{kind: RoCE, address: 198.51.100.1}],
   filesystems: [{mount_point: /nvme, type: ext4, total_bytes: 100000, free_bytes: 100000, free_inodes: 1}]}
- {name: gpu-02, state: Up, address: 192.0.2.2, resources: {cpu_cores: 4, memory_bytes: 10000, gpus: 4}, copies: [], exports: [], mounts: [], workers: [],
   rdma: [{kind: RoCE, address: 198.51.100.2}],
   filesystems: [{mount_point: /nvme, type: ext4, total_bytes: 100000, free_bytes: 100000, free_inodes: 1}]}
`

const twoObjects = frame + `
---
kind: Machine
metadata: {name: gpu-01}
spec: {data_location: {path: /nvme/astraeus}}
---
kind: Machine
metadata: {name: gpu-02}
spec: {data_location: {path: /nvme/astraeus}}
---
kind: Drive
metadata: {name: imagenet}
spec: {sources: [{node: gpu-01, path: /mnt/imagenet, mount_path: /data}]}
---
kind: Drive
metadata: {name: cache}
spec: {sources: [{node_scope: placed, mount_path: /cache, mode: ReadWrite}]}
`

const trainRun = `
---
kind: Run
metadata: {name: train}
spec: {task_template: {command: sh, requested_resources: {gpu_requests: {count: 2}}, datavolume_refs: [{name: imagenet}, {name: cache}]}}
`

func driveNamed(name string) schema.Key {
	return schema.Key{Kind: schema.KindDrive, Namespace: testNS, Name: name}
}

func runNamed(name string) schema.Key {
	return schema.Key{Kind: schema.KindRun, Namespace: testNS, Name: name}
}

func twoMachineSim(t *testing.T, objects string) *sim {
	s := newSim(observe(t, twoMachines).Machines...)
	s.desired = declare(t, "c1", objects)
	return s
}

// D-80: Pending, Exported, Bound, Releasing, Released, in the order they happen.
func TestClaimStates(t *testing.T) {
	s := twoMachineSim(t, twoObjects+trainRun)
	state := func() []ClaimState {
		var list []ClaimState
		for _, c := range Claims(s.input()) {
			require.Equal(t, "gpu-01", c.From)
			require.Equal(t, "gpu-02", c.Client)
			list = append(list, c.State)
		}
		return list
	}
	require.Equal(t, []ClaimState{ClaimPending}, state())
	claim := Claims(s.input())[0]
	require.Equal(t, schema.TransportRDMA, claim.Transport)
	require.Equal(t, schema.ReadOnly, claim.Mode)
	require.Equal(t, []string{"train-0"}, claim.Users)
	s.tick()
	require.Equal(t, []ClaimState{ClaimExported}, state())
	client := s.machines["gpu-02"]
	client.Failures = []schema.Failure{{Object: driveNamed("imagenet"), Action: schema.ActionMount, Message: "no route to host"}}
	require.Equal(t, []ClaimState{ClaimFailed}, state())
	require.Equal(t, "no route to host", Claims(s.input())[0].Message)
	client.Failures = nil
	require.True(t, s.converge())
	require.Equal(t, []ClaimState{ClaimBound}, state())
	client.Mounts[0].Transport, client.Mounts[0].Server = schema.TransportTCP, "192.0.2.1"
	require.Equal(t, "mounted over TCP (RDMA did not work)", Claims(s.input())[0].Message, "D-81")
	require.Empty(t, Plan(s.input()).Steps, "X-21: a fallback stays")
	s.desired = declare(t, "c2", twoObjects)
	require.Equal(t, []ClaimState{ClaimReleasing}, state())
	client.Workers, client.Mounts = []schema.Worker{}, []schema.Mount{}
	require.Equal(t, []ClaimState{ClaimReleased}, state())
	require.True(t, s.converge())
	require.Empty(t, state())
	require.Empty(t, s.problems)
}

// D-90: Available, or Unreachable with its sentence; Where, Used, Files, Answers, Workers.
func TestDriveView(t *testing.T) {
	s := twoMachineSim(t, twoObjects+trainRun)
	require.True(t, s.converge())
	s.machines["gpu-01"].Measurements = []schema.Measurement{{Drive: testNS + ".imagenet", Bytes: 7, Files: 2, Answers: 1}}
	d, ok := DriveStatus(s.input(), driveNamed("imagenet"))
	require.True(t, ok)
	require.Equal(t, DriveAvailable, d.State)
	require.Equal(t, []string{"gpu-01"}, d.Where)
	require.EqualValues(t, 7, *d.Used)
	require.EqualValues(t, 2, *d.Files)
	require.Equal(t, 1, *d.Answers)
	require.Equal(t, []UserView{{Run: runNamed("train"), Worker: "train-0", Machine: "gpu-02", Mode: schema.ReadOnly, State: "Running"}}, d.UsedBy)
	require.Len(t, d.Claims, 1)
	cache, ok := DriveStatus(s.input(), driveNamed("cache"))
	require.True(t, ok)
	require.Equal(t, []CopyView{{Machine: "gpu-02", Folder: "/nvme/astraeus/drives/" + testNS + ".cache", State: schema.CopyPresent}}, cache.Copies)
	s.machines["gpu-01"].State = schema.MachineDown
	d, _ = DriveStatus(s.input(), driveNamed("imagenet"))
	require.Equal(t, DriveUnreachable, d.State)
	require.Equal(t, "source 0 is on machine gpu-01 which is Down", d.Message)
	_, ok = DriveStatus(s.input(), driveNamed("absent"))
	require.False(t, ok)
}

func TestRunView(t *testing.T) {
	s := twoMachineSim(t, twoObjects+trainRun)
	view := func() RunView {
		r, ok := RunStatus(s.input(), runNamed("train"))
		require.True(t, ok)
		return r
	}
	require.Equal(t, RunPreparing, view().Phase)
	require.Contains(t, view().Summary, "waiting for imagenet to be mounted from gpu-01 (Pending)")
	require.True(t, s.converge())
	require.Equal(t, RunRunning, view().Phase)
	require.Equal(t, []int{0, 1}, view().Workers[0].GPUs)
	w := &s.machines["gpu-02"].Workers[0]
	code := 1
	w.State, w.ExitCode = schema.WorkerFailed, &code
	s.plan = Plan(s.input())
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	require.Equal(t, RunRestarting, view().Phase)
	require.Equal(t, "restarts after 10s (attempt 2): exit code 1", view().Summary)
	s.machines["gpu-02"].State = schema.MachineDown
	s.now = s.now.Add(time.Minute)
	require.Equal(t, RunLost, view().Phase)
	s.machines["gpu-02"].State = schema.MachineUp
	s.desired = declare(t, "c2", twoObjects+trainRun+`
---
kind: Run
metadata: {name: big}
spec: {task_template: {command: sh, requested_resources: {gpu_requests: {count: 9}}}}
`)
	big, ok := RunStatus(s.input(), runNamed("big"))
	require.True(t, ok)
	require.Equal(t, RunWaiting, big.Phase)
	require.Equal(t, "gpu-01: needs 9 GPUs, 0 free; gpu-02: needs 9 GPUs, 2 free", big.Summary)
	require.Len(t, big.Workers, 1)
}
