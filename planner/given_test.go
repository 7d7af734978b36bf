package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// told plans once, assigns the targets as the next revision, and lets no machine
// do anything: what was released is on its way.
type told struct {
	*sim
	given    map[string]*schema.Assignment
	revision int64
}

func (s *told) pass() schema.Plan {
	in := s.input()
	in.Given = s.given
	s.plan = Plan(in)
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	s.revision++
	s.given = s.plan.Targets
	for _, a := range s.given {
		a.Revision = s.revision
	}
	return s.plan
}

// applied lets every machine say that it works by the newest assignment.
func (s *told) applied() {
	for _, m := range s.machines {
		m.Applied = s.revision
	}
}

// underway is a cluster in which what the text declares was released and nothing
// was carried out; every machine has said that it works by it.
func underway(t *testing.T, text string) *told {
	s := &told{sim: newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"))}
	s.desired = declare(t, "c1", frame+gpuMachines+text)
	for range 3 {
		s.pass()
		s.applied()
	}
	return s
}

func (s *told) declare(t *testing.T, commit, text string) {
	s.desired = declare(t, commit, frame+gpuMachines+text)
}

// A worker that was released and is not listed yet may be starting: its run keeps
// its place until its machine works by a target without it: X-9.
func TestX9PlaceIsKeptUntilTheMachineKnows(t *testing.T) {
	s := underway(t, fmt.Sprintf(sizedRun, "1", 1))
	require.Len(t, s.placed, 1)
	s.declare(t, "c2", "")
	for range 2 {
		require.Empty(t, s.pass().Decisions.Unplace)
	}
	s.applied()
	require.Len(t, s.pass().Decisions.Unplace, 1)
}

// A newer worker of a run starts nowhere while an older one may yet start.
func TestX9NewerWorkerWaitsForOneOnItsWay(t *testing.T) {
	s := underway(t, fmt.Sprintf(sizedRun, "1", 2))
	s.declare(t, "c2", fmt.Sprintf(sizedRun, "2", 1))
	released := func() int { return len(s.plan.Targets["gpu-01"].Steps) + len(s.plan.Targets["gpu-02"].Steps) }
	for range 2 {
		s.pass()
		require.Zero(t, released(), planText(s.plan))
		require.Contains(t, planText(s.plan), "its older workers are being stopped first")
	}
	s.applied()
	for s.pass().Decisions.Place != nil {
		s.applied()
	}
	require.Equal(t, 1, released(), planText(s.plan))
}

const netDrive = "---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node: gpu-01, path: /mnt/d, mount_path: /d}]}\n"

const netRun = "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, requested_resources: {machines: 2}, datavolume_refs: [{name: d}]}}\n"

// An export stays while the client may be mounting it.
func TestX9ExportStaysWhileTheClientMayMount(t *testing.T) {
	s := underway(t, netDrive+netRun)
	home := s.machines["gpu-01"]
	e := s.given["gpu-01"].Exports[0]
	home.Exports = []schema.Export{{Drive: testNS + ".d", UID: e.UID, Path: e.Path, Client: e.Addresses[0], Clients: e.Addresses, To: e.Client, Mode: e.Mode}}
	s.pass()
	s.applied()
	require.Contains(t, stepsOn(s.plan, "gpu-02"), schema.ActionMount)
	s.declare(t, "c2", netDrive)
	for range 2 {
		s.pass()
		require.NotContains(t, stepsOn(s.plan, "gpu-01"), schema.ActionUnexport, planText(s.plan))
	}
	s.applied()
	s.pass()
	require.Contains(t, stepsOn(s.plan, "gpu-01"), schema.ActionUnexport, planText(s.plan))
}

// stepsOn are the actions that are released to a machine.
func stepsOn(p schema.Plan, machine string) (list []schema.Action) {
	for _, st := range p.Targets[machine].Steps {
		list = append(list, st.Action)
	}
	return list
}

const copyDrive = "---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node_scope: placed, mount_path: /d}]}\n"

const copyRun = "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d}]}}\n"

// A tombstone stays while a machine may be making the copy.
func TestX3TombstoneStaysWhileACopyMayBeMade(t *testing.T) {
	s := underway(t, copyDrive+copyRun)
	s.declare(t, "c2", "")
	for range 3 {
		require.Empty(t, s.pass().Decisions.Exhume)
	}
	require.Len(t, s.accepted.Tombstones, 1)
	s.applied()
	for range 3 {
		s.pass()
		s.applied()
	}
	require.Empty(t, s.accepted.Tombstones)
}

// A tombstone of a drive that is in force, which a leader leaves that dies between
// it and the removal, deletes nothing and goes.
func TestX3TombstoneOfALivingDriveGoes(t *testing.T) {
	s := settled(t, copyDrive+copyRun)
	key := schema.Key{Kind: schema.KindDrive, Namespace: testNS, Name: "d"}
	uid := s.accepted.Objects[key].UID
	s.accepted.Tombstones[uid] = &schema.Tombstone{UID: uid, Key: key, Org: testOrg, Workspace: testSpace}
	s.desired = declare(t, "c2", frame+gpuMachines+copyDrive) // nobody uses it any more
	for range 3 {
		s.tick()
		require.NotContains(t, planText(s.plan), "DeleteCopy")
	}
	require.Empty(t, s.accepted.Tombstones)
	require.NotNil(t, s.accepted.Objects[key])
}

// What stands on a grant that was revoked is not asked of a machine: D-21, X-10.
func TestD21NothingIsMadeWithoutItsGrant(t *testing.T) {
	scratch := "---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node_scope: local-any, path: /scratch/d, mount_path: /d, mode: ReadWrite}]}\n"
	s := underway(t, scratch+netDrive+copyRun+"---\nkind: Run\nmetadata: {name: n}\nspec: {task_template: {command: sh, requested_resources: {machines: 2}, datavolume_refs: [{name: d}]}}\n")
	revoked := "\nkind: Cluster\nmetadata: {name: example}\n---\nkind: Org\nmetadata: {name: acme}\n---\nkind: Workspace\nmetadata: {name: research}\n"
	s.desired = declare(t, "c2", revoked+gpuMachines+scratch+copyRun)
	s.pass()
	for name := range s.machines {
		require.Empty(t, stepsOn(s.plan, name), planText(s.plan))
	}
	require.Contains(t, planText(s.plan), "may not use that path")
}

// Groups that fit one by one and not together say so: D-59.
func TestD59GroupsThatDoNotFitTogetherSaySo(t *testing.T) {
	group := "{name: %s, task_template: {command: sh, requested_resources: {machines: 2, cpu_cores: 80}}}"
	s := newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"))
	s.desired = declare(t, "c1", frame+gpuMachines+"---\nkind: Run\nmetadata: {name: r}\nspec: {worker_groups: ["+
		fmt.Sprintf(group, "a")+", "+fmt.Sprintf(group, "b")+"]}\n")
	s.tick()
	require.Empty(t, s.placed)
	require.Len(t, s.plan.Waits, 1)
	require.Equal(t, schema.ReasonTooFew, s.plan.Waits[0].Reasons[0].Code)
	require.NotEmpty(t, s.plan.Waits[0].Summary())
}

// A data location in which a copy may be being made is listed until it is told what
// became of it: D-32, X-3, X-9.
func TestD32LocationStaysWhileACopyMayBeMade(t *testing.T) {
	s := underway(t, copyDrive+copyRun)
	s.desired = declare(t, "c2", frame+strings.ReplaceAll(gpuMachines, "/nvme/astraeus", "/nvme/new"))
	locations := func() int { return len(s.plan.Targets["gpu-01"].DataLocations) }
	for range 3 {
		s.pass()
		require.Equal(t, 2, locations())
	}
	for range 3 {
		s.applied()
		s.pass()
	}
	require.Equal(t, 1, locations())
}
