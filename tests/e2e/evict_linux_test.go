package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/schema"
)

const (
	workspace = "orgs/acme/workspaces/research/"
	copySize  = 5_000_000
)

func frame(machines ...string) map[string]string {
	files := map[string]string{
		"cluster.cue":                `kind: "Cluster", metadata: name: "test", spec: {measure_every: "500ms"}`,
		"orgs/acme/org.cue":          `kind: "Org", metadata: name: "acme"`,
		"orgs/acme/grants/g.cue":     `kind: "HostPathGrant", metadata: name: "g", spec: {workspace: "research", paths: ["/mnt/datasets", "/lustre/research", "/scratch"]}`,
		workspace + "workspace.cue":  `kind: "Workspace", metadata: name: "research"`,
		workspace + "drives/all.cue": placed("kept", false),
	}
	for _, name := range machines {
		files["orgs/acme/machines/"+name+".cue"] = machineFile(name, 0)
	}
	return files
}

func machineFile(name string, limit int64) string {
	data := fmt.Sprintf(`path: %q`, location)
	if limit > 0 {
		data += fmt.Sprintf(`, max_bytes: %d`, limit)
	}
	return fmt.Sprintf(`kind: "Machine", metadata: name: %q, spec: {engine: "process", address: %q, resources: {cpu_cores: 8, memory_bytes: 1000000000}, data_location: {%s}}`,
		name, addresses[name], data)
}

func placed(name string, evictable bool) string {
	return fmt.Sprintf(`kind: "Drive", metadata: name: %q, spec: {evictable: %t, sources: [{node_scope: "placed", mount_path: "/cache", mode: "ReadWrite"}]}`, name, evictable)
}

// job is a run of one worker that uses one drive.
func job(name, drive, script string) string {
	return fmt.Sprintf(`kind: "Run", metadata: name: %q
spec: {restart_policy: "Never", task_template: {command: "sh", args: ["-c", %q], datavolume_refs: [{name: %q}]}}`, name, script, drive)
}

// fill makes one drive after the other and fills its copy by a real worker, so
// that they were used in this order. The last but one is not evictable, the last in use.
func (c *cluster) fill(names ...string) (commit string) {
	c.t.Helper()
	for i, name := range names {
		script := fmt.Sprintf("head -c %d /dev/zero >/cache/data", copySize)
		if i == len(names)-1 {
			script += "; exec sleep 100000"
		}
		commit = c.declare(map[string]string{
			workspace + "drives/" + name + ".cue": placed(name, i != len(names)-2),
			workspace + "runs/" + name + ".cue":   job("use-"+name, name, script),
		})
		c.settled(commit, "gpu-01")
		done := i == len(names)-1
		c.until(name+" is filled and measured", func(s reconciler.Status) bool {
			r := c.report("gpu-01")
			used := slices.ContainsFunc(r.Copies, func(x schema.Copy) bool { return x.Drive == namespace+"."+name && x.LastUsed != nil })
			// The copy's own number moves by more than 1 % of the disk only (D-70).
			measured := slices.ContainsFunc(r.Measurements, func(x schema.Measurement) bool {
				return x.Drive == namespace+"."+name && x.Bytes >= copySize
			})
			all, _ := s.Converged(true)
			return used && measured && (all || done)
		})
	}
	return commit
}

func (m *machine) has(drives ...string) (list []string) {
	m.t.Helper()
	for _, d := range drives {
		if _, err := os.Stat(m.copyDir(d) + "/data"); err == nil {
			list = append(list, d)
		}
	}
	return list
}

const (
	nearlyFull = "Copy removed from gpu-01: evicted: the disk it is on is nearly full"
	overLimit  = "Copy removed from gpu-01: evicted: the machine's data location is over its limit"
)

// D-70, D-71, X-18: on a disk that really fills up eviction starts below 10 % free
// and stops at 15 %, goes by least recent use, leaves what is used or not
// evictable, does the same by limit, and also while the control plane is away.
func TestEviction(t *testing.T) {
	c := newCluster(t)
	c.open()
	m := c.newMachine("gpu-01", 128)
	files := frame("gpu-01")
	delete(files, workspace+"drives/all.cue")
	c.settled(c.declare(files), "gpu-01")
	names := []string{"d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "kept", "busy"}
	commit := c.fill(names...)
	disk := m.at(nvme)
	require.Equal(t, names, m.has(names...))

	t.Log("between the marks nothing goes")
	leave(t, disk, 11)
	c.until("the report says so", func(s reconciler.Status) bool { return reported(c) < 12 })
	c.settled(commit, "gpu-01")
	require.Equal(t, names, m.has(names...))

	t.Log("below the start mark: until the stop mark")
	leave(t, disk, 9)
	c.gone(m, "d1", "d2")
	c.settled(commit, "gpu-01")
	require.Equal(t, names[2:], m.has(names...))
	stopped(t, roomOf(t, disk))
	require.Contains(t, c.events("d1"), nearlyFull)
	require.Contains(t, c.events("d2"), nearlyFull)

	t.Log("over the limit: until within it")
	held := int64(len(names)-2) * copySize
	commit = c.declare(map[string]string{"orgs/acme/machines/gpu-01.cue": machineFile("gpu-01", held-copySize/2)})
	c.gone(m, "d3")
	c.settled(commit, "gpu-01")
	require.Equal(t, names[3:], m.has(names...))
	require.Contains(t, c.events("d3"), overLimit)
	require.NotContains(t, c.events("d4"), overLimit)

	t.Log("while the control plane is away")
	c.away()
	leave(t, disk, 8)
	m.untilFree(15)
	require.Equal(t, names[5:], m.has(names...))
	stopped(t, roomOf(t, disk))
	c.open()
	c.gone(m, "d4", "d5")
	c.settled(commit, "gpu-01")
	c.until("it is told", func(reconciler.Status) bool { return slices.Contains(c.events("d5"), nearlyFull) })
	require.Contains(t, c.events("d4"), nearlyFull)

	t.Log("with nothing left that may go, nothing else goes")
	leave(t, disk, 1)
	c.gone(m, "d6", "d7", "d8")
	c.until("full", func(s reconciler.Status) bool { return len(s.Plan.Steps) == 0 && reported(c) < 15 })
	require.Equal(t, []string{"kept", "busy"}, m.has(names...))
	require.Less(t, roomOf(t, disk).percent(), 15.0)
}

// stopped: the stop mark is reached, and was not before the last copy went.
func stopped(t testing.TB, r room) {
	t.Helper()
	require.GreaterOrEqual(t, r.percent(), 15.0)
	require.Less(t, room{r.free - copySize, r.total}.percent(), 15.0)
}

// gone waits until the controller has seen that copies went, bytes and all.
func (c *cluster) gone(m *machine, drives ...string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%v are evicted", drives), func(reconciler.Status) bool {
		r := c.report(m.name)
		return r != nil && r.Copies != nil && !slices.ContainsFunc(r.Copies, func(x schema.Copy) bool {
			return slices.Contains(drives, x.Drive[len(namespace)+1:])
		})
	})
}

// reported is how many percent the machine's disk has free by its newest report.
func reported(c *cluster) float64 {
	for _, fs := range c.report("gpu-01").Filesystems {
		if fs.MountPoint == nvme {
			return room{fs.FreeBytes, fs.FreeBytes + fs.UsedBytes}.percent()
		}
	}
	return 100
}
