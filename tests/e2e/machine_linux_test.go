package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/host"
	nfslab "astraeus.io/astraeus/nodeexec/nfs/lab"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/nodeexec/runtime/process"
	"astraeus.io/astraeus/schema"
)

// Where a machine keeps things, as it names them itself.
const (
	nvme     = "/mnt/nvme" // its own disk
	location = nvme + "/astraeus"
	workRoot = "/var/lib/agent/work"
	stateDir = "/var/lib/agent/state"
)

var namespace = schema.Namespace("test", "acme", "research")

var addresses = map[string]string{"gpu-01": "192.0.2.1", "gpu-02": "192.0.2.2"}

// machine is one with a real agent: a directory is its root, a real disk its data.
type machine struct {
	t      testing.TB
	c      *cluster
	name   string
	root   string
	engine runtime.Engine
	host   *host.Host
	stop   func()
}

// newMachine makes a machine with a disk of so many MB and starts its agent.
func (c *cluster) newMachine(name string, sizeMB int64) *machine {
	c.t.Helper()
	m := &machine{t: c.t, c: c, name: name, root: c.t.TempDir()}
	mountDisk(c.t, m.at(nvme), sizeMB)
	require.NoError(c.t, unix.Mkdir(m.at("/lustre"), 0o755))
	c.t.Cleanup(m.clean)
	m.start()
	return m
}

func (m *machine) at(path string) string { return filepath.Join(m.root, path) }

func (m *machine) copyDir(drive string) string {
	return m.at(location + "/drives/" + namespace + "." + drive)
}

func (m *machine) start() {
	t := m.t
	t.Helper()
	var err error
	m.host, err = host.New(host.Options{Root: m.root, WorkRoot: workRoot, StateDir: stateDir, Shared: []string{"/lustre"}})
	require.NoError(t, err)
	shares, err := nfslab.New(nfslab.Options{Machine: m.name, WorkRoot: workRoot, Host: m.host, Peer: nfslab.PeersFile(m.c.peers),
		Addresses: func(context.Context) ([]string, error) { return []string{addresses[m.name]}, nil }})
	require.NoError(t, err)
	m.engine, err = process.New(process.Options{StateDir: m.at(stateDir + "/engine"), Logger: m.c.log})
	require.NoError(t, err)
	agent, err := nodeexec.New(nodeexec.Config{Machine: m.name, StateDir: m.at(stateDir), WorkRoot: workRoot, Address: addresses[m.name],
		Host: nodeexec.OnHost(m.host), Shares: shares, Engine: m.engine, ReportEvery: 200 * time.Millisecond, Log: m.c.log,
		Dial: func(context.Context) (grpc.ClientConnInterface, error) {
			return grpc.NewClient("unix:"+m.c.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	m.stop = func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// clean ends the agent, the workers and the mounts.
func (m *machine) clean() {
	m.stop()
	ctx := context.Background()
	listing, err := m.engine.List(ctx)
	require.NoError(m.t, err)
	for _, w := range listing.Workers {
		if w.State != runtime.Exited {
			require.NoError(m.t, m.engine.Stop(ctx, w.ID, time.Millisecond))
		}
	}
	require.NoError(m.t, m.engine.Close())
	mounts, err := m.host.Mounts(ctx)
	require.NoError(m.t, err)
	for _, mount := range mounts {
		require.NoError(m.t, m.host.Unmount(mount.Target, false, true))
	}
	require.NoError(m.t, m.host.Close())
}

// untilFree waits until so many percent of the disk are free, by the kernel's
// word for changes below the data location.
func (m *machine) untilFree(percent float64) {
	m.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	require.NoError(m.t, err)
	defer unix.Close(fd)
	for _, dir := range []string{"/drives", "/drives/.astraeus", "/drives/.astraeus/trash"} {
		_, err = unix.InotifyAddWatch(fd, m.at(location+dir), unix.IN_DELETE|unix.IN_MOVE)
		require.NoError(m.t, err)
	}
	late := time.Now().Add(patience)
	for buf := make([]byte, 4096); roomOf(m.t, m.at(nvme)).percent() < percent; {
		require.True(m.t, time.Now().Before(late), "%.1f %% are free", roomOf(m.t, m.at(nvme)).percent())
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 1000); n > 0 && err == nil {
			_, _ = unix.Read(fd, buf)
		}
	}
}
