package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// What an older program stored without a default that is new since is the same
// object: no generation, no restart, no fill, no hold.
func TestX11OlderProgramsObjectsAreTheSame(t *testing.T) {
	text := "---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node_scope: placed, mount_path: /d}], fill: {template: {image: f}}}\n" +
		"---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d}]}}\n"
	s := settled(t, text)
	// The store as a program would have left it that did not know of `machines` yet.
	older := func(spec schema.Spec) schema.Spec {
		spec = copySpec(spec)
		switch spec := spec.(type) {
		case *schema.RunSpec:
			spec.TaskTemplate.RequestedResources.Machines = 0
		case *schema.DriveSpec:
			spec.Fill.Template.RequestedResources.Machines = 0
		}
		return spec
	}
	for _, a := range s.accepted.Objects {
		if k := a.Object.Key.Kind; k == schema.KindRun || k == schema.KindDrive {
			o := *a.Object
			o.Spec = older(o.Spec)
			o.Hash = schema.HashJSON(o.Spec)
			a.Object = &o
		}
	}
	for key, pl := range s.placed {
		pl.Spec = older(pl.Spec).(*schema.RunSpec)
		s.placed[key] = pl
	}
	p := s.next(t, text)
	require.Empty(t, p.Holds, planText(p))
	require.Empty(t, p.Steps, planText(p))
	for _, a := range p.Decisions.Accept {
		require.EqualValues(t, 1, a.Object.Generation)
	}
	require.True(t, s.converge())
	require.Empty(t, Plan(s.input()).Decisions.Accept)
}

// An id that one volume gives up and another takes is judged in no order: X-5, V-2.
func TestV2IDThatMovesIsJudgedInNoOrder(t *testing.T) {
	volume := func(name, id string) string {
		return "---\nkind: Volume\nmetadata: {name: " + name + ", id: vol-" + id + "}\nspec: {host_path: /data/" + name + ", shared: true}\n"
	}
	s := settled(t, volume("a", "000000000000000a"))
	s.desired = declare(t, "c2", frame+gpuMachines+volume("a", "000000000000000b")+volume("c", "000000000000000a"))
	first := planText(Plan(s.input()))
	for range 30 {
		require.Equal(t, first, planText(Plan(s.input())))
	}
}
