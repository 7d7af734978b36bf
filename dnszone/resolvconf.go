package dnszone

import (
	"fmt"
	"net/netip"
)

// TTL of every answer, and of a negative one, in seconds (N-4).
const TTL = 5

// ResolvConf is the /etc/resolv.conf of a worker on the node network (N-7). A file
// that the run mounts there itself takes precedence, which is the caller's to see to.
func ResolvConf(gateway netip.Addr, namespace, domain string) string {
	domain = cleanDomain(domain)
	return fmt.Sprintf("nameserver %s\nsearch %s.%s %s\noptions ndots:2\n", gateway, namespace, domain, domain)
}

// Gateway is where a machine serves names: the first address of its node network,
// 10.240.3.1 of 10.240.3.0/24 (N-3). ok is false unless the network is IPv4 with
// room for it.
func Gateway(network netip.Prefix) (addr netip.Addr, ok bool) {
	if !network.Addr().Is4() || network.Bits() > 30 {
		return netip.Addr{}, false
	}
	return network.Masked().Addr().Next(), true
}
