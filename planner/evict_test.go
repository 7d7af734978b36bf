package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

// shelved is an evictable copy of 4 bytes on the disk of onePercent, used hours ago.
func shelved(name string, hoursAgo int) EvictCopy {
	c := EvictCopy{Copy: schema.Copy{Drive: "ws." + name, UID: "u-" + name, State: schema.CopyPresent, FSID: "fs", Folder: "/nvme/astraeus/drives/ws." + name, Bytes: 4},
		Present: true, Evictable: true}
	created := testNow.Add(-1000 * time.Hour)
	c.Created = &created
	if hoursAgo > 0 {
		used := testNow.Add(-time.Duration(hoursAgo) * time.Hour)
		c.LastUsed = &used
	}
	return c
}

// onePercent is a disk of 100 bytes.
func onePercent(free int64) schema.Filesystem {
	return schema.Filesystem{MountPoint: "/nvme", ID: "fs", TotalBytes: 105, FreeBytes: free, UsedBytes: 100 - free}
}

func uids(list []Eviction) (names []string) {
	for _, e := range list {
		names = append(names, e.UID+" "+string(e.Why))
	}
	return names
}

const (
	full = " DISK_NEARLY_FULL"
	over = " OVER_LIMIT"
)

// D-71, X-18: who goes, in which order, until when.
func TestEvict(t *testing.T) {
	young := testNow.Add(-time.Minute)
	future := testNow.Add(48 * time.Hour)
	change := func(c EvictCopy, f func(*EvictCopy)) EvictCopy { f(&c); return c }
	for name, c := range map[string]struct {
		free   int64
		begun  bool
		limit  int64
		copies []EvictCopy
		want   []string
	}{
		"at the start mark":                     {free: 10, copies: []EvictCopy{shelved("a", 1)}},
		"below it, until the stop mark":         {free: 9, copies: []EvictCopy{shelved("a", 1), shelved("b", 3), shelved("c", 2)}, want: []string{"u-b" + full, "u-c" + full}},
		"between the marks, not begun":          {free: 13, copies: []EvictCopy{shelved("a", 1)}},
		"between the marks, begun":              {free: 13, begun: true, copies: []EvictCopy{shelved("a", 1), shelved("b", 2)}, want: []string{"u-b" + full}},
		"at the stop mark, begun":               {free: 15, begun: true, copies: []EvictCopy{shelved("a", 1)}},
		"never used first, then by name":        {free: 0, copies: []EvictCopy{shelved("a", 9), shelved("c", 0), shelved("b", 0), shelved("d", 9)}, want: []string{"u-b" + full, "u-c" + full, "u-a" + full, "u-d" + full}},
		"in use, not evictable, leaving":        {free: 9, copies: []EvictCopy{change(shelved("a", 9), func(c *EvictCopy) { c.Used = true }), change(shelved("b", 9), func(c *EvictCopy) { c.Evictable = false }), shelved("c", 1)}, want: []string{"u-c" + full}},
		"a copy just made is pinned":            {free: 9, copies: []EvictCopy{change(shelved("a", 0), func(c *EvictCopy) { c.Created = &young }), shelved("b", 1)}, want: []string{"u-b" + full}},
		"used already, it is not":               {free: 9, copies: []EvictCopy{change(shelved("a", 1), func(c *EvictCopy) { c.Created = &young })}, want: []string{"u-a" + full}},
		"made before the clock went back":       {free: 9, copies: []EvictCopy{change(shelved("a", 0), func(c *EvictCopy) { c.Created = &future })}, want: []string{"u-a" + full}},
		"what is being created or hidden stays": {free: 9, copies: []EvictCopy{change(shelved("a", 1), func(c *EvictCopy) { c.State = schema.CopyCreating }), change(shelved("b", 1), func(c *EvictCopy) { c.State = schema.CopyUnknown })}},
		"trash counts as free":                  {free: 9, copies: []EvictCopy{change(shelved("t", 1), func(c *EvictCopy) { c.State = schema.CopyTrash }), shelved("a", 1), shelved("b", 1)}, want: []string{"u-a" + full}},
		"trash of unknown size is waited for":   {free: 2, copies: []EvictCopy{change(shelved("t", 1), func(c *EvictCopy) { c.State, c.Bytes = schema.CopyTrash, -1 }), shelved("a", 1)}},
		"stuck trash is not":                    {free: 9, copies: []EvictCopy{change(shelved("t", 1), func(c *EvictCopy) { c.State, c.Bytes = schema.CopyTrash, 0 }), shelved("a", 1)}, want: []string{"u-a" + full}},
		"what leaves anyway counts as free":     {free: 9, copies: []EvictCopy{change(shelved("t", 1), func(c *EvictCopy) { c.Leaving, c.Bytes = true, 6 }), shelved("a", 1)}},
		"not if it cannot be deleted":           {free: 9, copies: []EvictCopy{change(shelved("t", 1), func(c *EvictCopy) { c.Leaving, c.Failed, c.Bytes = true, true, 6 }), shelved("a", 1)}, want: []string{"u-a" + full}},
		"an unknown size ends the choice":       {free: 2, copies: []EvictCopy{shelved("a", 1), change(shelved("b", 2), func(c *EvictCopy) { c.Bytes = -1 }), shelved("c", 3)}, want: []string{"u-c" + full, "u-b" + full}},
		"one that fails frees nothing":          {free: 9, copies: []EvictCopy{change(shelved("a", 2), func(c *EvictCopy) { c.Failed, c.Bytes = true, 50 }), shelved("b", 1)}, want: []string{"u-a" + full, "u-b" + full}},
		"another disk's copies":                 {free: 9, copies: []EvictCopy{change(shelved("a", 1), func(c *EvictCopy) { c.FSID = "other" })}},
		"twice there":                           {free: 9, copies: []EvictCopy{shelved("a", 1), change(shelved("a", 1), func(c *EvictCopy) { c.Present = false })}},
		"within the limit":                      {free: 50, limit: 8, copies: []EvictCopy{shelved("a", 1), shelved("b", 2)}},
		"over the limit":                        {free: 50, limit: 7, copies: []EvictCopy{shelved("a", 1), shelved("b", 2)}, want: []string{"u-b" + over}},
		"the limit is the present location's":   {free: 50, limit: 4, copies: []EvictCopy{shelved("a", 1), change(shelved("b", 2), func(c *EvictCopy) { c.Present = false })}},
		"used copies count to the limit":        {free: 50, limit: 7, copies: []EvictCopy{change(shelved("a", 1), func(c *EvictCopy) { c.Used = true }), shelved("b", 2)}, want: []string{"u-b" + over}},
		"unknown sizes do not":                  {free: 50, limit: 7, copies: []EvictCopy{shelved("a", 1), change(shelved("b", 2), func(c *EvictCopy) { c.Bytes = -1 })}},
		"both rules, counted once":              {free: 9, limit: 7, copies: []EvictCopy{shelved("a", 1), shelved("b", 2), shelved("c", 3), shelved("d", 4)}, want: []string{"u-d" + full, "u-c" + full, "u-b" + over}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := onePercent(c.free)
			fs.Evicting = c.begun
			require.Equal(t, c.want, uids(Evict(EvictInput{MaxBytes: c.limit, Filesystems: []schema.Filesystem{fs}, Copies: c.copies, Now: testNow})))
		})
	}
}

// D-71, X-18: unknown numbers evict nothing, and the largest ones overflow nothing.
func TestEvictByOddNumbers(t *testing.T) {
	for _, fs := range []schema.Filesystem{{ID: "fs", FreeBytes: -1, UsedBytes: 100}, {ID: "fs", FreeBytes: 0, UsedBytes: -1}, {ID: "fs"},
		{ID: "fs", FreeBytes: math.MaxInt64, UsedBytes: math.MaxInt64}} {
		require.Empty(t, Evict(EvictInput{Filesystems: []schema.Filesystem{fs}, Copies: []EvictCopy{shelved("a", 1)}, Now: testNow}))
	}
	whole := schema.Filesystem{ID: "fs", FreeBytes: 1, UsedBytes: math.MaxInt64}
	require.Len(t, Evict(EvictInput{Filesystems: []schema.Filesystem{whole}, Copies: []EvictCopy{shelved("a", 1)}, Now: testNow}), 1)
}

// disks is a random machine on which eviction can be carried out.
type disks struct{ in EvictInput }

func drawDisks(t *rapid.T) *disks {
	d := &disks{EvictInput{Now: testNow, MaxBytes: rapid.SampledFrom([]int64{0, 0, 50, 400}).Draw(t, "limit"),
		Policy: rapid.SampledFrom([]schema.EvictionPolicy{{}, {StartPercent: 5, StopPercent: 50}, {StartPercent: 80, StopPercent: 81}}).Draw(t, "policy")}}
	used := map[string]int64{}
	for i := range rapid.IntRange(0, 12).Draw(t, "copies") {
		c := shelved(fmt.Sprintf("c%d", i), rapid.IntRange(0, 3).Draw(t, "used"))
		c.FSID = rapid.SampledFrom([]string{"fs0", "fs1"}).Draw(t, "disk")
		c.Bytes = rapid.SampledFrom([]int64{-1, 0, 1, 7, 30, 100}).Draw(t, "bytes")
		c.Evictable, c.Used = rapid.IntRange(0, 4).Draw(t, "evictable") > 0, rapid.IntRange(0, 3).Draw(t, "in use") == 0
		c.Present = rapid.Bool().Draw(t, "present")
		if rapid.IntRange(0, 5).Draw(t, "young") == 0 {
			young := testNow.Add(-time.Minute)
			c.Created = &young
		}
		c.State = rapid.SampledFrom([]schema.CopyState{"", schema.CopyPresent, schema.CopyPresent, schema.CopyPresent, schema.CopyTrash, schema.CopyUnknown}).Draw(t, "state")
		used[c.FSID] += max(5, c.Bytes)
		d.in.Copies = append(d.in.Copies, c)
	}
	for _, id := range []string{"fs0", "fs1"} {
		d.in.Filesystems = append(d.in.Filesystems, schema.Filesystem{ID: id, MountPoint: "/" + id, FreeBytes: rapid.Int64Range(0, 100).Draw(t, "free"),
			UsedBytes: used[id] + rapid.Int64Range(0, 300).Draw(t, "other"), Evicting: rapid.Bool().Draw(t, "begun")})
	}
	return d
}

// carryOut removes one copy as a machine does: to the trash, whose bytes then go.
func (d *disks) carryOut(e Eviction) {
	for i := range d.in.Copies {
		c := &d.in.Copies[i]
		if c.UID != e.UID || !c.here() {
			continue
		}
		freed := c.Bytes
		if freed < 0 {
			freed = 5 // what it really held
		}
		fs := &d.in.Filesystems[d.in.filesystem(c)]
		fs.FreeBytes, fs.UsedBytes = fs.FreeBytes+freed, fs.UsedBytes-freed
		d.in.Copies = slices.Delete(d.in.Copies, i, i+1)
		break
	}
	d.look()
}

// look is what an agent does at each look: hysteresis.
func (d *disks) look() {
	for i := range d.in.Filesystems {
		d.in.Filesystems[i].Evicting = Evicting(d.in.Filesystems[i], d.in.Policy)
	}
}

// D-71, X-18: never what is used, pinned or not evictable; in order; no more than
// needed; the same whatever the order of input.
func TestEvictIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDisks(t)
		list := Evict(d.in)
		byUID := map[string]*EvictCopy{}
		for i := range d.in.Copies {
			byUID[d.in.Copies[i].UID] = &d.in.Copies[i]
		}
		for i, e := range list {
			c := byUID[e.UID]
			if c.Used || !c.Evictable || !c.here() || c.pinned(d.in.Now) {
				t.Fatalf("%s must stay: %+v", e.UID, c)
			}
			if i > 0 && byUID[list[i-1].UID].before(c) > 0 {
				t.Fatalf("%s goes after %s", e.UID, list[i-1].UID)
			}
			if e.Why == schema.WhyOverLimit && !c.Present {
				t.Fatalf("%s is in no location with a limit", e.UID)
			}
		}
		shuffled := d.in
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		shuffled.Copies, shuffled.Filesystems = shuffle(rng, d.in.Copies), shuffle(rng, d.in.Filesystems)
		if !slices.Equal(list, Evict(shuffled)) {
			t.Fatalf("another order, another choice: %v and %v", list, Evict(shuffled))
		}
	})
}

// D-71: carried out one by one on fresh numbers, eviction ends: at the stop mark
// and within the limit, or with nothing left that may go. What was planned at
// once is never less than what goes, so that planner and machine agree.
func TestEvictStopsAtTheStopMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDisks(t)
		d.in.Copies = slices.DeleteFunc(d.in.Copies, func(c EvictCopy) bool { return c.State == schema.CopyTrash }) // it is gone by now
		d.look()
		for range 100 {
			list := Evict(d.in)
			if len(list) == 0 {
				break
			}
			before := slices.Clone(d.in.Filesystems)
			d.carryOut(list[0])
			for i, fs := range before {
				_, stop := marks(d.in.Policy)
				if list[0].Why == schema.WhyDiskNearlyFull && d.in.Filesystems[i].FreeBytes != fs.FreeBytes && !below(uint64(fs.FreeBytes), sizeOf(&fs), stop) {
					t.Fatalf("%s went with %d of %d free", list[0].UID, fs.FreeBytes, sizeOf(&fs))
				}
			}
		}
		if left := Evict(d.in); len(left) > 0 {
			t.Fatalf("it does not end: %v", left)
		}
		for i, fs := range d.in.Filesystems {
			left := slices.ContainsFunc(d.in.order(), func(j int) bool { return d.in.filesystem(&d.in.Copies[j]) == i })
			if Evicting(fs, d.in.Policy) && left {
				t.Fatalf("%s stopped too early: %+v", fs.ID, fs)
			}
		}
	})
}

// X-18, D-71: a worker that is being stopped uses its copy until it has ended, and
// one of which nobody knows what it uses is waited for.
func TestEvictionWaitsForWorkersThatAreStopped(t *testing.T) {
	used := testNow.Add(-time.Hour)
	scoped := testNS + ".hf"
	m := &schema.MachineReport{Name: "gpu-01", State: schema.MachineUp, Exports: []schema.Export{}, Mounts: []schema.Mount{}, Workers: []schema.Worker{},
		Filesystems: []schema.Filesystem{{MountPoint: "/nvme", ID: "fs", FreeBytes: 5, UsedBytes: 95}},
		Copies:      []schema.Copy{{Drive: scoped, State: schema.CopyPresent, FSID: "fs", Folder: "/nvme/astraeus/drives/" + scoped, Bytes: 25, LastUsed: &used}}}
	s := newSim(m)
	s.desired = declare(t, "c1", frame+`
---
kind: Machine
metadata: {name: gpu-01}
spec: {data_location: {path: /nvme/astraeus}}
---
kind: Drive
metadata: {name: hf}
spec: {sources: [{node_scope: placed, path: "", mount_path: /cache}], evictable: true}
`)
	s.plan = Plan(s.input())
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	uid := s.accepted.Objects[schema.Key{Kind: schema.KindDrive, Namespace: testNS, Name: "hf"}].UID
	actions := func(workers ...schema.Worker) (list []string) {
		m.Workers = append([]schema.Worker{}, workers...)
		p := Plan(s.input())
		for _, st := range p.Steps {
			list = append(list, fmt.Sprintf("%s after %d", st.Action, len(st.After)))
		}
		return list
	}
	worker := func(state schema.WorkerState, uses ...schema.Use) schema.Worker {
		return schema.Worker{Run: testNS + ".gone", RunUID: "r", Name: "gone-0", State: state, Uses: uses}
	}
	require.Equal(t, []string{"EvictCopy after 0"}, actions())
	require.Equal(t, []string{"StopWorker after 0"}, actions(worker(schema.WorkerRunning, schema.Use{UID: uid})))
	require.Equal(t, []string{"StopWorker after 0"}, actions(worker(schema.WorkerStuck, schema.Use{UID: uid})))
	require.Equal(t, []string{"EvictCopy after 0"}, actions(worker(schema.WorkerFailed, schema.Use{UID: uid})))
	require.Equal(t, []string{"StopWorker after 0"}, actions(worker(schema.WorkerRunning)))
	m.Workers = nil
	require.Empty(t, Plan(s.input()).Steps, "unknown workers may use it")
}

// D-71, X-18: the planner plans by Evict, once, and not at all after it was done.
func TestPlanAfterEvictingIsEmpty(t *testing.T) {
	s := newSim(observe(t, `
machines:
- name: gpu-01
  state: Up
  address: 192.0.2.1
  resources: {cpu_cores: 8, memory_bytes: 1000, gpus: 0}
  filesystems: [{mount_point: /nvme, id: fs, type: ext4, total_bytes: 1000, free_bytes: 90, used_bytes: 910, free_inodes: 1}]
  copies: []
  exports: []
  mounts: []
  workers: []
`).Machines...)
	text := frame + `
---
kind: Machine
metadata: {name: gpu-01}
spec: {data_location: {path: /nvme/astraeus}}
`
	for i := range 5 {
		text += fmt.Sprintf(`
---
kind: Drive
metadata: {name: d%d}
spec: {sources: [{node_scope: placed, path: "", mount_path: /cache}], evictable: true}
`, i)
		used := testNow.Add(-time.Duration(i) * time.Hour)
		m := s.machines["gpu-01"]
		scoped := fmt.Sprintf("%s.d%d", testNS, i)
		m.Copies = append(m.Copies, schema.Copy{Drive: scoped, State: schema.CopyPresent, FSID: "fs", Folder: "/nvme/astraeus/drives/" + scoped, Bytes: 25, LastUsed: &used})
	}
	s.desired = declare(t, "c1", text)
	s.tick()
	var gone []string
	for range 10 {
		s.tick()
		for _, st := range s.plan.Steps {
			require.Equal(t, schema.ActionEvictCopy, st.Action)
			require.True(t, st.Destructive)
		}
		if len(s.plan.Steps) == 0 {
			break
		}
		// One at a time, each judged by a new report, as a machine does it.
		st, m := s.plan.Steps[0], s.machines["gpu-01"]
		gone = append(gone, st.Object.Name)
		m.Copies = slices.DeleteFunc(m.Copies, func(c schema.Copy) bool { return c.Drive == st.Object.Scoped() })
		fs := &m.Filesystems[0]
		fs.FreeBytes, fs.UsedBytes = fs.FreeBytes+25, fs.UsedBytes-25
		fs.Evicting = Evicting(schema.Filesystem{FreeBytes: fs.FreeBytes, UsedBytes: fs.UsedBytes, Evicting: true}, schema.EvictionPolicy{})
	}
	require.Equal(t, []string{"d4", "d3", "d2"}, gone)
	require.Empty(t, s.problems)
	require.True(t, s.quiet(), planText(s.plan))
}
