package planner

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

// lossWorld is a random cluster whose runs write, mostly over the network: m0 has the
// data and takes no worker.
func lossWorld(t *rapid.T) *world {
	w := &world{sim: newSim(), objects: map[schema.Key]*schema.Object{}}
	for _, o := range []*schema.Object{
		makeObject(schema.KindCluster, "", "", schema.Metadata{Name: testCluster}, &schema.ClusterSpec{DeletionBudget: schema.DeletionBudget{Count: 100, Percent: 100}}),
		makeObject(schema.KindOrg, "", "", schema.Metadata{Name: testOrg}, &schema.OrgSpec{}),
		makeObject(schema.KindWorkspace, testOrg, "", schema.Metadata{Name: testSpace}, &schema.WorkspaceSpec{}),
		makeObject(schema.KindHostPathGrant, testOrg, "", schema.Metadata{Name: "all"}, &schema.HostPathGrantSpec{Workspace: testSpace, Paths: []string{"/mnt", "/lustre"}}),
	} {
		w.objects[o.Key] = o
	}
	for i := range rapid.IntRange(3, 5).Draw(t, "machines") {
		name := fmt.Sprintf("m%d", i)
		o := makeObject(schema.KindMachine, testOrg, "", schema.Metadata{Name: name}, &schema.MachineSpec{Engine: schema.EngineProcess, DataLocation: &schema.DataLocationSpec{Path: "/nvme/a"}})
		w.objects[o.Key] = o
		r := upMachine(name, "192.0.2."+name[1:])
		if r.Resources.CPUCores = float64(rapid.IntRange(1, 4).Draw(t, "cpu")); i == 0 {
			r.Resources.CPUCores = 0
		}
		r.Engine = &schema.EngineState{Kind: schema.EngineProcess, Ready: true, StopsAway: rapid.IntRange(0, 3).Draw(t, "stops away") > 0}
		r.Filesystems = append(r.Filesystems, schema.Filesystem{MountPoint: "/lustre", Shared: true})
		r.Paths = []schema.PathState{}
		w.sim.machines[name] = r
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "drives") {
		w.lossDrive(t, i)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "runs") {
		w.lossRun(t, i)
	}
	return w
}

func (w *world) lossDrive(t *rapid.T, i int) {
	name := fmt.Sprintf("d%d", i)
	src := schema.DriveSource{MountPath: "/" + name, Mode: rapid.SampledFrom([]schema.Mode{schema.ReadOnly, schema.ReadWrite, schema.ReadWrite}).Draw(t, "mode")}
	switch rapid.IntRange(0, 8).Draw(t, "scope") {
	case 0:
		src.NodeScope = schema.ScopePlaced
	case 1:
		src.NodeScope, src.Path = schema.ScopeShared, "/lustre/"+name
	case 2:
		src.NodeScope, src.Path = schema.ScopeLocalAny, "/mnt/scratch/"+name
	case 3:
		src.Node, src.Path = rapid.SampledFrom(w.machineNames()).Draw(t, "node"), "/mnt/"+name
	default:
		src.Node, src.Path = "m0", "/mnt/"+name
	}
	o := makeObject(schema.KindDrive, testOrg, testSpace, schema.Metadata{Name: name}, &schema.DriveSpec{Sources: []schema.DriveSource{src}})
	w.objects[o.Key] = o
}

func (w *world) lossRun(t *rapid.T, i int) {
	n := rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "workers")
	task := schema.TaskTemplate{Command: "sh", Env: map[string]string{"V": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version")},
		RequestedResources: schema.RequestedResources{Machines: n, CPUCores: float64(n * rapid.IntRange(1, 2).Draw(t, "cpu"))}}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(w.driveNames()), 1, 2, rapid.ID[string]).Draw(t, "refs") {
		task.DatavolumeRefs = append(task.DatavolumeRefs, schema.DatavolumeRef{Name: name, MountPath: "/in/" + name,
			Mode: rapid.SampledFrom([]schema.Mode{"", schema.ReadOnly, schema.ReadWrite}).Draw(t, "ref mode")})
	}
	spec := &schema.RunSpec{TaskTemplate: &task, RestartPolicy: rapid.SampledFrom([]schema.RestartPolicy{schema.RestartNever, schema.RestartOnFailure}).Draw(t, "policy"),
		OnLost:          rapid.SampledFrom([]schema.OnLost{schema.OnLostWait, schema.OnLostReplace, schema.OnLostReplace, schema.OnLostReplace}).Draw(t, "on lost"),
		StopIfAwayAfter: rapid.SampledFrom([]schema.Duration{0, 0, schema.Duration(3 * time.Minute)}).Draw(t, "stop if away")}
	o := makeObject(schema.KindRun, testOrg, testSpace, schema.Metadata{Name: fmt.Sprintf("r%d", i)}, spec)
	w.objects[o.Key] = o
}

// lose does one thing that loses workers, or brings them back.
func (w *world) lose(t *rapid.T) {
	names := append(w.machineNames(), w.machineNames()[1:]...)
	m := w.sim.machines[rapid.SampledFrom(names).Draw(t, "machine")]
	switch rapid.IntRange(0, 12).Draw(t, "what happens") {
	case 0, 1, 2:
		m.State = schema.MachineDown
	case 3, 4, 5:
		m.State = schema.MachineUp
	case 6:
		m.State = schema.MachineUnknown
	case 7:
		m.Exports = []schema.Export{}
	case 8: // it reboots, while it is away or not
		m.Workers, m.Mounts, m.Exports = []schema.Worker{}, []schema.Mount{}, []schema.Export{}
	case 9:
		w.lossDrive(t, rapid.IntRange(0, 3).Draw(t, "drive"))
	case 10:
		w.lossRun(t, rapid.IntRange(0, 3).Draw(t, "run"))
	default:
		delete(w.objects, schema.Key{Kind: schema.KindRun, Namespace: testNS, Name: fmt.Sprintf("r%d", rapid.IntRange(0, 3).Draw(t, "run"))})
	}
	w.declare()
}

// Never two instances of one worker that can write the same, whatever machines come
// and go, also when what comes back had been replaced; and a cluster that comes to
// rest once all are back.
func TestX13LostWorkersNeverWriteTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := lossWorld(t)
		w.declare()
		for range 3 {
			w.sim.tick()
		}
		if rapid.Bool().Draw(t, "slow machines, incomplete reports") {
			w.sim.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		}
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			w.lose(t)
			w.sim.stuck = map[schema.Action]bool{
				rapid.SampledFrom([]schema.Action{"", "", schema.ActionUnexport, schema.ActionStopWorker, schema.ActionUnmount}).Draw(t, "stuck"): true}
			for range rapid.IntRange(0, 4).Draw(t, "ticks") {
				w.sim.step = rapid.SampledFrom([]time.Duration{30 * time.Second, 2 * time.Minute, 6 * time.Minute, 6 * time.Minute}).Draw(t, "time")
				w.sim.tick()
				w.check(t)
			}
		}
		for _, m := range w.sim.machines {
			m.State = schema.MachineUp
		}
		w.sim.rng, w.sim.stuck, w.sim.step = nil, nil, 6*time.Minute
		converged := w.sim.converge()
		w.check(t)
		if !converged {
			t.Fatalf("no fixed point:\n%s", planText(w.sim.plan))
		}
		for key, pl := range w.sim.placed {
			if len(pl.Older) > 0 {
				t.Fatalf("%s still has older workers: %v", key, pl.Older)
			}
		}
	})
}

// lossCase is gpu-01, which has the data and no GPUs, and two machines with one.
func lossCase(t *testing.T, more string) *sim {
	s := newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"), upMachine("gpu-03", "192.0.2.3"))
	for _, m := range s.machines {
		m.Resources.GPUs = 1
	}
	s.machines["gpu-01"].Resources.GPUs = 0
	s.desired = declare(t, "c1", frame+gpuMachines+"---\nkind: Machine\nmetadata: {name: gpu-03}\nspec: {}\n"+
		"---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node: gpu-01, path: /mnt/d, mount_path: /d, mode: ReadWrite}]}\n"+
		"---\nkind: Run\nmetadata: {name: r}\nspec: {on_lost: Replace, task_template: {command: sh, requested_resources: {gpu_requests: {count: 1}}, datavolume_refs: [{name: d}]}}\n"+more)
	require.True(t, s.converge(), planText(s.plan))
	require.Len(t, s.machines["gpu-02"].Workers, 1)
	return s
}

func (s *sim) exportsTo(client string) (n int) {
	for _, e := range s.machines["gpu-01"].Exports {
		if e.To == client {
			n++
		}
	}
	return n
}

// A machine that is back after its worker was replaced stops it and unmounts what it
// had before anything is exported to it again, also for other runs, and whatever it
// does not tell meanwhile.
func TestX22WhatIsBackIsStoppedFirst(t *testing.T) {
	s := lossCase(t, "")
	back := s.machines["gpu-02"]
	back.State = schema.MachineDown
	for range 4 {
		s.tick()
	}
	require.Len(t, s.machines["gpu-03"].Workers, 1, planText(s.plan))
	require.Zero(t, s.exportsTo("gpu-02"))
	require.Empty(t, s.problems)

	// Another run gets a place there as soon as it is back, and wants the same drive.
	s.desired = declare(t, "c2", frame+gpuMachines+"---\nkind: Machine\nmetadata: {name: gpu-03}\nspec: {}\n"+
		"---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node: gpu-01, path: /mnt/d, mount_path: /d, mode: ReadWrite}]}\n"+
		"---\nkind: Run\nmetadata: {name: r}\nspec: {on_lost: Replace, task_template: {command: sh, requested_resources: {gpu_requests: {count: 1}}, datavolume_refs: [{name: d}]}}\n"+
		"---\nkind: Run\nmetadata: {name: other}\nspec: {task_template: {command: sh, requested_resources: {gpu_requests: {count: 1}}, datavolume_refs: [{name: d}]}}\n")
	back.State = schema.MachineUp
	s.stuck = map[schema.Action]bool{schema.ActionStopWorker: true}
	for range 3 {
		s.tick()
		require.Contains(t, stepsOn(s.plan, "gpu-02"), schema.ActionStopWorker)
		require.Zero(t, s.exportsTo("gpu-02"), planText(s.plan))
	}
	workers := back.Workers
	back.Workers = nil // its engine does not answer
	for range 3 {
		s.tick()
		require.Zero(t, s.exportsTo("gpu-02"), planText(s.plan))
		require.Empty(t, s.plan.Targets["gpu-02"].Mounts)
	}
	back.Workers, s.stuck = workers, map[schema.Action]bool{schema.ActionUnmount: true}
	for range 3 {
		s.tick()
		require.Zero(t, s.exportsTo("gpu-02"), planText(s.plan))
	}
	require.Empty(t, back.Workers)
	require.Len(t, back.Mounts, 1)
	s.stuck = nil
	s.tick()
	require.Empty(t, back.Mounts, planText(s.plan))
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.problems)
	require.Len(t, back.Workers, 1)
	require.Equal(t, testNS+".other", back.Workers[0].Run)
	require.Equal(t, 1, s.exportsTo("gpu-02"))
	for _, pl := range s.placed {
		require.Empty(t, pl.Older)
	}
}

// A source that was told before to export to the lost machine may do it yet: the
// worker does not start elsewhere until it works by a target without that.
func TestX13AnExportOnItsWayIsNoFence(t *testing.T) {
	s := lossCase(t, "")
	told := s.plan.Targets["gpu-01"]
	told.Revision = 7
	s.machines["gpu-01"].Applied = 7
	s.machines["gpu-02"].State = schema.MachineDown
	s.tick()
	in := s.input()
	in.Given = map[string]*schema.Assignment{"gpu-01": told}
	in.Observed.Machines[0].Exports = []schema.Export{} // it rebooted and is about to restore them
	s.accepted, s.placed = Apply(s.accepted, s.placed, Plan(in).Decisions)
	waits := func() string {
		in := s.input()
		in.Given = map[string]*schema.Assignment{"gpu-01": told}
		return planText(Plan(in))
	}
	require.Contains(t, waits(), "lost on gpu-02; may still be writing d")
	told = &schema.Assignment{Revision: 8}
	require.Contains(t, waits(), "lost on gpu-02; may still be writing d")
	s.machines["gpu-01"].Applied = 8
	require.NotContains(t, waits(), "may still be writing d")
}

// A replacement is decided once: a machine that is back before the fence was seen
// stops its worker, and the run starts again, there or elsewhere: X-13.
func TestX13BackBeforeTheFence(t *testing.T) {
	s := lossCase(t, "")
	s.stuck = map[schema.Action]bool{schema.ActionUnexport: true}
	s.machines["gpu-02"].State = schema.MachineDown
	for range 3 {
		s.tick()
	}
	require.Empty(t, s.machines["gpu-03"].Workers)
	require.Contains(t, planText(s.plan), "lost on gpu-02; may still be writing d")
	s.machines["gpu-02"].State = schema.MachineUp
	s.stuck = nil
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.machines["gpu-02"].Workers)
	require.Len(t, s.machines["gpu-03"].Workers, 1)
	require.Equal(t, 1, s.machines["gpu-03"].Workers[0].Attempt)
	require.Empty(t, s.problems)
}

// Waits last by the leaders' stamps: a clock that is behind makes them longer, and
// losing workers is no failure of the run.
func TestX26LostByTheNewestStamp(t *testing.T) {
	s := lossCase(t, "")
	s.machines["gpu-02"].State = schema.MachineDown
	s.now = s.now.Add(-time.Hour)
	in := s.input()
	s.accepted, s.placed = Apply(s.accepted, s.placed, Plan(in).Decisions)
	var pl schema.Placement
	for _, pl = range s.placed {
	}
	require.Equal(t, pl.Workers[0].Since, pl.Workers[0].Lost, "the newest stamp")
	require.True(t, pl.Workers[0].Lost.After(s.now))
	s.now = pl.Workers[0].Lost.Add(4 * time.Minute)
	require.Empty(t, Plan(s.input()).Decisions.Place)
	s.now = pl.Workers[0].Lost.Add(5 * time.Minute)
	p := Plan(s.input())
	require.Len(t, p.Decisions.Place, 1)
	require.Zero(t, p.Decisions.Place[0].Failures)
	require.True(t, p.Decisions.Place[0].NotBefore.IsZero())
}

// A run that was removed while its machine was lost gives up what it holds, and one of
// its name starts anew behind the same fence.
func TestX13RemovedAndMadeAnew(t *testing.T) {
	s := lossCase(t, "")
	with := s.desired
	s.machines["gpu-02"].State = schema.MachineDown
	s.tick()
	without := *with
	without.Commit, without.Objects = "c2", maps.Clone(with.Objects)
	key := schema.Key{Kind: schema.KindRun, Namespace: testNS, Name: "r"}
	delete(without.Objects, key)
	s.desired = &without
	s.stuck = map[schema.Action]bool{schema.ActionUnexport: true}
	s.tick()
	pl := s.placed[key]
	require.True(t, pl.Vacant(), planText(s.plan))
	require.Len(t, pl.Older, 1)

	anew := *with
	anew.Commit = "c3"
	s.desired = &anew
	for range 3 {
		s.tick()
		require.Empty(t, s.machines["gpu-03"].Workers, planText(s.plan))
	}
	require.Contains(t, planText(s.plan), "lost on gpu-02; may still be writing d")
	s.stuck = nil
	for range 3 {
		s.tick()
	}
	require.Len(t, s.machines["gpu-03"].Workers, 1, planText(s.plan))
	s.machines["gpu-02"].State = schema.MachineUp
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.machines["gpu-02"].Workers)
	require.Empty(t, s.machines["gpu-02"].Mounts)
	require.Empty(t, s.problems)
}

// A lab's mounts show the directory itself, so that nothing fences them off: X-13.
func TestX13ALabHasNoFence(t *testing.T) {
	s := lossCase(t, "")
	for _, m := range s.machines {
		m.Network = &schema.NetworkPart{Kind: networkLab, Server: true, Client: true}
	}
	require.True(t, s.converge())
	s.machines["gpu-02"].State = schema.MachineDown
	for range 4 {
		s.tick()
	}
	require.Contains(t, planText(s.plan), "lost on gpu-02; may still be writing d")
	require.Empty(t, s.machines["gpu-03"].Workers)
}

// What a worker may write is what it may have started with, whatever its drive says
// since: only its machine's report of it narrows that.
func TestX13ModesAreThoseOfTheStart(t *testing.T) {
	text := func(mode string) string {
		return frame + gpuMachines + "---\nkind: Drive\nmetadata: {name: ckpt}\nspec: {sources: [{node_scope: shared, path: /lustre/c, mount_path: /c, mode: " + mode + "}]}\n" +
			"---\nkind: Run\nmetadata: {name: r}\nspec: {on_lost: Replace, task_template: {command: sh, datavolume_refs: [{name: ckpt}]}}\n"
	}
	for _, seen := range []bool{true, false} {
		s := newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"))
		for _, m := range s.machines {
			m.Filesystems = append(m.Filesystems, schema.Filesystem{MountPoint: "/lustre", Shared: true})
		}
		s.desired = declare(t, "c1", text("ReadWrite"))
		require.True(t, s.converge(), planText(s.plan))
		lost := s.machines["gpu-01"]
		require.Len(t, lost.Workers, 1)
		if !seen {
			lost.Workers = []schema.Worker{} // it started after the last report
		}
		lost.State = schema.MachineDown
		s.desired = declare(t, "c2", text("ReadOnly"))
		for range 4 {
			s.tick()
		}
		require.Contains(t, planText(s.plan), "lost on gpu-01; may still be writing ckpt", "seen %t", seen)
	}
	s := newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"))
	for _, m := range s.machines {
		m.Filesystems = append(m.Filesystems, schema.Filesystem{MountPoint: "/lustre", Shared: true})
	}
	s.desired = declare(t, "c1", text("ReadOnly"))
	require.True(t, s.converge(), planText(s.plan))
	s.desired = declare(t, "c2", text("ReadWrite")) // it goes on reading
	require.True(t, s.converge(), planText(s.plan))
	s.machines["gpu-01"].State = schema.MachineDown
	for range 3 {
		s.tick()
	}
	require.Len(t, s.machines["gpu-02"].Workers, 1, planText(s.plan))
}

// replace_after, and a minute more than the machine keeps a worker; of two
// kinds of older workers the one that is kept longer counts.
func TestX13WhenAMachineHasStoppedThem(t *testing.T) {
	c := &schema.ClusterSpec{}
	c.Normalize()
	require.Equal(t, 5*time.Minute, ReplaceAfter(c, 0))
	require.Equal(t, 5*time.Minute, ReplaceAfter(c, schema.Duration(2*time.Minute)))
	require.Equal(t, 6*time.Minute, ReplaceAfter(c, schema.Duration(5*time.Minute)), "the cluster's was longer when it was accepted")

	at := testNow
	stops := schema.Older{Machine: "m", StopIfAwayAfter: schema.Duration(time.Minute), Lost: at, Fenced: true}
	longer := schema.Older{Machine: "m", StopIfAwayAfter: schema.Duration(2 * time.Minute), Lost: at.Add(time.Second), Fenced: true}
	require.Equal(t, longer, joinOlder(stops, longer))
	require.Equal(t, longer, joinOlder(longer, stops))
	never := schema.Older{Machine: "m"}
	require.Equal(t, schema.Older{Machine: "m", Lost: at}, joinOlder(stops, never))
	require.Equal(t, schema.Older{Machine: "m", Lost: at}, joinOlder(never, stops))
}
