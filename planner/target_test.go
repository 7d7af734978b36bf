package planner

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// D-40, V-5: what a machine is told about a worker's mounts.
func TestTargetsHoldEverythingAWorkerNeeds(t *testing.T) {
	s := twoMachineSim(t, twoObjects+`
---
kind: Volume
metadata: {name: models, id: vol-0123456789abcdef}
spec: {host_path: /data/models, shared: true}
---
kind: HostPathGrant
metadata: {name: read}
spec: {workspace: research, paths: [/srv], mode: ReadOnly}
---
kind: Drive
metadata: {name: srv}
spec: {sources: [{node: gpu-02, path: /srv/x, mount_path: /srv, mode: ReadWrite}]}
---
kind: Run
metadata: {name: train}
spec:
  dataset_path: /workspace/set
  leader_group: w
  worker_groups:
  - {name: ps, task_template: {command: sh}}
  - name: w
    task_template:
      command: sh
      requested_resources: {cpu_cores: 3, memory_bytes: 1001, machines: 2}
      datavolume_refs: [{name: imagenet, sub_path: train, mode: ReadWrite}, {name: cache}, {name: srv}]
      volumes: [{volume_id: vol-0123456789abcdef, container_path: /models, read_only: true}, {host_path: /opt/tools, container_path: /tools}]
`)
	p := Plan(s.input())
	a := p.Targets["gpu-02"]
	require.Len(t, a.Workers, 1)
	w := a.Workers[0]
	require.Equal(t, "train-w-1", w.Name)
	require.Equal(t, 2, w.Rank, "N-2: group order, then index")
	require.Equal(t, 3, w.WorldSize)
	require.Equal(t, "192.0.2.1", w.Leader, "N-8: worker 0 of the leader group")
	require.Equal(t, "192.0.2.2", w.Address)
	require.Equal(t, 1.5, w.CPUCores)
	require.EqualValues(t, 501, w.MemoryBytes)
	uid := func(name string) string {
		for _, b := range w.Mounts {
			if b.Drive == driveNamed(name) {
				return b.UID
			}
		}
		return ""
	}
	require.Equal(t, []schema.BindTarget{
		{Drive: driveNamed("cache"), UID: uid("cache"), From: schema.BindCopy, Target: "/cache"},
		{Drive: driveNamed("imagenet"), UID: uid("imagenet"), From: schema.BindClaim, SubPath: "train", Target: "/data"},
		{Drive: schema.Key{Kind: schema.KindVolume, Namespace: testNS, Name: "models"}, UID: "vol-0123456789abcdef", From: schema.BindVolume,
			Path: "/data/models", Grant: "/data", Target: "/models", ReadOnly: true},
		{Drive: driveNamed("srv"), UID: uid("srv"), From: schema.BindDir, Path: "/srv/x", Grant: "/srv", Target: "/srv", ReadOnly: true},
		{From: schema.BindVolume, Path: "/opt/tools", Grant: "/opt", Target: "/tools"},
		{From: schema.BindVolume, Path: "/workspace/set", Grant: "/workspace", Target: "/workspace/set", ReadOnly: true},
	}, w.Mounts)
	require.Equal(t, []schema.MountTarget{{Drive: driveNamed("imagenet"), UID: uid("imagenet"), From: "gpu-01",
		Addresses: []string{"198.51.100.1", "192.0.2.1"}, Transports: []schema.Transport{schema.TransportRDMA, schema.TransportTCP}, Mode: schema.ReadWrite}}, a.Mounts)
	e := p.Targets["gpu-01"].Exports[0]
	require.Equal(t, []string{"198.51.100.2", "192.0.2.2"}, e.Addresses, "X-21: both networks of the client, and of nobody else")
	require.Equal(t, "root", e.Squash)
	require.Equal(t, "/mnt", e.Grant)
	var task schema.TaskTemplate
	require.NoError(t, json.Unmarshal(p.Blobs[w.Template], &task))
	require.Equal(t, "sh", task.Command)
	var list schema.DriveList
	require.NoError(t, json.Unmarshal(p.Blobs[a.Drives[testNS]], &list), "D-61")
	require.Equal(t, []schema.ListedDrive{{Name: "cache", UID: uid("cache")}}, list.Drives)
	for _, hash := range a.BlobHashes() {
		require.Contains(t, p.Blobs, hash)
	}
	// D-91: one-machine drives are measured by their machine.
	require.Equal(t, "imagenet", p.Targets["gpu-01"].Measure[0].Drive.Name)
}

// N-8: workers of a container engine get an address of the machine's node network
// at placement; RDMA machines use the host's unless the run says otherwise.
func TestNodeNetworkAddresses(t *testing.T) {
	s := newSim(observe(t, twoMachines).Machines...)
	s.machines["gpu-01"].RDMA = nil
	s.desired = declare(t, "c1", frame+`
---
kind: Machine
metadata: {name: gpu-01}
spec: {node_network: 10.240.3.0/24}
---
kind: Machine
metadata: {name: gpu-02}
spec: {node_network: 10.240.4.0/24}
---
kind: Run
metadata: {name: a}
spec: {task_template: {command: sh, requested_resources: {machines: 2}}}
---
kind: Run
metadata: {name: b}
spec: {task_template: {command: sh}}
---
kind: Run
metadata: {name: c}
spec: {network: {mode: host}, task_template: {command: sh}}
`)
	p := Plan(s.input())
	got := map[string]schema.NetworkMode{}
	address := map[string]string{}
	for _, a := range p.Targets {
		for _, w := range a.Workers {
			got[w.Name], address[w.Name] = w.Network, w.Address
		}
	}
	require.Equal(t, map[string]string{"a-0": "10.240.3.2", "a-1": "192.0.2.2", "b-0": "10.240.3.3", "c-0": "192.0.2.1"}, address)
	require.Equal(t, map[string]schema.NetworkMode{"a-0": schema.NetworkNode, "a-1": schema.NetworkHost, "b-0": schema.NetworkNode, "c-0": schema.NetworkHost}, got)
	require.True(t, s.converge())
}

// D-32: the present data location comes first, those that still hold copies after it.
func TestFormerDataLocationsStay(t *testing.T) {
	s := twoMachineSim(t, twoObjects)
	require.True(t, s.converge())
	m := s.machines["gpu-02"]
	m.Filesystems = append(m.Filesystems, schema.Filesystem{MountPoint: "/ssd", FreeBytes: 1})
	m.Copies = []schema.Copy{{Drive: testNS + ".cache", Folder: "/old/astraeus/drives/" + testNS + ".cache"}}
	require.Equal(t, []schema.DataLocation{{Path: "/nvme/astraeus", Present: true}, {Path: "/old/astraeus"}}, Plan(s.input()).Targets["gpu-02"].DataLocations)
}

// by the accepted objects alone, a converged cluster needs nothing; what is
// held back stays held.
func TestPlanWithoutDesired(t *testing.T) {
	s := twoMachineSim(t, twoObjects+trainRun)
	require.True(t, s.converge())
	s.desired = declare(t, "c2", twoObjects+trainRun+"---\nkind: Drive\nmetadata: {name: home}\nspec: {sources: [{node: gpu-01, path: /home}]}\n")
	s.tick()
	require.Equal(t, "c2", s.accepted.Head)
	s.desired = nil
	p := Plan(s.input())
	require.Empty(t, p.Steps)
	require.True(t, p.Decisions.Empty())
	require.Len(t, p.Holds, 1)
	require.Equal(t, schema.CodeHostAccessForbidden, p.Holds[0].Code)
	require.Equal(t, "c2", p.Commit)
}

// G-9: the refusal goes when the file is repaired or taken away; nothing of it is left.
func TestRefusalsOfNewObjectsGo(t *testing.T) {
	s := twoMachineSim(t, twoObjects+"---\nkind: Drive\nmetadata: {name: home}\nspec: {sources: [{node: gpu-01, path: /home}]}\n")
	s.tick()
	require.Contains(t, s.accepted.Objects, driveNamed("home"))
	require.Nil(t, s.accepted.Objects[driveNamed("home")].Object)
	s.tick()
	require.True(t, s.plan.Decisions.Empty(), "held again without a word: %v", s.plan.Decisions)
	s.desired = declare(t, "c2", twoObjects)
	s.tick()
	require.NotContains(t, s.accepted.Objects, driveNamed("home"))
}

// planning twice gives the same uids, another seed gives others; a uid stays
// over changes and moved files.
func TestUIDs(t *testing.T) {
	s := twoMachineSim(t, twoObjects)
	uidOf := func(p schema.Plan, key schema.Key) string {
		for _, a := range p.Decisions.Accept {
			if a.Object.Object.Key == key {
				return a.Object.UID
			}
		}
		return ""
	}
	in := s.input()
	first := uidOf(Plan(in), driveNamed("cache"))
	require.NotEmpty(t, first)
	require.Equal(t, first, uidOf(Plan(in), driveNamed("cache")))
	in.Seed = "other"
	require.NotEqual(t, first, uidOf(Plan(in), driveNamed("cache")))
	s.tick()
	for _, o := range s.desired.Objects {
		o.Origin.File = "moved/" + o.Origin.File
	}
	s.tick()
	a := s.accepted.Objects[driveNamed("cache")]
	require.Equal(t, first, a.UID)
	require.EqualValues(t, 1, a.Generation)
	require.Equal(t, "moved/drive/cache.yaml", a.Object.Origin.File)
}
