package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// A worker that has just ended and starts again by the policy in force, which changed
// in place since it was placed, is a user of its drive.
func TestX29UserByThePolicyInForce(t *testing.T) {
	text := func(policy, path string) string {
		return "---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node: gpu-01, path: " + path + ", mount_path: /d}]}\n" +
			"---\nkind: Run\nmetadata: {name: r}\nspec: {restart_policy: " + policy + ", task_template: {command: sh, datavolume_refs: [{name: d}]}}\n"
	}
	for _, c := range []struct {
		before, after schema.RestartPolicy
		held          bool
	}{{schema.RestartNever, schema.RestartOnFailure, true}, {schema.RestartOnFailure, schema.RestartNever, false}} {
		s := settled(t, text(string(c.before), "/mnt/d"))
		s.desired = declare(t, "c2", frame+gpuMachines+text(string(c.after), "/mnt/d"))
		require.True(t, s.converge(), planText(s.plan))
		code := 1
		for _, m := range s.machines {
			for i := range m.Workers {
				m.Workers[i].State, m.Workers[i].ExitCode, m.Workers[i].Ended = schema.WorkerFailed, &code, s.now
			}
		}
		s.desired = declare(t, "c3", frame+gpuMachines+text(string(c.after), "/mnt/e"))
		plan := Plan(s.input())
		if c.held {
			require.Contains(t, planText(plan), "drive d is used by 1 live worker(s)")
		} else {
			require.Empty(t, plan.Holds, planText(plan))
		}
	}
}
