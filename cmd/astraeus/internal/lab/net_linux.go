package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Names of links: in the room, and in each machine.
const (
	bridgeName  = "lab0"
	machineLink = "eth0"
	gatewayLink = "node0"
)

// network is the bridge that joins the machines of a lab, inside the room's
// network namespace, and the namespaces hanging on it.
type network struct {
	bridge netlink.Link
	next   int // numbers links; names are at most 15 bytes, a machine's may be longer
}

func newNetwork() (*network, error) {
	if err := setUp("lo"); err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridgeName, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridgeName, err)
	}
	return &network{bridge: bridge}, nil
}

// port is one machine's network namespace and its end on the bridge.
type port struct {
	ns   netns.NsHandle
	link string
}

// join makes a network namespace with a link to the bridge. address is the
// machine's, reachable from every other machine; nodeNetwork, if any, gets a
// bridge of its own that holds the network's first address (N-3).
func (n *network) join(address, nodeNetwork string) (*port, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	n.next++
	p := &port{link: fmt.Sprintf("m%d", n.next)}
	peer := fmt.Sprintf("p%d", n.next)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = p.link, n.bridge.Attrs().Index
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}); err != nil {
		return nil, fmt.Errorf("link %s: %w", p.link, err)
	}
	if err := n.connect(p, peer, ip, nodeNetwork); err != nil {
		return nil, errors.Join(err, p.leave())
	}
	return p, nil
}

func (n *network) connect(p *port, peer string, ip netip.Addr, nodeNetwork string) error {
	if err := setUp(p.link); err != nil {
		return err
	}
	var err error
	if p.ns, err = newNamespace(); err != nil {
		return err
	}
	link, err := netlink.LinkByName(peer)
	if err != nil {
		return fmt.Errorf("link %s: %w", peer, err)
	}
	if err := netlink.LinkSetNsFd(link, int(p.ns)); err != nil {
		return fmt.Errorf("link %s into its namespace: %w", peer, err)
	}
	return p.do(func() error {
		if err := plug(peer); err != nil {
			return err
		}
		return configure(ip, nodeNetwork)
	})
}

// readdress gives the machine other addresses; what runs on it goes on.
func (p *port) readdress(address, nodeNetwork string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	return p.do(func() error { return configure(ip, nodeNetwork) })
}

// plug runs inside the machine's namespace, once.
func plug(peer string) error {
	if err := setUp("lo"); err != nil {
		return err
	}
	link, err := netlink.LinkByName(peer)
	if err != nil {
		return fmt.Errorf("link %s: %w", peer, err)
	}
	if err := netlink.LinkSetName(link, machineLink); err != nil {
		return fmt.Errorf("link %s: %w", machineLink, err)
	}
	return nil
}

// configure runs inside the machine's namespace, whatever its addresses were.
func configure(ip netip.Addr, nodeNetwork string) error {
	link, err := netlink.LinkByName(machineLink)
	if err != nil {
		return fmt.Errorf("link %s: %w", machineLink, err)
	}
	host := &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
	if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: host}); err != nil {
		return fmt.Errorf("address %s: %w", ip, err)
	}
	if err := setUp(machineLink); err != nil {
		return err
	}
	all := &net.IPNet{IP: make(net.IP, ip.BitLen()/8), Mask: net.CIDRMask(0, ip.BitLen())}
	// Every other machine is one hop away, whatever its address.
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	// Last: with its last address a link also loses its routes.
	if err := dropAddresses(link, ip); err != nil {
		return err
	}
	return gateway(nodeNetwork)
}

// dropAddresses takes every address from a link but one and the kernel's own.
func dropAddresses(link netlink.Link, but netip.Addr) error {
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	for _, address := range addresses {
		if address.IP.IsLinkLocalUnicast() || address.IP.Equal(but.AsSlice()) {
			continue
		}
		if err := netlink.AddrDel(link, &address); err != nil {
			return fmt.Errorf("address %s: %w", address.IP, err)
		}
	}
	return nil
}

func gateway(nodeNetwork string) error {
	if old, err := netlink.LinkByName(gatewayLink); err == nil {
		if err := netlink.LinkDel(old); err != nil {
			return fmt.Errorf("bridge %s: %w", gatewayLink, err)
		}
	}
	if nodeNetwork == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(nodeNetwork)
	if err != nil {
		return fmt.Errorf("node_network %q: %w", nodeNetwork, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = gatewayLink
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge %s: %w", gatewayLink, err)
	}
	first := prefix.Masked().Addr().Next()
	at := &net.IPNet{IP: first.AsSlice(), Mask: net.CIDRMask(prefix.Bits(), first.BitLen())}
	if err := netlink.AddrAdd(bridge, &netlink.Addr{IPNet: at}); err != nil {
		return fmt.Errorf("gateway %s: %w", first, err)
	}
	return setUp(gatewayLink)
}

// leave takes the machine off the network. Processes still in the namespace
// keep it alive, without a link.
func (p *port) leave() error {
	var err error
	if link, findErr := netlink.LinkByName(p.link); findErr == nil {
		err = netlink.LinkDel(link)
	}
	if p.ns.IsOpen() {
		err = errors.Join(err, p.ns.Close())
	}
	return err
}

// do runs f on a thread inside the namespace; processes that f starts are in it.
func (p *port) do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: a thread whose namespace was changed ends with its goroutine.
		runtime.LockOSThread()
		if err := netns.Set(p.ns); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func newNamespace() (netns.NsHandle, error) {
	type result struct {
		ns  netns.NsHandle
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		done <- result{ns, err}
	}()
	r := <-done
	if r.err != nil {
		return netns.None(), fmt.Errorf("network namespace: %w", r.err)
	}
	return r.ns, nil
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}
