package planner

import (
	"net/netip"

	"astraeus.io/astraeus/schema"
)

// networkOf is how a worker of a spec is on the network of a machine (N-8): on
// the host's where the machine has RDMA, runs processes, or has no node network.
func networkOf(spec *schema.RunSpec, m *machine) schema.NetworkMode {
	if spec.Network != nil && spec.Network.Mode == schema.NetworkHost {
		return schema.NetworkHost
	}
	if m.spec.NodeNetwork == "" || m.spec.Engine == schema.EngineProcess {
		return schema.NetworkHost
	}
	if len(m.rdma) > 0 && (spec.Network == nil || spec.Network.Mode == "") {
		return schema.NetworkHost
	}
	return schema.NetworkNode
}

// firstHost is the first address that a worker may have: the gateway is .1 (N-3).
const (
	firstHost = 2
	lastHost  = 254
)

// addressFor gives a worker its address at placement, so that the leader's is
// known before anything starts (N-8): its machine's, or a free one of the
// machine's /24. The number is that of the node network, 0 for none.
func (p *pass) addressFor(spec *schema.RunSpec, m *machine) (string, int) {
	if networkOf(spec, m) == schema.NetworkHost {
		return m.address, 0
	}
	network, err := netip.ParsePrefix(m.spec.NodeNetwork)
	if err != nil || !network.Addr().Is4() {
		return m.address, 0
	}
	for n := firstHost; n <= lastHost; n++ {
		if !m.load.hosts[n] {
			m.takeHost(n)
			base := network.Masked().Addr().As4()
			base[3] = byte(n)
			return netip.AddrFrom4(base).String(), n
		}
	}
	return m.address, 0
}

// hostNumber is the last byte of an address of the machine's node network, 0
// for any other address.
func hostNumber(network, address string) int {
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		return 0
	}
	addr, err := netip.ParseAddr(address)
	if err != nil || !addr.Is4() || !prefix.Contains(addr) {
		return 0
	}
	return int(addr.As4()[3])
}
