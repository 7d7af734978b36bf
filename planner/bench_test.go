package planner

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"

	"astraeus.io/astraeus/schema"
)

// bigInput is a cluster from scratch: n machines in racks of 40 and NVLink
// domains of 8, 4 n drives, about 20 n workers in runs of 1 to 16.
func bigInput(n int) Input {
	d := &schema.Desired{Commit: "c1", Objects: map[schema.Key]*schema.Object{}}
	add := func(o *schema.Object) { d.Objects[o.Key] = o }
	add(makeObject(schema.KindCluster, "", "", schema.Metadata{Name: testCluster}, &schema.ClusterSpec{}))
	add(makeObject(schema.KindOrg, "", "", schema.Metadata{Name: testOrg}, &schema.OrgSpec{}))
	in := Input{Desired: d, Now: testNow, Seed: "seed", Placed: map[schema.Key]schema.Placement{}}
	for i := range n {
		o, r := bigMachine(i)
		add(o)
		in.Observed.Machines = append(in.Observed.Machines, r)
	}
	spaces := max(1, n/50)
	for s := range spaces {
		name := fmt.Sprintf("ws%d", s)
		add(makeObject(schema.KindWorkspace, testOrg, "", schema.Metadata{Name: name}, &schema.WorkspaceSpec{}))
		add(makeObject(schema.KindHostPathGrant, testOrg, "", schema.Metadata{Name: name}, &schema.HostPathGrantSpec{Workspace: name, Paths: []string{"/mnt", "/lustre", "/scratch"}}))
	}
	for i := range 4 * n {
		add(bigDrive(i, n, fmt.Sprintf("ws%d", i%spaces)))
	}
	workers := 0
	for i := 0; workers < 20*n; i++ {
		o, k := bigRun(i, n, spaces)
		add(o)
		workers += k
	}
	return in
}

func bigMachine(i int) (*schema.Object, *schema.MachineReport) {
	name := fmt.Sprintf("gpu-%05d", i)
	o := makeObject(schema.KindMachine, testOrg, "", schema.Metadata{Name: name, Labels: map[string]string{
		schema.LabelRack: fmt.Sprintf("r%d", i/40), schema.LabelFabric: fmt.Sprintf("ib%d", i/400), schema.LabelNVLinkDomain: fmt.Sprintf("n%d", i/8)}},
		&schema.MachineSpec{DataLocation: &schema.DataLocationSpec{Path: "/nvme/astraeus"}})
	return o, &schema.MachineReport{Name: name, State: schema.MachineUp, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
		Resources: &schema.Resources{CPUCores: 128, MemoryBytes: 1 << 40, GPUs: 8}, Engine: &schema.EngineState{Kind: schema.EngineContainerd, Ready: true},
		RDMA: []schema.RDMAPort{{Kind: "InfiniBand", Fabric: fmt.Sprintf("ib%d", i/400), Address: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}},
		Filesystems: []schema.Filesystem{{MountPoint: "/", FreeBytes: 1 << 40}, {MountPoint: "/nvme", FreeBytes: 20 << 40},
			{MountPoint: "/lustre", Shared: true}},
		Copies: []schema.Copy{}, Exports: []schema.Export{}, Mounts: []schema.Mount{}, Workers: []schema.Worker{}, Paths: []schema.PathState{}}
}

func bigDrive(i, n int, space string) *schema.Object {
	src := schema.DriveSource{MountPath: "/data"}
	spec := &schema.DriveSpec{}
	name := fmt.Sprintf("d%d", i)
	switch i % 4 {
	case 0:
		src.NodeScope, spec.SizeHintBytes = schema.ScopePlaced, 50<<30
	case 1:
		src.Node, src.Path = fmt.Sprintf("gpu-%05d", i%n), "/mnt/"+name
	case 2:
		src.NodeScope, src.Path = schema.ScopeShared, "/lustre/"+name
	default:
		src.NodeScope, src.Path = schema.ScopeLocalAny, "/scratch/"+name
	}
	spec.Sources = []schema.DriveSource{src}
	return makeObject(schema.KindDrive, testOrg, space, schema.Metadata{Name: name}, spec)
}

func bigRun(i, n, spaces int) (*schema.Object, int) {
	k := []int{1, 1, 1, 2, 4, 8, 16}[i%7]
	k = min(k, n)
	space := i % spaces
	task := &schema.TaskTemplate{Image: "pytorch", Command: "python", Args: []string{"train.py"},
		RequestedResources: schema.RequestedResources{CPUCores: float64(4 * k), MemoryBytes: int64(k) << 34, Machines: k,
			GPURequests: schema.GPURequest{Count: (i % 2) * k * 3 / 4 / max(1, k) * k}}}
	for j := range 2 {
		// drives of the run's own workspace: those whose number is congruent to it
		drive := (i*7+j*13)%(4*n/spaces)*spaces + space
		task.DatavolumeRefs = append(task.DatavolumeRefs, schema.DatavolumeRef{Name: fmt.Sprintf("d%d", drive), MountPath: fmt.Sprintf("/data/%d", j)})
	}
	o := makeObject(schema.KindRun, testOrg, fmt.Sprintf("ws%d", space), schema.Metadata{Name: fmt.Sprintf("r%d", i)}, &schema.RunSpec{TaskTemplate: task})
	return o, k
}

// cpuTime is what the process has computed so far: on a machine shared with
// others it says more than the clock.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano())
}

// BenchmarkPlanScratch plans clusters of 50 to 5,000 machines from scratch and
// prints how time grows: per ten times the machines, against n log n.
func BenchmarkPlanScratch(b *testing.B) {
	took := map[int]float64{}
	sizes := []int{50, 500, 5000}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			in := bigInput(n)
			b.ReportAllocs()
			var placed, steps, waits int
			start := cpuTime()
			for b.Loop() {
				p := Plan(in)
				placed, steps, waits = 0, len(p.Steps), len(p.Waits)
				for _, pl := range p.Decisions.Place {
					placed += len(pl.Workers)
				}
			}
			took[n] = float64(cpuTime()-start) / float64(b.N)
			b.ReportMetric(took[n]/1e6, "cpu-ms/op")
			b.ReportMetric(float64(placed), "placed")
			b.ReportMetric(float64(steps), "steps")
			b.ReportMetric(float64(waits), "waits")
		})
	}
	for i := 1; i < len(sizes); i++ {
		small, large := sizes[i-1], sizes[i]
		if took[small] == 0 || took[large] == 0 {
			continue
		}
		grown := took[large] / took[small]
		limit := float64(large) * math.Log(float64(large)) / (float64(small) * math.Log(float64(small)))
		b.Logf("%d to %d machines: time grew %.1f times; n log n would be %.1f times", small, large, grown, limit)
	}
}

// BenchmarkPlanConverged plans again when everything is done: the plan is empty.
func BenchmarkPlanConverged(b *testing.B) {
	in := bigInput(500)
	s := newSim(in.Observed.Machines...)
	s.desired = in.Desired
	s.converge()
	in = s.input()
	b.ReportAllocs()
	for b.Loop() {
		Plan(in)
	}
}

// The largest cluster of the design fits the budget: at most 1 GB live, and no
// worker is left without a place or a reason.
func TestPlanOfTheLargestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("5,000 machines")
	}
	in := bigInput(5000)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	p := Plan(in)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	t.Logf("%d steps, %d waits in %s; %d MB allocated", len(p.Steps), len(p.Waits), took, (after.TotalAlloc-before.TotalAlloc)>>20)
	if grew := after.TotalAlloc - before.TotalAlloc; grew > 1<<30 {
		t.Errorf("%d MB allocated: more than 1 GB", grew>>20)
	}
	runtime.KeepAlive(p)
}
