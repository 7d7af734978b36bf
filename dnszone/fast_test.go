package dnszone

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// oracle is a server without sockets: what miekg/dns and serveDNS make of a message.
func oracle(t testing.TB) *Server {
	s := &Server{gate: newGate(nil, 1)}
	s.forward = newForwarder(s)
	s.SetZone(compiled(t, testZone(), 5))
	s.SetClients(nil)
	return s
}

func seeds(f *testing.F) {
	for _, name := range []string{"train-0." + testNS + ".astraeus.local.", "TRAIN." + testNS + ".Astraeus.LOCAL.", "gone." + testNS + ".astraeus.local.",
		"big." + testNS + ".astraeus.local.", testNS + ".astraeus.local.", "astraeus.local.", "local.", "example.org.", "x\\008astraeus\\005local.", "."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeANY, dns.TypeSOA, dns.TypeAXFR} {
			m := query(name, qtype)
			data, err := m.Pack()
			require.NoError(f, err)
			f.Add(data)
			m.SetEdns0(900, true)
			data, err = m.Pack()
			require.NoError(f, err)
			f.Add(data)
		}
	}
}

// N-4: whatever the fast path answers, miekg/dns and the plain handler answer with
// the same; what it does not answer is nobody's fault.
func FuzzFastPath(f *testing.F) {
	s := oracle(f)
	table := s.Zone()
	var q question
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		got := answerFast(table, &q, in, make([]byte, 0, maxUDPReply))
		if got == nil {
			return
		}
		require.LessOrEqual(t, len(got), maxUDPReply)
		req, reply := new(dns.Msg), new(dns.Msg)
		require.NoError(t, req.Unpack(in), "the fast path answered what miekg/dns does not read")
		require.NoError(t, reply.Unpack(got))
		require.Equal(t, dns.MsgAccept, accept(dns.Header{Bits: uint16(in[2])<<8 | uint16(in[3]), Qdcount: 1, Arcount: uint16(len(req.Extra))}))
		want := s.reply(netip.Addr{}, false, req)
		data, err := want.Pack()
		require.NoError(t, err)
		want = new(dns.Msg)
		require.NoError(t, want.Unpack(data))
		require.Equal(t, want.String(), reply.String())
		require.Equal(t, want, reply)
		if !reply.Truncated {
			require.LessOrEqual(t, len(got), len(data)+8, "no larger than what miekg/dns makes, but for the SOA's own names")
		}
	})
}

// Every ordinary question about the zone is answered by the fast path: it is no
// fast path otherwise.
func TestFastPathAnswersTheOrdinary(t *testing.T) {
	table := compiled(t, testZone(), 5)
	var q question
	for name, fast := range map[string]bool{
		"train-0." + testNS + ".astraeus.local.": true, "TRAIN." + testNS + ".Astraeus.local.": true, "gone.astraeus.local.": true,
		testNS + ".astraeus.local.": true, "astraeus.local.": true, "example.org.": false, "local.": false, ".": false, "xastraeus.local.": false,
		"x\\008astraeus\\005local.": false,
	} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS, dns.TypeTXT} {
			for _, edns := range []bool{false, true} {
				m := query(name, qtype)
				if edns {
					m.SetEdns0(1232, true)
				}
				data, err := m.Pack()
				require.NoError(t, err)
				reply := answerFast(table, &q, data, make([]byte, 0, maxUDPReply))
				require.Equal(t, fast, reply != nil, name)
			}
		}
	}
}

// No allocation a question.
func TestFastPathAllocatesNothing(t *testing.T) {
	table := compiled(t, testZone(), 5)
	var q question
	out := make([]byte, 0, maxUDPReply)
	for _, name := range []string{"train-0", "gone", "big", "llm"} {
		m := query(name+"."+testNS+".astraeus.local", dns.TypeA)
		m.SetEdns0(1232, false)
		data, err := m.Pack()
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if answerFast(table, &q, data, out) == nil {
				t.Fatal("not answered")
			}
		}))
	}
	l := limiter{}
	g := newGate([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, 1000)
	require.Zero(t, testing.AllocsPerRun(1000, func() { g.admits4(l, [4]byte{10, 0, 0, 1}, 1) }))
}

// The keys of a table are found by no other name, whatever is asked.
func FuzzLookup(f *testing.F) {
	table := compiled(f, testZone(), 5)
	f.Add("train-0." + testNS + ".astraeus.local")
	f.Add("..")
	f.Fuzz(func(t *testing.T, name string) {
		rec, ok := table.Lookup(name)
		if ok {
			require.Contains(t, []schema.NameKind{schema.NameWorker, schema.NameRun, schema.NameEndpoint}, rec.Kind)
			require.NotEmpty(t, rec.Addresses)
		}
	})
}
