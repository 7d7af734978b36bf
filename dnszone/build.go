package dnszone

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// DefaultDomain is the domain of a cluster that declares none.
const DefaultDomain = "astraeus.local"

// Input is all that the names of one org depend on (N-1, N-6): nothing of another
// org's is in it.
type Input struct {
	Org        string
	Domain     string // Cluster.spec.dns_domain
	Namespaces []Namespace
}

// Namespace is one workspace's.
type Namespace struct {
	Name      string // "ws-3f9c2a7d41be"
	Runs      []Run
	Endpoints []Endpoint
}

// Run is a run with its workers, members of replica groups included.
type Run struct {
	Name        string
	LeaderGroup string // "" for a run without groups
	Workers     []Worker
}

// Worker is one worker of a run. Address is its own on the node network, or its
// machine's on the host network; the zero Addr is unknown.
type Worker struct {
	Name    string // "train-0", "train-ps-0" (N-2)
	Group   string
	Index   int
	Address netip.Addr
	Running bool
}

// Endpoint is an Endpoint object or a replica group's own (N-2), with the addresses
// of its ready workers. What external_accesses make is not given here.
type Endpoint struct {
	Name  string
	Ready []netip.Addr
}

// Zone is the names of one org, built by Build and never changed afterwards.
type Zone struct {
	Org    string
	Domain string
	Shards map[string]*Shard // by namespace; none is empty
}

// Shard is the names of one namespace, sorted, and the hash of them.
type Shard struct {
	Namespace string
	Hash      schema.ZoneHash
	Names     []schema.ZoneName
}

// Build makes the names of an org. It is pure: equal inputs in any order give
// equal zones, and the zone shares nothing with the input.
func Build(in Input) *Zone {
	zone := &Zone{Org: in.Org, Domain: cleanDomain(in.Domain), Shards: make(map[string]*Shard, len(in.Namespaces))}
	for i := range in.Namespaces {
		if shard := BuildShard(&in.Namespaces[i]); len(shard.Names) > 0 {
			zone.Shards[shard.Namespace] = shard
		}
	}
	return zone
}

// With is the zone with one namespace's names replaced, so that a change of one
// workspace does not build the others anew. zone is not changed.
func (z *Zone) With(shard *Shard) *Zone {
	next := &Zone{Org: z.Org, Domain: z.Domain, Shards: maps.Clone(z.Shards)}
	if len(shard.Names) > 0 {
		next.Shards[shard.Namespace] = shard
	} else {
		delete(next.Shards, shard.Namespace)
	}
	return next
}

// Names counts the zone's names.
func (z *Zone) Names() int {
	n := 0
	for _, shard := range z.Shards {
		n += len(shard.Names)
	}
	return n
}

// BuildShard makes the names of one namespace: each Running worker's; each run's
// with its leader's address, or while the leader is not Running those of all its
// Running workers; each endpoint's with its ready workers' (N-1).
func BuildShard(ns *Namespace) *Shard {
	size := len(ns.Endpoints) + len(ns.Runs)
	for i := range ns.Runs {
		size += len(ns.Runs[i].Workers)
	}
	names := make([]schema.ZoneName, 0, size)
	add := func(name string, kind schema.NameKind, addresses []netip.Addr) {
		if len(addresses) > 0 && schema.DNSNameProblem(name) == "" {
			names = append(names, schema.ZoneName{Name: strings.ToLower(name), Kind: kind, Addresses: addresses})
		}
	}
	for i := range ns.Runs {
		run := &ns.Runs[i]
		add(run.Name, schema.NameRun, runAddresses(run)) // before its workers, as they are sorted
		for j := range run.Workers {
			add(run.Workers[j].Name, schema.NameWorker, answerable(&run.Workers[j]))
		}
	}
	for _, e := range ns.Endpoints {
		add(e.Name, schema.NameEndpoint, sortedIPv4(e.Ready))
	}
	// The planner holds back a name that is another's too (N-9). Should one be here
	// all the same, the answer does not depend on the order of the input.
	slices.SortFunc(names, compareNames)
	names = slices.CompactFunc(names, func(a, b schema.ZoneName) bool { return a.Name == b.Name })
	shard := &Shard{Namespace: strings.ToLower(ns.Name), Names: names}
	for i := range names {
		shard.Hash.Add(names[i])
	}
	return shard
}

var kindOrder = map[schema.NameKind]int{schema.NameWorker: 0, schema.NameRun: 1, schema.NameEndpoint: 2}

func compareNames(a, b schema.ZoneName) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	if c := kindOrder[a.Kind] - kindOrder[b.Kind]; c != 0 {
		return c
	}
	return slices.CompareFunc(a.Addresses, b.Addresses, netip.Addr.Compare)
}

func runAddresses(run *Run) []netip.Addr {
	var all []netip.Addr
	for i := range run.Workers {
		w := &run.Workers[i]
		addresses := answerable(w)
		if w.Index == 0 && w.Group == run.LeaderGroup && len(addresses) > 0 {
			return addresses
		}
		all = append(all, addresses...)
	}
	return sortedIPv4(all)
}

// answerable is the address of a Running worker. Records are A records (N-4), so
// that an address which is not IPv4 is none.
func answerable(w *Worker) []netip.Addr {
	if a := w.Address.Unmap(); w.Running && a.Is4() {
		return []netip.Addr{a}
	}
	return nil
}

func sortedIPv4(list []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if a = a.Unmap(); a.Is4() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// cleanDomain is a domain in lower case without a dot at its end.
func cleanDomain(domain string) string {
	domain = strings.ToLower(strings.Trim(domain, "."))
	if domain == "" {
		return DefaultDomain
	}
	return domain
}
