package nodeexec

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"astraeus.io/astraeus/schema"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

// childMain takes over in the processes that tests start.
var childHooks []func() bool

func childMain() bool {
	for _, hook := range childHooks {
		if hook() {
			return true
		}
	}
	return false
}

const ns = "ws-aaaaaaaaaaaa"

var (
	imagenet = schema.Key{Kind: schema.KindDrive, Namespace: ns, Name: "imagenet"}
	cache    = schema.Key{Kind: schema.KindDrive, Namespace: ns, Name: "hf-cache"}
	train    = schema.Key{Kind: schema.KindRun, Namespace: ns, Name: "train"}
)

// rig is one agent on a world, without a controller: assignments are handed in.
type rig struct {
	t      *testing.T
	w      *world
	cfg    Config
	a      *Agent
	cancel context.CancelFunc
	done   chan error
	base   schema.Assignment
	blobs  map[string][]byte
}

func newRig(t *testing.T) *rig {
	w := newWorld("")
	r := &rig{t: t, w: w, blobs: map[string][]byte{}, cfg: Config{
		Machine: "gpu-01", StateDir: t.TempDir(), WorkRoot: "/work",
		Host: fakeHost{w}, Shares: fakeShares{w}, Engine: fakeEngine{w},
		Dial: func(ctx context.Context) (grpc.ClientConnInterface, error) {
			<-ctx.Done() // assignments come by hand
			return nil, ctx.Err()
		},
		Random: func() float64 { return 0.5 },
	}}
	if testing.Verbose() {
		r.cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r.base = schema.Assignment{Version: 1, ClusterUID: "cluster-1", Epoch: 1, Machine: "gpu-01",
		DataLocations: []schema.DataLocation{{Path: "/mnt/nvme/astraeus", Present: true}}}
	return r
}

func (r *rig) start() *rig {
	r.t.Helper()
	a, err := New(r.cfg)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.a, r.cancel, r.done = a, cancel, make(chan error, 1)
	go func() { r.done <- a.Run(ctx) }()
	return r
}

func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	require.NoError(r.t, <-r.done)
}

// after lets the bubble's clock run and everything come to rest.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// blob makes a value known by hash.
func (r *rig) blob(v any) string {
	body, err := json.Marshal(v)
	require.NoError(r.t, err)
	hash := schema.HashBytes(body)
	r.blobs[hash] = body
	return hash
}

// assign sends the base, changed, as the next revision.
func (r *rig) assign(change func(*schema.Assignment)) {
	r.t.Helper()
	r.base.Revision++
	change(&r.base)
	r.send(r.base)
}

func (r *rig) send(a schema.Assignment) {
	r.t.Helper()
	body, err := json.Marshal(a) // what comes over the link is a copy
	require.NoError(r.t, err)
	var t schema.Assignment
	require.NoError(r.t, json.Unmarshal(body, &t))
	require.NoError(r.t, r.a.take(&schema.Down{Assignment: &t, Blobs: r.blobs}))
}

// report is the newest that was put out.
func (r *rig) report() *schema.MachineReport {
	r.a.out.mu.Lock()
	defer r.a.out.mu.Unlock()
	return r.a.out.report
}

func (r *rig) failure(action schema.Action) *schema.Failure {
	for _, f := range r.a.failures.reported() {
		if f.Action == action {
			return &f
		}
	}
	return nil
}

func step(action schema.Action, object schema.Key, args schema.StepArgs, after ...string) schema.Step {
	s := schema.Step{Machine: "gpu-01", Action: action, Object: object, Args: args, After: after}
	s.ID = schema.HashJSON(s)
	return s
}

func workerTarget(template string, mounts ...schema.BindTarget) schema.WorkerTarget {
	return schema.WorkerTarget{Run: train, RunUID: "run-1", Generation: 1, Name: "train-0", Template: template,
		WorldSize: 2, Leader: "10.0.0.1", Address: "10.0.0.1", Mounts: mounts}
}

var workerArgs = schema.StepArgs{UID: "run-1", Worker: "train-0", Generation: 1}

func trainID() string { return WorkerID("run-1", 1, 0, "train-0") }

func copyMount() schema.BindTarget {
	return schema.BindTarget{Drive: cache, UID: "u-cache", From: schema.BindCopy, Target: "/cache"}
}
