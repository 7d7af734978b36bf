package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const gpuMachines = `
---
kind: Machine
metadata: {name: gpu-01}
spec: {data_location: {path: /nvme/astraeus}}
---
kind: Machine
metadata: {name: gpu-02}
spec: {data_location: {path: /nvme/astraeus}}
`

func upMachine(name, address string) *schema.MachineReport {
	return &schema.MachineReport{Name: name, State: schema.MachineUp, Address: address,
		Resources:   &schema.Resources{CPUCores: 64, MemoryBytes: 512e9, GPUs: 8},
		Filesystems: []schema.Filesystem{{MountPoint: "/", System: true, FreeBytes: 50e9}, {MountPoint: "/nvme", FreeBytes: 600e9}},
		Copies:      []schema.Copy{}, Exports: []schema.Export{}, Mounts: []schema.Mount{}, Workers: []schema.Worker{}}
}

// settled is a cluster of gpu-01 and gpu-02 on which what the text declares was
// carried out.
func settled(t *testing.T, text string) *sim {
	s := newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"))
	s.desired = declare(t, "c1", frame+gpuMachines+text)
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.problems)
	return s
}

// next plans another commit.
func (s *sim) next(t *testing.T, text string) schema.Plan {
	s.desired = declare(t, "c2", frame+gpuMachines+text)
	return Plan(s.input())
}

func holdOn(p schema.Plan, key string) *schema.Hold {
	for i := range p.Holds {
		if p.Holds[i].Object.Kind.Word()+"/"+p.Holds[i].Object.Name == key {
			return &p.Holds[i]
		}
	}
	return nil
}

// drives declares d0, d1 … with the given source.
func drives(n int, source string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\nkind: Drive\nmetadata: {name: d%d}\nspec: {sources: [{%s, mount_path: /d}]}\n", i, source)
	}
	return b.String()
}

const placedSource = "node_scope: placed"

// An allowance whose file stays in the repository lifts the budget no more: X-28.
func TestX28AllowanceIsForOneHead(t *testing.T) {
	allow := "---\nkind: Deletion\nmetadata: {name: tidy}\nspec: {allow: {kind: Drive, count: 4}}\n"
	s := settled(t, drives(12, placedSource))
	s.desired = declare(t, "c2", frame+gpuMachines+drives(8, placedSource)+allow)
	require.True(t, s.converge())
	require.Len(t, s.accepted.Tombstones, 0)

	moved := declare(t, "c3", frame+gpuMachines+drives(4, placedSource)+allow)
	for _, o := range moved.Objects {
		if o.Key.Kind == schema.KindDeletion {
			o.Origin.File = "elsewhere.yaml" // moving its file does not renew it
		}
	}
	s.desired = moved
	p := Plan(s.input())
	require.Empty(t, p.Decisions.Remove, planText(p))
	require.Equal(t, schema.CodeDeletionBudget, holdOn(p, "drive/d7").Code)
	require.Contains(t, planText(p), "this Deletion can be removed")
}

// Leaving `placed` deletes copies, so the budget counts it.
func TestX29LeavingPlacedIsWithinTheBudget(t *testing.T) {
	s := settled(t, drives(6, placedSource))
	p := s.next(t, drives(6, "node: gpu-01, path: /mnt/d"))
	require.Empty(t, p.Decisions.Bury, planText(p))
	require.Empty(t, p.Decisions.Accept, planText(p))
	require.Equal(t, schema.CodeDeletionBudget, holdOn(p, "drive/d0").Code)
}

const (
	movableVolume = "---\nkind: Volume\nmetadata: {name: %s, id: vol-0123456789abcdef}\nspec: {host_path: %s, shared: true}\n"
	volumeRun     = "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, volumes: [{volume_id: vol-0123456789abcdef, container_path: /v}]}}\n"
)

// A volume that is renamed and may not be changed keeps its record: V-2, V-8.
func TestV8RenamedVolumeInUseKeepsItsRecord(t *testing.T) {
	s := settled(t, fmt.Sprintf(movableVolume, "v1", "/data/a")+volumeRun)
	p := s.next(t, fmt.Sprintf(movableVolume, "v2", "/data/b")+volumeRun)
	require.Empty(t, p.Decisions.Remove, planText(p))
	require.Equal(t, schema.CodeVolumeInUse, holdOn(p, "volume/v1").Code)

	p = s.next(t, fmt.Sprintf(movableVolume, "v2", "/data/a")+volumeRun)
	require.Len(t, p.Decisions.Remove, 1, planText(p)) // the name alone may change
}

// Nor does a rewritten history take the older name away: G-5.
func TestG5RenamedVolumeInRewrittenHistory(t *testing.T) {
	s := settled(t, fmt.Sprintf(movableVolume, "v1", "/data/a"))
	s.desired = declare(t, "c2", frame+gpuMachines+fmt.Sprintf(movableVolume, "v2", "/data/a"))
	in := s.input()
	in.Rewritten = true
	p := Plan(in)
	require.Empty(t, p.Decisions.Remove, planText(p))
}

// Renamed volumes do not use the deletion budget up, whatever else goes: X-28.
func TestX28RenamedVolumesDoNotCount(t *testing.T) {
	ids := func(prefix string) (text string) {
		for i := range 4 {
			text += fmt.Sprintf("---\nkind: Volume\nmetadata: {name: %s%d, id: vol-000000000000000%d}\nspec: {host_path: /data/%d, shared: true}\n", prefix, i, i, i)
		}
		return text
	}
	grant := "---\nkind: HostPathGrant\nmetadata: {name: more}\nspec: {workspace: research, paths: [/srv]}\n"
	last := "---\nkind: Volume\nmetadata: {name: last}\nspec: {host_path: /data/last, shared: true}\n"
	s := settled(t, ids("old")+grant+last)
	p := s.next(t, ids("new"))
	require.Empty(t, p.Holds, planText(p))
}

// A Deletion that names another drive is bound anew; one that is spent stays so
// when only its labels change: X-27.
func TestX27DeletionIsBoundByWhatItAsksFor(t *testing.T) {
	deletion := func(meta, drive string) string {
		return fmt.Sprintf("---\nkind: Deletion\nmetadata: {name: x%s}\nspec: {drive: %s, force: true}\n", meta, drive)
	}
	user := "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d0}]}}\n"
	s := settled(t, drives(2, placedSource)+user)
	s.desired = declare(t, "c2", frame+gpuMachines+drives(1, placedSource)+user+deletion("", "d1"))
	require.True(t, s.converge())

	p := s.next(t, user+deletion("", "d0"))
	require.Len(t, p.Decisions.Remove, 1, planText(p))

	s.desired = declare(t, "c3", frame+gpuMachines+user+deletion("", "d0"))
	require.True(t, s.converge())
	s.desired = declare(t, "c4", frame+gpuMachines+drives(1, placedSource)+user)
	require.True(t, s.converge())
	s.desired = declare(t, "c5", frame+gpuMachines+drives(1, placedSource)+user+deletion("", "d0"))
	require.NotNil(t, holdOn(Plan(s.input()), "deletion/x"))
}

// Two Deletions of one drive: the force of either counts, whatever the other is called.
func TestX27ForceOfEitherDeletion(t *testing.T) {
	user := "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d0}]}}\n"
	s := settled(t, drives(1, placedSource)+user)
	p := s.next(t, user+"---\nkind: Deletion\nmetadata: {name: a}\nspec: {drive: d0, force: true}\n---\nkind: Deletion\nmetadata: {name: b}\nspec: {drive: d0}\n")
	require.Nil(t, holdOn(p, "drive/d0"), planText(p))
	require.Len(t, p.Decisions.Remove, 1)
}
