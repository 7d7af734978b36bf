package dnszone

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const otherNS = "ws-8d01e44b7c2a"

// testZone is the zone of most tests.
func testZone() *Zone {
	big := make([]netip.Addr, 100)
	for i := range big {
		big[i] = netip.AddrFrom4([4]byte{10, 240, 9, byte(i + 1)})
	}
	return Build(Input{Org: "acme", Domain: DefaultDomain, Namespaces: []Namespace{
		{Name: testNS, Runs: []Run{
			{Name: "train", Workers: []Worker{worker("train-0", "", 0, "10.240.3.7", true), worker("train-1", "", 1, "10.240.4.2", true)}},
			{Name: "Eval_A", Workers: []Worker{worker("Eval_A-0", "", 0, "10.240.3.8", true)}},
			{Name: "hosted", Workers: []Worker{worker("hosted-0", "", 0, "192.0.2.9", true), worker("hosted-1", "", 1, "192.0.2.9", true)}},
		}, Endpoints: []Endpoint{{Name: "big", Ready: big}, {Name: "llm", Ready: []netip.Addr{addr("10.240.3.7"), addr("10.240.4.2")}}}},
		{Name: otherNS, Runs: []Run{{Name: "api", Workers: []Worker{worker("api-0", "", 0, "10.240.5.5", true)}}}},
	}})
}

func compiled(t testing.TB, zone *Zone, serial int64) *Table {
	t.Helper()
	table, err := Compile(zone, schema.ZoneVersion{Epoch: 1, Term: 1, Serial: serial})
	require.NoError(t, err)
	return table
}

// rig is a server that answers on a loopback address.
type rig struct {
	*Server
	at         string
	resolvConf string
	stop       func()
}

// eachWay runs a test of behaviour with the fast path and without it: both pass
// the same suite.
func eachWay(t *testing.T, test func(t *testing.T, start func(...func(*Config)) *rig)) {
	for _, plain := range []bool{true, false} {
		name := "fast"
		if plain {
			name = "plain"
		}
		t.Run(name, func(t *testing.T) {
			if !plain && runtime.GOOS != "linux" {
				t.Skip("the fast path is Linux's")
			}
			test(t, func(change ...func(*Config)) *rig {
				return start(t, append(change, func(c *Config) { c.plain = plain })...)
			})
		})
	}
}

// start serves the test's zone to anybody on loopback.
func start(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "resolv.conf")
	require.NoError(t, os.WriteFile(conf, nil, 0o600))
	cfg := Config{Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		ResolvConf: conf, ResolvedConf: filepath.Join(dir, "none"), ClientRate: 10_000_000}
	for _, f := range change {
		f(&cfg)
	}
	s, err := Listen(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stopped := false
	r := &rig{Server: s, at: s.Addr().String(), resolvConf: cfg.ResolvConf, stop: func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}}
	t.Cleanup(r.stop)
	s.SetZone(compiled(t, testZone(), 5))
	s.SetClients(nil)
	return r
}

func query(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	return m
}

// ask sends one message by "udp" or "tcp" and requires an answer.
func (r *rig) ask(t testing.TB, network string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 10 * time.Second, UDPSize: 65535}
	answer, _, err := c.Exchange(m, r.at)
	require.NoError(t, err)
	return answer
}

// eachNet asks by both and requires the same answer.
func (r *rig) eachNet(t testing.TB, m *dns.Msg) *dns.Msg {
	t.Helper()
	udp, tcp := r.ask(t, "udp", m), r.ask(t, "tcp", m)
	require.Equal(t, udp.String(), tcp.String())
	return udp
}

func addresses(m *dns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		out = append(out, rr.(*dns.A).A.String())
	}
	return out
}

// requireNegative: SOA in the authority section, TTL and MINIMUM 5 (coredns#2294).
func requireNegative(t *testing.T, m *dns.Msg, rcode int) {
	t.Helper()
	require.Equal(t, dns.RcodeToString[rcode], dns.RcodeToString[m.Rcode])
	require.Empty(t, m.Answer)
	require.True(t, m.Authoritative)
	require.Len(t, m.Ns, 1)
	soa := m.Ns[0].(*dns.SOA)
	require.EqualValues(t, 5, soa.Hdr.Ttl)
	require.EqualValues(t, 5, soa.Minttl)
	require.EqualValues(t, 5, soa.Serial)
	require.True(t, dns.IsSubDomain(soa.Hdr.Name, m.Question[0].Name))
}

// N-1, N-4: a name's A records with TTL 5, by UDP and TCP.
func TestAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		for name, want := range map[string][]string{
			"train-1": {"10.240.4.2"}, "train": {"10.240.3.7"}, "llm": {"10.240.3.7", "10.240.4.2"}, "eval_a-0": {"10.240.3.8"},
		} {
			m := r.eachNet(t, query(name+"."+testNS+".astraeus.local", dns.TypeA))
			require.Equal(t, dns.RcodeSuccess, m.Rcode)
			require.ElementsMatch(t, want, addresses(m))
			require.True(t, m.Response && m.Authoritative && m.RecursionDesired && m.RecursionAvailable)
			require.False(t, m.Truncated || m.AuthenticatedData)
			for _, rr := range m.Answer {
				require.EqualValues(t, 5, rr.Header().Ttl)
				require.EqualValues(t, dns.ClassINET, rr.Header().Class)
			}
			require.Empty(t, m.Ns)
			require.Empty(t, m.Extra)
		}
	})
}

// N-4: names are looked up without regard to case, and the question's case is
// echoed, also in the record's own name.
func TestCaseIsEchoed(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		name := "tRaIn-0.WS-3f9C2a7D41bE.aStRaEuS.LoCaL."
		m := start().eachNet(t, query(name, dns.TypeA))
		require.Equal(t, name, m.Question[0].Name)
		require.Equal(t, name, m.Answer[0].Header().Name)
		require.Equal(t, []string{"10.240.3.7"}, addresses(m))
	})
}

// N-4: an existing name of another type is NODATA with SOA, never NXDOMAIN and
// never forwarded (coredns#779, #2564, #8282); a missing name is NXDOMAIN whatever
// the type (coredns#5736).
func TestNegativeAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		for _, qtype := range []uint16{dns.TypeAAAA, dns.TypeHTTPS, dns.TypeTXT, dns.TypeMX, dns.TypeSOA, dns.TypeNS, dns.TypeCNAME, dns.TypeSRV, dns.TypePTR, dns.TypeDS, 65280} {
			requireNegative(t, r.eachNet(t, query("train-0."+testNS+".astraeus.local", qtype)), dns.RcodeSuccess)
			requireNegative(t, r.eachNet(t, query("gone."+testNS+".astraeus.local", qtype)), dns.RcodeNameError)
			requireNegative(t, r.eachNet(t, query("a.train-0."+testNS+".astraeus.local", qtype)), dns.RcodeNameError)
			requireNegative(t, r.eachNet(t, query("_tcp."+testNS+".astraeus.local", qtype)), dns.RcodeNameError)
		}
		for _, name := range []string{"train-2." + testNS, "train.ws-000000000000", "ws-000000000000", "train", "train-0", "big-headless." + testNS} {
			requireNegative(t, r.eachNet(t, query(name+".astraeus.local", dns.TypeA)), dns.RcodeNameError)
		}
	})
}

// The apex and a namespace are NODATA for every type (coredns#1228), the apex's SOA
// apart; a namespace whose last name is gone is gone too.
func TestEmptyNonTerminals(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeDS, dns.TypeTXT} {
			requireNegative(t, r.eachNet(t, query("astraeus.local", qtype)), dns.RcodeSuccess)
			requireNegative(t, r.eachNet(t, query(otherNS+".astraeus.local", qtype)), dns.RcodeSuccess)
		}
		m := r.eachNet(t, query("astraeus.local", dns.TypeSOA))
		require.Len(t, m.Answer, 1)
		require.EqualValues(t, 5, m.Answer[0].(*dns.SOA).Serial)

		next := testZone().With(&Shard{Namespace: otherNS})
		table, err := r.Zone().Apply(&schema.ZoneUpdate{Format: 1, Org: "acme", Domain: DefaultDomain, From: r.Zone().Version(), To: r.Zone().Version(),
			Shards: difference(testZone(), next)})
		require.NoError(t, err)
		r.SetZone(table)
		requireNegative(t, r.eachNet(t, query(otherNS+".astraeus.local", dns.TypeA)), dns.RcodeNameError)
		requireNegative(t, r.eachNet(t, query("api."+otherNS+".astraeus.local", dns.TypeA)), dns.RcodeNameError)
		requireNegative(t, r.eachNet(t, query(testNS+".astraeus.local", dns.TypeA)), dns.RcodeSuccess)
	})
}

// N-3: before the first zone SERVFAIL, never NXDOMAIN (coredns#5481), and before
// the clients' policies are known nothing either.
func TestBeforeTheFirstZone(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		r.SetZone(nil)
		for _, name := range []string{"train-0." + testNS + ".astraeus.local", "gone.astraeus.local", "example.org"} {
			m := r.eachNet(t, query(name, dns.TypeA))
			require.Equal(t, dns.RcodeServerFailure, m.Rcode)
			require.Empty(t, m.Ns)
		}
		r.SetZone(compiled(t, testZone(), 5))
		r.clients.Store(nil)
		require.Equal(t, dns.RcodeServerFailure, r.eachNet(t, query("train-0."+testNS+".astraeus.local", dns.TypeA)).Rcode)
	})
}

// N-4: 512 bytes without OPT, else the client's size within 512..1232; more is cut
// off with TC and is whole by TCP (podman#23796, consul#1931).
func TestTruncation(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		name := "big." + testNS + ".astraeus.local"
		for size, want := range map[uint16]int{0: 512, 1: 512, 512: 512, 700: 700, 1232: 1232, 4096: 1232, 65535: 1232} {
			m := query(name, dns.TypeA)
			if size > 0 {
				m.SetEdns0(size, false)
			}
			answer := r.ask(t, "udp", m)
			require.True(t, answer.Truncated)
			answer.Compress = true
			require.LessOrEqual(t, answer.Len(), want)
			require.Greater(t, answer.Len(), want-16, "as many as fit")
			whole := r.ask(t, "tcp", m)
			require.False(t, whole.Truncated)
			require.Len(t, whole.Answer, 100)
		}
		seen := map[string]bool{}
		for id := range uint16(100) {
			m := query(name, dns.TypeA)
			m.Id = id
			seen[addresses(r.ask(t, "udp", m))[0]] = true
		}
		require.Len(t, seen, 100, "every address comes first in its turn")
	})
}

// N-4: EDNS is answered with EDNS and only with it (coredns#5366); a version other
// than 0 is BADVERS; DO is copied; options are let be.
func TestEDNS(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		for _, name := range []string{"train-0." + testNS + ".astraeus.local", "gone.astraeus.local"} {
			require.Nil(t, r.eachNet(t, query(name, dns.TypeA)).IsEdns0())
			for _, do := range []bool{false, true} {
				m := query(name, dns.TypeA)
				m.SetEdns0(4096, do)
				opt := r.eachNet(t, m).IsEdns0()
				require.NotNil(t, opt)
				require.EqualValues(t, 0, opt.Version())
				require.EqualValues(t, 1232, opt.UDPSize())
				require.Equal(t, do, opt.Do())
				require.Empty(t, opt.Option)
				m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "24a5ac1223344556"}}
				require.Equal(t, opt.String(), r.eachNet(t, m).IsEdns0().String())
			}
			m := query(name, dns.TypeA)
			m.SetEdns0(4096, false)
			m.IsEdns0().SetVersion(1)
			answer := r.eachNet(t, m)
			require.Equal(t, dns.RcodeBadVers, answer.Rcode)
			require.EqualValues(t, 0, answer.IsEdns0().Version())
			require.Empty(t, answer.Answer)
		}
		m := query("train-0."+testNS+".astraeus.local", dns.TypeA)
		m.SetEdns0(512, false)
		m.SetEdns0(1232, false)
		require.Equal(t, dns.RcodeFormatError, r.eachNet(t, m).Rcode, "two OPT records")
	})
}

// ANY is one RRset (RFC 8482).
func TestANY(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		require.Equal(t, []string{"10.240.3.7"}, addresses(r.eachNet(t, query("train-0."+testNS+".astraeus.local", dns.TypeANY))))
		requireNegative(t, r.eachNet(t, query(testNS+".astraeus.local", dns.TypeANY)), dns.RcodeSuccess)
		requireNegative(t, r.eachNet(t, query("gone.astraeus.local", dns.TypeANY)), dns.RcodeNameError)
		require.Len(t, r.eachNet(t, query("astraeus.local", dns.TypeANY)).Answer, 1)
	})
}

// Messages that are no ordinary question.
func TestOddMessages(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		name := "train-0." + testNS + ".astraeus.local"
		for _, opcode := range []int{dns.OpcodeNotify, dns.OpcodeUpdate, dns.OpcodeStatus, dns.OpcodeIQuery, 9} {
			m := query(name, dns.TypeA)
			m.Opcode = opcode
			answer := r.eachNet(t, m)
			require.Equal(t, dns.RcodeNotImplemented, answer.Rcode)
			require.Equal(t, opcode, answer.Opcode)
		}
		two := query(name, dns.TypeA)
		two.Question = append(two.Question, two.Question[0])
		require.Equal(t, dns.RcodeFormatError, r.eachNet(t, two).Rcode)
		none := query(name, dns.TypeA)
		none.Question = nil
		require.Equal(t, dns.RcodeFormatError, r.eachNet(t, none).Rcode)
		for _, qtype := range []uint16{dns.TypeAXFR, dns.TypeIXFR} {
			require.Equal(t, dns.RcodeRefused, r.eachNet(t, query("astraeus.local", qtype)).Rcode)
		}
		chaos := query("version.bind", dns.TypeTXT)
		chaos.Question[0].Qclass = dns.ClassCHAOS
		require.Equal(t, dns.RcodeRefused, r.eachNet(t, chaos).Rcode)

		// An answer is dropped: the next message is answered first.
		conn, err := net.Dial("udp", r.at)
		require.NoError(t, err)
		defer conn.Close()
		answer := query(name, dns.TypeA)
		answer.Response, answer.Id = true, 1
		after := query(name, dns.TypeA)
		after.Id = 2
		for _, m := range []*dns.Msg{answer, after} {
			data, err := m.Pack()
			require.NoError(t, err)
			_, err = conn.Write(data)
			require.NoError(t, err)
		}
		c := &dns.Conn{Conn: conn}
		got, err := c.ReadMsg()
		require.NoError(t, err)
		require.EqualValues(t, 2, got.Id)
	})
}

// "_" is accepted, labels have 63 bytes, names 255 in all.
func TestLongNames(t *testing.T) {
	label := strings.Repeat("a", 61) + "_b"
	zone := Build(Input{Org: "acme", Namespaces: []Namespace{{Name: testNS, Runs: []Run{{Name: label, Workers: []Worker{worker("x-1", "", 1, "10.0.0.9", true)}}}}}})
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		r.SetZone(compiled(t, zone, 5))
		require.Equal(t, []string{"10.0.0.9"}, addresses(r.eachNet(t, query(label+"."+testNS+".astraeus.local", dns.TypeA))))
		long := strings.Repeat(strings.Repeat("x", 63)+".", 3)
		long += strings.Repeat("y", 255-2-len(long)-1-len("astraeus.local")) + ".astraeus.local"
		require.Len(t, long, 253)
		requireNegative(t, r.eachNet(t, query(long, dns.TypeA)), dns.RcodeNameError)
	})
}

// Several questions a TCP connection, also sent before the first is answered.
func TestSeveralQuestionsAConnection(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		conn, err := dns.DialTimeout("tcp", start().at, 10*time.Second)
		require.NoError(t, err)
		defer conn.Close()
		for id := range uint16(20) {
			m := query("train-1."+testNS+".astraeus.local", dns.TypeA)
			m.Id = id
			require.NoError(t, conn.WriteMsg(m))
		}
		for id := range uint16(20) {
			m, err := conn.ReadMsg()
			require.NoError(t, err)
			require.Equal(t, id, m.Id)
			require.Equal(t, []string{"10.240.4.2"}, addresses(m))
		}
	})
}

// PTR for our own addresses: the workers that have them.
func TestPTR(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		ptr := func(a string, qtype uint16) *dns.Msg {
			name, err := dns.ReverseAddr(a)
			require.NoError(t, err)
			return r.eachNet(t, query(name, qtype))
		}
		targets := func(m *dns.Msg) (out []string) {
			for _, rr := range m.Answer {
				out = append(out, rr.(*dns.PTR).Ptr)
			}
			return out
		}
		require.Equal(t, []string{"train-0." + testNS + ".astraeus.local."}, targets(ptr("10.240.3.7", dns.TypePTR)))
		require.ElementsMatch(t, []string{"hosted-0." + testNS + ".astraeus.local.", "hosted-1." + testNS + ".astraeus.local."},
			targets(ptr("192.0.2.9", dns.TypePTR)))
		requireNegative(t, ptr("10.240.3.7", dns.TypeTXT), dns.RcodeSuccess)
		require.Equal(t, dns.RcodeServerFailure, ptr("10.240.9.1", dns.TypePTR).Rcode, "an endpoint's address is no worker's: forwarded, and here is nobody to ask")
	})
}
