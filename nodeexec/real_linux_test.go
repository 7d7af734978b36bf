package nodeexec

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs/lab"
	"astraeus.io/astraeus/nodeexec/runtime/process"
	"astraeus.io/astraeus/schema"
)

const realEnv = "NODEEXEC_REAL"

func init() {
	childHooks = append(childHooks, func() bool {
		process.MaybeShim() // does not return in a worker's process
		return false
	})
}

// TestTwoRealMachines runs two agents on real directories with real workers,
// in a mount namespace of its own, with the rights of root and without.
func TestTwoRealMachines(t *testing.T) {
	if os.Getenv(realEnv) != "" {
		twoMachines(t)
		return
	}
	for name, flags := range map[string]uintptr{"root": syscall.CLONE_NEWNS, "rootless": syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER} {
		t.Run(name, func(t *testing.T) {
			if name == "root" && os.Getuid() != 0 {
				t.Skip("not root")
			}
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestTwoRealMachines$", "-test.v="+map[bool]string{true: "true", false: "false"}[testing.Verbose()])
			cmd.Env = append(os.Environ(), realEnv+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
			if flags&syscall.CLONE_NEWUSER != 0 {
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
			}
			out, err := cmd.CombinedOutput()
			t.Log(string(out))
			require.NoError(t, err)
		})
	}
}

// realMachine is one machine with its agent and its end of the link.
type realMachine struct {
	t      *testing.T
	name   string
	root   string
	state  string
	peers  string
	cfg    Config
	agent  *Agent
	c      *controller
	stream *stream
	stop   func()
	target schema.Assignment
	blobs  map[string][]byte
}

func newRealMachine(t *testing.T, name, peers string) *realMachine {
	m := &realMachine{t: t, name: name, root: t.TempDir(), state: t.TempDir(), peers: peers, c: newController(t), blobs: map[string][]byte{}}
	for _, d := range []string{"data/imagenet", "data/scratch", "srv/nvme"} {
		require.NoError(t, os.MkdirAll(filepath.Join(m.root, d), 0o755))
	}
	t.Cleanup(m.unmountAll)
	m.target = schema.Assignment{Version: 1, ClusterUID: "cluster-1", Epoch: 1, Machine: name,
		DataLocations: []schema.DataLocation{{Path: "/srv/nvme/astraeus", Present: true}}}
	m.up()
	return m
}

// unmountAll keeps the removal of temporary directories out of what is mounted.
func (m *realMachine) unmountAll() {
	h, err := host.New(host.Options{Root: m.root, WorkRoot: "/var/lib/agent/work"})
	require.NoError(m.t, err)
	defer h.Close()
	mounts, err := h.Mounts(context.Background())
	require.NoError(m.t, err)
	for _, mount := range mounts {
		require.NoError(m.t, h.Unmount(mount.Target, false, true))
	}
}

// up starts the agent; also again after a stop.
func (m *realMachine) up() {
	t := m.t
	h, err := host.New(host.Options{Root: m.root, WorkRoot: "/var/lib/agent/work", StateDir: "/var/lib/agent/state"})
	require.NoError(t, err)
	address := map[string]string{"gpu-01": "192.0.2.1", "gpu-02": "192.0.2.2"}[m.name]
	shares, err := lab.New(lab.Options{Machine: m.name, WorkRoot: "/var/lib/agent/work", Host: h, Peer: lab.PeersFile(m.peers),
		Addresses: func(context.Context) ([]string, error) { return []string{address}, nil }})
	require.NoError(t, err)
	engine, err := process.New(process.Options{StateDir: filepath.Join(m.state, "engine")})
	require.NoError(t, err)
	m.cfg = Config{Machine: m.name, StateDir: filepath.Join(m.state, "agent"), WorkRoot: "/var/lib/agent/work", Address: address,
		Host: OnHost(h), Shares: shares, Engine: engine, Dial: m.c.dial, ReportEvery: 200 * time.Millisecond}
	if testing.Verbose() {
		m.cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	m.agent, err = New(m.cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.agent.Run(ctx) }()
	m.stop = func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, engine.Close())
		require.NoError(t, h.Close())
	}
	m.stream = <-m.c.streams
}

func (m *realMachine) blob(v any) string {
	body, err := json.Marshal(v)
	require.NoError(m.t, err)
	m.blobs[schema.HashBytes(body)] = body
	return schema.HashBytes(body)
}

func (m *realMachine) assign(change func(*schema.Assignment)) {
	m.t.Helper()
	m.target.Revision++
	change(&m.target)
	for i := range m.target.Steps {
		m.target.Steps[i].Machine = m.name
	}
	target := m.target
	require.NoError(m.t, m.stream.Send(&schema.Down{Assignment: &target, Blobs: m.blobs}))
}

func (m *realMachine) until(what string, ok func(*schema.MachineReport) bool) *schema.MachineReport {
	m.t.Helper()
	return m.stream.until(m.t, m.name+": "+what, ok)
}

func twoMachines(t *testing.T) { // D-41, D-42, D-60, D-80, N-8, X-8, X-12, X-20, X-22
	peers := filepath.Join(t.TempDir(), "lab.json")
	source, client := newRealMachine(t, "gpu-01", peers), newRealMachine(t, "gpu-02", peers)
	require.NoError(t, lab.WritePeers(peers, map[string]lab.Peer{
		"192.0.2.1": {Machine: "gpu-01", Root: source.root, WorkRoot: "/var/lib/agent/work"},
		"192.0.2.2": {Machine: "gpu-02", Root: client.root, WorkRoot: "/var/lib/agent/work"}}))
	require.NoError(t, os.WriteFile(filepath.Join(source.root, "data/imagenet/a"), []byte("from gpu-01"), 0o644))

	source.assign(exportToClient)
	source.until("exported", func(r *schema.MachineReport) bool { return len(r.Exports) == 1 })
	client.assign(client.useAll)
	r := client.until("the worker's end", func(r *schema.MachineReport) bool {
		return len(r.Workers) == 1 && r.Workers[0].State.Ended()
	})
	log, _ := os.ReadFile(filepath.Join(client.cfg.StateDir, LogsDir, trainID()+".log"))
	require.Equal(t, schema.WorkerSucceeded, r.Workers[0].State, "%s", log)
	require.Equal(t, schema.MountBound, r.Mounts[0].State)
	require.Equal(t, schema.CopyPresent, r.Copies[0].State)
	require.Equal(t, int64(1), r.Copies[0].FilledGeneration) // D-42
	require.True(t, r.Paths[0].Exists)
	out, err := os.ReadFile(filepath.Join(client.root, "srv/nvme/astraeus/drives", cache.Scoped(), "out"))
	require.NoError(t, err)
	require.Equal(t, "from gpu-01 train-0 0 of 2\n", string(out))
	require.FileExists(t, filepath.Join(client.root, "data/scratch/made/sub/here"))
	client.until("measured", func(r *schema.MachineReport) bool {
		return len(r.Measurements) == 1 && r.Measurements[0].Answers == 1 && r.Measurements[0].Files == 1
	})

	client.stop() // away and back: everything is adopted
	client.up()
	require.Equal(t, "cluster-1", client.stream.hello.ClusterUID)
	client.until("adopted", func(r *schema.MachineReport) bool {
		return len(r.Mounts) == 1 && len(r.Workers) == 1 && len(r.Copies) == 1 && r.Applied == 1
	})
	client.assign(client.useNothing)
	client.until("taken apart", func(r *schema.MachineReport) bool {
		return r.Applied == 2 && r.Mounts != nil && len(r.Mounts) == 0 && len(r.Workers) == 0 && !present(r.Copies)
	})
	source.assign(func(a *schema.Assignment) {
		a.Exports = nil
		a.Steps = []schema.Step{step(schema.ActionUnexport, imagenet, schema.StepArgs{UID: "u-net", To: "gpu-02", Client: "192.0.2.2"})}
	})
	source.until("not exported", func(r *schema.MachineReport) bool { return r.Exports != nil && len(r.Exports) == 0 })
	source.stop()
	client.stop()
	require.FileExists(t, filepath.Join(source.root, "data/imagenet/a"))            // D-9
	require.FileExists(t, filepath.Join(client.root, "data/scratch/made/sub/here")) // D-9
	require.NoDirExists(t, filepath.Join(client.root, "srv/nvme/astraeus/drives", cache.Scoped()))
}

func present(copies []schema.Copy) bool {
	for _, c := range copies {
		if c.State == schema.CopyPresent {
			return true
		}
	}
	return false
}

func exportToClient(a *schema.Assignment) {
	a.Exports = []schema.ExportTarget{{Drive: imagenet, UID: "u-net", Path: "/data/imagenet", Grant: "/data", Client: "gpu-02",
		Addresses: []string{"192.0.2.2"}, Mode: schema.ReadOnly, Transports: []schema.Transport{schema.TransportTCP}}}
	a.Steps = []schema.Step{step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u-net", To: "gpu-02", Client: "192.0.2.2", Path: "/data/imagenet"})}
}

// useAll runs a worker with a copy, a network mount and a scratch directory.
func (m *realMachine) useAll(a *schema.Assignment) {
	scratch := named("scratch")
	create := step(schema.ActionCreateCopy, cache, schema.StepArgs{UID: "u-cache"})
	dir := step(schema.ActionCreateDir, scratch, schema.StepArgs{UID: "u-scratch"})
	mount := step(schema.ActionMount, imagenet, schema.StepArgs{UID: "u-net", From: "gpu-01"})
	start := step(schema.ActionStartWorker, train, workerArgs, create.ID, dir.ID, mount.ID)
	fill := step(schema.ActionFillCopy, cache, schema.StepArgs{UID: "u-cache", Generation: 1}, create.ID)
	a.Copies = []schema.CopyTarget{{Drive: cache, UID: "u-cache", Location: "/srv/nvme/astraeus", FillGeneration: 1,
		FillTemplate: m.blob(schema.TaskTemplate{Command: "sh", Args: []string{"-c", "echo weights >/drive/model; : >/drive/" + schema.FillMarker}})}}
	a.Dirs = []schema.DirTarget{{Drive: scratch, UID: "u-scratch", Path: "/data/scratch/made/sub", Grant: "/data/scratch", Create: true}}
	a.Mounts = []schema.MountTarget{{Drive: imagenet, UID: "u-net", From: "gpu-01", Addresses: []string{"192.0.2.1"},
		Transports: []schema.Transport{schema.TransportTCP}, Mode: schema.ReadOnly}}
	a.Measure = []schema.MeasureTarget{{Drive: scratch, UID: "u-scratch", Path: "/data/scratch", Grant: "/data/scratch"}}
	a.MeasureEvery = schema.Duration(500 * time.Millisecond)
	script := `grep weights /cache/model && cat /net/a >/cache/out && echo " $ASTRAEUS_WORKER $RANK of $WORLD_SIZE" >>/cache/out && : >/scratch/here && ! touch /net/b`
	a.Workers = []schema.WorkerTarget{workerTarget(m.blob(schema.TaskTemplate{Command: "sh", Args: []string{"-c", script}}),
		copyMount(),
		schema.BindTarget{Drive: imagenet, UID: "u-net", From: schema.BindClaim, Target: "/net", ReadOnly: true},
		schema.BindTarget{Drive: scratch, UID: "u-scratch", From: schema.BindDir, Path: "/data/scratch/made", Grant: "/data/scratch", SubPath: "sub", Target: "/scratch"})}
	a.Steps = []schema.Step{start, mount, dir, fill, create}
}

func (m *realMachine) useNothing(a *schema.Assignment) {
	a.Workers, a.Copies, a.Mounts, a.Dirs, a.Measure = nil, nil, nil, nil, nil
	a.Drives = map[string]string{ns: m.blob(schema.DriveList{Namespace: ns})}
	stop := step(schema.ActionStopWorker, train, workerArgs)
	a.Steps = []schema.Step{stop, step(schema.ActionUnmount, imagenet, schema.StepArgs{UID: "u-net"}, stop.ID),
		step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}, stop.ID)}
}
