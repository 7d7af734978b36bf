package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/conform"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/nodeexec/sim"
	"astraeus.io/astraeus/schema"
)

// The simulated machine does what the real one does: D-9, D-21, D-32, D-42, D-70,
// D-80, X-2, X-7, X-8, X-16, X-17, X-20.
func TestConforms(t *testing.T) {
	conform.Run(t, func(t *testing.T, names ...string) []*conform.Machine {
		net := sim.NewNet()
		var list []*conform.Machine
		for i, name := range names {
			list = append(list, machine(t, net, name, []string{"192.0.2.1", "192.0.2.2"}[i]))
		}
		return list
	})
}

func machine(t *testing.T, net *sim.Net, name, address string) *conform.Machine {
	s := net.New(sim.Options{Name: name, Addresses: []string{address}, WorkRoot: conform.WorkRoot, StateDir: conform.StateDir,
		Resources: schema.Resources{CPUCores: 4, MemoryBytes: 1 << 30}, Now: time.Now})
	s.MakeAll("/data")
	s.AddDisk("nvme", "/nvme", 1<<30, false)
	m := &conform.Machine{Name: name, Address: address, Mkdir: s.MakeAll, Symlink: s.Symlink, Exists: s.Exists, Exit: s.Finish,
		Write:  func(path string) { require.NoError(t, s.Write(path, 1)) },
		Worker: func(id string) runtime.Spec { return runtime.Spec{ID: id, Command: "sleep", LogDir: "/logs"} },
	}
	m.Check = s.Check
	port := 1000
	m.Closed = func() (string, int) { port++; return address, port }
	m.Listen = func(status int) (string, int) {
		_, port := m.Closed()
		s.Listen(port, status)
		return address, port
	}
	m.Restart = func() { m.Host, m.Shares, m.Engine = nodeexec.OnHost(s), s.Shares(), s.Engine() }
	m.Restart()
	return m
}

// A reboot ends workers without an exit code and takes mounts and exports away;
// what was written stays.
func TestReboot(t *testing.T) {
	net := sim.NewNet()
	m := machine(t, net, "gpu-01", "192.0.2.1")
	s := sim.Engine{Machine: net.New(sim.Options{Name: "gpu-02"})}
	require.NoError(t, s.Start(t.Context(), m.Worker("w-1")))
	s.Reboot()
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, list.Workers[0].State)
	require.Nil(t, list.Workers[0].ExitCode)
	require.Equal(t, runtime.ReasonRebooted, list.Workers[0].Reason)
}

// A full disk takes nothing more and gives back what is removed; a disk that is
// not there hides its copies and nothing is made in its place.
func TestDisks(t *testing.T) {
	m := sim.NewNet().New(sim.Options{Name: "gpu-01"})
	m.AddDisk("nvme", "/nvme", 100, false)
	require.NoError(t, m.Write("/nvme/filler", 100))
	c := m.Copies("cluster-1")
	here := schema.DataLocation{Path: "/nvme/a", Present: true}
	key := schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "a"}
	require.Error(t, c.Create(t.Context(), here, key, "u1"))
	require.NoError(t, m.Write("/nvme/filler", 10))
	require.NoError(t, c.Create(t.Context(), here, key, "u1"))
	m.UnmountDisk("nvme")
	list, err := c.List(t.Context(), []schema.DataLocation{here})
	require.NoError(t, err)
	require.False(t, list.Locations[0].Mounted)
	require.Equal(t, schema.CopyUnknown, list.Copies[0].State)
	require.Error(t, c.Create(t.Context(), here, key, "u2"))
	require.Error(t, c.Delete(t.Context(), key, "u1"))
	m.MountDisk("nvme", "/nvme")
	list, err = c.List(t.Context(), []schema.DataLocation{here})
	require.NoError(t, err)
	require.Equal(t, schema.CopyPresent, list.Copies[0].State)
}
