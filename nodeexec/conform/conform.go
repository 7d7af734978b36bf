package conform

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// WorkRoot and StateDir are what machines are made with.
const (
	WorkRoot = "/var/lib/astraeus-agent/work"
	StateDir = "/var/lib/astraeus-agent/state"
)

// Machine is one machine under test. It has the directories /data and /nvme.
type Machine struct {
	Name, Address string
	Host          nodeexec.Host
	Shares        nfs.Shares
	Engine        runtime.Engine
	LogDir        string // on this computer

	// What an operator does: host paths.
	Mkdir   func(path string)
	Write   func(path string)
	Symlink func(target, at string)
	Exists  func(path string) bool

	// Worker is a worker that runs until Exit ends it.
	Worker func(id string) runtime.Spec
	Exit   func(id string, code int)

	// Check asks from the machine. Listen makes something answer there with an HTTP
	// status, or not at all once the connection is there (0); a closed port is where
	// nothing does.
	Check  nodeexec.CheckFunc
	Listen func(status int) (address string, port int)
	Closed func() (address string, port int)

	// Restart ends the agent's process and starts it again: Host, Shares and
	// Engine are new ones.
	Restart func()
}

// Factory makes machines that reach each other. It cleans up after the test.
type Factory func(t *testing.T, names ...string) []*Machine

// Run runs every test.
func Run(t *testing.T, make Factory) {
	for _, suite := range []struct {
		name  string
		tests []test
	}{{"dirs", dirTests}, {"copies", copyTests}, {"shares", shareTests}, {"engine", engineTests}, {"checks", checkTests}} {
		t.Run(suite.name, func(t *testing.T) {
			for _, test := range suite.tests {
				t.Run(test.name, func(t *testing.T) {
					test.run(t, make(t, "gpu-01", "gpu-02"))
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(t *testing.T, machines []*Machine)
}

// one adapts a test of a single machine.
func one(f func(t *testing.T, m *Machine)) func(*testing.T, []*Machine) {
	return func(t *testing.T, machines []*Machine) { f(t, machines[0]) }
}

const (
	cluster   = "cluster-1"
	namespace = "ws-aaaaaaaaaaaa"
)

func drive(name string) schema.Key {
	return schema.Key{Kind: schema.KindDrive, Namespace: namespace, Name: name}
}

var location = schema.DataLocation{Path: "/nvme/astraeus", Present: true}

// open gives a directory that the test need not close.
func open(t *testing.T, m *Machine, path, grant string, forbidden ...string) (*host.Dir, error) {
	t.Helper()
	dir, err := m.Host.OpenDir(path, grant, forbidden)
	if err == nil {
		t.Cleanup(func() { _ = dir.Close() })
	}
	return dir, err
}

func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}
