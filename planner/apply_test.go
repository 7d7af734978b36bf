package planner

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// what Apply returns shares nothing mutable with what it was given, nor
// does a plan with its input.
func TestApplySharesNothingMutable(t *testing.T) {
	s := twoMachineSim(t, twoObjects+trainRun+"---\nkind: Drive\nmetadata: {name: home}\nspec: {sources: [{node: gpu-01, path: /home}]}\n")
	require.True(t, s.converge())
	code := 1
	w := &s.machines["gpu-02"].Workers[0]
	w.State, w.ExitCode = schema.WorkerFailed, &code
	in := s.input()
	text := func() string {
		data, err := json.Marshal([]any{in.Accepted, values(in.Placed), in.Observed})
		require.NoError(t, err)
		return string(data)
	}
	before := text()
	p := Plan(in)
	acc, placed := Apply(in.Accepted, in.Placed, p.Decisions)
	for _, list := range [][]schema.Placement{values(placed), p.Decisions.Place} {
		require.NotEmpty(t, list)
		for _, pl := range list {
			for i := range pl.Workers {
				pl.Workers[i].Machine = "changed"
				if len(pl.Workers[i].GPUs) > 0 {
					pl.Workers[i].GPUs[0] = 99
				}
				if o := pl.Workers[i].Outcome; o != nil && o.ExitCode != nil {
					*o.ExitCode = 99
				}
			}
		}
	}
	for _, a := range acc.Objects {
		a.UID, a.Generation = "changed", 99
		if a.Refused != nil {
			a.Refused.Hold.Message = "changed"
		}
	}
	for _, a := range p.Targets {
		for i := range a.Workers {
			if len(a.Workers[i].GPUs) > 0 {
				a.Workers[i].GPUs[0] = 98
			}
		}
	}
	require.Equal(t, before, text())
}

// The records of an observed state file stand in for placements (conventions.md).
func TestPlacementRecords(t *testing.T) {
	s := twoMachineSim(t, twoObjects+trainRun)
	s.accepted, _ = Apply(s.accepted, nil, Plan(s.input()).Decisions)
	in := s.input()
	in.Placed = nil
	in.Observed.Placements = []schema.PlacementRecord{{Run: testNS + ".train", Worker: "train-0", Machine: "gpu-02"}}
	p := Plan(in)
	require.Empty(t, p.Decisions.Place)
	require.Len(t, p.Targets["gpu-02"].Workers, 1)
	in.Observed.Placements[0].Worker = "train-1"
	require.Len(t, Plan(in).Decisions.Place, 1, "half a gang is no placement")
}
