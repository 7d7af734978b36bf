package dnszone

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"astraeus.io/astraeus/schema"
)

// Sizes of messages in bytes.
const (
	maxDatagram  = 4096 // read
	minUDPReply  = 512  // to a client that says nothing (RFC 1035)
	maxUDPReply  = 1232 // passes every link unfragmented
	maxTCPReply  = 65535
	headerSize   = 12
	recordSize   = 16 // an A record whose owner is a pointer
	optSize      = 11
	questionTail = 4 // type and class
)

// accept decides by the header alone: an answer is dropped (it could be another
// server's to us, for ever), other opcodes are NOTIMP, not one question is FORMERR.
func accept(h dns.Header) dns.MsgAcceptAction {
	const qr, opcode = 1 << 15, 0xF << 11
	switch {
	case h.Bits&qr != 0:
		return dns.MsgIgnore
	case h.Bits&opcode != 0:
		return dns.MsgRejectNotImplemented
	}
	return dns.DefaultMsgAcceptFunc(h)
}

// serveDNS answers whatever the fast path does not.
func (s *Server) serveDNS(w dns.ResponseWriter, req *dns.Msg) {
	client := addrOf(w.RemoteAddr())
	_, isTCP := w.RemoteAddr().(*net.TCPAddr)
	if isTCP && !s.gate.admits(client, time.Now()) {
		s.stats.dropped.Add(1)
		_ = w.Close()
		return
	}
	reply := s.reply(client, isTCP, req)
	if reply == nil {
		return
	}
	// An error is the client's end gone, or a firewall; it asks again.
	_ = w.WriteMsg(reply)
}

// reply is the answer to one question; nil leaves the client without one.
func (s *Server) reply(client netip.Addr, isTCP bool, req *dns.Msg) *dns.Msg {
	r := &replier{server: s, req: req, q: req.Question[0], isTCP: isTCP, table: s.table.Load()}
	clients := s.clients.Load()
	if clients != nil {
		r.policy = clients.all[client]
	}
	r.msg.SetReply(req)
	r.msg.RecursionAvailable, r.msg.Compress = true, true
	if problem := r.edns(); problem {
		return &r.msg
	}
	switch {
	case r.q.Qclass != dns.ClassINET && r.q.Qclass != dns.ClassANY:
		return r.fail(dns.RcodeRefused)
	case r.q.Qtype == dns.TypeAXFR || r.q.Qtype == dns.TypeIXFR:
		return r.fail(dns.RcodeRefused)
	case r.table == nil || clients == nil:
		// Unknown is not NXDOMAIN (coredns#5481), and a policy that is not known is not
		// one that allows.
		s.stats.failed.Add(1)
		return r.fail(dns.RcodeServerFailure)
	}
	return r.answer(client)
}

// replier makes one reply.
type replier struct {
	server *Server
	table  *Table
	policy *schema.EgressTarget // nil allows everything (N-5)
	req    *dns.Msg
	q      dns.Question
	isTCP  bool
	opt    *dns.OPT // the client's
	size   int      // of the reply at most
	msg    dns.Msg
}

// edns reads the client's OPT and answers with one, only to a client that sent one
// (coredns#5366). It reports whether the reply is made already.
func (r *replier) edns() (done bool) {
	r.size = minUDPReply
	opts := 0
	for _, rr := range r.req.Extra {
		if opt, ok := rr.(*dns.OPT); ok {
			r.opt = opt
			opts++
		}
	}
	if r.opt != nil {
		r.size = min(max(int(r.opt.UDPSize()), minUDPReply), maxUDPReply)
		r.msg.SetEdns0(maxUDPReply, r.opt.Do())
	}
	if r.isTCP {
		r.size = maxTCPReply
	}
	switch {
	case opts > 1:
		r.msg.Extra = nil
		r.fail(dns.RcodeFormatError)
	case r.opt != nil && r.opt.Version() != 0:
		r.fail(dns.RcodeBadVers)
	default:
		return false
	}
	return true
}

func (r *replier) fail(rcode int) *dns.Msg {
	r.msg.Rcode = rcode
	return &r.msg
}

func (r *replier) answer(client netip.Addr) *dns.Msg {
	t, stats := r.table, &r.server.stats
	wire := wireName(r.q.Name)
	if rel, ok := below(wire, t.suffix); ok {
		if len(rel) > 0 && !r.allows(rel) {
			stats.refused.Add(1)
			return r.fail(dns.RcodeRefused)
		}
		stats.answered.Add(1)
		return r.local(rel)
	}
	if a, ok := reverseAddr(r.q.Name); ok {
		if keys := t.namesOf(a); len(keys) > 0 {
			return r.pointers(keys)
		}
	}
	if !r.policy.Allows(r.q.Name, t.domain) {
		stats.refused.Add(1)
		return r.fail(dns.RcodeRefused)
	}
	reply := r.server.forward.exchange(client, r)
	if reply.Rcode == dns.RcodeServerFailure {
		stats.failed.Add(1)
	}
	return reply
}

// allows is the egress policy for a name of the zone (N-5). A namespace that has no
// names is no one's: NXDOMAIN, as the search list of a worker asks for
// "example.com.astraeus.local" and takes REFUSED for the end of the search.
func (r *replier) allows(rel []byte) bool {
	if r.policy == nil {
		return true
	}
	ns := ""
	for len(rel) > 0 {
		n := int(rel[0])
		ns, rel = string(rel[1:1+n]), rel[1+n:]
	}
	return !r.table.HasNamespace(ns) || r.policy.Allows(r.q.Name, r.table.domain)
}

// local answers a name of the zone; rel is its wire name without the domain.
func (r *replier) local(rel []byte) *dns.Msg {
	r.msg.Authoritative = true
	domain := r.q.Name[len(r.q.Name)-len(r.table.domain)-1:] // in the question's case
	if len(rel) == 0 {
		if r.q.Qtype == dns.TypeSOA || r.q.Qtype == dns.TypeANY {
			r.msg.Answer = []dns.RR{r.soa(domain, domain)}
			return &r.msg
		}
		return r.negative(dns.RcodeSuccess, domain, domain)
	}
	e := r.table.find(rel)
	switch {
	case e == nil:
		return r.negative(dns.RcodeNameError, domain, domain)
	case entryKind(e) == kindSpace || r.q.Qtype != dns.TypeA && r.q.Qtype != dns.TypeANY:
		return r.negative(dns.RcodeSuccess, domain, domain)
	}
	fixed := headerSize + len(rel) + len(r.table.suffix) + questionTail
	if r.opt != nil {
		fixed += optSize
	}
	list, n := entryAddrs(e), entryCount(e)
	fits := min(n, (r.size-fixed)/recordSize)
	r.msg.Truncated = fits < n
	// The order turns from question to question, so that clients that take the first
	// are spread over all.
	for i, at := 0, int(r.msg.Id)%n; i < fits; i, at = i+1, (at+1)%n {
		r.msg.Answer = append(r.msg.Answer, &dns.A{A: net.IP(list[4*at : 4*at+4]),
			Hdr: dns.RR_Header{Name: r.q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: TTL}})
	}
	return &r.msg
}

func (r *replier) negative(rcode int, owner, domain string) *dns.Msg {
	r.msg.Ns = []dns.RR{r.soa(owner, domain)}
	return r.fail(rcode)
}

func (r *replier) soa(owner, domain string) *dns.SOA {
	return &dns.SOA{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: TTL},
		Ns: soaPrimary + "." + domain, Mbox: soaMailbox + "." + domain,
		Serial: uint32(r.table.version.Serial), Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: TTL}
}

// pointers answers for an address of ours: the names of the workers that have it
// and that the client may know.
func (r *replier) pointers(keys [][]byte) *dns.Msg {
	var names []string
	for _, key := range keys {
		name := string(key[1:1+key[0]]) + "." + keySpace(key) + "." + r.table.domain + "."
		if r.policy.Allows(name, r.table.domain) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && !r.policy.Allows(r.q.Name, r.table.domain) {
		r.server.stats.refused.Add(1)
		return r.fail(dns.RcodeRefused)
	}
	r.server.stats.answered.Add(1)
	r.msg.Authoritative = true
	if len(names) == 0 || r.q.Qtype != dns.TypePTR && r.q.Qtype != dns.TypeANY {
		return r.negative(dns.RcodeSuccess, r.q.Name, r.table.domain+".")
	}
	for _, name := range names {
		r.msg.Answer = append(r.msg.Answer, &dns.PTR{Ptr: name,
			Hdr: dns.RR_Header{Name: r.q.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: TTL}})
	}
	r.msg.Truncate(r.size)
	return &r.msg
}

// wireName is the lower-cased wire form of a name that came off the wire.
func wireName(name string) []byte {
	var buf [256]byte
	n, err := dns.PackDomainName(name, buf[:], 0, nil, false)
	if err != nil {
		return nil
	}
	wire := buf[:n]
	lower(wire, wire)
	return wire
}

// below is a wire name's part before the domain; ok is false for other names. Both
// are in lower case.
func below(wire, suffix []byte) (rel []byte, ok bool) {
	for at := 0; len(wire)-at >= len(suffix); at += 1 + int(wire[at]) {
		if len(wire)-at == len(suffix) {
			return wire[:at], string(wire[at:]) == string(suffix)
		}
	}
	return nil, false
}

// reverseAddr is the address that a PTR question is about: "7.3.240.10.in-addr.arpa.".
func reverseAddr(name string) (netip.Addr, bool) {
	rest, ok := strings.CutSuffix(strings.ToLower(name), ".in-addr.arpa.")
	if !ok {
		return netip.Addr{}, false
	}
	labels := strings.Split(rest, ".")
	if len(labels) != 4 {
		return netip.Addr{}, false
	}
	var a [4]byte
	for i, label := range labels {
		n, err := strconv.ParseUint(label, 10, 8)
		if err != nil || len(label) > 1 && label[0] == '0' {
			return netip.Addr{}, false
		}
		a[3-i] = byte(n)
	}
	return netip.AddrFrom4(a), true
}
