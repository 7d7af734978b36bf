package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// networkLab is the kind of network mounts that a lab's machines report.
const networkLab = "lab"

// way is how a client reaches a drive's machine (D-81, X-21).
type way struct {
	transports []schema.Transport // allowed ones, best first
	server     []string           // the source's addresses, a transport each
	client     []string           // the client's, one a network that may be used
	noRDMA     bool               // no way, because RDMA was asked for and is impossible
}

// wayBetween decides how a client machine mounts from a source machine; problem
// says what is missing.
func wayBetween(home, client *machine, wanted schema.Transport) (w way, problem string) {
	if problem, noRDMA := wayProblem(home, client, wanted); problem != "" {
		return way{noRDMA: noRDMA}, problem
	}
	if bothLab(home, client) {
		return way{transports: []schema.Transport{schema.TransportLab},
			server: nonEmpty(home.address), client: []string{orName(client.address, client.name)}}, ""
	}
	from, to := sharedRDMA(home.rdma, client.rdma)
	if from != "" && wanted != schema.TransportTCP {
		w.transports = append(w.transports, schema.TransportRDMA)
		w.server, w.client = append(w.server, from), append(w.client, to)
	}
	if wanted == schema.TransportRDMA || addressProblem(home, client) != "" {
		return w, "" // RDMA alone
	}
	w.transports = append(w.transports, schema.TransportTCP)
	w.server, w.client = append(w.server, home.address), append(w.client, client.address)
	w.client = compactStable(w.client)
	return w, ""
}

// wayProblem says why there is no way, "" when there is one.
func wayProblem(home, client *machine, wanted schema.Transport) (problem string, noRDMA bool) {
	if bothLab(home, client) {
		return "", false
	}
	from, _ := sharedRDMA(home.rdma, client.rdma)
	switch {
	case wanted == schema.TransportRDMA && from == "":
		return noSharedRDMA, true
	case from != "" && wanted != schema.TransportTCP:
		return "", false
	}
	return addressProblem(home, client), false
}

func bothLab(a, b *machine) bool { return a.network() == networkLab && b.network() == networkLab }

func addressProblem(home, client *machine) string {
	for _, m := range [...]*machine{home, client} {
		switch {
		case m.addressProblem != "":
			return m.addressProblem
		case m.address == "" && m == client:
			return addressUnknown(thisMachine)
		case m.address == "":
			return addressUnknown(m.name)
		}
	}
	return ""
}

// sharedRDMA finds a pair of addresses on one RDMA network: both InfiniBand on
// the same fabric, or both RoCE (D-81).
func sharedRDMA(home, client []schema.RDMAPort) (from, to string) {
	for _, a := range home {
		for _, b := range client {
			if a.Address == "" || b.Address == "" || a.Kind != b.Kind {
				continue
			}
			if a.Kind == kindInfiniBand && a.Fabric == b.Fabric || a.Kind == kindRoCE {
				return a.Address, b.Address
			}
		}
	}
	return "", ""
}

const (
	kindInfiniBand = "InfiniBand"
	kindRoCE       = "RoCE"
)

// network is the kind of network mounts the machine reported, "" when unknown.
func (m *machine) network() string {
	if m.seen == nil || m.seen.report.Network == nil {
		return ""
	}
	return m.seen.report.Network.Kind
}

// ownAddresses are all addresses that may stand in an export for the machine.
func (m *machine) ownAddresses() []string {
	list := nonEmpty(m.address)
	for _, port := range m.rdma {
		list = append(list, nonEmpty(port.Address)...)
	}
	if m.seen != nil {
		list = append(list, m.seen.report.Addresses...)
		list = append(list, nonEmpty(m.seen.report.Address)...)
	}
	return list
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func orName(address, name string) string {
	if address == "" {
		return name
	}
	return address
}

// compactStable drops repeats and keeps the order.
func compactStable(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
