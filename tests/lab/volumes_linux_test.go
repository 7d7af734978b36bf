package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const volumeUser = `kind: "Run"
metadata: {name: %q, owner: "grace"}
spec: task_template: {
	command: "/bin/sh"
	args: ["-ec", %q]
	requested_resources: {cpu_cores: 1, memory_bytes: 1048576}
	volumes: [%s]
}
`

// A run mounts a shared and a local volume, runs on the local one's machine, and
// holds both on change and deletion; a deleted volume's data stays; a path that is
// not there fails the worker with its name. V-1, V-4, V-5, V-7, V-8, V-9
func TestVolumes(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	workspace := filepath.Join(repo, "orgs/acme/workspaces/research")
	results, cache := filepath.Join(workspace, "volumes/results.cue"), filepath.Join(workspace, "volumes/model-cache.cue")
	user := filepath.Join(workspace, "runs/user.cue")
	write(t, user, fmt.Sprintf(volumeUser, "user", "echo shared > /r/canary; echo local > /c/canary; while :; do sleep 1; done",
		`{name: "results", container_path: "/r"}, {volume_id: "vol-70d2b94e11c8a35f", container_path: "/c"}`))
	r := start(t, at, repo)
	r.until("the run is running", func() bool { return r.phase("user") == "Running" })
	require.Equal(t, "gpu-02", r.runs()["user"].Status.Workers[0].Machine)
	shared := filepath.Join(r.dir, "shared/data/results/canary")
	local := filepath.Join(r.dir, "machines/gpu-02/root/opt/model-cache/canary")
	for _, file := range []string{shared, local} {
		r.until("it wrote "+file, func() bool { _, err := os.Stat(file); return err == nil })
	}
	r.until("the example's own run is done", func() bool { return r.phase("evaluate") == "Succeeded" })

	was, err := os.ReadFile(results)
	require.NoError(t, err)
	write(t, results, strings.Replace(string(was), "/data/results", "/data/others", 1))
	require.NoError(t, os.Remove(cache))
	r.until("the change is held", func() bool { return strings.Contains(r.text(), "volume results is used by run/user") })
	r.until("the deletion is held", func() bool { return strings.Contains(r.text(), "volume model-cache is used by run/user") })
	require.Equal(t, "Running", r.phase("user"))

	write(t, filepath.Join(workspace, "runs/missing.cue"), fmt.Sprintf(volumeUser, "missing", "true", `{host_path: "/data/none", container_path: "/x"}`))
	r.until("a path that is missing is named", func() bool { return strings.Contains(r.text(), `"/data/none" does not exist`) })

	// Two runs are within the deletion budget; the example's own has ended and names
	// its volumes, which is no use of them.
	require.NoError(t, os.Remove(filepath.Join(workspace, "runs/missing.cue")))
	require.NoError(t, os.Remove(user))
	require.NoError(t, os.Remove(results))
	r.until("the records are gone", func() bool {
		_, stdout, _ := run(t, at, "get", "volumes", "--server", r.address)
		return !strings.Contains(stdout, "vol-")
	})
	for file, content := range map[string]string{shared: "shared\n", local: "local\n"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}
	_, events, _ := run(t, at, "events", "--server", r.address)
	require.Contains(t, events, "volume record deleted; only the platform record was removed — the data under the host path was NOT deleted")
}
