package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const webRun = `kind: "Run"
metadata: {name: "web", owner: "grace"}
spec: {
	restart_policy: "Always"
	task_template: {
		command: "/data/answer"
		requested_resources: {cpu_cores: 1, memory_bytes: 67108864}
		datavolume_refs: [{name: "imagenet"}]
	}
}
`

const webEndpoint = `kind: "Endpoint"
metadata: {name: "www", owner: "grace"}
spec: {run: "web", port: 8000, health_check: {http: path: "/healthz", every: "300ms", timeout: "1s", failures: 2}}
`

// askRun looks names up on two machines, over and over, and writes what it finds.
const askRun = `kind: "Run"
metadata: {name: "ask", owner: "grace"}
spec: {
	restart_policy: "Always"
	task_template: {
		command: "/bin/sh"
		args: ["-c", """
			cp /etc/resolv.conf /scratch/resolv-$RANK
			while :; do
				for name in www web web-0 nobody; do
					getent hosts $name > /scratch/.$name || echo NXDOMAIN > /scratch/.$name
					mv /scratch/.$name /scratch/$name
				done
				sleep 0.05
			done
			"""]
		requested_resources: {cpu_cores: 1, memory_bytes: 67108864, machines: 2}
		datavolume_refs: [{name: "scratch"}]
	}
}
`

// Each machine serves names on its gateway, and a worker finds those of another
// machine by their short names, with the system's own resolver. An endpoint has its
// worker while that passes its health check, run by the worker's machine. What a
// machine was told last it answers while the control plane is away, also after a
// restart of its agent.
// N-1, N-3, N-4, N-7, N-8
func TestNames(t *testing.T) {
	needsNamespaces(t)
	if _, err := exec.LookPath("getent"); err != nil {
		t.Skip("no getent here: ", err)
	}
	at := home(t)
	repo := example(t, at)
	r := start(t, at, repo)
	r.settled()
	data := r.host("gpu-01", "/mnt/datasets/imagenet")
	build := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "answer"), "./testdata/answer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	install(t, build.Args[3], filepath.Join(data, "answer"))
	runsDir := filepath.Join(repo, "orgs/acme/workspaces/research/runs")
	write(t, filepath.Join(repo, "orgs/acme/workspaces/research/endpoints/www.cue"), webEndpoint)
	write(t, filepath.Join(runsDir, "ask.cue"), askRun)
	r.until("the asking workers run", func() bool { return r.phase("ask") == "Running" })
	var machines []string
	for _, w := range r.runs()["ask"].Status.Workers {
		machines = append(machines, w.Machine)
	}
	require.Len(t, machines, 2)
	found := func(machine, name string) string {
		text, _ := os.ReadFile(r.host(machine, "/scratch/astraeus/"+name))
		return strings.Join(strings.Fields(string(text)), " ")
	}
	everywhere := func(name, want string) {
		t.Helper()
		r.until(fmt.Sprintf("%s is %s", name, want), func() bool {
			return found(machines[0], name) == want && found(machines[1], name) == want
		})
	}
	everywhere("www", "NXDOMAIN")
	everywhere("web", "NXDOMAIN")
	write(t, filepath.Join(runsDir, "web.cue"), webRun)
	const space = ".ws-6bc9e04463e6.astraeus.local"
	r.until("web runs", func() bool { return r.phase("web") == "Running" })
	where := r.runs()["web"].Status.Workers[0].Machine
	address := map[string]string{"gpu-01": "192.0.2.11", "gpu-02": "192.0.2.12"}[where]
	everywhere("web-0", address+" web-0"+space)
	everywhere("web", address+" web"+space)
	everywhere("www", address+" www"+space)
	everywhere("nobody", "NXDOMAIN")
	for rank, machine := range machines {
		text, err := os.ReadFile(r.host(machine, fmt.Sprintf("/scratch/astraeus/resolv-%d", rank)))
		require.NoError(t, err)
		gateway := "10.240." + strings.TrimPrefix(machine, "gpu-0") + ".1"
		require.Equal(t, "nameserver "+gateway+"\nsearch ws-6bc9e04463e6.astraeus.local astraeus.local\noptions ndots:2\n", string(text))
	}

	// Ill: the endpoint has nobody, the worker keeps its name.
	require.NoError(t, os.WriteFile(filepath.Join(data, "ill"), nil, 0o644))
	everywhere("www", "NXDOMAIN")
	everywhere("web-0", address+" web-0"+space)
	code, stdout, stderr := run(t, at, "get", "endpoints", "www", "--server", r.address)
	require.Equal(t, 0, code, stderr)
	require.Regexp(t, `acme/research\s+www\s+run/web\s+8000\s+http:/healthz\s+0/1\s`, stdout)
	code, stdout, stderr = run(t, at, "resolve", "www", "--from", "ask-1", "--server", r.address)
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "none of its workers is ready")
	require.NoError(t, os.Remove(filepath.Join(data, "ill")))
	everywhere("www", address+" www"+space)
	code, stdout, stderr = run(t, at, "resolve", "www", "--from", "ask-1", "--server", r.address)
	require.Equal(t, 0, code, stderr)
	require.Regexp(t, `Addresses: +`+address, stdout)

	// Away from the control plane: an agent that begins anew answers from its disk.
	require.NoError(t, syscall.Kill(r.cmd.Process.Pid, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(r.cmd.Process.Pid, syscall.SIGCONT) }()
	old := r.agent(machines[1])
	require.NoError(t, syscall.Kill(old, syscall.SIGKILL))
	r.until("its agent is started again", func() bool { pid := r.agent(machines[1]); return pid != 0 && pid != old })
	for _, name := range []string{"www", "web-0", "nobody"} {
		require.NoError(t, os.Remove(r.host(machines[1], "/scratch/astraeus/"+name)))
	}
	everywhere("web-0", address+" web-0"+space)
	everywhere("www", address+" www"+space)
	everywhere("nobody", "NXDOMAIN")
}

// install puts a program where workers find it.
func install(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o755))
	require.NoError(t, os.Chmod(to, 0o755))
}
