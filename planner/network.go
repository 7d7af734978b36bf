package planner

import (
	"net/netip"

	"astraeus.io/astraeus/schema"
)

// networkOf is how a worker of a spec is on the network of a machine (N-8): on
// the host's where the machine has RDMA, runs processes, or has no node network.
func networkOf(mode schema.NetworkMode, m *machine) schema.NetworkMode {
	if m.spec.Engine == schema.EngineProcess {
		return schema.NetworkHost
	}
	return namesOf(mode, m)
}

// namesOf is which names a worker looks up: those of the node network, at its
// gateway, or the machine's (N-7, N-8). Process workers share their machine's
// addresses and look names up as if they had one of the node network.
func namesOf(mode schema.NetworkMode, m *machine) schema.NetworkMode {
	switch {
	case mode == schema.NetworkHost, m.spec.NodeNetwork == "":
		return schema.NetworkHost
	case len(m.rdma) > 0 && mode == "":
		return schema.NetworkHost
	}
	return schema.NetworkNode
}

// modeOf is the network mode that a spec asks for, "" where it leaves that to the machine.
func modeOf(spec *schema.RunSpec) schema.NetworkMode {
	if spec.Network == nil {
		return ""
	}
	return spec.Network.Mode
}

// gatewayOf is the address on which a machine serves names: the first of its /24
// (N-3), "" without a node network.
func (m *machine) gatewayOf() string {
	if !m.nodeNet.IsValid() {
		return ""
	}
	return m.nodeNet.Addr().Next().String()
}

// firstHost is the first address that a worker may have: the gateway is .1 (N-3).
const (
	firstHost = 2
	lastHost  = 254
)

// addressFor gives a worker its address at placement, so that the leader's is
// known before anything starts (N-8): its machine's, or a free one of the
// machine's /24, which whyNoAddress has seen to. The number is that of the node
// network, 0 for none.
func (p *pass) addressFor(mode schema.NetworkMode, m *machine) (string, int) {
	n := m.load.hosts.free()
	if networkOf(mode, m) == schema.NetworkHost || !m.nodeNet.IsValid() || n == 0 {
		return m.address, 0
	}
	m.load.hosts.take(n)
	base := m.nodeNet.Addr().As4()
	base[3] = byte(n)
	return netip.AddrFrom4(base).String(), n
}

// whyNoAddress: a machine whose node network is full takes no worker that needs an
// address of it.
func whyNoAddress(mode schema.NetworkMode, m *machine) (schema.Reason, bool) {
	if networkOf(mode, m) == schema.NetworkHost || m.load.hosts.free() > 0 {
		return schema.Reason{}, true
	}
	return schema.Reason{Code: schema.ReasonNoHostNumber, Args: schema.ReasonArgs{Text: m.spec.NodeNetwork}}, false
}

// nodeNetOf is a machine's node network, zero for none.
func nodeNetOf(spec *schema.MachineSpec) netip.Prefix {
	network, err := netip.ParsePrefix(spec.NodeNetwork)
	if err != nil || !network.Addr().Is4() {
		return netip.Prefix{}
	}
	return network.Masked()
}

// hostNumber is the last byte of an address of the machine's node network, 0
// for any other address.
func (m *machine) hostNumber(address string) int {
	if !m.nodeNet.IsValid() {
		return 0
	}
	addr, err := netip.ParseAddr(address)
	if err != nil || !addr.Is4() || !m.nodeNet.Contains(addr) {
		return 0
	}
	return int(addr.As4()[3])
}
