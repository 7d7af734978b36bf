package planner

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

// The index finds an overlap where a look at every path does: X-16.
func TestX16IndexFindsEveryOverlap(t *testing.T) {
	path := rapid.Custom(func(t *rapid.T) string {
		text := ""
		for range rapid.IntRange(0, 4).Draw(t, "segments") {
			text += "/" + rapid.SampledFrom([]string{"a", "ab", "b", "a-b"}).Draw(t, "segment")
		}
		if text == "" {
			return "/"
		}
		return text
	})
	rapid.Check(t, func(t *rapid.T) {
		x := &pathIndex{at: map[string][]ownedPath{}}
		all := map[string]string{}
		for _, p := range rapid.SliceOfN(path, 0, 8).Draw(t, "paths") {
			all[p] = rapid.SampledFrom([]string{"", "m1", "m2"}).Draw(t, "machine")
			x.at[p] = []ownedPath{{hostPath: hostPath{path: p, machine: all[p]}}}
		}
		x.sorted = sortedStrings(x.at)
		asked := path.Draw(t, "asked")
		want := false
		for p, machine := range all {
			want = want || schema.Overlaps(p, asked) && machine != "m2"
		}
		if got := x.overlapping(asked, "m1") != nil; got != want {
			t.Fatalf("%q among %v: %t, want %t", asked, all, got, want)
		}
	})
}

// Both directions, for the paths of runs and replica groups too: X-16.
func TestX16HostPathsOfRuns(t *testing.T) {
	const located = "\n---\nkind: Machine\nmetadata: {name: gpu-01}\nspec: {data_location: {path: /data/copies}}\n"
	const bare = "\n---\nkind: Machine\nmetadata: {name: gpu-01}\nspec: {}\n"
	for name, object := range map[string]string{
		"old form": "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, volumes: [{host_path: /data, container_path: /x}]}}\n",
		"dataset":  "---\nkind: Run\nmetadata: {name: r}\nspec: {dataset_path: /data/copies/drives, task_template: {command: sh}}\n",
		"group":    "---\nkind: ReplicaGroup\nmetadata: {name: r}\nspec: {replicas: 1, task_template: {command: sh, volumes: [{host_path: /data/copies, container_path: /x}]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			plan := func(first, then string) schema.Plan {
				s := newSim(upMachine("gpu-01", "192.0.2.1"))
				s.desired = declare(t, "c1", frame+first)
				require.True(t, s.converge(), planText(s.plan))
				require.Empty(t, s.plan.Holds)
				s.desired = declare(t, "c2", frame+then)
				return Plan(s.input())
			}
			p := plan(located, located+object)
			require.Len(t, p.Holds, 1, planText(p))
			require.Equal(t, schema.CodeHostAccessForbidden, p.Holds[0].Code)

			p = plan(bare+object, located+object)
			require.NotNil(t, holdOn(p, "machine/gpu-01"), planText(p))
		})
	}
}

// A local volume reaches only the machine that it is bound to: X-16.
func TestX16VolumeOfAnotherMachine(t *testing.T) {
	volume := "---\nkind: Volume\nmetadata: {name: v}\nspec: {host_path: /data/x, node_id: %s}\n"
	machines := "\n---\nkind: Machine\nmetadata: {name: gpu-01}\nspec: {data_location: {path: /data}}\n---\nkind: Machine\nmetadata: {name: gpu-02}\nspec: {}\n"
	s := newSim(upMachine("gpu-01", "192.0.2.1"), upMachine("gpu-02", "192.0.2.2"))
	s.desired = declare(t, "c1", frame+machines+fmt.Sprintf(volume, "gpu-02"))
	require.Empty(t, Plan(s.input()).Holds)
	s.desired = declare(t, "c1", frame+machines+fmt.Sprintf(volume, "gpu-01"))
	require.NotNil(t, holdOn(Plan(s.input()), "volume/v"))
}

// A machine that changes its org is judged against that org's paths: X-16.
func TestX16MachineMovesToAnotherOrg(t *testing.T) {
	other := "---\nkind: Org\nmetadata: {name: other}\n---\nkind: Workspace\norg: other\nmetadata: {name: w}\n" +
		"---\nkind: HostPathGrant\norg: other\nmetadata: {name: g}\nspec: {workspace: w, paths: [/nvme]}\n"
	s := settled(t, other)
	s.desired = declare(t, "c2", frame+gpuMachines+other)
	for _, o := range s.desired.Objects {
		if o.Key.Name == "gpu-02" {
			o.Org = "other"
		}
	}
	require.NotNil(t, holdOn(Plan(s.input()), "machine/gpu-02"))
}

// However a path is spelt, it is judged by the filesystem that it is on: D-31.
func TestD31UncleanPath(t *testing.T) {
	for _, path := range []string{"//lustre/x", "/lustre//x", "/lustre/x/", "/lustre/"} {
		s := newSim(upMachine("gpu-01", "192.0.2.1"))
		s.machines["gpu-01"].Filesystems = append(s.machines["gpu-01"].Filesystems, schema.Filesystem{MountPoint: "/lustre", Shared: true})
		machine := "\n---\nkind: Machine\nmetadata: {name: gpu-01}\nspec: {data_location: {path: " + path + "}}\n"
		s.desired = declare(t, "c1", "\nkind: Org\nmetadata: {name: acme}"+machine)
		hold := holdOn(Plan(s.input()), "machine/gpu-01")
		require.NotNil(t, hold, path)
		require.Contains(t, hold.Message, "a data location must be on this machine's own disk")
	}
}

// A grant's ReadOnly is a ceiling for what mounts a path that it alone allows, and
// for every path where volumes need grants: D-20, V-4.
func TestD20ReadOnlyGrantIsACeilingForVolumes(t *testing.T) {
	needed := "---\nkind: Cluster\nmetadata: {name: example}\nspec: {volumes_need_grants: true}\n"
	grant := "---\nkind: HostPathGrant\nmetadata: {name: ro}\nspec: {workspace: research, paths: [/srv, /data], mode: ReadOnly}\n"
	run := "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, volumes: [{host_path: /srv/x, container_path: /s}, {host_path: /data/x, container_path: /d}]}}\n"
	mounts := func(s *sim) map[string]bool {
		readOnly := map[string]bool{}
		for _, a := range s.plan.Targets {
			for _, w := range a.Workers {
				for _, b := range w.Mounts {
					readOnly[b.Target] = b.ReadOnly
				}
			}
		}
		return readOnly
	}
	require.Equal(t, map[string]bool{"/s": true, "/d": false}, mounts(settled(t, grant+run)))
	require.Equal(t, map[string]bool{"/s": true, "/d": true}, mounts(settled(t, needed+grant+run)))

	only := "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, volumes: [{host_path: /data/x, container_path: /d}]}}\n"
	s := settled(t, needed+grant+only)
	for _, m := range s.machines {
		m.Workers = []schema.Worker{}
	}
	s.placed = nil
	p := s.next(t, needed+only) // the grant was taken back (D-21)
	require.Empty(t, p.Decisions.Place, planText(p))
}
