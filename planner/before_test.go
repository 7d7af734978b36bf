package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// A leader without its repository goes by what was last known of a workspace: a
// tombstone's copies stay while the commit in force has a file that cannot be used,
// or nobody knows: G-5, D-61.
func TestG5RepositoryAwayDeletesNothingOfAPartOfAWorkspace(t *testing.T) {
	s := settled(t, copyDrive+copyRun)
	copies := slices.Clone(s.machines["gpu-01"].Copies)
	require.Len(t, copies, 1)
	s.desired = declare(t, "c2", frame+gpuMachines)
	s.tick()
	require.Len(t, s.accepted.Tombstones, 1, planText(s.plan))
	deletes := func() bool {
		s.machines["gpu-01"].Copies, s.machines["gpu-01"].Workers = slices.Clone(copies), []schema.Worker{} // it has not got to it
		s.plan = Plan(s.input())
		return strings.Contains(planText(s.plan), "DeleteCopy") && s.plan.Targets["gpu-01"].Drives[testNS] != ""
	}
	require.True(t, deletes())

	s.desired = declare(t, "c3", frame+gpuMachines)
	s.desired.NotWhole = map[string]schema.Pos{testOrg + "/" + testSpace: {File: "broken.yaml", Line: 1}}
	require.False(t, deletes())
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	require.Equal(t, s.desired.NotWhole, s.accepted.NotWhole)
	s.desired = nil
	require.False(t, deletes(), planText(s.plan))
	require.True(t, s.plan.Decisions.Empty())

	s.desired = declare(t, "c4", frame+gpuMachines)
	require.True(t, deletes())
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	s.desired = nil
	require.True(t, deletes())
	s.accepted.NotWhole = nil // written by an older program
	require.False(t, deletes())
}

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
