package dnszone

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

const testNS = "ws-3f9c2a7d41be"

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func worker(name, group string, index int, address string, running bool) Worker {
	return Worker{Name: name, Group: group, Index: index, Address: addr(address), Running: running}
}

// names is a shard as text: "train [worker] 10.240.3.7 10.240.3.8".
func names(s *Shard) []string {
	out := []string{}
	for _, n := range s.Names {
		line := n.Name + " [" + string(n.Kind) + "]"
		for _, a := range n.Addresses {
			line += " " + a.String()
		}
		out = append(out, line)
	}
	return out
}

// N-1, N-2: what has a name, and while what.
func TestBuild(t *testing.T) {
	for name, c := range map[string]struct {
		in   Namespace
		want []string
	}{
		"the run is its leader": {
			in: Namespace{Runs: []Run{{Name: "train", Workers: []Worker{
				worker("train-1", "", 1, "10.240.4.2", true), worker("train-0", "", 0, "10.240.3.7", true)}}}},
			want: []string{"train [run] 10.240.3.7", "train-0 [worker] 10.240.3.7", "train-1 [worker] 10.240.4.2"},
		},
		"the leader is worker 0 of the leader group": {
			in: Namespace{Runs: []Run{{Name: "rl", LeaderGroup: "learner", Workers: []Worker{
				worker("rl-actor-0", "actor", 0, "10.240.3.7", true), worker("rl-learner-0", "learner", 0, "10.240.3.8", true)}}}},
			want: []string{"rl [run] 10.240.3.8", "rl-actor-0 [worker] 10.240.3.7", "rl-learner-0 [worker] 10.240.3.8"},
		},
		"leader not running: every running worker": {
			in: Namespace{Runs: []Run{{Name: "train", Workers: []Worker{
				worker("train-0", "", 0, "10.240.3.7", false), worker("train-2", "", 2, "10.240.4.3", true), worker("train-1", "", 1, "10.240.4.2", true)}}}},
			want: []string{"train [run] 10.240.4.2 10.240.4.3", "train-1 [worker] 10.240.4.2", "train-2 [worker] 10.240.4.3"},
		},
		"no running worker: no name": {
			in:   Namespace{Runs: []Run{{Name: "train", Workers: []Worker{worker("train-0", "", 0, "10.240.3.7", false)}}}},
			want: []string{},
		},
		"workers of the host network share their machine's address": {
			in: Namespace{Runs: []Run{{Name: "train", Workers: []Worker{
				worker("train-1", "", 1, "192.0.2.1", true), worker("train-2", "", 2, "192.0.2.1", true)}}}},
			want: []string{"train [run] 192.0.2.1", "train-1 [worker] 192.0.2.1", "train-2 [worker] 192.0.2.1"},
		},
		"an endpoint is its ready workers": {
			in:   Namespace{Endpoints: []Endpoint{{Name: "llm", Ready: []netip.Addr{addr("10.240.4.2"), addr("10.240.3.7"), addr("::ffff:10.240.3.7")}}, {Name: "down"}}},
			want: []string{"llm [endpoint] 10.240.3.7 10.240.4.2"},
		},
		"names are kept in lower case, and only IPv4 is answered": {
			in: Namespace{Runs: []Run{{Name: "Eval_A", Workers: []Worker{
				worker("Eval_A-0", "", 0, "10.240.3.7", true), worker("Eval_A-1", "", 1, "2001:db8::1", true)}}}},
			want: []string{"eval_a [run] 10.240.3.7", "eval_a-0 [worker] 10.240.3.7"},
		},
		"a worker without an address has no name": {
			in:   Namespace{Runs: []Run{{Name: "x", Workers: []Worker{{Name: "x-0", Running: true}}}}},
			want: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Name = testNS
			require.Equal(t, c.want, names(BuildShard(&c.in)))
		})
	}
}

// the same names have the same hash, in whatever order they came.
func TestBuildDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		zone := Build(in)
		for i := range in.Namespaces {
			slices.Reverse(in.Namespaces[i].Runs)
			slices.Reverse(in.Namespaces[i].Endpoints)
		}
		slices.Reverse(in.Namespaces)
		require.Equal(t, zone, Build(in))
	})
}

// drawInput draws a small org; equal names may come twice.
func drawInput(t *rapid.T) Input {
	in := Input{Org: "acme", Domain: DefaultDomain}
	for i := range rapid.IntRange(0, 4).Draw(t, "namespaces") {
		ns := Namespace{Name: fmt.Sprintf("ws-%012x", i)}
		for j := range rapid.IntRange(0, 5).Draw(t, "runs") {
			run := Run{Name: fmt.Sprintf("r%d", j)}
			for k := range rapid.IntRange(1, 4).Draw(t, "workers") {
				a := netip.AddrFrom4([4]byte{10, 240, byte(rapid.IntRange(0, 1).Draw(t, "net")), byte(rapid.IntRange(1, 8).Draw(t, "host"))})
				run.Workers = append(run.Workers, Worker{Name: schema.WorkerName(run.Name, "", k), Index: k, Address: a, Running: rapid.Bool().Draw(t, "running")})
			}
			ns.Runs = append(ns.Runs, run)
		}
		in.Namespaces = append(in.Namespaces, ns)
	}
	return in
}

// content is what a table holds, in plain words.
func content(t *Table) map[string][]schema.ZoneName {
	out := map[string][]schema.ZoneName{}
	for _, s := range t.Complete().Shards {
		out[s.Namespace] = s.Set
	}
	return out
}

func wanted(z *Zone) map[string][]schema.ZoneName {
	out := map[string][]schema.ZoneName{}
	for ns, s := range z.Shards {
		out[ns] = s.Names
	}
	return out
}

// N-3, X-36: whatever a machine held, what the feed sends it leads to the current
// zone, by deltas, by the shards that differ, or whole; lookups, namespaces and
// names of addresses agree with it.
func TestUpdatesLeadToTheZone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		feed := NewFeed(1, 7)
		now := time.Unix(1, 0)
		var machines [3]*Table
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			zone := Build(drawInput(t))
			feed.Offer(zone)
			now = now.Add(time.Second)
			feed.Publish(now)
			for i, table := range machines {
				if i > 0 && !rapid.Bool().Draw(t, "hears of it") {
					continue
				}
				have := table.Have()
				if rapid.Bool().Draw(t, "version alone") {
					have.Shards = nil
				}
				if rapid.IntRange(0, 9).Draw(t, "stranger") == 0 {
					have.ZoneVersion = schema.ZoneVersion{Epoch: 1, Term: 3, Serial: 99}
				}
				if u := feed.For(have); u != nil {
					next, err := table.Apply(u)
					require.NoError(t, err)
					machines[i] = next
				}
				if machines[i] != nil {
					checkTable(t, feed.Zone(), machines[i])
				}
			}
		}
	})
}

func checkTable(t *rapid.T, zone *Zone, table *Table) {
	require.Equal(t, wanted(zone), content(table))
	require.Equal(t, zone.Names(), table.Len())
	workers := map[netip.Addr][]string{}
	for ns, shard := range zone.Shards {
		require.True(t, table.HasNamespace(ns))
		key, _ := wireKey("", ns)
		require.NotNil(t, table.find(key))
		for _, n := range shard.Names {
			rec, ok := table.Lookup(n.Name + "." + ns + ".Astraeus.local.")
			require.True(t, ok)
			require.Equal(t, n, rec)
			if n.Kind == schema.NameWorker {
				workers[n.Addresses[0]] = append(workers[n.Addresses[0]], n.Name+"."+ns)
			}
		}
	}
	for i := range 4 {
		ns := fmt.Sprintf("ws-%012x", i)
		key, _ := wireKey("", ns)
		require.Equal(t, zone.Shards[ns] != nil, table.find(key) != nil, "an empty namespace is gone")
	}
	for net := range 2 {
		for host := range 10 {
			a := netip.AddrFrom4([4]byte{10, 240, byte(net), byte(host)})
			var got []string
			for _, key := range table.namesOf(a) {
				got = append(got, string(key[1:1+key[0]])+"."+keySpace(key))
			}
			require.ElementsMatch(t, workers[a], got)
		}
	}
}

// the first change at once, then batches of 250 ms.
func TestFeedBatches(t *testing.T) {
	zone := func(n int) *Zone {
		return Build(Input{Namespaces: []Namespace{{Name: testNS, Runs: []Run{{Name: "r", Workers: []Worker{worker(fmt.Sprintf("r-%d", n), "", 1, "10.0.0.1", true)}}}}}})
	}
	feed, now := NewFeed(1, 1), time.Unix(100, 0)
	publish := func(n int) (bool, time.Duration) {
		feed.Offer(zone(n))
		return feed.Publish(now)
	}
	changed, _ := publish(0)
	require.True(t, changed, "the first change goes at once")
	now = now.Add(100 * time.Millisecond)
	changed, wait := publish(1)
	require.False(t, changed)
	require.Equal(t, 150*time.Millisecond, wait)
	changed, _ = publish(0)
	require.False(t, changed)
	now = now.Add(wait)
	changed, wait = feed.Publish(now)
	require.False(t, changed, "back to what was sent: nothing to say")
	require.Zero(t, wait)
	changed, _ = publish(2)
	require.True(t, changed)
	u := feed.For(schema.ZoneHave{ZoneVersion: schema.ZoneVersion{Epoch: 1, Term: 1, Serial: 1}})
	require.Len(t, u.Shards, 1)
	require.Equal(t, []string{"r-0"}, u.Shards[0].Gone)
	require.Same(t, u, feed.For(schema.ZoneHave{ZoneVersion: u.From}), "made and encoded once")
	require.Nil(t, feed.For(schema.ZoneHave{ZoneVersion: feed.Version()}))
}

// N-6: a machine that changes hands gets the names of its new org, though both
// zones have one version.
func TestFeedTellsOrgsApart(t *testing.T) {
	have := schema.ZoneHave{}
	for _, org := range []string{"acme", "other"} {
		f := NewFeed(1, 1)
		f.Offer(Build(Input{Org: org}))
		changed, _ := f.Publish(time.Unix(1, 0))
		require.True(t, changed)
		u := f.For(have)
		require.NotNil(t, u, org)
		require.Equal(t, org, u.Org)
		have = schema.ZoneHave{ZoneVersion: u.To, Org: org}
		require.Nil(t, f.For(have))
	}
}
