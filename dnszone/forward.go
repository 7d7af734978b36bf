package dnszone

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// forwardWithin is how long a client waits for a forwarded name, and tryWithin each
// upstream before the next is asked.
const (
	forwardWithin = 5 * time.Second
	tryWithin     = 1700 * time.Millisecond
)

// forwarder asks the machine's own resolvers for the names that are not ours.
type forwarder struct {
	server *Server
	own    []netip.Addr
	slots  chan struct{} // a cap that local answers never meet (coredns#3635)
	wait   sync.WaitGroup
	// suspect asks for a probe: a question came back that we had forwarded.
	suspect chan struct{}

	mu         sync.Mutex
	upstreams  []netip.AddrPort
	unreadable string
	loop       netip.AddrPort // the upstream that asks us in turn
	client     map[netip.Addr]int
	flying     map[string]int // questions that are being forwarded
	probing    string         // the name that only a loop brings here
	seen       chan struct{}
}

func newForwarder(s *Server) *forwarder {
	f := &forwarder{server: s, slots: make(chan struct{}, maxForwards), suspect: make(chan struct{}, 1),
		client: map[netip.Addr]int{}, flying: map[string]int{}}
	for _, at := range s.cfg.Addresses {
		f.own = append(f.own, at.Addr().Unmap())
	}
	return f
}

func (f *forwarder) problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	if f.unreadable != "" {
		list = append(list, "names outside the cluster are not resolved: "+f.unreadable)
	}
	if f.loop.IsValid() {
		list = append(list, fmt.Sprintf("names outside the cluster are not resolved: the resolver %s asks this name server in turn; give %s another one",
			f.loop.Addr(), f.server.cfg.ResolvConf))
	}
	return list
}

// exchange answers a client by what an upstream says, the rcode unchanged
// (moby#45553). Without an upstream that answers in time: SERVFAIL.
func (f *forwarder) exchange(client netip.Addr, r *replier) *dns.Msg {
	key := fmt.Sprint(strings.ToLower(r.q.Name), " ", r.q.Qtype, " ", r.q.Qclass)
	upstreams, leave := f.enter(client, key, r.q.Name)
	if leave == nil {
		return r.fail(dns.RcodeServerFailure)
	}
	defer leave()
	r.server.stats.forwarded.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), forwardWithin)
	defer cancel()
	for i := 0; i < maxUpstreams && ctx.Err() == nil; i++ {
		if answer := ask(ctx, upstreams[i%len(upstreams)], r.question()); answer != nil {
			return r.pass(answer)
		}
	}
	return r.fail(dns.RcodeServerFailure)
}

// question is the client's for an upstream: options of EDNS are between two
// neighbours and stay behind.
func (r *replier) question() *dns.Msg {
	q := new(dns.Msg)
	q.MsgHdr, q.Question = r.req.MsgHdr, r.req.Question
	if r.opt != nil {
		q.SetEdns0(maxUDPReply, r.opt.Do())
	}
	return q
}

// pass makes an upstream's answer the client's.
func (r *replier) pass(answer *dns.Msg) *dns.Msg {
	answer.Id, answer.Question, answer.Compress = r.req.Id, r.req.Question, true
	answer.Extra = slices.DeleteFunc(answer.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	switch {
	case r.opt != nil:
		answer.SetEdns0(maxUDPReply, r.opt.Do())
	case answer.Rcode > 0xF: // has no room without OPT
		return r.fail(dns.RcodeServerFailure)
	}
	answer.Truncate(r.size)
	return answer
}

// looping reports whether forwarding is off for a loop.
func (f *forwarder) looping() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loop.IsValid()
}

// enter takes a place among the forwards; leave is nil when there is none, or
// nobody to ask.
func (f *forwarder) enter(client netip.Addr, key, name string) (upstreams []netip.AddrPort, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.probing != "" && strings.EqualFold(name, f.probing) {
		f.probing = ""
		close(f.seen)
		return nil, nil
	}
	if f.flying[key] > 0 && f.machines(client) {
		select {
		case f.suspect <- struct{}{}:
		default:
		}
	}
	if len(f.upstreams) == 0 || f.loop.IsValid() || f.client[client] >= maxForwardsEach {
		return nil, nil
	}
	select {
	case f.slots <- struct{}{}:
	default:
		return nil, nil
	}
	f.client[client]++
	f.flying[key]++
	return f.upstreams, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		<-f.slots
		if f.client[client]--; f.client[client] == 0 {
			delete(f.client, client)
		}
		if f.flying[key]--; f.flying[key] == 0 {
			delete(f.flying, key)
		}
	}
}

// machines reports whether a client may be a resolver of the machine rather than a
// worker: it is not one that we know.
func (f *forwarder) machines(client netip.Addr) bool {
	_, worker := f.server.clients.Load().all[client]
	return !worker
}

// ask puts a question to one upstream: a fresh id from a fresh port, by TCP once
// more when the answer does not fit. nil is no answer.
func ask(ctx context.Context, upstream netip.AddrPort, req *dns.Msg) *dns.Msg {
	answer := askBy(ctx, "udp", upstream, req)
	if answer != nil && answer.Truncated {
		if whole := askBy(ctx, "tcp", upstream, req); whole != nil {
			return whole
		}
	}
	return answer
}

func askBy(ctx context.Context, network string, upstream netip.AddrPort, req *dns.Msg) *dns.Msg {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, network, upstream.String())
	if err != nil {
		return nil
	}
	defer raw.Close()
	deadline, _ := ctx.Deadline()
	if raw.SetDeadline(deadline) != nil {
		return nil
	}
	out := *req
	out.Id = dns.Id()
	conn := &dns.Conn{Conn: raw, UDPSize: maxTCPReply}
	if conn.WriteMsg(&out) != nil {
		return nil
	}
	for {
		answer, err := conn.ReadMsg()
		switch {
		case err != nil && (answer == nil || network == "tcp"):
			return nil
		case err != nil || !answers(answer, &out):
			continue // not ours, or not to be read: somebody may be guessing
		}
		return answer
	}
}

// answers reports whether a message answers this very question.
func answers(answer, question *dns.Msg) bool {
	// A message with TSIG cannot be passed on, and nobody asked for one.
	if !answer.Response || answer.Id != question.Id || len(answer.Question) != 1 || answer.IsTsig() != nil {
		return false
	}
	a, q := answer.Question[0], question.Question[0]
	return a.Qtype == q.Qtype && a.Qclass == q.Qclass && strings.EqualFold(a.Name, q.Name)
}

// probe looks for a loop: it asks each upstream for a name that nobody else asks
// for. When that question arrives here, forwarding ends until the upstreams change
// or a later probe stays away; names of the cluster go on.
func (f *forwarder) probe(ctx context.Context) {
	f.mu.Lock()
	upstreams := f.upstreams
	f.mu.Unlock()
	found := netip.AddrPort{}
	for _, upstream := range upstreams {
		if f.loops(ctx, upstream) {
			found = upstream
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.loop == found {
		return
	}
	f.loop = found
	if found.IsValid() {
		f.server.log.Error("names are not forwarded: the resolver asks this name server in turn", "resolver", found.Addr())
	} else {
		f.server.log.Info("names are forwarded again")
	}
}

// loops asks one upstream and waits until its answer or the question comes back.
func (f *forwarder) loops(ctx context.Context, upstream netip.AddrPort) bool {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name := hex.EncodeToString(random[:4]) + "." + hex.EncodeToString(random[4:]) + "."
	seen := make(chan struct{})
	f.mu.Lock()
	f.probing, f.seen = name, seen
	f.mu.Unlock()
	req := new(dns.Msg)
	req.SetQuestion(name, dns.TypeHINFO)
	answered := make(chan struct{})
	f.wait.Go(func() {
		defer close(answered)
		askBy(ctx, "udp", upstream, req)
	})
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.probing = ""
	}()
	select {
	case <-seen:
		return true
	case <-answered:
		select {
		case <-seen:
			return true
		default:
			return false
		}
	case <-ctx.Done():
		return false
	}
}
