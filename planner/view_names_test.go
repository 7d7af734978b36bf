package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const namedObjects = `
kind: Org
metadata: {name: other}
---
kind: Workspace
metadata: {name: serving}
---
kind: Workspace
org: other
metadata: {name: theirs}
---
kind: Machine
metadata: {name: gpu-01}
spec: {node_network: 10.240.3.0/24}
---
kind: Machine
metadata: {name: gpu-02}
spec: {schedulable: false}
---
kind: Machine
org: other
metadata: {name: far-01}
spec: {node_network: 10.240.9.0/24}
---
kind: Run
metadata: {name: train}
spec: {leader_group: w, worker_groups: [{name: ps, task_template: {command: sh}}, {name: w, task_template: {command: sh}}]}
---
kind: Run
metadata: {name: closed}
spec: {network: {egress: {default: deny, names: [pypi.org], cluster: [nobody]}}, task_template: {command: sh}}
---
kind: Run
metadata: {name: onhost}
spec: {network: {mode: host}, task_template: {command: sh}}
---
kind: Run
metadata: {name: large}
spec: {task_template: {command: sh, requested_resources: {cpu_cores: 999}}}
---
kind: Endpoint
metadata: {name: api}
spec: {run: train, port: 80, health_check: {tcp: true}}
---
kind: Run
workspace: serving
metadata: {name: web}
spec: {task_template: {command: sh}}
---
kind: Run
org: other
workspace: theirs
metadata: {name: secret}
spec: {task_template: {command: sh}}
`

func namedSim(t *testing.T) (*sim, func() *View) {
	s := newSim(observe(t, `
machines:
- &m {name: gpu-01, state: Up, address: 192.0.2.1, resources: {cpu_cores: 64, memory_bytes: 512000000000, gpus: 8},
   filesystems: [], copies: [], exports: [], mounts: [], workers: []}
- {name: gpu-02, state: Up, address: 192.0.2.2, resources: {cpu_cores: 64, memory_bytes: 512000000000, gpus: 8},
   filesystems: [], copies: [], exports: [], mounts: [], workers: []}
- {name: far-01, state: Up, address: 192.0.2.3, resources: {cpu_cores: 64, memory_bytes: 512000000000, gpus: 8},
   filesystems: [], copies: [], exports: [], mounts: [], workers: []}
`).Machines...)
	s.desired = declare(t, "c1", frame+"---\n"+namedObjects)
	s.tick()
	return s, func() *View { return NewView(s.input(), Plan(s.input())) }
}

// N-1, N-2: every name with its addresses, or why it has none.
func TestNamesAndWhyNot(t *testing.T) {
	s, view := namedSim(t)
	text := func() map[string]NameView {
		out := map[string]NameView{}
		for _, n := range view().Names() {
			out[n.Kind+" "+n.Name] = n
		}
		return out
	}
	at := "." + testNS + ".astraeus.local"
	names := text()
	leader := names["worker train-w-0"+at].Addresses
	require.Len(t, leader, 1)
	require.Equal(t, leader, names["run train"+at].Addresses, "the leader's, worker 0 of the leader group")
	require.Equal(t, []string{"192.0.2.1"}, names["worker onhost-0"+at].Addresses, "a host-network worker's is its machine's")
	require.Equal(t, noneReady, names["endpoint api"+at].Why)
	require.Contains(t, names["run large"+at].Why, "needs 999 CPU cores, 64 free")
	require.Equal(t, names["run large"+at].Why, names["worker large-0"+at].Why)
	for i := range s.machines["gpu-01"].Workers {
		if w := &s.machines["gpu-01"].Workers[i]; w.Name == "train-w-0" {
			w.State = schema.WorkerStopping
		}
	}
	names = text()
	require.Equal(t, "it is Stopping", names["worker train-w-0"+at].Why)
	require.Equal(t, names["worker train-ps-0"+at].Addresses, names["run train"+at].Addresses, "the leader is not running: every running worker")
	s.machines["gpu-01"].State = schema.MachineDown
	require.Equal(t, "lost on gpu-01", text()["run train"+at].Why)
}

// N-4 to N-8: what a worker or a machine is answered, and why not.
func TestResolve(t *testing.T) {
	s, view := namedSim(t)
	v := view()
	ns, serving, theirs := testNS, schema.Namespace(testCluster, testOrg, "serving"), schema.Namespace(testCluster, "other", "theirs")
	const domain = ".astraeus.local"
	for _, tc := range []struct{ name, from, result, answered, why string }{
		{"train-w-0", "train-ps-0", ResolvedAnswer, "train-w-0." + ns + domain, ""},
		{"TRAIN", ns + ".train-ps-0", ResolvedAnswer, "TRAIN." + ns + domain, ""},
		{"web." + serving, "worker/train-ps-0", ResolvedAnswer, "web." + serving + domain, ""},
		{"train." + ns + domain, "gpu-01", ResolvedAnswer, "train." + ns + domain, ""},
		{"train", "gpu-01", ResolvedForwarded, "train", "every other name"},
		{"api", "train-ps-0", ResolvedForwarded, "api", ""},
		{"api." + ns + domain, "gpu-01", ResolvedNoName, "api." + ns + domain, "none of its workers is ready"},
		{"nobody." + ns + domain, "gpu-01", ResolvedNoName, "nobody." + ns + domain, "there is no run, worker or endpoint nobody"},
		{"secret." + theirs + domain, "gpu-01", ResolvedNoName, "secret." + theirs + domain, "another organisation"},
		{"secret." + theirs + domain, "far-01", ResolvedAnswer, "secret." + theirs + domain, ""},
		{"a.b.c" + domain, "gpu-01", ResolvedNoName, "a.b.c" + domain, "<name>.<namespace>.astraeus.local"},
		{"www.example.com", "train-ps-0", ResolvedForwarded, "www.example.com", ""},
		{"pypi.org", "closed-0", ResolvedForwarded, "pypi.org", ""},
		{"pypi.com.", "closed-0", ResolvedRefused, "pypi.com", "does not allow pypi.com"},
		{"web." + serving, "closed-0", ResolvedRefused, "web." + serving + domain, "outbound policy"},
		{"train", "closed-0", ResolvedAnswer, "train." + ns + domain, ""},
		{"train", "onhost-0", ResolvedForwarded, "train", "the worker is on the host network"},
		{"train", "gpu-02", ResolvedForwarded, "train", "has no node network"},
	} {
		r, err := v.Resolve(tc.name, tc.from)
		require.NoError(t, err)
		require.Equal(t, tc.result, r.Result, "%s from %s: %+v", tc.name, tc.from, r)
		require.Equal(t, tc.answered, r.Name, "%s from %s", tc.name, tc.from)
		require.Contains(t, r.Why, tc.why)
		require.Equal(t, tc.result == ResolvedAnswer, len(r.Addresses) > 0)
	}
	r, _ := v.Resolve("api", "train-ps-0")
	require.Equal(t, "10.240.3.1", r.Server, "N-3")
	require.Equal(t, []string{"api." + ns + domain, "api" + domain, "api"}, []string{r.Tried[0].Name, r.Tried[1].Name, r.Tried[2].Name}, "N-7: the search list")
	require.Equal(t, noneReady, r.Tried[0].Why)
	_, err := v.Resolve("x", "nobody-0")
	require.EqualError(t, err, "there is no machine and no placed worker nobody-0")
	require.Empty(t, s.problems)
}
