package planner

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

// world is a random cluster that can be changed step by step.
type world struct {
	sim     *sim
	objects map[schema.Key]*schema.Object
	commit  int
}

func newWorld(t *rapid.T) *world {
	w := &world{sim: newSim(), objects: map[schema.Key]*schema.Object{}}
	for _, o := range []*schema.Object{
		makeObject(schema.KindCluster, "", "", schema.Metadata{Name: testCluster}, &schema.ClusterSpec{DeletionBudget: schema.DeletionBudget{Count: 100, Percent: 100}}),
		makeObject(schema.KindOrg, "", "", schema.Metadata{Name: testOrg}, &schema.OrgSpec{}),
		makeObject(schema.KindWorkspace, testOrg, "", schema.Metadata{Name: testSpace}, &schema.WorkspaceSpec{}),
		makeObject(schema.KindHostPathGrant, testOrg, "", schema.Metadata{Name: "all"}, &schema.HostPathGrantSpec{Workspace: testSpace, Paths: []string{"/mnt", "/lustre"}}),
	} {
		w.objects[o.Key] = o
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "machines") {
		w.addMachine(t, fmt.Sprintf("m%d", i))
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "drives") {
		w.addDrive(t, fmt.Sprintf("d%d", i))
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "runs") {
		w.addRun(t, fmt.Sprintf("r%d", i))
	}
	return w
}

func (w *world) addMachine(t *rapid.T, name string) {
	spec := &schema.MachineSpec{Engine: schema.EngineProcess}
	labels := map[string]string{schema.LabelRack: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "rack"),
		schema.LabelFabric: rapid.SampledFrom([]string{"", "ib0"}).Draw(t, "fabric"),
		schema.LabelSite:   rapid.SampledFrom([]string{"", "", "eu", "eu", "us"}).Draw(t, "site")}
	if rapid.Bool().Draw(t, "has a data location") {
		spec.DataLocation = &schema.DataLocationSpec{Path: "/nvme/astraeus"}
		if rapid.Bool().Draw(t, "has a limit") {
			spec.DataLocation.MaxBytes = 500
		}
	}
	o := makeObject(schema.KindMachine, testOrg, "", schema.Metadata{Name: name, Labels: labels}, spec)
	w.objects[o.Key] = o
	r := &schema.MachineReport{Name: name, State: schema.MachineUp, Address: "192.0.2." + name[1:],
		Resources:   &schema.Resources{CPUCores: float64(rapid.IntRange(1, 8).Draw(t, "cpu")), MemoryBytes: 1000, GPUs: rapid.IntRange(0, 4).Draw(t, "gpus")},
		Engine:      &schema.EngineState{Kind: schema.EngineProcess, Ready: true, StopsAway: rapid.Bool().Draw(t, "stops away")},
		Filesystems: []schema.Filesystem{{MountPoint: "/", FreeBytes: 1000}, {MountPoint: "/nvme", FreeBytes: 600}},
		Copies:      []schema.Copy{}, Exports: []schema.Export{}, Mounts: []schema.Mount{}, Workers: []schema.Worker{}, Paths: []schema.PathState{}}
	if rapid.Bool().Draw(t, "lustre") {
		r.Filesystems = append(r.Filesystems, schema.Filesystem{MountPoint: "/lustre", Shared: true})
	}
	if rapid.Bool().Draw(t, "rdma") {
		r.RDMA = []schema.RDMAPort{{Kind: "InfiniBand", Fabric: "ib0", Address: "198.51.100." + name[1:]}}
	}
	w.sim.machines[name] = r
}

func (w *world) machineNames() []string { return sortedStrings(w.sim.machines) }

func (w *world) addDrive(t *rapid.T, name string) {
	src := schema.DriveSource{MountPath: "/" + name, Mode: rapid.SampledFrom([]schema.Mode{schema.ReadOnly, schema.ReadWrite}).Draw(t, "mode")}
	spec := &schema.DriveSpec{Transport: rapid.SampledFrom([]schema.Transport{schema.TransportAuto, schema.TransportAuto, schema.TransportTCP, schema.TransportLocal}).Draw(t, "transport")}
	switch rapid.IntRange(0, 7).Draw(t, "scope") {
	case 0, 1, 2:
		src.NodeScope = schema.ScopePlaced
		spec.SizeHintBytes = rapid.SampledFrom([]int64{0, 100, 300, 600}).Draw(t, "hint")
		if rapid.Bool().Draw(t, "fill") {
			spec.Fill = &schema.FillSpec{Template: schema.TaskTemplate{Image: "fill"}}
		}
	case 3, 4, 5:
		src.Node, src.Path = rapid.SampledFrom(w.machineNames()).Draw(t, "node"), "/mnt/"+name
		spec.Permissions.Create = rapid.Bool().Draw(t, "create")
	case 6:
		src.NodeScope, src.Path = schema.ScopeShared, "/lustre/"+name
	default:
		src.NodeScope, src.Path = schema.ScopeLocalAny, "/mnt/scratch/"+name
	}
	if rapid.IntRange(0, 7).Draw(t, "eligible") == 0 {
		src.EligibleNodes = []string{rapid.SampledFrom(w.machineNames()).Draw(t, "eligible node")}
	}
	spec.Sources = []schema.DriveSource{src}
	o := makeObject(schema.KindDrive, testOrg, testSpace, schema.Metadata{Name: name}, spec)
	w.objects[o.Key] = o
}

func (w *world) driveNames() []string {
	var names []string
	for _, key := range sortedKeys(w.objects) {
		if key.Kind == schema.KindDrive {
			names = append(names, key.Name)
		}
	}
	if len(names) < 2 {
		names = append(names, "absent")
	}
	return names
}

func (w *world) template(t *rapid.T) schema.TaskTemplate {
	n := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "workers")
	task := schema.TaskTemplate{Command: "sh", RequestedResources: schema.RequestedResources{
		Machines: n, CPUCores: float64(rapid.IntRange(0, 6).Draw(t, "cpu")), MemoryBytes: int64(rapid.IntRange(0, 1500).Draw(t, "memory")),
		GPURequests: schema.GPURequest{Count: n * rapid.IntRange(0, 2).Draw(t, "gpus")}}}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(w.driveNames()), 0, 2, rapid.ID[string]).Draw(t, "refs") {
		task.DatavolumeRefs = append(task.DatavolumeRefs, schema.DatavolumeRef{Name: name, MountPath: "/in/" + name,
			Mode: rapid.SampledFrom([]schema.Mode{"", schema.ReadOnly, schema.ReadWrite}).Draw(t, "ref mode")})
	}
	return task
}

func (w *world) addRun(t *rapid.T, name string) {
	spec := &schema.RunSpec{RestartPolicy: rapid.SampledFrom([]schema.RestartPolicy{schema.RestartNever, schema.RestartOnFailure, schema.RestartAlways}).Draw(t, "policy"),
		OnLost:          rapid.SampledFrom([]schema.OnLost{schema.OnLostWait, schema.OnLostReplace, schema.OnLostReplace}).Draw(t, "on lost"),
		StopIfAwayAfter: rapid.SampledFrom([]schema.Duration{0, 0, schema.Duration(3 * time.Minute)}).Draw(t, "stop if away")}
	if rapid.IntRange(0, 3).Draw(t, "groups") == 0 {
		spec.WorkerGroups = []schema.WorkerGroup{{Name: "ps", TaskTemplate: w.template(t)}, {Name: "w", TaskTemplate: w.template(t)}}
	} else {
		task := w.template(t)
		spec.TaskTemplate = &task
	}
	o := makeObject(schema.KindRun, testOrg, testSpace, schema.Metadata{Name: name}, spec)
	w.objects[o.Key] = o
}

// declare makes the next commit of the objects.
func (w *world) declare() {
	w.commit++
	w.sim.desired = &schema.Desired{Commit: fmt.Sprintf("c%d", w.commit), Objects: maps.Clone(w.objects)}
}

// change does one random thing to the cluster or its repository.
func (w *world) change(t *rapid.T) {
	pick := func(kind schema.Kind) (schema.Key, bool) {
		var keys []schema.Key
		for _, key := range sortedKeys(w.objects) {
			if key.Kind == kind {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			return schema.Key{}, false
		}
		return rapid.SampledFrom(keys).Draw(t, "object"), true
	}
	m := w.sim.machines[rapid.SampledFrom(w.machineNames()).Draw(t, "machine")]
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1:
		if key, ok := pick(schema.KindDrive); ok {
			delete(w.objects, key)
		}
	case 2:
		if key, ok := pick(schema.KindRun); ok {
			delete(w.objects, key)
		}
	case 3:
		w.addRun(t, fmt.Sprintf("r%d", rapid.IntRange(0, 6).Draw(t, "run")))
	case 4:
		w.addDrive(t, fmt.Sprintf("d%d", rapid.IntRange(0, 6).Draw(t, "drive")))
	case 5:
		m.State = rapid.SampledFrom([]schema.MachineState{schema.MachineUp, schema.MachineDown, schema.MachineUnknown}).Draw(t, "state")
	case 6, 7:
		for i := range m.Workers {
			if m.Workers[i].State == schema.WorkerRunning {
				code := rapid.SampledFrom([]int{0, 1}).Draw(t, "exit")
				m.Workers[i].State, m.Workers[i].ExitCode = schema.WorkerSucceeded, &code
				if code != 0 {
					m.Workers[i].State = schema.WorkerFailed
				}
				break
			}
		}
	case 8:
		m.Mounts = m.Mounts[:0] // a reboot forgot them, or someone unmounted
	default:
		m.Exports = m.Exports[:0]
	}
	w.declare()
}

// Going up and down in order, nothing deleted in use, never over-committed,
// sticky, all or none, and an empty plan once everything is done: D-41, D-59,
// D-60, D-80, X-5, X-8, X-11, X-12, X-15.
func TestEveryClusterConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.declare()
		if rapid.Bool().Draw(t, "slow machines, incomplete reports") {
			w.sim.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		}
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			for range rapid.IntRange(0, 3).Draw(t, "ticks between") {
				w.sim.tick()
			}
			w.change(t)
			w.check(t)
		}
		for _, m := range w.sim.machines {
			m.State = schema.MachineUp
		}
		w.sim.rng = nil
		converged := w.sim.converge()
		w.check(t)
		if !converged {
			t.Fatalf("no fixed point:\n%s", planText(w.sim.plan))
		}
		for name, m := range w.sim.machines {
			for _, worker := range m.Workers {
				if worker.State.Ended() {
					t.Fatalf("%s on %s has ended and is not forgotten (X-12)", worker.Name, name)
				}
			}
		}
		again := Plan(w.sim.input())
		if len(again.Steps) > 0 || !again.Decisions.Empty() || len(again.Drift) > 0 {
			t.Fatalf("planning after applying is not empty:\n%s", planText(again))
		}
	})
}

func (w *world) check(t *rapid.T) {
	if len(w.sim.problems) > 0 {
		t.Fatalf("%v\n%s", w.sim.problems, planText(w.sim.plan))
	}
}

// The same plan whatever the order of input, and the inputs stay as they were.
func TestThePlanDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.declare()
		for range rapid.IntRange(0, 3).Draw(t, "ticks") {
			w.sim.tick()
			w.change(t)
		}
		in := w.sim.input()
		before, err := json.Marshal([]any{in.Accepted, values(in.Placed), in.Observed})
		if err != nil {
			t.Fatal(err)
		}
		first := Plan(in)
		after, err := json.Marshal([]any{in.Accepted, values(in.Placed), in.Observed})
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Fatalf("the input was changed: %s", cmp.Diff(string(before), string(after)))
		}
		rng := rand.New(rand.NewPCG(1, 2))
		shuffled := in
		shuffled.Observed.Machines = nil
		for _, m := range in.Observed.Machines {
			c := *m
			c.Copies, c.Exports, c.Mounts, c.Workers = shuffle(rng, m.Copies), shuffle(rng, m.Exports), shuffle(rng, m.Mounts), shuffle(rng, m.Workers)
			c.Paths, c.Filesystems = shuffle(rng, m.Paths), shuffle(rng, m.Filesystems)
			shuffled.Observed.Machines = append(shuffled.Observed.Machines, &c)
		}
		shuffled.Observed.Machines = shuffle(rng, shuffled.Observed.Machines)
		shuffled.Desired = &schema.Desired{Commit: in.Desired.Commit, Objects: maps.Clone(in.Desired.Objects)}
		if diff := cmp.Diff(dump(t, first), dump(t, Plan(shuffled))); diff != "" {
			t.Fatalf("another order, another plan:\n%s", diff)
		}
	})
}

func values(m map[schema.Key]schema.Placement) (list []schema.Placement) {
	for _, key := range sortedKeys(m) {
		list = append(list, m[key])
	}
	return list
}

func shuffle[T any](rng *rand.Rand, list []T) []T {
	if list == nil {
		return nil
	}
	list = slices.Clone(list)
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func dump(t *rapid.T, p schema.Plan) string {
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
