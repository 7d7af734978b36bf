package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// A claim that is Bound stays as it is when the client's address is not known any
// more, and nothing is ever exported to no address at all: D-80, D-82.
func TestD82ClientWithoutAnAddress(t *testing.T) {
	s := settled(t, netDrive+netRun)
	client := s.machines["gpu-02"]
	require.Len(t, client.Mounts, 1)
	before := s.plan.Targets["gpu-01"].Exports
	require.Equal(t, []string{"192.0.2.2"}, before[0].Addresses)

	client.Address = ""
	p := Plan(s.input())
	require.Empty(t, p.Steps, planText(p))
	require.Equal(t, before, p.Targets["gpu-01"].Exports)
	require.Equal(t, s.plan.Targets["gpu-02"].Mounts, p.Targets["gpu-02"].Mounts)

	client.Mounts, client.Workers = []schema.Mount{}, []schema.Worker{} // it rebooted
	s.machines["gpu-01"].Exports = []schema.Export{}
	p = Plan(s.input())
	require.Empty(t, p.Targets["gpu-01"].Exports, planText(p))
	require.Contains(t, planText(p), "the address of gpu-02 is not known yet")
}

// Nor does it stay exported to an address that the client no longer has: D-82.
func TestD82ClientWithAnotherAddress(t *testing.T) {
	s := settled(t, netDrive+netRun)
	client := s.machines["gpu-02"]
	client.Address, client.Addresses = "", []string{"192.0.2.9"}
	p := Plan(s.input())
	require.Empty(t, p.Targets["gpu-01"].Exports, planText(p))
}
