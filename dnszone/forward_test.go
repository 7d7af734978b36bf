package dnszone

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// upstream is a resolver on a loopback address of its own; port 0 chooses one.
func upstream(t testing.TB, ip string, port string, handle dns.HandlerFunc) (gotPort string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
	require.NoError(t, err)
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	pc, err := net.ListenPacket("udp", net.JoinHostPort(ip, port))
	require.NoError(t, err)
	for _, s := range []*dns.Server{{Listener: l, Handler: handle}, {PacketConn: pc, Handler: handle}} {
		started, done := make(chan struct{}), make(chan error, 1)
		s.NotifyStartedFunc = func() { close(started) }
		go func() { done <- s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			require.NoError(t, s.Shutdown())
			require.NoError(t, <-done)
		})
	}
	return port
}

// says answers every question with one address.
func says(address string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		m.Answer = []dns.RR{&dns.A{A: net.ParseIP(address), Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 77}}}
		_ = w.WriteMsg(m)
	}
}

func resolvConf(t testing.TB, r *rig, servers ...string) {
	t.Helper()
	text := ""
	for _, s := range servers {
		text += "nameserver " + s + "\n"
	}
	tmp := r.resolvConf + ".new"
	require.NoError(t, os.WriteFile(tmp, []byte(text), 0o600))
	require.NoError(t, os.Rename(tmp, r.resolvConf))
}

// eventually answers with the first answer that a question gets from it.
func eventually(t testing.TB, r *rig, name, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		m := r.ask(t, "udp", query(name, dns.TypeA))
		return m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1 && m.Answer[0].(*dns.A).A.String() == want
	}, 20*time.Second, 10*time.Millisecond)
}

// N-5: other names are forwarded to the machine's own resolver and its answer is
// passed on; resolv.conf is followed when it is replaced (coredns#3928); `local.` is
// not ours, and our own names are never forwarded.
func TestForwarding(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		var ours atomic.Int64
		port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
			if dns.IsSubDomain("astraeus.local.", r.Question[0].Name) {
				ours.Add(1)
			}
			says("198.51.100.1")(w, r)
		})
		upstream(t, "127.0.0.3", port, says("198.51.100.2"))
		r := start(func(c *Config) { c.upstreamPort = port })
		resolvConf(t, r, "127.0.0.2")
		eventually(t, r, "example.org", "198.51.100.1")
		for _, name := range []string{"Example.ORG.", "printer.local.", "local.", "xastraeus.local.", "astraeus.local.example.", "1.1.168.192.in-addr.arpa."} {
			m := r.eachNet(t, query(name, dns.TypeA))
			require.Equal(t, name, m.Question[0].Name)
			require.False(t, m.Authoritative)
			require.Len(t, m.Answer, 1, name)
			require.EqualValues(t, 77, m.Answer[0].Header().Ttl)
			require.Nil(t, m.IsEdns0(), "no OPT to a client that sent none")
		}
		r.ask(t, "udp", query("gone."+testNS+".astraeus.local", dns.TypeA))
		r.ask(t, "tcp", query("train-0."+testNS+".astraeus.local", dns.TypeTXT))
		require.Zero(t, ours.Load())
		resolvConf(t, r, "127.0.0.3")
		eventually(t, r, "example.org", "198.51.100.2")
		require.Empty(t, r.Problems())
	})
}

// Rcodes are passed through unchanged (moby#45553).
func TestForwardedRcodes(t *testing.T) {
	port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		_, _ = fmt.Sscanf(r.Question[0].Name, "r%d.", &m.Rcode)
		_ = w.WriteMsg(m)
	})
	r := start(t, func(c *Config) { c.upstreamPort = port })
	resolvConf(t, r, "127.0.0.2")
	for rcode := range 11 {
		require.Eventually(t, func() bool {
			return r.ask(t, "udp", query(fmt.Sprintf("r%d.example.org", rcode), dns.TypeA)).Rcode == rcode
		}, 10*time.Second, 10*time.Millisecond)
	}
}

// An answer that does not fit is asked for by TCP, and cut to the client's size.
func TestForwardedTruncation(t *testing.T) {
	port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		for i := range 60 {
			m.Answer = append(m.Answer, &dns.A{A: net.IPv4(198, 51, 100, byte(i)), Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}})
		}
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			m.Truncate(512)
		}
		_ = w.WriteMsg(m)
	})
	r := start(t, func(c *Config) { c.upstreamPort = port })
	resolvConf(t, r, "127.0.0.2")
	require.Eventually(t, func() bool { return len(r.ask(t, "tcp", query("big.example.org", dns.TypeA)).Answer) == 60 }, 10*time.Second, 10*time.Millisecond)
	m := r.ask(t, "udp", query("big.example.org", dns.TypeA))
	require.True(t, m.Truncated)
	wide := query("big.example.org", dns.TypeA)
	wide.SetEdns0(1232, false)
	m = r.ask(t, "udp", wide)
	require.False(t, m.Truncated)
	require.Len(t, m.Answer, 60)
	require.NotNil(t, m.IsEdns0())
}

// An upstream that does not answer, or answers another id or question, is passed
// over for the next one; ids and ports are fresh.
func TestForwardingPassesOverTheSilentAndTheForged(t *testing.T) {
	var mu sync.Mutex
	ids, ports := map[uint16]bool{}, map[string]bool{}
	port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Qtype == dns.TypeHINFO {
			return
		}
		forged := r.Copy()
		forged.Id++
		says("203.0.113.66")(w, forged)
		forged = r.Copy()
		forged.Question[0].Name = "evil.example."
		says("203.0.113.66")(w, forged)
	})
	upstream(t, "127.0.0.3", port, func(w dns.ResponseWriter, r *dns.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if r.Question[0].Qtype == dns.TypeA {
			ids[r.Id], ports[w.RemoteAddr().String()] = true, true
		}
		says("198.51.100.2")(w, r)
	})
	r := start(t, func(c *Config) { c.upstreamPort = port })
	resolvConf(t, r, "127.0.0.2", "127.0.0.3")
	eventually(t, r, "example.org", "198.51.100.2")
	eventually(t, r, "example.org", "198.51.100.2")
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, len(ids), 2)
	require.GreaterOrEqual(t, len(ports), 2)
}

// Our own addresses are no upstreams (coredns#1712); systemd-resolved's stub stands
// for the file that it keeps; at most three are asked (aardvark-dns#482).
func TestUpstreams(t *testing.T) {
	dir := t.TempDir()
	conf, resolved := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "resolved.conf")
	cfg := Config{ResolvConf: conf, ResolvedConf: resolved, upstreamPort: "53"}
	own := []netip.Addr{addr("10.240.3.1")}
	read := func(text string) string {
		require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
		list, err := readUpstreams(&cfg, own)
		if err != nil {
			return err.Error()
		}
		out := []string{}
		for _, a := range list {
			out = append(out, a.Addr().String())
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "192.0.2.53", read("nameserver 10.240.3.1\nnameserver 192.0.2.53\n"))
	require.Equal(t, conf+" names no resolver but this one", read("nameserver 10.240.3.1\n"))
	require.Equal(t, "127.0.0.53", read("nameserver 127.0.0.53\n"), "without the real file the stub serves")
	require.NoError(t, os.WriteFile(resolved, []byte("nameserver 192.0.2.1\nnameserver 10.240.3.1\nnameserver 2001:db8::1\n"), 0o600))
	require.Equal(t, "192.0.2.1 2001:db8::1", read("nameserver 127.0.0.53\noptions edns0 trust-ad\n"))
	require.Equal(t, "192.0.2.1 192.0.2.2 192.0.2.3", read("nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n"))
}

// N-5: a loop found at run time ends forwarding and is reported; names of the zone
// go on, and forwarding is back with another resolver.
func TestForwardingLoop(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		var at atomic.Value
		port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
			c := dns.Client{Timeout: 5 * time.Second}
			if m, _, err := c.Exchange(r, at.Load().(string)); err == nil {
				_ = w.WriteMsg(m)
			}
		})
		upstream(t, "127.0.0.3", port, says("198.51.100.2"))
		r := start(func(c *Config) { c.upstreamPort = port })
		at.Store(r.at)
		resolvConf(t, r, "127.0.0.2")
		require.Eventually(t, func() bool {
			return strings.Contains(strings.Join(r.Problems(), " "), "the resolver 127.0.0.2 asks this name server in turn")
		},
			20*time.Second, 10*time.Millisecond)
		require.Equal(t, dns.RcodeServerFailure, r.ask(t, "udp", query("example.org", dns.TypeA)).Rcode)
		require.Equal(t, dns.RcodeSuccess, r.ask(t, "udp", query("train-0."+testNS+".astraeus.local", dns.TypeA)).Rcode)
		resolvConf(t, r, "127.0.0.3")
		eventually(t, r, "example.org", "198.51.100.2")
		require.Empty(t, r.Problems())
	})
}

// Forwards are capped, and names of the zone are answered while all of them wait
// (coredns#3635).
func TestForwardsNeverDelayTheZone(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		release := make(chan struct{})
		port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
			if r.Question[0].Qtype != dns.TypeHINFO {
				<-release
			}
		})
		defer close(release)
		r := start(func(c *Config) { c.upstreamPort = port })
		resolvConf(t, r, "127.0.0.2")
		require.Eventually(t, func() bool {
			r.forward.mu.Lock()
			defer r.forward.mu.Unlock()
			return len(r.forward.upstreams) == 1
		}, 10*time.Second, time.Millisecond)
		conn, err := net.Dial("udp", r.at)
		require.NoError(t, err)
		defer conn.Close()
		for i := range 3 * maxForwardsEach {
			data, err := query(fmt.Sprintf("n%d.example.org", i), dns.TypeA).Pack()
			require.NoError(t, err)
			_, err = conn.Write(data)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return r.Stats().Failed > 0 }, 10*time.Second, time.Millisecond, "over the cap: SERVFAIL")
		require.LessOrEqual(t, r.Stats().Forwarded, uint64(maxForwardsEach))
		for range 50 {
			require.Equal(t, []string{"10.240.3.7"}, addresses(r.ask(t, "udp", query("train-0."+testNS+".astraeus.local", dns.TypeA))))
		}
	})
}

// N-5: a client with a policy resolves only what it allows; what is denied is
// REFUSED and never forwarded. N-6: nothing else is in the zone.
func TestEgressPolicy(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		var forwarded atomic.Int64
		port := upstream(t, "127.0.0.2", "0", func(w dns.ResponseWriter, r *dns.Msg) {
			if !strings.HasPrefix(strings.ToLower(r.Question[0].Name), "allowed") && r.Question[0].Qtype == dns.TypeA {
				forwarded.Add(1)
			}
			says("198.51.100.1")(w, r)
		})
		r := start(func(c *Config) { c.upstreamPort = port })
		resolvConf(t, r, "127.0.0.2")
		eventually(t, r, "allowed.example.org", "198.51.100.1")
		policy := &schema.EgressTarget{Names: []string{"allowed.example.org", "*.pypi.org"}, Namespaces: []string{testNS}}
		r.SetClients(map[netip.Addr]*schema.EgressTarget{addr("127.0.0.1"): policy})
		for name, rcode := range map[string]int{
			"train-0." + testNS + ".astraeus.local": dns.RcodeSuccess, "gone." + testNS + ".astraeus.local": dns.RcodeNameError,
			"api." + otherNS + ".astraeus.local": dns.RcodeRefused, "gone." + otherNS + ".astraeus.local": dns.RcodeRefused, otherNS + ".astraeus.local": dns.RcodeRefused,
			// What the search list makes of an allowed name: nobody's, so that the search goes on.
			"allowed.example.org.astraeus.local": dns.RcodeNameError,
			"allowed.example.org":                dns.RcodeSuccess, "Allowed.Example.ORG": dns.RcodeSuccess, "allowed.sub.pypi.org": dns.RcodeSuccess,
			"pypi.org": dns.RcodeRefused, "example.org": dns.RcodeRefused, "local": dns.RcodeRefused,
			"5.5.240.10.in-addr.arpa": dns.RcodeRefused, "9.9.240.10.in-addr.arpa": dns.RcodeRefused,
		} {
			m := r.eachNet(t, query(name, dns.TypeA))
			require.Equal(t, dns.RcodeToString[rcode], dns.RcodeToString[m.Rcode], name)
			if rcode == dns.RcodeRefused {
				require.Empty(t, m.Answer)
			}
		}
		require.Len(t, r.eachNet(t, query("7.3.240.10.in-addr.arpa", dns.TypePTR)).Answer, 1)
		require.Zero(t, forwarded.Load())
		policy = &schema.EgressTarget{Namespaces: []string{"*"}}
		r.SetClients(map[netip.Addr]*schema.EgressTarget{addr("127.0.0.1"): policy})
		require.Equal(t, []string{"10.240.5.5"}, addresses(r.eachNet(t, query("api."+otherNS+".astraeus.local", dns.TypeA))))
		r.SetClients(nil)
		require.Equal(t, dns.RcodeSuccess, r.eachNet(t, query("example.org", dns.TypeA)).Rcode)
	})
}

// Only the node and worker networks are answered, and a client that floods is cut
// off without anybody else.
func TestGate(t *testing.T) {
	g := newGate([]netip.Prefix{netip.MustParsePrefix("10.240.3.0/24"), netip.MustParsePrefix("192.0.2.0/25")}, 100)
	l := limiter{}
	for a, in := range map[string]bool{"10.240.3.255": true, "10.240.4.1": false, "192.0.2.127": true, "192.0.2.128": false, "127.0.0.1": false} {
		require.Equal(t, in, g.admits4(l, addr(a).As4(), 1), a)
		require.Equal(t, in, g.admits(addr(a), time.Unix(1, 0)), a)
	}
	flood := addr("10.240.3.9").As4()
	admitted := 0
	for range 1000 {
		if g.admits4(l, flood, 1) {
			admitted++
		}
	}
	require.Equal(t, 51, admitted, "half a second's worth at once")
	require.True(t, g.admits4(l, addr("10.240.3.10").As4(), 1), "others go on")
	require.True(t, g.admits4(l, flood, 1+int64(10*time.Millisecond)), "and it again, at its rate")
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start(func(c *Config) { c.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
		c := dns.Client{Timeout: 200 * time.Millisecond}
		_, _, err := c.Exchange(query("train-0."+testNS+".astraeus.local", dns.TypeA), r.at)
		require.Error(t, err)
		require.NotZero(t, r.Stats().Dropped)
		c.Net = "tcp"
		_, _, err = c.Exchange(query("train-0."+testNS+".astraeus.local", dns.TypeA), r.at)
		require.Error(t, err)
	})
}
