package planner

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const sizedRun = "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, env: {V: %q}, requested_resources: {machines: %d}}}\n"

// A newer worker waits for an older one also when the older one's machine stops
// telling what it runs after the decision to replace it.
func TestX11OlderWorkerOnAnUnknownMachine(t *testing.T) {
	s := settled(t, fmt.Sprintf(sizedRun, "1", 2))
	s.desired = declare(t, "c2", frame+gpuMachines+fmt.Sprintf(sizedRun, "2", 1))
	s.plan = Plan(s.input())
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)

	workers := s.machines["gpu-02"].Workers
	s.machines["gpu-02"].Workers = nil
	for range 3 { // gpu-01 stops its own
		s.tick()
		for _, w := range s.machines["gpu-01"].Workers {
			require.EqualValues(t, 1, w.Generation, planText(s.plan))
		}
		require.Contains(t, planText(s.plan), "its older workers are being stopped first")
	}
	s.machines["gpu-02"].Workers = workers
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.problems)
	for _, pl := range s.placed {
		require.Empty(t, pl.Older)
	}
	require.Len(t, s.machines["gpu-01"].Workers, 1)
}

// A run that was made anew while its last older worker ended keeps the place it
// gets in that pass: X-6.
func TestX6RunMadeAnewIsPlaced(t *testing.T) {
	s := settled(t, fmt.Sprintf(sizedRun, "1", 1))
	s.desired = declare(t, "c2", frame+gpuMachines)
	s.tick()
	s.machines["gpu-01"].Workers, s.machines["gpu-02"].Workers = []schema.Worker{}, []schema.Worker{}
	s.desired = declare(t, "c3", frame+gpuMachines+fmt.Sprintf(sizedRun, "1", 1))
	s.tick()
	require.Len(t, s.plan.Decisions.Place, 1, planText(s.plan))
	require.Empty(t, s.plan.Decisions.Unplace)
	require.Len(t, s.placed, 1)
}

// Workers of a state file hold GPUs though it says nothing of their indexes: X-15.
func TestX15PlacementsOfAStateFileHoldGPUs(t *testing.T) {
	run := func(name string) string {
		return "---\nkind: Run\nmetadata: {name: " + name + "}\nspec: {task_template: {command: sh, requested_resources: {gpu_requests: {count: 8}}}}\n"
	}
	s := settled(t, run("a"))
	in := s.input()
	in.Placed, in.Observed.Placements = nil, []schema.PlacementRecord{{Run: testNS + ".a", Worker: "a-0", Machine: "gpu-01"}}
	in.Desired = declare(t, "c2", frame+gpuMachines+run("a")+run("b")+run("c"))
	p := Plan(in)
	require.Len(t, p.Decisions.Place, 1, planText(p))
	require.Equal(t, "gpu-02", p.Decisions.Place[0].Workers[0].Machine)
}

// What is on its way out of one disk is no room on another.
func TestX8TrashOfAnotherDiskIsNoRoom(t *testing.T) {
	text := "---\nkind: Drive\nmetadata: {name: big}\nspec: {sources: [{node_scope: placed, mount_path: /d}], size_hint_bytes: 700000000000}\n" +
		"---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: big}]}}\n"
	for folder, fits := range map[string]bool{"/former/drives/.astraeus/trash/x": false, "/nvme/astraeus/drives/.astraeus/trash/x": true, "/nvme/former/drives/x": true} {
		s := settled(t, "")
		for _, m := range s.machines {
			m.Copies = []schema.Copy{{Drive: testNS + ".gone", UID: "gone", State: schema.CopyTrash, Folder: folder, Bytes: 300e9}}
		}
		p := s.next(t, text)
		require.Equal(t, fits, len(p.Decisions.Place) == 1, "%s\n%s", folder, planText(p))
	}
}

// A worker that a reboot ended starts again at once and counts for no failure: X-12.
func TestX12RebootIsNoFailure(t *testing.T) {
	for reason, failures := range map[string]int{schema.RebootedReason: 0, "ended while nobody watched": 1} {
		s := settled(t, fmt.Sprintf(sizedRun, "1", 1))
		for _, m := range s.machines {
			for i := range m.Workers {
				m.Workers[i].State, m.Workers[i].Reason, m.Workers[i].Ended = schema.WorkerFailed, reason, s.now
			}
		}
		p := Plan(s.input())
		require.Len(t, p.Decisions.Place, 1)
		require.Equal(t, 1, p.Decisions.Place[0].Attempt)
		require.Equal(t, failures, p.Decisions.Place[0].Failures, reason)
		require.Equal(t, failures > 0, !p.Decisions.Place[0].NotBefore.IsZero())
	}
}
