package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// a failure is a reason of a wait for as long as the machine's newest report
// lists it, whatever an older report of it says, and names the drive.
func TestAFailureIsAReasonWhileItIsReported(t *testing.T) {
	s := newSim(observe(t, twoMachines).Machines...)
	s.desired = declare(t, "c1", frame+`---
kind: Machine
metadata: {name: gpu-01}
---
kind: Drive
metadata: {name: data}
spec: {sources: [{node_scope: local-any, path: /scratch/x, mount_path: /x}]}
---
kind: Run
metadata: {name: train}
spec: {task_template: {command: sh, datavolume_refs: [{name: data}]}}
`)
	in := s.input()
	s.accepted, s.placed = Apply(s.accepted, s.placed, Plan(in).Decisions)
	in = s.input()
	failing := *in.Observed.Machines[0]
	failing.Sequence, failing.Failures = 1, []schema.Failure{{Action: schema.ActionCreateDir, Message: "/scratch/x: no space left on device",
		Object: schema.Key{Kind: schema.KindDrive, Namespace: testNS, Name: "data"}}}
	over := failing
	over.Sequence, over.Failures = 2, []schema.Failure{}
	const waits = "waiting for /scratch/x of drive data to be made on gpu-01"
	in.Observed.Machines = []*schema.MachineReport{&failing}
	require.Equal(t, waits+"; CreateDir of data on gpu-01: /scratch/x: no space left on device", Plan(in).Waits[0].Summary())
	in.Observed.Machines = []*schema.MachineReport{&over, &failing}
	require.Equal(t, waits, Plan(in).Waits[0].Summary())
}
