package dnszone

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canShare: several UDP sockets may have one address, one a processor.
const canShare = true

// receiveBuffer holds a burst while the process is not running.
const receiveBuffer = 4 << 20

func listenUDP(at netip.AddrPort) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) {
			if err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				return
			}
			// A smaller buffer than asked for is no error; FORCE needs a capability.
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
			}
		})
		if control != nil {
			return control
		}
		return err
	}}
	pc, err := config.ListenPacket(context.Background(), "udp", at.String())
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// batch is how many datagrams one system call reads or writes.
const batch = 32

// mmsghdr is the kernel's struct of that name on 64-bit systems; the compiler pads
// it to the alignment of Msghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// fastConn is a UDP socket that answers ordinary questions itself, inside ReadFrom,
// and hands only the rest to the dns.Server that reads from it. recvmmsg and
// sendmmsg are raw system calls that never block: the netpoller waits.
type fastConn struct {
	*net.UDPConn
	raw    syscall.RawConn
	server *Server

	// All below belong to the one goroutine that reads.
	in, out     [batch]mmsghdr
	inVec       [batch]unix.Iovec
	outVec      [batch]unix.Iovec
	from        [batch]unix.RawSockaddrInet4
	read, write [batch][]byte
	got         int // datagrams of the batch
	next        int // the first that was not looked at
	limits      limiter
	q           question
	errno       syscall.Errno
	toSend      int
	sent        int
	receiving   func(fd uintptr) bool
	sending     func(fd uintptr) bool
}

func newFastConn(pc *net.UDPConn, s *Server) (net.PacketConn, error) {
	raw, err := pc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &fastConn{UDPConn: pc, raw: raw, server: s, limits: limiter{}}
	space := make([]byte, batch*(maxDatagram+maxUDPReply))
	for i := range batch {
		c.read[i], space = space[:maxDatagram:maxDatagram], space[maxDatagram:]
		c.write[i], space = space[:0:maxUDPReply], space[maxUDPReply:]
		c.inVec[i].Base = &c.read[i][0]
		c.inVec[i].SetLen(maxDatagram)
		c.in[i].hdr.Iov = &c.inVec[i]
		c.in[i].hdr.SetIovlen(1)
		c.in[i].hdr.Name = (*byte)(unsafe.Pointer(&c.from[i]))
		c.out[i].hdr.Iov = &c.outVec[i]
		c.out[i].hdr.SetIovlen(1)
		c.out[i].hdr.Namelen = unix.SizeofSockaddrInet4
	}
	// Made once: a closure for each call would be an allocation.
	c.receiving, c.sending = c.receive, c.send
	return c, nil
}

// ReadFrom implements net.PacketConn: it returns a message that is not for the fast
// path. It is for one goroutine. A read deadline ends it as it does any read.
func (c *fastConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		if n, from, ok := c.process(p); ok {
			return n, from, nil
		}
		c.got, c.next = 0, 0
		if err := c.raw.Read(c.receiving); err != nil {
			return 0, nil, err
		}
		if c.errno != 0 && c.errno != unix.EINTR && c.errno != unix.ECONNREFUSED {
			return 0, nil, c.errno
		}
	}
}

// receive reads a batch; false waits until there is something.
func (c *fastConn) receive(fd uintptr) bool {
	for i := range batch {
		c.in[i].hdr.Namelen = unix.SizeofSockaddrInet4
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&c.in[0])), batch, unix.MSG_DONTWAIT, 0, 0)
	if errno == unix.EAGAIN {
		return false // and for nothing else: readiness is told once
	}
	if c.errno = errno; errno == 0 {
		c.got = int(n)
	}
	return true
}

// process answers what is left of the batch, until a message that it does not
// answer: that one is copied to p.
func (c *fastConn) process(p []byte) (n int, from net.Addr, ok bool) {
	if c.next == c.got {
		return 0, nil, false
	}
	table, clients := c.server.table.Load(), c.server.clients.Load()
	now := time.Now().UnixNano()
	c.toSend = 0
	dropped := 0
	for ; c.next < c.got && !ok; c.next++ {
		i := c.next
		addr := c.from[i].Addr
		switch msg := c.read[i][:c.in[i].len]; {
		case c.in[i].hdr.Flags&unix.MSG_TRUNC != 0 || !c.server.gate.admits4(c.limits, addr, now):
			dropped++
		case table != nil && clients != nil && !clients.restricted[addr] && c.answer(table, i, msg):
		default:
			n, ok = copy(p, msg), true
			port := c.from[i].Port
			from = &net.UDPAddr{IP: net.IPv4(addr[0], addr[1], addr[2], addr[3]), Port: int(port<<8 | port>>8)}
		}
	}
	if dropped > 0 {
		c.server.stats.dropped.Add(uint64(dropped))
	}
	c.flush()
	return n, from, ok
}

func (c *fastConn) answer(table *Table, i int, msg []byte) bool {
	k := c.toSend
	reply := answerFast(table, &c.q, msg, c.write[k])
	if reply == nil {
		return false
	}
	c.outVec[k].Base = &reply[0]
	c.outVec[k].SetLen(len(reply))
	c.out[k].hdr.Name = (*byte)(unsafe.Pointer(&c.from[i]))
	c.toSend++
	return true
}

// flush sends the answers. One that cannot be sent (a firewall, a client that is
// gone) is left out; a full socket is waited for.
func (c *fastConn) flush() {
	if c.toSend == 0 {
		return
	}
	c.server.stats.answered.Add(uint64(c.toSend))
	for c.sent = 0; c.sent < c.toSend; {
		if c.raw.Write(c.sending) != nil {
			return // closed
		}
	}
}

func (c *fastConn) send(fd uintptr) bool {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&c.out[c.sent])), uintptr(c.toSend-c.sent), unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		c.sent += int(n)
	case unix.EAGAIN:
		return false
	case unix.EINTR:
	default:
		c.sent++ // this one cannot be sent
	}
	return true
}
