package dnszone

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

const benchNames = 100_000

// benchInput has 100,000 names in 20 namespaces: one worker a run, so that half are
// runs' names, as the servers' zone files have them.
func benchInput() Input {
	in := Input{Org: "acme", Domain: DefaultDomain}
	for i := range 20 {
		ns := Namespace{Name: fmt.Sprintf("ws-%012x", i)}
		for j := range benchNames / 40 {
			run := fmt.Sprintf("train-%04d", j)
			a := netip.AddrFrom4([4]byte{10, byte(i), byte(j >> 8), byte(j)})
			ns.Runs = append(ns.Runs, Run{Name: run, Workers: []Worker{{Name: run + "-0", Address: a, Running: true}}})
		}
		in.Namespaces = append(in.Namespaces, ns)
	}
	return in
}

// benchQuestions are packed questions: half in mixed case, one in ten missing.
func benchQuestions(zone *Zone, n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	var all []string
	for _, s := range zone.Shards {
		for _, name := range s.Names {
			all = append(all, name.Name+"."+s.Namespace+"."+zone.Domain+".")
		}
	}
	out := make([][]byte, n)
	for i := range out {
		m := query(benchName(r, all), dns.TypeA)
		out[i], _ = m.Pack()
	}
	return out
}

func benchName(r *rand.Rand, all []string) string {
	name := []byte(all[r.IntN(len(all))])
	if r.IntN(10) == 0 {
		name[0] = 'z' // none begins so
	}
	if r.IntN(2) == 0 {
		for i, c := range name {
			if 'a' <= c && c <= 'z' && r.IntN(2) == 0 {
				name[i] = c - 'a' + 'A'
			}
		}
	}
	return string(name)
}

// Aim: 100,000 names within 100 ms, from runs and workers to a table (N-3).
func BenchmarkBuild(b *testing.B) {
	in := benchInput()
	b.Run("zone", func(b *testing.B) {
		began, n := cpuTime(b), 0
		for b.Loop() {
			Build(in)
			n++
		}
		b.ReportMetric((cpuTime(b)-began).Seconds()*1000/float64(n), "cpu-ms/op")
	})
	zone := Build(in)
	require.Equal(b, benchNames, zone.Names())
	b.Run("table", func(b *testing.B) {
		began, n := cpuTime(b), 0
		for b.Loop() {
			compiled(b, zone, 1)
			n++
		}
		b.ReportMetric((cpuTime(b)-began).Seconds()*1000/float64(n), "cpu-ms/op")
	})
}

// Aim: at most 60 bytes a name.
func BenchmarkMemory(b *testing.B) {
	zone := Build(benchInput())
	for b.Loop() {
		before := heap()
		table := compiled(b, zone, 1)
		b.ReportMetric(float64(heap()-before)/float64(table.Len()), "B/name")
		runtime.KeepAlive(table)
	}
	runtime.KeepAlive(zone)
}

// cpuTime is what this process has computed: on a shared machine the wall says
// what the others did.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// One changed name among 100,000: from the delta's arrival to the table, and to an
// answer over a socket (aim: 5 ms).
func BenchmarkChange(b *testing.B) {
	zone := Build(benchInput())
	const ns = "ws-000000000003"
	deltas := func(table *Table, i int) *schema.ZoneUpdate {
		n := schema.ZoneName{Name: "train-0007-0", Kind: schema.NameWorker, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)})}}
		hash := table.spaces[ns].hash
		was, _ := table.Lookup("train-0007-0." + ns + "." + DefaultDomain)
		hash.Remove(was)
		hash.Add(n)
		to := table.Version()
		to.Serial++
		return &schema.ZoneUpdate{Format: 1, Org: "acme", Domain: DefaultDomain, From: table.Version(), To: to,
			Shards: []schema.ZoneShard{{Namespace: ns, Hash: hash.String(), Set: []schema.ZoneName{n}}}}
	}
	b.Run("table", func(b *testing.B) {
		table, i := compiled(b, zone, 1), 0
		for b.Loop() {
			i++
			next, err := table.Apply(deltas(table, i))
			require.NoError(b, err)
			table = next
		}
	})
	b.Run("answered", func(b *testing.B) {
		r := start(b)
		table, i := compiled(b, zone, 1), 0
		r.SetZone(table)
		keeper, problem := OpenKeeper(b.TempDir())
		require.NoError(b, problem)
		defer keeper.Close()
		keeper.table = table
		require.NoError(b, keeper.Save(table.Complete()))
		conn, err := dns.Dial("udp", r.at)
		require.NoError(b, err)
		defer conn.Close()
		var worst time.Duration
		for b.Loop() {
			i++
			u := deltas(keeper.Table(), i)
			begin := time.Now()
			next, err := keeper.Apply(u)
			require.NoError(b, err)
			r.SetZone(next)
			require.NoError(b, conn.WriteMsg(query("train-0007-0."+ns+"."+DefaultDomain, dns.TypeA)))
			m, err := conn.ReadMsg()
			worst = max(worst, time.Since(begin))
			require.NoError(b, err)
			require.Equal(b, u.Shards[0].Set[0].Addresses[0].String(), addresses(m)[0])
			require.NoError(b, keeper.Save(u))
		}
		b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	})
}

// The fast path without its system calls.
func BenchmarkAnswer(b *testing.B) {
	zone := Build(benchInput())
	table := compiled(b, zone, 1)
	questions := benchQuestions(zone, 1<<16)
	var q question
	out := make([]byte, 0, maxUDPReply)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if answerFast(table, &q, questions[i&(1<<16-1)], out) == nil {
			b.Fatal("not answered")
		}
		i++
	}
}
