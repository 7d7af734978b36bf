package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const oneNetwork = `
kind: Machine
metadata: {name: gpu-01}
spec: {node_network: 10.240.3.0/24}
---
`

func oneMachineSim(t *testing.T) *sim {
	return newSim(observe(t, `
machines:
- {name: gpu-01, state: Up, address: 192.0.2.1, resources: {cpu_cores: 64, memory_bytes: 512000000000, gpus: 8},
   filesystems: [], copies: [], exports: [], mounts: [], workers: []}
`).Machines...)
}

func plainRun(name, command string) string {
	return fmt.Sprintf("---\nkind: Run\nmetadata: {name: %s}\nspec: {task_template: {command: %s}}\n", name, command)
}

// N-8: an address rests for 60 s after its worker is gone, also when its run is,
// and then another worker may have it.
func TestAddressesRest(t *testing.T) {
	s := oneMachineSim(t)
	tick := func(text string, step time.Duration) {
		s.desired = declare(t, "c"+fmt.Sprint(s.now.Unix()), frame+"---\n"+oneNetwork+text)
		now := s.now
		s.tick()
		s.now = now.Add(step)
	}
	tick(plainRun("a", "sh"), time.Second)
	require.Equal(t, "10.240.3.2", s.placed[runNamed("a")].Workers[0].Address)
	tick(plainRun("b", "sh"), time.Second) // a is stopped
	require.Equal(t, "10.240.3.3", s.placed[runNamed("b")].Workers[0].Address)
	tick(plainRun("b", "sh"), time.Second) // a is gone
	a := s.placed[runNamed("a")]
	require.True(t, a.Vacant())
	require.Equal(t, []schema.ReleasedAddress{{Machine: "gpu-01", Address: "10.240.3.2", At: s.now.Add(-time.Second)}}, a.Released)
	_, shown := NewView(s.input(), Plan(s.input())).Run(runNamed("a"))
	require.False(t, shown, "what only keeps addresses is no run")
	tick(plainRun("b", "sh")+plainRun("c", "sh"), 58*time.Second)
	require.Equal(t, "10.240.3.4", s.placed[runNamed("c")].Workers[0].Address)
	require.Empty(t, Plan(s.input()).Decisions.Place, "nothing is written while it rests")
	require.Empty(t, Plan(s.input()).Decisions.Unplace)
	tick(plainRun("b", "sh")+plainRun("c", "sh"), time.Second)
	require.Contains(t, s.placed, runNamed("a"))
	tick(plainRun("b", "sh")+plainRun("c", "sh")+plainRun("d", "sh"), time.Second)
	require.NotContains(t, s.placed, runNamed("a"), "60 s are over")
	require.Equal(t, "10.240.3.2", s.placed[runNamed("d")].Workers[0].Address)
	require.Empty(t, s.problems)
}

// N-8, X-11: a replaced worker's address rests from when it has stopped; the new
// one has another.
func TestReplacedAddressesRest(t *testing.T) {
	s := oneMachineSim(t)
	s.desired = declare(t, "c1", frame+"---\n"+oneNetwork+plainRun("a", "sh"))
	require.True(t, s.converge())
	s.desired = declare(t, "c2", frame+"---\n"+oneNetwork+plainRun("a", "bash"))
	s.plan = Plan(s.input())
	s.accepted, s.placed = Apply(s.accepted, s.placed, s.plan.Decisions)
	a := s.placed[runNamed("a")]
	require.Equal(t, "10.240.3.3", a.Workers[0].Address)
	require.Equal(t, []schema.ReleasedAddress{{Machine: "gpu-01", Address: "10.240.3.2"}}, a.Released, "the older worker still runs")
	s.now = s.now.Add(time.Hour)
	s.desired = declare(t, "c3", frame+"---\n"+oneNetwork+plainRun("a", "bash")+plainRun("b", "sh"))
	stopped := s.now
	s.tick() // the older worker is stopped
	require.Equal(t, "10.240.3.4", s.placed[runNamed("b")].Workers[0].Address)
	s.now = stopped.Add(time.Second)
	s.tick()
	require.Equal(t, []schema.ReleasedAddress{{Machine: "gpu-01", Address: "10.240.3.2", At: stopped.Add(time.Second)}}, s.placed[runNamed("a")].Released)
	require.Empty(t, s.problems)
}

// N-8, X-12: what an ended run's workers had is free again after its rest.
func TestEndedRunsGiveTheirAddressesBack(t *testing.T) {
	s := oneMachineSim(t)
	s.desired = declare(t, "c1", frame+"---\n"+oneNetwork+plainRun("a", "sh"))
	require.True(t, s.converge())
	code := 0
	w := &s.machines["gpu-01"].Workers[0]
	w.State, w.ExitCode, w.Started, w.Ended = schema.WorkerSucceeded, &code, s.now, s.now
	ended := s.now
	s.tick()
	s.now = ended.Add(time.Second)
	require.Equal(t, schema.RunSucceeded, s.placed[runNamed("a")].Outcome)
	s.desired = declare(t, "c2", frame+"---\n"+oneNetwork+plainRun("a", "sh")+plainRun("b", "sh"))
	s.tick()
	require.Equal(t, "10.240.3.3", s.placed[runNamed("b")].Workers[0].Address)
	s.now = ended.Add(schema.AddressRest)
	s.desired = declare(t, "c3", frame+"---\n"+oneNetwork+plainRun("a", "sh")+plainRun("b", "sh")+plainRun("c", "sh"))
	s.tick()
	require.Equal(t, "10.240.3.2", s.placed[runNamed("c")].Workers[0].Address)
}

// N-8: a full node network is a reason to wait, not a way onto the host's.
func TestFullNodeNetwork(t *testing.T) {
	s := oneMachineSim(t)
	s.desired = declare(t, "c1", frame+"---\n"+oneNetwork+`
kind: ReplicaGroup
metadata: {name: many}
spec: {replicas: 254, task_template: {command: sh}}
---
kind: Run
metadata: {name: host}
spec: {network: {mode: host}, task_template: {command: sh}}
`)
	p := Plan(s.input())
	given := map[string]bool{}
	for _, pl := range p.Decisions.Place {
		if pl.Run != runNamed("host") {
			given[pl.Workers[0].Address] = true
		}
	}
	require.Len(t, given, 253, "10.240.3.2 to 10.240.3.254, each once")
	require.NotContains(t, given, "192.0.2.1")
	var waits []string
	for _, w := range p.Waits {
		if w.Worker == "" {
			waits = append(waits, w.Run.Name+": "+w.Summary())
		}
	}
	require.Equal(t, []string{"many-99: node network 10.240.3.0/24 has no free address"}, waits, "the host network takes any number")
}
