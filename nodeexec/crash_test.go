package nodeexec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/schema"
)

// crashEnv makes the test program an agent that dies at a crash point: "dir point".
const crashEnv = "NODEEXEC_CRASH"

const crashed = 99

func init() {
	childHooks = append(childHooks, func() bool {
		dir := os.Getenv(crashEnv)
		if dir == "" {
			return false
		}
		crashChild(dir, CrashPoint(os.Getenv(crashEnv+"_POINT")))
		return true
	})
}

// TestCrashPoints kills an agent at every listed place; the next one goes on,
// does nothing twice that must happen once, and ends where it should.
func TestCrashPoints(t *testing.T) { // D-9
	for _, point := range CrashPoints {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.Equal(t, crashed, runChild(t, dir, point), "the agent did not come by")
			require.Equal(t, 0, runChild(t, dir, ""))
			w := newWorld(filepath.Join(dir, "world"))
			require.Equal(t, 1, w.count("Start train-0"))
			require.Equal(t, 1, w.count("Start fill"))
			require.Empty(t, w.state.Workers)
			require.NotContains(t, w.state.Copies, "u-gone")
			require.Equal(t, int64(1), w.state.Copies["u-cache"].FilledGeneration)
			require.False(t, slices.Contains(w.log(), "DeleteCopy u-cache"))
			keeper, err := dnszone.OpenKeeper(filepath.Join(dir, "state", zoneDir))
			require.NoError(t, err)
			require.NotNil(t, keeper.Table(), "the zone")
		})
	}
}

// crashZone is the names of an org.
func crashZone() *schema.ZoneUpdate {
	return zoneOf(1, "acme", "train-0")
}

func runChild(t *testing.T, dir string, point CrashPoint) int {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), crashEnv+"="+dir, crashEnv+"_POINT="+string(point))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != crashed {
		require.FailNow(t, "the agent failed", "%s", out)
	}
	return cmd.ProcessState.ExitCode()
}

func crashChild(dir string, point CrashPoint) {
	w := newWorld(filepath.Join(dir, "world"))
	if len(w.state.Log) == 0 {
		w.state.Copies["u-gone"] = &schema.Copy{Drive: ns + ".gone", UID: "u-gone", State: schema.CopyPresent}
	}
	a, err := New(Config{Machine: "gpu-01", StateDir: filepath.Join(dir, "state"), WorkRoot: "/work",
		Host: fakeHost{w}, Shares: fakeShares{w}, Engine: fakeEngine{w}, ReportEvery: 5 * time.Millisecond,
		Dial: func(ctx context.Context) (grpc.ClientConnInterface, error) { <-ctx.Done(); return nil, ctx.Err() },
		CrashPoint: func(p CrashPoint) {
			if !slices.Contains(CrashPoints, p) {
				panic("crash point " + p + " is not listed")
			}
			if p == point {
				w.mu.Lock() // not in the middle of an effect
				os.Exit(crashed)
			}
		}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	go func() { _ = a.Run(ctx) }()
	for !crashDrive(a, w) || point != "" { // converged, it may still be on its way to its end
		select {
		case <-ctx.Done():
			fmt.Fprintf(os.Stderr, "it did not converge: %+v\n%+v\n", w.state, a.failures.reported())
			os.Exit(1)
		case <-time.After(2 * time.Millisecond):
		}
	}
	os.Exit(0)
}

// crashDrive plays controller and workers: it looks at the world and does the
// next thing, so that it too can be started again at any time.
func crashDrive(a *Agent, w *world) (converged bool) {
	w.mu.Lock()
	fill, worker := w.state.Workers[fillID("u-cache", 1)], w.state.Workers[trainID()]
	filled := w.state.Copies["u-cache"] != nil && w.state.Copies["u-cache"].FilledGeneration == 1
	started := slices.Contains(w.state.Log, "Start train-0")
	gone := w.state.Copies["u-gone"] == nil
	w.mu.Unlock()
	switch {
	case fill != nil && fill.Status.ExitCode == nil:
		w.set(func(s *worldState) { s.Marked["u-cache"] = true })
		w.end(fillID("u-cache", 1), 0)
	case worker != nil && worker.Status.ExitCode == nil:
		w.end(trainID(), 0)
	}
	if a.naming.keeper.Table() == nil {
		a.naming.take(crashZone())
	}
	assignment, blobs := crashAssignment(started && worker != nil && worker.Status.ExitCode != nil || started && worker == nil)
	if err := a.take(&schema.Down{Assignment: assignment, Blobs: blobs}); err != nil {
		panic(err)
	}
	return filled && started && gone && worker == nil && fill == nil && len(a.failures.reported()) > 0
}

func crashAssignment(over bool) (*schema.Assignment, map[string][]byte) {
	blobs := map[string][]byte{}
	blob := func(v any) string {
		body, _ := json.Marshal(v)
		blobs[schema.HashBytes(body)] = body
		return schema.HashBytes(body)
	}
	template := blob(schema.TaskTemplate{Command: "true"})
	create := step(schema.ActionCreateCopy, cache, schema.StepArgs{UID: "u-cache"})
	fill := step(schema.ActionFillCopy, cache, schema.StepArgs{UID: "u-cache"}, create.ID)
	a := &schema.Assignment{Version: 1, ClusterUID: "cluster-1", Epoch: 1, Revision: 1, Machine: "gpu-01",
		DataLocations: []schema.DataLocation{{Path: "/mnt/nvme/astraeus", Present: true}},
		Drives:        map[string]string{ns: blob(schema.DriveList{Namespace: ns, Drives: []schema.ListedDrive{{Name: "hf-cache", UID: "u-cache"}}})},
		Copies: []schema.CopyTarget{{Drive: cache, UID: "u-cache", Location: "/mnt/nvme/astraeus", FillGeneration: 1,
			FillTemplate: template}},
		Dirs: []schema.DirTarget{{Drive: imagenet, UID: "u-no", Path: "/data/none", Grant: "/data"}},
		Steps: []schema.Step{create, fill, step(schema.ActionCreateDir, imagenet, schema.StepArgs{UID: "u-no"}),
			step(schema.ActionDeleteCopy, named("gone"), schema.StepArgs{UID: "u-gone"})}}
	if over {
		a.Revision = 2
		return a, blobs
	}
	a.Workers = []schema.WorkerTarget{workerTarget(template, copyMount())}
	a.Steps = append(a.Steps, step(schema.ActionStartWorker, train, workerArgs, fill.ID))
	return a, blobs
}
