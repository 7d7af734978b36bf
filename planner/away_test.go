package planner

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// What a machine stopped because it had no controller is no failure of the run: it
// starts again at once, also one that never restarts when it asks to be replaced:
//
func TestX12StoppedAwayIsNoFailure(t *testing.T) {
	for _, c := range []struct {
		policy schema.RestartPolicy
		onLost schema.OnLost
		again  bool
	}{
		{schema.RestartOnFailure, schema.OnLostWait, true}, {schema.RestartNever, schema.OnLostReplace, true}, {schema.RestartNever, schema.OnLostWait, false},
	} {
		s := settled(t, fmt.Sprintf("---\nkind: Run\nmetadata: {name: r}\nspec: {restart_policy: %s, on_lost: %s, stop_if_away_after: 2m, task_template: {command: sh}}\n", c.policy, c.onLost))
		code := 143
		w := &s.machines["gpu-01"].Workers[0]
		w.State, w.ExitCode, w.Reason, w.Ended = schema.WorkerFailed, &code, schema.AwayReason, s.now
		p := Plan(s.input())
		require.Len(t, p.Decisions.Place, 1)
		pl := p.Decisions.Place[0]
		if !c.again {
			require.Equal(t, schema.RunFailed, pl.Outcome)
			continue
		}
		require.Equal(t, 1, pl.Attempt)
		require.Zero(t, pl.Failures)
		require.True(t, pl.NotBefore.IsZero())
	}
}

// A worker that is told how long it may go on alone is another one.
func TestX13StopIfAwayReplacesWorkers(t *testing.T) {
	text := "---\nkind: Run\nmetadata: {name: r}\nspec: {%s task_template: {command: sh}}\n"
	s := settled(t, fmt.Sprintf(text, ""))
	require.Zero(t, s.plan.Targets["gpu-01"].Workers[0].StopIfAwayAfter)
	s.desired = declare(t, "c2", frame+gpuMachines+fmt.Sprintf(text, "stop_if_away_after: 2m,"))
	require.True(t, s.converge(), planText(s.plan))
	require.EqualValues(t, 2, s.machines["gpu-01"].Workers[0].Generation)
	require.Equal(t, "2m0s", s.plan.Targets["gpu-01"].Workers[0].StopIfAwayAfter.String())
}
