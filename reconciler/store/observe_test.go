package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func ptr[T any](v T) *T { return &v }

func fullReport(name string) *schema.MachineReport {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &schema.MachineReport{
		Name: name, Address: "192.0.2.1", Addresses: []string{"192.0.2.1"}, BootID: "b", Incarnation: "i", Sequence: 1,
		Epoch: 1, Applied: 7, RDMA: []schema.RDMAPort{{Kind: "RoCE"}}, Resources: &schema.Resources{CPUCores: 8, GPUs: 2},
		Engine: &schema.EngineState{Kind: schema.EngineProcess, Ready: true}, Network: &schema.NetworkPart{Kind: "lab"},
		Filesystems:   []schema.Filesystem{{MountPoint: "/", Type: "ext4", TotalBytes: 1 << 40, FreeBytes: 1 << 39, FreeInodes: 5}},
		DataLocations: []schema.DataLocationState{{Path: "/data", Mounted: true, UsedBytes: 5, FreeBytes: 1 << 39}},
		Paths:         []schema.PathState{},
		Copies:        []schema.Copy{{Drive: "ws-1.a", UID: "u", Folder: "/data/drives/ws-1.a", Bytes: 5 << 30, LastUsed: &at, Created: &at}},
		Exports:       []schema.Export{{Drive: "ws-1.b"}}, Mounts: []schema.Mount{{Drive: "ws-1.c", State: schema.MountBound}},
		Workers:      []schema.Worker{{Run: "ws-1.r", Name: "r-0", State: schema.WorkerRunning}},
		Measurements: []schema.Measurement{{Drive: "ws-1.a", Bytes: 5 << 30, Answers: 1, At: at}},
		MountSeries:  []schema.MountSeries{{Drive: "ws-1.c", Samples: []schema.MountSample{{At: at, Seconds: 300}}}},
		Failures:     []schema.Failure{}, Problems: []string{"odd"}, Checks: []schema.CheckState{},
	}
}

var sameReport = cmp.Options{cmpopts.IgnoreFields(schema.MachineReport{}, "Sequence")}

// every part is kept, and a part that is unknown is not the same as an empty one.
func TestReportsAreKeptPartByPart(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	n, err := l.PutReports(t.Context(), fullReport("m1"), &schema.MachineReport{Name: "m2"})
	require.NoError(t, err)
	require.Equal(t, len(parts)+1, n)
	st := load(t, s)
	require.Empty(t, cmp.Diff(fullReport("m1"), st.Observed["m1"], sameReport))
	require.NotNil(t, st.Observed["m1"].Paths, "none")
	require.Nil(t, st.Observed["m2"].Paths, "unknown")

	r := fullReport("m1")
	r.Mounts, r.Exports = nil, append(r.Exports, schema.Export{Drive: "ws-1.d"})
	n, err = l.PutReports(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, 2, n, "a small change is a small write")
	require.Empty(t, cmp.Diff(r, load(t, s).Observed["m1"], sameReport))
}

// D-70, D-83, X-9: nothing is written when nothing material changed.
func TestOnlyMaterialChangesAreWritten(t *testing.T) {
	hour := time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		change func(*schema.MachineReport)
		writes int
	}{
		"sequence":            {func(r *schema.MachineReport) { r.Sequence = 99 }, 0},
		"free bytes a little": {func(r *schema.MachineReport) { r.Filesystems[0].FreeBytes += 1 << 20 }, 0},
		"free bytes by 2 GiB": {func(r *schema.MachineReport) { r.Filesystems[0].FreeBytes += 2 << 30 }, 1},
		"1 % of a small disk": {func(r *schema.MachineReport) {
			r.Filesystems[0].TotalBytes = 1 << 30
			r.Filesystems[0].FreeBytes += 20 << 20
		}, 1},
		"inodes a little":       {func(r *schema.MachineReport) { r.Filesystems[0].FreeInodes-- }, 0},
		"no inode left":         {func(r *schema.MachineReport) { r.Filesystems[0].FreeInodes = 0 }, 1},
		"a copy grows a little": {func(r *schema.MachineReport) { r.Copies[0].Bytes += 1 << 20; r.Copies[0].Files++ }, 0},
		"a copy grows by 2 GiB": {func(r *schema.MachineReport) { r.Copies[0].Bytes += 2 << 30 }, 1},
		"a copy is filled":      {func(r *schema.MachineReport) { r.Copies[0].Filled = true }, 1},
		"used within the hour":  {func(r *schema.MachineReport) { r.Copies[0].LastUsed = ptr(hour.Add(-time.Minute)) }, 0},
		"used an hour later":    {func(r *schema.MachineReport) { r.Copies[0].LastUsed = &hour }, 1},
		"a copy goes":           {func(r *schema.MachineReport) { r.Copies = []schema.Copy{} }, 1},
		"measured again":        {func(r *schema.MachineReport) { r.Measurements[0].At = hour.Add(-time.Minute) }, 0},
		"measured, no answer":   {func(r *schema.MachineReport) { r.Measurements[0].Answers = 0 }, 1},
		"a sample a minute on":  {func(r *schema.MachineReport) { r.MountSeries[0].Samples[0].At = hour.Add(-59 * time.Minute) }, 0},
		"samples of an hour":    {func(r *schema.MachineReport) { r.MountSeries[0].Samples[0].At = hour }, 1},
		"no mount any more":     {func(r *schema.MachineReport) { r.MountSeries = []schema.MountSeries{} }, 1},
		"location a little":     {func(r *schema.MachineReport) { r.DataLocations[0].UsedBytes++ }, 0},
		"location size unknown": {func(r *schema.MachineReport) { r.DataLocations[0].UsedBytes = -1 }, 1},
		"a newer assignment":    {func(r *schema.MachineReport) { r.Applied++ }, 1},
		"a worker ends":         {func(r *schema.MachineReport) { r.Workers[0].State = schema.WorkerSucceeded }, 1},
		"two parts":             {func(r *schema.MachineReport) { r.Applied++; r.Problems = nil }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := lead(t, s)
			_, err := l.PutReports(t.Context(), fullReport("m1"))
			require.NoError(t, err)
			before := revision(t, s)
			r := fullReport("m1")
			tc.change(r)
			for i := range 3 {
				n, err := l.PutReports(t.Context(), r)
				require.NoError(t, err)
				if i > 0 {
					require.Zero(t, n)
					continue
				}
				require.Equal(t, tc.writes, n)
			}
			require.Equal(t, before+int64(min(tc.writes, 1)), revision(t, s))
		})
	}
}

// Many small moves add up: what was written is what is compared with, not the last report.
func TestSlowGrowthIsWrittenAtLast(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	writes := 0
	for i := range 30 {
		r := fullReport("m1")
		r.Copies[0].Bytes += int64(i) * (100 << 20)
		n, err := l.PutReports(t.Context(), r)
		require.NoError(t, err)
		writes += n
	}
	require.Equal(t, len(parts)+2, writes)
}

// One machine's odd report does not stop the others'.
func TestOddReportsAreLeftOut(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	huge := fullReport("m1")
	huge.Problems = []string{strings.Repeat("x", MaxValueBytes)}
	n, err := l.PutReports(t.Context(), &schema.MachineReport{Name: ""}, &schema.MachineReport{Name: "a/b"}, huge, fullReport("m2"))
	require.NoError(t, err)
	require.Equal(t, 2*len(parts)-1, n)
	st := load(t, s)
	require.Len(t, st.Observed, 2)
	require.Nil(t, st.Observed["m1"].Problems)
	require.NotNil(t, st.Observed["m1"].Workers)
	n, err = l.PutReports(t.Context(), huge)
	require.NoError(t, err)
	require.Zero(t, n)
}

//
func TestCrashWhileWritingReports(t *testing.T) {
	armed := true
	s := open(t, func(o *Options) {
		o.Point = func(p string) error {
			if armed && p == "observe.batch" {
				return errors.New("crash")
			}
			return nil
		}
	})
	l := lead(t, s)
	var list []*schema.MachineReport
	for i := range 50 {
		list = append(list, fullReport(fmt.Sprintf("m-%02d", i)))
	}
	n, err := l.PutReports(t.Context(), list...)
	require.Error(t, err)
	require.Positive(t, n)
	armed = false
	_, err = l.PutReports(t.Context(), list...)
	require.NoError(t, err)
	st := load(t, s)
	for _, r := range list {
		require.Empty(t, cmp.Diff(r, st.Observed[r.Name], sameReport))
	}
}

// after a write that may have happened in part, a report that is as it was
// before puts the store right again; so does one that knows less.
func TestReportsAfterAFailedWrite(t *testing.T) {
	armed := false
	s := open(t, func(o *Options) {
		o.Point = func(p string) error {
			if armed && p == "observe.batch" {
				return errors.New("crash")
			}
			return nil
		}
	})
	l := lead(t, s)
	reports := func(change func(*schema.MachineReport)) (list []*schema.MachineReport) {
		for i := range 50 {
			r := fullReport(fmt.Sprintf("m-%02d", i))
			change(r)
			list = append(list, r)
		}
		return list
	}
	before := reports(func(*schema.MachineReport) {})
	_, err := l.PutReports(t.Context(), before...)
	require.NoError(t, err)
	armed = true
	_, err = l.PutReports(t.Context(), reports(func(r *schema.MachineReport) {
		r.Mounts[0].State, r.Exports, r.Problems[0] = schema.MountDetached, nil, "other"
		r.Applied++
	})...)
	require.Error(t, err)
	armed = false
	require.NotEqual(t, before[0].Applied, load(t, s).Observed["m-00"].Applied, "the first batch was written")
	_, err = l.Load(t.Context())
	require.NoError(t, err)
	before[1].Problems = nil
	_, err = l.PutReports(t.Context(), before...)
	require.NoError(t, err)
	st := load(t, s)
	for _, r := range before {
		require.Empty(t, cmp.Diff(r, st.Observed[r.Name], sameReport))
	}
	n, err := l.PutReports(t.Context(), before...)
	require.NoError(t, err)
	require.Zero(t, n)
}

// a part that grew too large to be kept is unknown, not what it was before.
func TestPartThatGrewTooLargeIsDropped(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	_, err := l.PutReports(t.Context(), fullReport("m1"))
	require.NoError(t, err)
	huge := fullReport("m1")
	huge.Problems = []string{strings.Repeat("x", MaxValueBytes)}
	_, err = l.PutReports(t.Context(), huge)
	require.NoError(t, err)
	require.Nil(t, load(t, s).Observed["m1"].Problems)
}

func TestAliveIsWrittenOnChange(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	put := func(a Alive) { require.NoError(t, l.PutAlive(t.Context(), a)) }
	put(Alive{Up: []string{"m2", "m1"}, Down: map[string]time.Time{"m3": time.Unix(5, 0).UTC()}})
	before := revision(t, s)
	put(Alive{Up: []string{"m1", "m2"}, Down: map[string]time.Time{"m3": time.Unix(6, 0).UTC()}})
	require.Equal(t, before, revision(t, s))
	require.Equal(t, Alive{Up: []string{"m1", "m2"}, Down: map[string]time.Time{"m3": time.Unix(5, 0).UTC()}}, load(t, s).Alive)
	put(Alive{Unknown: []string{"m1"}})
	require.Equal(t, Alive{Unknown: []string{"m1"}}, load(t, s).Alive)
}

func BenchmarkReports(b *testing.B) {
	for _, n := range []int{1, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b)
			l := lead(b, s)
			list := make([]*schema.MachineReport, n)
			applied := int64(0)
			for b.Loop() {
				applied++
				for i := range list {
					list[i] = fullReport(fmt.Sprintf("m-%04d", i))
					list[i].Applied = applied
				}
				if _, err := l.PutReports(b.Context(), list...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 100, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, func(o *Options) { o.NoSync = false })
			l := lead(b, s)
			for b.Loop() {
				if _, err := l.Commit(b.Context(), many(n, "c")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	s := open(b)
	l := lead(b, s)
	_, err := l.Commit(b.Context(), many(10_000, "c"))
	require.NoError(b, err)
	for b.Loop() {
		load(b, s)
	}
}
