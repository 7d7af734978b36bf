package planner

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const (
	movingDrive = "---\nkind: Drive\nmetadata: {name: d}\nspec: {sources: [{node: gpu-01, path: %s, mount_path: /d}], permissions: {create: true}}\n"
	tiedRun     = "---\nkind: Run\nmetadata: {name: %s}\nspec: {restart_policy: Never, task_template: {command: sh, datavolume_refs: [{name: d}, {name: e}]}}\n" +
		"---\nkind: Drive\nmetadata: {name: e}\nspec: {sources: [{node: gpu-02, path: /mnt/e, mount_path: /e, eligible_nodes: [gpu-02]}]}\n"
)

// A drive that moved is not used through the mount of its older path, which is
// still there.
func TestX8MountOfAnOlderPathIsMadeAnew(t *testing.T) {
	s := settled(t, fmt.Sprintf(movingDrive, "/mnt/a")+fmt.Sprintf(tiedRun, "one"))
	require.Len(t, s.machines["gpu-02"].Mounts, 1)
	zero := 0
	w := &s.machines["gpu-02"].Workers[0]
	w.State, w.ExitCode = schema.WorkerSucceeded, &zero
	s.desired = declare(t, "c2", frame+gpuMachines+fmt.Sprintf(movingDrive, "/mnt/b")+fmt.Sprintf(tiedRun, "two"))
	s.tick()
	require.Contains(t, planText(s.plan), "Unmount on gpu-02")
	require.Contains(t, planText(s.plan), "StartWorker on gpu-02: run/$ns.two worker=two-0 after")
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.problems)
	require.Equal(t, "/mnt/b", s.machines["gpu-01"].Exports[0].Path)
}

// What was reported of the older path says nothing of the newer one: X-8.
func TestX8DirectoryOfAnOlderPath(t *testing.T) {
	local := "---\nkind: Run\nmetadata: {name: %s}\nspec: {restart_policy: Never, task_template: {command: sh, datavolume_refs: [{name: d}]}}\n"
	s := settled(t, fmt.Sprintf(movingDrive, "/mnt/a")+fmt.Sprintf(local, "one"))
	zero := 0
	w := &s.machines["gpu-01"].Workers[0]
	w.State, w.ExitCode = schema.WorkerSucceeded, &zero
	p := s.next(t, fmt.Sprintf(movingDrive, "/mnt/b")+fmt.Sprintf(local, "two"))
	require.Contains(t, planText(p), "CreateDir on gpu-01: drive/$ns.d path=/mnt/b")
}

// Of two copies of one drive on a machine the same one counts in every order of
// the report: X-5.
func TestX5TwoCopiesOfOneDrive(t *testing.T) {
	s := settled(t, drives(1, placedSource)+"---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d0}]}}\n")
	m := s.machines["gpu-01"]
	second := m.Copies[0]
	second.Folder, second.Bytes = "/old/drives/"+second.Drive, 5
	m.Copies = append(m.Copies, second)
	s.desired = declare(t, "c2", frame+gpuMachines)
	texts := map[string]bool{}
	for range 2 {
		texts[planText(Plan(s.input()))] = true
		slices.Reverse(m.Copies)
	}
	require.Len(t, texts, 1, texts)
}

// A live worker of which nobody knows what it uses, and which nobody may stop,
// keeps copies and mounts where they are.
func TestX18UnknownUserKeepsCopies(t *testing.T) {
	s := settled(t, drives(1, placedSource)+"---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh, datavolume_refs: [{name: d0}]}}\n")
	s.machines["gpu-01"].Workers = []schema.Worker{{Name: "someone", State: schema.WorkerRunning}}
	s.desired = declare(t, "c2", frame+gpuMachines)
	s.tick()
	require.NotContains(t, planText(s.plan), "DeleteCopy")
	s.machines["gpu-01"].Workers = []schema.Worker{}
	require.True(t, s.converge())
	require.Empty(t, s.machines["gpu-01"].Copies)
}
