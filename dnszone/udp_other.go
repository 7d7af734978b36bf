//go:build !linux

package dnszone

import (
	"net"
	"net/netip"
)

// canShare: only one UDP socket an address here.
const canShare = false

func listenUDP(at netip.AddrPort) (*net.UDPConn, error) {
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
}

// newFastConn: without recvmmsg, miekg/dns answers everything.
func newFastConn(pc *net.UDPConn, s *Server) (net.PacketConn, error) {
	return &gatedConn{UDPConn: pc, server: s}, nil
}
