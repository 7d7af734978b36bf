package reconciler

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// told is what a machine of an org that holds nothing would be sent: addresses by
// "<name>.<namespace>"; nil for nothing.
func (f *fakeLink) told(org string) map[string][]netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.zones == nil {
		return nil
	}
	return namesIn(f.zones.For(org, schema.ZoneHave{}))
}

func namesIn(u *schema.ZoneUpdate) map[string][]netip.Addr {
	if u == nil {
		return nil
	}
	out := map[string][]netip.Addr{}
	for _, s := range u.Shards {
		for _, n := range s.Set {
			out[n.Name+"."+s.Namespace] = n.Addresses
		}
	}
	return out
}

func (f *fakeLink) publications() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.named
}

func addrs(addresses ...string) (list []netip.Addr) {
	for _, a := range addresses {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

// machineAt is a machine with an address.
func machineAt(name, org, address string) *schema.Object {
	o := machineObject(name)
	o.Org, o.Spec = org, &schema.MachineSpec{Address: address}
	o.Rehash()
	return o
}

func endpointObject(name string, spec schema.EndpointSpec) *schema.Object {
	o := &schema.Object{Key: schema.Key{Kind: schema.KindEndpoint, Namespace: "ws-1", Name: name}, Org: "acme", Workspace: "w",
		Metadata: schema.Metadata{Name: name}, Spec: &spec}
	o.Rehash()
	return o
}

// runs is a report of a machine on which the runs' workers are in a state.
func runs(machine string, state schema.WorkerState, names ...string) schema.MachineReport {
	r := schema.MachineReport{Name: machine, Workers: []schema.Worker{}}
	for _, name := range names {
		r.Workers = append(r.Workers, schema.Worker{Run: "ws-1." + name, RunUID: "uid-ws-1." + name, Generation: 1, Name: name + "-0", State: state})
	}
	return r
}

// N-1, N-3, N-6, X-36: names go down when workers run, the first change at once,
// those after it together; an org has its own alone.
func TestNamesArePublished(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineAt("m1", "acme", "192.0.2.1"), machineAt("z1", "other", "192.0.2.9"), runObject("a"), runObject("b"), runObject("c"),
			endpointObject("api", schema.EndpointSpec{Run: "a", Port: 80}))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Nil(t, b.link.told("acme"), "nobody knows yet what runs")
		b.link.hear(runs("m1", schema.WorkerPreparing, "a"))
		synctest.Wait()
		require.Empty(t, b.link.told("acme"))
		require.NotNil(t, b.link.told("acme"), "known: there are no names")
		time.Sleep(time.Second)

		b.link.hear(runs("m1", schema.WorkerRunning, "a"))
		synctest.Wait() // no time passes
		require.Equal(t, map[string][]netip.Addr{"a.ws-1": addrs("192.0.2.1"), "a-0.ws-1": addrs("192.0.2.1"), "api.ws-1": addrs("192.0.2.1")}, b.link.told("acme"))
		require.Nil(t, b.link.told("other"), "N-6")
		b.link.hear(schema.MachineReport{Name: "z1", Workers: []schema.Worker{}})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, b.link.told("other"))
		require.NotNil(t, b.link.told("other"), "an org without names has an empty zone")
		b.link.hear(runs("m1", schema.WorkerRunning, "a", "c")) // the first change after a quiet time
		synctest.Wait()
		before := b.link.publications()
		for _, more := range [][]string{{"a", "b", "c"}, {"a", "b"}} {
			time.Sleep(50 * time.Millisecond)
			b.link.hear(runs("m1", schema.WorkerRunning, more...))
			synctest.Wait()
			require.NotContains(t, b.link.told("acme"), "b.ws-1")
		}
		time.Sleep(151 * time.Millisecond)
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "b.ws-1")
		require.NotContains(t, b.link.told("acme"), "c.ws-1")
		require.Equal(t, before+1, b.link.publications(), "both changes together")
		b.link.mu.Lock()
		require.Equal(t, map[string]string{"m1": "acme", "z1": "other"}, b.link.orgs)
		b.link.mu.Unlock()

		b.source.push("c2", machineAt("m1", "acme", "192.0.2.1"), machineAt("z1", "other", "192.0.2.9"), runObject("a"), runObject("c"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.NotContains(t, b.link.told("acme"), "b.ws-1", "its run is gone")
		require.NotContains(t, b.link.told("acme"), "api.ws-1", "and the endpoint")
	})
}

// a new leader sends nothing before it knows of every machine, or its
// grace is over.
func TestNamesWaitForTheGrace(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineAt("m1", "acme", "192.0.2.1"), machineAt("m2", "acme", "192.0.2.2"), runObject("a"))
		for range 28 {
			b.link.hear(runs("m1", schema.WorkerRunning, "a"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Nil(t, b.link.told("acme"), "m2 may run anything")
		for range 4 {
			b.link.hear(runs("m1", schema.WorkerRunning, "a"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "a-0.ws-1", "30 s of healthy leading")
	})
}

// N-1, X-9: a machine that is Down takes its names along; one that does not know
// what it runs does not.
func TestNamesOfLostWorkersGo(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineAt("m1", "acme", "192.0.2.1"), runObject("a"))
		time.Sleep(40 * time.Second)
		b.link.hear(runs("m1", schema.WorkerRunning, "a"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "a-0.ws-1")
		b.link.hear(schema.MachineReport{Name: "m1"})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "a-0.ws-1", "unknown is not gone")
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Empty(t, b.link.told("acme"))
	})
}

// N-1: an endpoint has the workers that pass its check, and a change of it is sent
// though it changes no plan.
func TestEndpointsFollowTheirChecks(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineAt("m1", "acme", "192.0.2.1"), runObject("a"),
			endpointObject("api", schema.EndpointSpec{Run: "a", Port: 80, HealthCheck: &schema.HealthCheck{TCP: true}}))
		time.Sleep(time.Second)
		b.link.hear(runs("m1", schema.WorkerRunning, "a"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.NotContains(t, b.link.told("acme"), "api.ws-1", "not checked yet")
		well := runs("m1", schema.WorkerRunning, "a")
		well.Checks = []schema.CheckState{{CheckID: schema.CheckID{Endpoint: "ws-1.api", RunUID: "uid-ws-1.a", Generation: 1, Worker: "a-0",
			Address: "192.0.2.1", Port: 80}, Passing: true}}
		passes := len(b.passes())
		b.link.hear(well)
		synctest.Wait()
		require.Equal(t, addrs("192.0.2.1"), b.link.told("acme")["api.ws-1"])
		b.link.hear(runs("m1", schema.WorkerRunning, "a")) // the agent has just begun and knows nothing
		time.Sleep(time.Second)
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "api.ws-1")
		ill := runs("m1", schema.WorkerRunning, "a")
		ill.Checks = []schema.CheckState{{CheckID: well.Checks[0].CheckID}}
		b.link.hear(ill)
		synctest.Wait()
		require.NotContains(t, b.link.told("acme"), "api.ws-1")
		require.Equal(t, passes, len(b.passes()), "no plan was made for it")
	})
}

// while the store fails, nothing is sent of names.
func TestStoreErrorFreezesTheZone(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", machineAt("m1", "acme", "192.0.2.1"), runObject("a"))
		time.Sleep(time.Second)
		b.link.hear(runs("m1", schema.WorkerRunning, "a"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "a-0.ws-1")
		b.store.fail(errors.New("disk full"))
		b.source.push("c2", machineAt("m1", "acme", "192.0.2.1"), runObject("a"), runObject("b")) // a write that fails
		time.Sleep(time.Second)
		b.link.hear(runs("m1", schema.WorkerSucceeded, "a"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Contains(t, b.link.told("acme"), "a-0.ws-1")
		b.store.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.NotContains(t, b.link.told("acme"), "a-0.ws-1")
	})
}

// what is built anew of a zone is what building all of it would give.
func TestNamesPartialIsFull(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := namesWorld{rt: rt, state: newFakeStore().state, states: map[string]schema.MachineState{}}
		w.names = newNames(1, nil)
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			w.step()
			w.names.build(w.input(), "astraeus.local")
			full := newNames(1, nil)
			full.known = w.names.known
			full.build(w.input(), "astraeus.local")
			for org, zone := range full.built {
				w.same(org, zone, w.names.built[org])
			}
			w.sameAsView(full.built)
			for org, zone := range w.names.built {
				if full.built[org] == nil {
					require.Zero(rt, zone.Names(), org)
				}
			}
		}
	})
}

// namesWorld is a store and machines that change in all the ways that names depend on.
type namesWorld struct {
	rt     *rapid.T
	names  *names
	state  *store.State
	states map[string]schema.MachineState
}

func (w *namesWorld) input() planner.NamesInput {
	return planner.NamesInput{Accepted: w.state.Accepted.Objects, Placed: w.state.Placed, Reports: w.names.known, States: w.states}
}

func (w *namesWorld) same(org string, full, partial *dnszone.Zone) {
	require.NotNil(w.rt, partial, org)
	require.Equal(w.rt, len(full.Shards), len(partial.Shards))
	for ns, shard := range full.Shards {
		require.NotNil(w.rt, partial.Shards[ns], ns)
		require.Equal(w.rt, shard.Names, partial.Shards[ns].Names, ns)
		require.Equal(w.rt, shard.Hash, partial.Shards[ns].Hash)
	}
}

// sameAsView: what people are told is what is sent (N-8).
func (w *namesWorld) sameAsView(built map[string]*dnszone.Zone) {
	in := planner.Input{Accepted: w.state.Accepted, Placed: w.state.Placed}
	for _, r := range w.names.known {
		copied := *r
		copied.State = w.states[r.Name]
		in.Observed.Machines = append(in.Observed.Machines, &copied)
	}
	told, sent := map[string]string{}, map[string]string{}
	for _, n := range planner.NewView(in, schema.Plan{}).Names() {
		if len(n.Addresses) > 0 {
			told[n.Name] = fmt.Sprint(n.Kind, n.Addresses)
		}
	}
	for _, zone := range built {
		for ns, shard := range zone.Shards {
			for _, n := range shard.Names {
				sent[n.Name+"."+ns+".astraeus.local"] = fmt.Sprint(string(n.Kind), n.Addresses)
			}
		}
	}
	require.Equal(w.rt, sent, told)
}

func (w *namesWorld) decide(d schema.Decisions) {
	w.state = w.state.Apply(d)
	w.names.decided(&d)
}

func (w *namesWorld) step() {
	machine := rapid.SampledFrom([]string{"m1", "m2"}).Draw(w.rt, "machine")
	run := runKey(rapid.SampledFrom([]string{"a", "b"}).Draw(w.rt, "run"))
	run.Namespace = rapid.SampledFrom([]string{"ws-1", "ws-2"}).Draw(w.rt, "namespace")
	org := map[string]string{"ws-1": "acme", "ws-2": "other"}[run.Namespace]
	accept := func(o *schema.Object) {
		w.decide(schema.Decisions{Accept: []schema.Acceptance{{Object: schema.AcceptedObject{UID: "u-" + o.Key.Scoped(), Generation: 1, Object: o}}}})
	}
	switch rapid.IntRange(0, 7).Draw(w.rt, "what") {
	case 0:
		accept(machineAt(machine, org, fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 3).Draw(w.rt, "address"))))
	case 1:
		o := runObject(run.Name)
		o.Key, o.Org = run, org
		accept(o)
		w.decide(schema.Decisions{Place: []schema.Placement{{Run: run, RunUID: "u-" + run.Scoped(), Generation: 1, Org: org, Spec: o.Spec.(*schema.RunSpec),
			Workers: []schema.PlacedWorker{{Name: run.Name + "-0", Machine: machine}}}}})
	case 2:
		w.decide(schema.Decisions{Unplace: []schema.Key{run}, Remove: []schema.Removal{{Key: run}}})
	case 3:
		e := endpointObject("api", schema.EndpointSpec{Run: run.Name, Port: rapid.IntRange(1, 2).Draw(w.rt, "port"),
			HealthCheck: rapid.SampledFrom([]*schema.HealthCheck{nil, {TCP: true}}).Draw(w.rt, "check")})
		e.Key.Namespace, e.Org = run.Namespace, org
		accept(e)
	case 4:
		w.decide(schema.Decisions{Remove: []schema.Removal{{Key: schema.Key{Kind: schema.KindEndpoint, Namespace: run.Namespace, Name: "api"}}}})
	case 5:
		old := maps.Clone(w.states)
		w.states[machine] = rapid.SampledFrom([]schema.MachineState{schema.MachineUp, schema.MachineDown, schema.MachineUnknown}).Draw(w.rt, "state")
		w.names.moved(old, w.states)
	default:
		w.names.report(w.report(machine))
	}
}

// report is what a machine may say: also of workers that are not its own any more.
func (w *namesWorld) report(machine string) *schema.MachineReport {
	r := &schema.MachineReport{Name: machine, Address: rapid.SampledFrom([]string{"", "192.0.2.7"}).Draw(w.rt, "says")}
	if rapid.IntRange(0, 4).Draw(w.rt, "known") == 0 {
		return r
	}
	r.Workers, r.Checks = []schema.Worker{}, []schema.CheckState{}
	for _, ns := range []string{"ws-1", "ws-2"} {
		for _, name := range []string{"a", "b"} {
			state := rapid.SampledFrom([]schema.WorkerState{"", schema.WorkerPreparing, schema.WorkerRunning, schema.WorkerFailed}).Draw(w.rt, "worker")
			if state == "" {
				continue
			}
			r.Workers = append(r.Workers, schema.Worker{Run: ns + "." + name, RunUID: "u-" + ns + "." + name, Generation: 1, Name: name + "-0", State: state})
			r.Checks = append(r.Checks, schema.CheckState{Passing: rapid.Bool().Draw(w.rt, "passes"), CheckID: schema.CheckID{Endpoint: ns + ".api",
				RunUID: "u-" + ns + "." + name, Generation: 1, Worker: name + "-0", Port: rapid.IntRange(1, 2).Draw(w.rt, "checked"),
				Address: rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "192.0.2.7"}).Draw(w.rt, "at")}})
		}
	}
	return r
}

// a store that does not know yet what is in force sends no names.
func TestNoNamesWhileAdopting(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t, func(c *Config) {
			s := c.Store.(*fakeStore)
			state := *s.state
			state.Meta.Adopting, state.Meta.ClusterUID = true, "" // as long as no machine has told
			m := machineAt("m1", "acme", "192.0.2.1")
			e := endpointObject("api", schema.EndpointSpec{Run: "a"})
			state.Accepted.Objects = map[schema.Key]*schema.AcceptedObject{m.Key: {UID: "u", Generation: 1, Object: m},
				e.Key: {UID: "e", Generation: 1, Object: e}}
			s.state = &state
		})
		defer b.stop()
		for range 60 {
			b.link.hear(runs("m1", schema.WorkerRunning, "a"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Nil(t, b.link.told("acme"))
	})
}
