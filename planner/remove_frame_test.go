package planner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// A machine of which nobody knows what it holds is not removed.
func TestX28UnknownIsNotNone(t *testing.T) {
	one := gpuMachines[:strings.LastIndex(gpuMachines, "---")]
	for name, forget := range map[string]func(*sim){
		"copies":     func(s *sim) { s.machines["gpu-02"].Copies = nil },
		"workers":    func(s *sim) { s.machines["gpu-02"].Workers = nil },
		"everything": func(s *sim) { delete(s.machines, "gpu-02") },
	} {
		t.Run(name, func(t *testing.T) {
			s := settled(t, "")
			s.desired = declare(t, "c2", frame+one)
			require.Len(t, Plan(s.input()).Decisions.Remove, 1) // it is empty
			forget(s)
			p := Plan(s.input())
			require.Empty(t, p.Decisions.Remove, planText(p))
			require.Equal(t, schema.CodeMachineInUse, holdOn(p, "machine/gpu-02").Code)
		})
	}
}

// One that never came up and has nothing to lose can be taken out again: X-28.
func TestX28MachineThatNeverReported(t *testing.T) {
	third := "---\nkind: Machine\nmetadata: {name: gpu-03}\nspec: {}\n"
	s := settled(t, third)
	s.machines["gpu-03"] = &schema.MachineReport{Name: "gpu-03", State: schema.MachineUnknown} // as the leader has it
	p := s.next(t, "")
	require.Len(t, p.Decisions.Remove, 1, planText(p))
}

// Nor does it change its org with workers that only the store knows of.
func TestX28MachineWithPlacedWorkersKeepsItsOrg(t *testing.T) {
	s := settled(t, "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, requested_resources: {machines: 2}}}\n")
	s.machines["gpu-01"].Workers, s.machines["gpu-02"].Workers = []schema.Worker{}, []schema.Worker{}
	s.desired = declare(t, "c2", frame+gpuMachines)
	for _, o := range s.desired.Objects {
		if o.Key.Name == "gpu-02" {
			o.Org = "other"
		}
	}
	p := Plan(s.input())
	require.NotNil(t, holdOn(p, "machine/gpu-02"), planText(p))
}

// An empty tree takes nothing, the cluster's own settings included: G-5.
func TestG5EmptyTreeTakesNothing(t *testing.T) {
	s := settled(t, drives(2, placedSource))
	s.desired = declare(t, "c2", "")
	p := Plan(s.input())
	require.Empty(t, p.Decisions.Remove, planText(p))
	require.NotNil(t, holdOn(p, "cluster/example"))
}

// A workspace stays until the copies of its last drives are gone: X-28.
func TestX28WorkspaceStaysWithItsCopies(t *testing.T) {
	s := settled(t, drives(1, placedSource)+"---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d0}]}}\n")
	s.desired = declare(t, "c2", frame+gpuMachines)
	s.machines["gpu-01"].State = schema.MachineDown // has the copy
	s.tick()
	rest := strings.NewReplacer("\n---\nkind: Workspace\nmetadata: {name: research}", "",
		"\n---\nkind: HostPathGrant\nmetadata: {name: data}\nspec: {workspace: research, paths: [/mnt, /lustre, /scratch]}", "").Replace(frame)
	allow := "---\nkind: Workspace\nmetadata: {name: other}\n---\nkind: Deletion\nworkspace: other\nmetadata: {name: x}\nspec: {allow: {kind: Workspace, count: 1}}\n"
	s.desired = declare(t, "c3", rest+gpuMachines+allow)
	research := schema.Key{Kind: schema.KindWorkspace, Namespace: testOrg, Name: testSpace}
	for range 3 {
		s.tick()
		require.NotNil(t, s.accepted.Objects[research], planText(s.plan))
	}
	s.machines["gpu-01"].State = schema.MachineUp
	require.True(t, s.converge())
	require.Nil(t, s.accepted.Objects[research], planText(s.plan))
	require.Empty(t, s.problems)
}
