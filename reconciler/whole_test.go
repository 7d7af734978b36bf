package reconciler

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// repository is a directory that is recorded as commits, and the source that follows them.
type repository struct {
	t        testing.TB
	dir      string
	recorder *gitsource.Recorder
	source   *gitsource.Source
}

func newRepository(t testing.TB) *repository {
	t.Helper()
	r := &repository{t: t, dir: t.TempDir()}
	kept := t.TempDir()
	var err error
	r.recorder, err = gitsource.OpenRecorder(t.Context(), kept)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.recorder.Close()) })
	r.source, err = gitsource.Open(t.Context(), gitsource.Options{URL: kept})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.source.Close()) })
	return r
}

// commit writes files ("" removes one) and records them.
func (r *repository) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if text == "" {
			require.NoError(r.t, os.Remove(path))
			continue
		}
		require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(r.t, os.WriteFile(path, []byte(text), 0o644))
	}
	commit, _, err := r.recorder.Record(r.t.Context(), r.dir, "change")
	require.NoError(r.t, err)
	return commit
}

const workspace = "orgs/acme/workspaces/research/"

func smallCluster() map[string]string {
	return map[string]string{
		"cluster.cue":                  `kind: "Cluster", metadata: name: "test"`,
		"orgs/acme/org.cue":            `kind: "Org", metadata: name: "acme"`,
		"orgs/acme/machines/m1.cue":    `kind: "Machine", metadata: name: "m1", spec: {engine: "process", address: "192.0.2.1"}`,
		workspace + "workspace.cue":    `kind: "Workspace", metadata: name: "research"`,
		workspace + "runs/train.cue":   trainRun("one"),
		workspace + "drives/cache.cue": `kind: "Drive", metadata: name: "cache", spec: sources: [{node_scope: "placed", mount_path: "/cache"}]`,
	}
}

func trainRun(arg string) string {
	return `kind: "Run", metadata: name: "train"
spec: {restart_policy: "Never", task_template: {image: "x", command: "/bin/true", args: ["` + arg + `"]}}`
}

// reported adds what a machine must report before anything is placed on it.
func reported(r *schema.MachineReport) {
	r.Address, r.Addresses = "192.0.2.1", []string{"192.0.2.1"}
	r.Resources = &schema.Resources{CPUCores: 8, MemoryBytes: 1 << 34}
	r.Engine = &schema.EngineState{Kind: schema.EngineProcess, Ready: true}
	r.Network = &schema.NetworkPart{Kind: "lab", Server: true, Client: true}
	r.Filesystems = []schema.Filesystem{{MountPoint: "/", ID: "root", Type: "ext4", TotalBytes: 1 << 40, FreeBytes: 1 << 39, FreeInodes: 1 << 20, System: true}}
	r.DataLocations, r.Paths, r.Copies = []schema.DataLocationState{}, []schema.PathState{}, []schema.Copy{}
	r.Exports, r.Mounts, r.Failures = []schema.Export{}, []schema.Mount{}, []schema.Failure{}
}

// runWhole starts a controller in which nothing but the machine is a stand-in.
func runWhole(t testing.TB, repo *repository) *controller {
	t.Helper()
	loader := load.New(load.Options{})
	return run(t, openStore(t), newSource(), "one", func(c *Config) {
		c.Source, c.Plan, c.Coalesce = Git(repo.source), planner.Plan, 0
		c.Load = func(ctx context.Context, files fs.FS, commit string, at time.Time) (*schema.Desired, error) {
			return loader.Load(ctx, files, load.Commit{ID: commit, Time: at})
		}
	})
}

// the real repository, loader, planner, store and link together: a run
// is placed and started, a quiet cluster writes nothing, a change replaces the
// worker, a removed file stops it.
func TestWhole(t *testing.T) {
	repo := newRepository(t)
	first := repo.commit(smallCluster())
	c := runWhole(t, repo)
	c.until("leading", func(s Status) bool { return s.Leading })
	m := c.connectAs("m1", reported)
	s := c.until("converged", func(s Status) bool { yes, _ := s.Converged(false); return yes && s.Head == first })
	require.Empty(t, s.Plan.Waits)
	require.Empty(t, s.Plan.Holds)
	a := <-m.got
	for len(a.Workers) == 0 {
		a = <-m.got
	}
	require.Equal(t, "train-0", a.Workers[0].Name)

	second := repo.commit(map[string]string{workspace + "runs/train.cue": trainRun("two")})
	c.until("the new generation", func(s Status) bool {
		yes, _ := s.Converged(false)
		return yes && s.Head == second && len(s.Plan.Targets["m1"].Workers) == 1 && s.Plan.Targets["m1"].Workers[0].Generation == 2
	})

	third := repo.commit(map[string]string{workspace + "runs/train.cue": ""})
	s = c.until("the end of the run", func(s Status) bool {
		yes, _ := s.Converged(true)
		return yes && s.Head == third
	})
	require.Empty(t, s.Plan.Targets["m1"].Workers)
}
