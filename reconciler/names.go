package reconciler

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// names keeps the zone of each org and says which machines get which (N-3, N-6).
// Only the namespaces of which something changed are built anew. One
// goroutine uses it; what machines are sent is in zones.
type names struct {
	zones *zones
	known map[string]*schema.MachineReport // last known address, workers and checks
	dirty map[string]bool                  // namespaces to be built
	all   bool                             // every one of them is
	orgOf map[string]string                // namespaces in use
	built map[string]*dnszone.Zone         // by org; changed only as a whole
	ready map[string]bool                  // orgs of whose machines enough is known
	home  map[string]string                // machines by name; nil: to be read
}

func newNames(term int64, state map[string]*schema.MachineReport) *names {
	n := &names{
		zones: &zones{term: term, feeds: map[string]*dnszone.Feed{}},
		known: make(map[string]*schema.MachineReport, len(state)), dirty: map[string]bool{}, all: true,
		orgOf: map[string]string{}, built: map[string]*dnszone.Zone{}, ready: map[string]bool{},
	}
	for name, r := range state {
		n.known[name] = r
	}
	return n
}

// zones are the feeds of all orgs. Machines' streams ask it.
type zones struct {
	term int64

	mu    sync.Mutex
	feeds map[string]*dnszone.Feed
}

// For is what a machine of an org is sent that holds have; nil for nothing.
func (z *zones) For(org string, have schema.ZoneHave) *schema.ZoneUpdate {
	z.mu.Lock()
	defer z.mu.Unlock()
	if f := z.feeds[org]; f != nil {
		return f.For(have)
	}
	return nil
}

// publish offers what is new and reports whether any org has something to send, and
// when the next is due that stands back.
func (z *zones) publish(now time.Time, epoch int64, fresh map[string]*dnszone.Zone) (changed bool, next time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for org, zone := range fresh {
		if z.feeds[org] == nil {
			z.feeds[org] = dnszone.NewFeed(epoch, z.term)
		}
		z.feeds[org].Offer(zone)
	}
	for _, f := range z.feeds {
		is, wait := f.Publish(now)
		changed = changed || is
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return changed, next
}

// report takes over what a machine says and is known: an unknown part is as it was.
func (n *names) report(r *schema.MachineReport) {
	old := n.known[r.Name]
	next := &schema.MachineReport{Name: r.Name, Address: r.Address, Workers: r.Workers, Checks: r.Checks}
	if old != nil && r.Workers == nil {
		next.Workers = old.Workers
	}
	if old != nil && r.Checks == nil {
		next.Checks = old.Checks
	}
	n.known[r.Name] = next
	if old == nil || old.Address != next.Address || !slices.EqualFunc(old.Workers, next.Workers, sameName) || !slices.Equal(old.Checks, next.Checks) {
		n.touch(old)
		n.touch(next)
	}
}

// sameName reports whether two listings of a worker are alike for its names.
func sameName(a, b schema.Worker) bool {
	return a.RunUID == b.RunUID && a.Name == b.Name && a.Generation == b.Generation && a.Attempt == b.Attempt && a.State == b.State &&
		a.Address == b.Address
}

// touch marks the namespaces of a machine's workers.
func (n *names) touch(r *schema.MachineReport) {
	if r == nil {
		return
	}
	for i := range r.Workers {
		ns, _, _ := strings.Cut(r.Workers[i].Run, ".")
		n.dirty[ns] = true
	}
}

// anew marks everything: what is in force was read again.
func (n *names) anew() { n.all, n.home = true, nil }

// moved marks what a machine's change of state may name.
func (n *names) moved(old, states map[string]schema.MachineState) {
	for name, state := range states {
		if old[name] != state {
			n.touch(n.known[name])
		}
	}
}

// decided marks what decisions may name.
func (n *names) decided(d *schema.Decisions) {
	mark := func(key schema.Key) {
		switch key.Kind {
		case schema.KindRun, schema.KindEndpoint, schema.KindReplicaGroup:
			n.dirty[key.Namespace] = true
		case schema.KindMachine:
			n.home = nil
			n.touch(n.known[key.Name])
		case schema.KindCluster, schema.KindOrg, schema.KindWorkspace:
			n.all = true
		}
	}
	for i := range d.Accept {
		mark(d.Accept[i].Object.Object.Key)
	}
	for i := range d.Remove {
		mark(d.Remove[i].Key)
	}
	for i := range d.Place {
		mark(d.Place[i].Run)
	}
	for _, key := range d.Unplace {
		mark(key)
	}
}

// build builds what is marked, and returns the zones that it touched.
func (n *names) build(in planner.NamesInput, domain string) map[string]*dnszone.Zone {
	if !n.all && len(n.dirty) == 0 {
		return map[string]*dnszone.Zone{}
	}
	all, dirty := n.all, n.dirty
	n.all, n.dirty = false, map[string]bool{}
	fresh := map[string]*dnszone.Zone{}
	zone := func(org string) *dnszone.Zone {
		switch {
		case fresh[org] != nil:
		case n.built[org] == nil || n.built[org].Domain != dnszone.Build(dnszone.Input{Domain: domain}).Domain:
			fresh[org] = dnszone.Build(dnszone.Input{Org: org, Domain: domain})
		default:
			fresh[org] = n.built[org]
		}
		return fresh[org]
	}
	seen := map[string]bool{}
	for _, s := range planner.Names(in, func(ns string) bool { return all || dirty[ns] }) {
		seen[s.Namespace] = true
		if was := n.orgOf[s.Namespace]; was != "" && was != s.Org {
			fresh[was] = zone(was).With(&dnszone.Shard{Namespace: s.Namespace})
		}
		n.orgOf[s.Namespace] = s.Org
		fresh[s.Org] = zone(s.Org).With(dnszone.BuildShard(shardInput(&s)))
	}
	for ns, org := range n.orgOf {
		if (all || dirty[ns]) && !seen[ns] {
			fresh[org] = zone(org).With(&dnszone.Shard{Namespace: ns})
			delete(n.orgOf, ns)
		}
	}
	maps.Copy(n.built, fresh)
	return fresh
}

func shardInput(s *planner.SpaceNames) *dnszone.Namespace {
	ns := &dnszone.Namespace{Name: s.Namespace, Runs: make([]dnszone.Run, 0, len(s.Runs)), Endpoints: make([]dnszone.Endpoint, 0, len(s.Endpoints))}
	for _, r := range s.Runs {
		run := dnszone.Run{Name: r.Name, LeaderGroup: r.LeaderGroup, Workers: make([]dnszone.Worker, 0, len(r.Workers))}
		for _, w := range r.Workers {
			address, _ := netip.ParseAddr(w.Address) // unknown is the zero Addr
			run.Workers = append(run.Workers, dnszone.Worker{Name: w.Name, Group: w.Group, Index: w.Index, Address: address, Running: w.Running})
		}
		ns.Runs = append(ns.Runs, run)
	}
	for _, e := range s.Endpoints {
		endpoint := dnszone.Endpoint{Name: e.Name}
		for _, text := range e.Ready {
			if address, err := netip.ParseAddr(text); err == nil {
				endpoint.Ready = append(endpoint.Ready, address)
			}
		}
		ns.Endpoints = append(ns.Endpoints, endpoint)
	}
	return ns
}

// machines are the orgs of the machines in force.
func (n *names) machines(objects map[schema.Key]*schema.AcceptedObject) map[string]string {
	if n.home == nil {
		n.home = map[string]string{}
		for key, a := range objects {
			if key.Kind == schema.KindMachine && a.UID != "" && a.Object != nil {
				n.home[key.Name] = a.Object.Org
			}
		}
	}
	return n.home
}

// publishNames sends the zones whatever changed in them, and returns when there may
// be something again by time alone; zero for never. While the store fails, the
// zones stay as they are, and there are none while a new epoch finds out what is
// in force. An org's zone begins when each of its machines has
// told what it runs or is Down, at the latest after the grace of a new leader:
// unknown is not NXDOMAIN.
func (l *leading) publishNames() time.Duration {
	now := l.cfg.Now()
	if l.state == nil || l.state.Meta.Adopting || l.healthy.IsZero() || l.notes.failure() != nil {
		return 0
	}
	n, objects := l.names, l.state.Accepted.Objects
	home := n.machines(objects)
	fresh := n.build(planner.NamesInput{Accepted: objects, Placed: l.state.Placed, Reports: n.known, States: l.states}, l.cluster().DNSDomain)
	for _, org := range home {
		if n.built[org] == nil { // nothing runs there; that is an answer too
			n.built[org] = dnszone.Build(dnszone.Input{Org: org, Domain: l.cluster().DNSDomain})
		}
	}
	changed, wait := n.begin(home, l.states, fresh, l.healthy.Add(l.downAfter()).Sub(now))
	sent, next := n.zones.publish(now, l.state.Meta.Epoch, fresh)
	if sent || changed {
		l.cfg.Link.PublishNames(maps.Clone(home), n.zones)
	}
	if wait > 0 && (next == 0 || wait < next) {
		next = wait
	}
	return next
}

// begin lets the zones of orgs begin of whose machines enough is known, and takes
// the others out of fresh. grace is what is left of a new leader's.
func (n *names) begin(home map[string]string, states map[string]schema.MachineState, fresh map[string]*dnszone.Zone, grace time.Duration) (began bool, wait time.Duration) {
	blind := map[string]bool{}
	for name, org := range home {
		known := n.known[name]
		if states[name] != schema.MachineDown && (states[name] != schema.MachineUp || known == nil || known.Workers == nil) {
			blind[org] = true
		}
	}
	for org, zone := range n.built {
		switch {
		case n.ready[org]:
		case grace > 0 && blind[org]:
			delete(fresh, org)
			wait = grace
		default:
			n.ready[org], began, fresh[org] = true, true, zone
		}
	}
	return began, wait
}
