package dnszone

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// gate says whose questions are answered: those of the node and worker networks,
// each client up to its rate. It is a cap per client, so that one that floods
// starves itself alone.
type gate struct {
	networks []netip.Prefix
	masks    [][2]uint32 // the IPv4 networks: network, mask
	interval int64       // ns a question
	burst    int64       // ns of questions that may come at once

	shared limiter // of TCP and of the plain sockets
	mu     sync.Mutex
	tcp    map[netip.Addr]int
	open   int
}

// limiter is the rate of each client, of one socket: the time until which its
// questions so far have used its rate up. Not for concurrent use.
type limiter map[[4]byte]*int64

// maxLimited bounds a limiter; above it everybody starts afresh.
const maxLimited = 1 << 14

func newGate(networks []netip.Prefix, rate int) *gate {
	g := &gate{interval: int64(time.Second) / int64(rate), burst: int64(time.Second) / 2, shared: limiter{}, tcp: map[netip.Addr]int{}}
	for _, p := range networks {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked()
		g.networks = append(g.networks, p)
		if p.Addr().Is4() {
			g.masks = append(g.masks, [2]uint32{be32(p.Addr().As4()), ^uint32(0) << (32 - p.Bits())})
		}
	}
	return g
}

func be32(a [4]byte) uint32 {
	return uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
}

// admits4 reports whether a question of an IPv4 client is answered. now is in ns.
func (g *gate) admits4(l limiter, a [4]byte, now int64) bool {
	ip := be32(a)
	for _, m := range g.masks {
		if ip&m[1] == m[0] {
			return l.admits(a, now, g.interval, g.burst)
		}
	}
	return false
}

func (l limiter) admits(a [4]byte, now, interval, burst int64) bool {
	until := l[a]
	if until == nil {
		if len(l) >= maxLimited {
			clear(l)
		}
		until = new(int64)
		*until = now
		l[a] = until
	}
	if *until < now {
		*until = now
	}
	if *until-now > burst {
		return false
	}
	*until += interval
	return true
}

// admits is for the sockets that are shared by goroutines.
func (g *gate) admits(a netip.Addr, now time.Time) bool {
	if !g.knows(a) {
		return false
	}
	key := a.As16()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shared.admits([4]byte(key[12:]), now.UnixNano(), g.interval, g.burst)
}

func (g *gate) knows(a netip.Addr) bool {
	for _, p := range g.networks {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// gatedConn is a UDP socket that lets in what the gate lets in. It is the reader of
// a dns.Server where there is no fast path.
type gatedConn struct {
	*net.UDPConn
	server *Server
}

// ReadFrom implements net.PacketConn.
func (c *gatedConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.ReadFromUDPAddrPort(p)
		if err != nil {
			return 0, nil, err
		}
		if c.server.gate.admits(from.Addr().Unmap(), time.Now()) {
			return n, net.UDPAddrFromAddrPort(from), nil
		}
		c.server.stats.dropped.Add(1)
	}
}

// gatedListener bounds the connections, in all and of one client.
type gatedListener struct {
	net.Listener
	gate *gate
}

// Accept implements net.Listener: connections that are not let in are closed.
func (l *gatedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		a := addrOf(conn.RemoteAddr())
		if l.gate.opens(a) {
			return &gatedTCP{Conn: conn, closed: sync.OnceFunc(func() { l.gate.closes(a) })}, nil
		}
		_ = conn.Close()
	}
}

func (g *gate) opens(a netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.knows(a) || g.open >= maxTCP || g.tcp[a] >= maxTCPClient {
		return false
	}
	g.open++
	g.tcp[a]++
	return true
}

func (g *gate) closes(a netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.tcp[a]--; g.tcp[a] == 0 {
		delete(g.tcp, a)
	}
}

type gatedTCP struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *gatedTCP) Close() error {
	c.closed()
	return c.Conn.Close()
}

func addrOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
