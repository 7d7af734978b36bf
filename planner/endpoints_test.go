package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func endpointNamed(name string) schema.Key {
	return schema.Key{Kind: schema.KindEndpoint, Namespace: testNS, Name: name}
}

const endpointObjects = oneNetwork + `
kind: Run
metadata: {name: db}
spec: {task_template: {command: serve}, external_accesses: [{name: web, port: 80}]}
---
kind: ReplicaGroup
metadata: {name: api}
spec: {replicas: 2, task_template: {command: serve}}
---
kind: Endpoint
metadata: {name: redis}
spec: {run: db, port: 6379, health_check: {tcp: true}}
---
kind: Endpoint
metadata: {name: early}
spec: {run: later, port: 1}
`

// N-1, N-8: a backend is ready while it runs and passes the check that its endpoint
// asks for now; without a check Running is enough.
func TestEndpointBackends(t *testing.T) {
	s := oneMachineSim(t)
	s.desired = declare(t, "c1", frame+"---\n"+endpointObjects)
	s.tick()
	view := func() *View { return NewView(s.input(), Plan(s.input())) }
	s.machines["gpu-01"].Workers[0].State = schema.WorkerPreparing // of api-0, in order of acceptance and name
	e, ok := view().Endpoint(endpointNamed("api"))
	require.True(t, ok, "N-2: named like the group")
	require.Equal(t, "replica_group/api", e.Managed)
	require.Len(t, e.Backends, 2)
	require.Equal(t, 1, e.Ready)
	require.False(t, e.Backends[0].Ready)
	require.Equal(t, "waiting to start on gpu-01", e.Backends[0].Message)
	require.Equal(t, Backend{Run: runNamed("api-1"), Worker: "api-1-0", Machine: "gpu-01", Address: "10.240.3.3", State: schema.WorkerRunning, Ready: true},
		e.Backends[1])

	redis := func() (Backend, string) {
		e, _ := view().Endpoint(endpointNamed("redis"))
		require.Len(t, e.Backends, 1)
		return e.Backends[0], e.Message
	}
	b, message := redis()
	require.Equal(t, Backend{Run: runNamed("db"), Worker: "db-0", Machine: "gpu-01", Address: "10.240.3.4", Port: 6379, State: schema.WorkerRunning,
		Message: notChecked}, b)
	require.Equal(t, noneReady, message)
	check := Plan(s.input()).Targets["gpu-01"].Checks[0].ID()
	s.machines["gpu-01"].Checks = []schema.CheckState{{CheckID: check, Message: "connection refused"}}
	b, _ = redis()
	require.Equal(t, "connection refused", b.Message)
	s.machines["gpu-01"].Checks = []schema.CheckState{{CheckID: check, Passing: true}}
	b, message = redis()
	require.True(t, b.Ready)
	require.Empty(t, message)
	check.Port = 6380
	s.machines["gpu-01"].Checks = []schema.CheckState{{CheckID: check, Passing: true}}
	b, _ = redis()
	require.False(t, b.Ready, "what answered was asked something else")

	e, _ = view().Endpoint(endpointNamed("early"))
	require.Equal(t, "run later does not exist: the endpoint has no address until it does", e.Message)
	require.Len(t, view().Endpoints(), 3, "N-2: external accesses make none")
}

// N-1: a worker on a machine that is Down is lost, whatever its last check said.
func TestLostBackendsAreNotReady(t *testing.T) {
	s := oneMachineSim(t)
	s.desired = declare(t, "c1", frame+"---\n"+endpointObjects)
	s.tick()
	s.machines["gpu-01"].State = schema.MachineDown
	e, _ := NewView(s.input(), Plan(s.input())).Endpoint(endpointNamed("api"))
	require.Zero(t, e.Ready)
	require.Equal(t, schema.WorkerLost, e.Backends[0].State)
}

// N-5, N-7: what workers are told of names, by their network.
func TestWorkersAreToldWhereNamesAre(t *testing.T) {
	s := newSim(observe(t, twoMachines).Machines...)
	s.machines["gpu-01"].RDMA = nil
	s.desired = declare(t, "c1", frame+`
---
kind: Workspace
metadata: {name: serving}
---
kind: Machine
metadata: {name: gpu-01}
spec: {node_network: 10.240.3.0/24, engine: process}
---
kind: Machine
metadata: {name: gpu-02}
spec: {node_network: 10.240.4.0/24, engine: process}
---
kind: Run
metadata: {name: a}
spec: {network: {egress: {default: deny, names: [pypi.org], cluster: [serving]}}, task_template: {command: sh, requested_resources: {machines: 2}}}
`)
	for _, m := range s.machines {
		m.Engine = &schema.EngineState{Kind: schema.EngineProcess, Ready: true}
	}
	p := Plan(s.input())
	one, two := p.Targets["gpu-01"], p.Targets["gpu-02"]
	require.Equal(t, &schema.NamesTarget{Org: testOrg, Domain: "astraeus.local", Gateway: "10.240.3.1", Network: "10.240.3.0/24"}, one.Names, "N-3")
	require.Equal(t, "10.240.3.1", one.Workers[0].Resolver, "process workers ask the gateway too")
	require.Equal(t, "192.0.2.1", one.Workers[0].Address, "and share their machine's address")
	require.Equal(t, &schema.EgressTarget{Names: []string{"pypi.org"},
		Namespaces: []string{testNS, schema.Namespace(testCluster, testOrg, "serving")}}, one.Workers[0].Egress)
	require.Empty(t, two.Workers[0].Resolver, "N-8: a machine with RDMA runs them on the host network")
}
