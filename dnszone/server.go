package dnszone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"astraeus.io/astraeus/schema"
)

// Config of a Server. Only Addresses and Networks are needed.
type Config struct {
	// Addresses to answer on, by UDP and TCP: the node network's gateway, port 53
	// (N-3). Never the unspecified address: replies would leave from another one.
	Addresses []netip.AddrPort
	// Networks whose clients are answered: the node and worker networks. A question
	// from elsewhere is dropped.
	Networks []netip.Prefix
	// ResolvConf names the machine's own resolvers; /etc/resolv.conf by default. The
	// file is followed when it changes.
	ResolvConf string
	// ResolvedConf is read instead where ResolvConf names systemd-resolved's stub;
	// /run/systemd/resolve/resolv.conf by default.
	ResolvedConf string
	// ClientRate is the flood cap: questions a second of one client, above which they
	// are dropped. DefaultClientRate by default.
	ClientRate int
	// Sockets is the number of UDP sockets an address; one a processor by default.
	Sockets int
	Log     *slog.Logger

	plain        bool   // without the fast path, as on other systems than Linux
	upstreamPort string // "53", another one in tests
}

// DefaultClientRate is far above what a worker asks, and far below what starves the
// other workers of a machine.
const DefaultClientRate = 20000

// Limits of what clients can hold open.
const (
	maxTCP          = 1024 // connections
	maxTCPClient    = 32   // of one client
	tcpIdle         = 10 * time.Second
	maxForwards     = 512 // at a time
	maxForwardsEach = 64  // of one client
	shutdownWait    = 2 * time.Second
)

// Server answers names from the table that it was last given, and forwards others.
// A table is given at any time, without touching a socket (aardvark-dns#389).
type Server struct {
	cfg     Config
	log     *slog.Logger
	table   atomic.Pointer[Table]
	clients atomic.Pointer[clientTable]
	gate    *gate
	forward *forwarder
	stats   counters

	udp []net.PacketConn
	tcp []net.Listener
}

// clientTable is the clients by address, and which IPv4 addresses have a policy.
type clientTable struct {
	all        map[netip.Addr]*schema.EgressTarget
	restricted map[[4]byte]bool
}

// Stats are counts since the server began.
type Stats struct {
	Answered  uint64 // from the zone, negative answers included
	Forwarded uint64
	Refused   uint64 // by an egress policy (N-5)
	Failed    uint64 // SERVFAIL
	Dropped   uint64 // foreign networks and floods
}

type counters struct{ answered, forwarded, refused, failed, dropped atomic.Uint64 }

// Stats of the server.
func (s *Server) Stats() Stats {
	c := &s.stats
	return Stats{c.answered.Load(), c.forwarded.Load(), c.refused.Load(), c.failed.Load(), c.dropped.Load()}
}

// Listen binds the server's sockets, so that an error is told before anything
// depends on it; Serve answers. A server that is not served must be Closed.
func Listen(cfg Config) (*Server, error) {
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("name server: no address to answer on")
	}
	setDefaults(&cfg)
	s := &Server{cfg: cfg, log: cfg.Log, gate: newGate(cfg.Networks, cfg.ClientRate)}
	s.forward = newForwarder(s)
	for _, at := range cfg.Addresses {
		if at.Addr().IsUnspecified() {
			s.Close()
			return nil, fmt.Errorf("name server: %s is every address; give the gateway's own", at)
		}
		if err := s.bind(at); err != nil {
			s.Close()
			return nil, fmt.Errorf("name server on %s: %w", at, err)
		}
	}
	return s, nil
}

func setDefaults(cfg *Config) {
	def := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	def(&cfg.ResolvConf, "/etc/resolv.conf")
	def(&cfg.ResolvedConf, "/run/systemd/resolve/resolv.conf")
	def(&cfg.upstreamPort, "53")
	if cfg.ClientRate <= 0 {
		cfg.ClientRate = DefaultClientRate
	}
	if cfg.Sockets <= 0 {
		cfg.Sockets = runtime.GOMAXPROCS(0)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
}

// bind opens the TCP listener first: with port 0 it chooses the port for both.
func (s *Server) bind(at netip.AddrPort) error {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	s.tcp = append(s.tcp, &gatedListener{Listener: l, gate: s.gate})
	at = netip.AddrPortFrom(at.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port())
	n := s.cfg.Sockets
	if !canShare {
		n = 1
	}
	for range n {
		pc, err := listenUDP(at)
		if err != nil {
			return err
		}
		if s.cfg.plain || !at.Addr().Is4() {
			s.udp = append(s.udp, &gatedConn{UDPConn: pc, server: s})
			continue
		}
		fast, err := newFastConn(pc, s)
		if err != nil {
			_ = pc.Close()
			return err
		}
		s.udp = append(s.udp, fast)
	}
	return nil
}

// Addr is the address of the first socket.
func (s *Server) Addr() netip.AddrPort { return s.tcp[0].Addr().(*net.TCPAddr).AddrPort() }

// SetZone makes the server answer from a table. nil is no zone yet: SERVFAIL.
func (s *Server) SetZone(t *Table) { s.table.Store(t) }

// Zone is the table that the server answers from, nil before the first.
func (s *Server) Zone() *Table { return s.table.Load() }

// SetClients says which policy the worker at an address has (N-5), nil for none; an
// address that is not named has none either. It must be called once before anything
// is answered: until then nobody's policy is known. The map may be changed
// afterwards; the policies may not.
func (s *Server) SetClients(clients map[netip.Addr]*schema.EgressTarget) {
	t := &clientTable{all: maps.Clone(clients), restricted: map[[4]byte]bool{}}
	for a, policy := range clients {
		if policy != nil && a.Unmap().Is4() {
			t.restricted[a.Unmap().As4()] = true
		}
	}
	s.clients.Store(t)
}

// Problems are what a person should know: a forwarding loop, no upstream. Sorted.
func (s *Server) Problems() []string {
	list := s.forward.problems()
	slices.Sort(list)
	return list
}

// Serve answers until the context ends, and closes the sockets.
func (s *Server) Serve(ctx context.Context) error {
	defer s.Close()
	group, inner := errgroup.WithContext(ctx)
	servers := s.servers()
	var started sync.WaitGroup
	for _, server := range servers {
		started.Add(1)
		server.NotifyStartedFunc = started.Done
		group.Go(server.ActivateAndServe)
	}
	group.Go(func() error { return s.forward.follow(inner) })
	group.Go(func() error {
		<-inner.Done()
		started.Wait() // a server that has not begun cannot be told to end
		stop, cancel := context.WithTimeout(context.Background(), shutdownWait)
		defer cancel()
		for _, server := range servers {
			// "not started" is one that has ended by itself.
			_ = server.ShutdownContext(stop)
		}
		return nil
	})
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("name server: %w", err)
	}
	return nil
}

func (s *Server) servers() []*dns.Server {
	var list []*dns.Server
	handler := dns.HandlerFunc(s.serveDNS)
	for _, pc := range s.udp {
		list = append(list, &dns.Server{PacketConn: pc, Handler: handler, MsgAcceptFunc: accept, UDPSize: maxDatagram})
	}
	for _, l := range s.tcp {
		list = append(list, &dns.Server{Listener: l, Handler: handler, MsgAcceptFunc: accept,
			IdleTimeout: func() time.Duration { return tcpIdle }, ReadTimeout: tcpIdle})
	}
	return list
}

// Close closes the sockets. It is not needed after Serve.
func (s *Server) Close() {
	for _, pc := range s.udp {
		_ = pc.Close()
	}
	for _, l := range s.tcp {
		_ = l.Close()
	}
}
