package planner

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/schema"
)

// site is one machine's target and steps while they are made. What is made for
// one machine writes to its own site only, so that many are made at a time.
type site struct {
	m       *machine
	a       *schema.Assignment
	dirs    map[sourceID]int // indexes into the assignment's lists
	copies  map[string]int
	mounts  []*claim            // claims of which it is the client
	claims  map[sourceID]*claim // the same, by source
	exports []*claim            // claims of which it is the source
	wanted  map[workerID]int    // the assignment's workers, once asked for

	steps    []schema.Step // stage by stage
	ends     [stages]int   // where the steps of each stage end
	at       []int         // where each step was put when they were sorted; nil: where it was
	drift    []schema.Drift
	drifted  [stages]int
	withheld map[string]bool   // ids of steps that the machine may not carry out yet
	makers   map[madeID]string // ids of steps here that others here come after
	// Ids of steps that others elsewhere come after: each map is written in one round
	// and read by others in later ones.
	unmounts map[sourceID]string
	exported map[claimKey]string
	stops    []stop
}

// tenant is a placed worker that is to run on its machine.
type tenant struct {
	run *run
	i   int // in the placement
	at  int // in the assignment's workers, -1 when it is not there
}

func (t *tenant) worker() *schema.PlacedWorker { return &t.run.placed.Workers[t.i] }

// claimKey: one claim per drive, source and client machine (D-80).
type claimKey struct {
	uid    string
	source int
	client string
}

type claim struct {
	key    claimKey
	drive  *drive
	home   *machine
	client *machine
	mode   schema.Mode
	users  []string
	way    way
	seen   *schema.Mount // the mount that is there
	stale  bool          // what is exported to it is another path than the wanted one
	remake bool          // it is unmounted first, and not exported meanwhile
	idle   bool          // its source is Down and nobody here uses it: it is unmounted
}

// buildTargets says what each machine must hold: first what follows from its
// own workers, then what others mount from it.
func (p *pass) buildTargets() {
	p.clusterSpec()
	p.spaces()
	p.namespaceHolders() // for egressOf: what is made on demand must be there before many ask
	p.endpoints = p.indexEndpoints()
	p.indexAddresses()
	p.indexFences()
	p.driveLists()
	p.fillTemplates()
	p.indexSources()
	p.settleIn()
	each(p.order, p.targetWorkers)
	for _, m := range p.order {
		for _, c := range m.site.mounts {
			if c.home != nil && c.home.site != nil {
				c.home.site.exports = append(c.home.site.exports, c)
			}
		}
	}
	each(p.order, p.finishTarget)
	for _, m := range p.order {
		p.out.Targets[m.name] = m.site.a
		for i := range m.site.a.Copies {
			if hash := m.site.a.Copies[i].FillTemplate; hash != "" {
				p.out.Blobs[hash] = p.fills[hash]
			}
		}
	}
}

func (p *pass) indexAddresses() {
	p.address = make(map[string]string, 2*len(p.order))
	for _, m := range p.order {
		for _, a := range m.ownAddresses() {
			p.address[a] = m.name
		}
	}
}

// active reports whether the placed workers of the run are to run.
func (r *run) active() bool { return r.placed != nil && !r.stopping && r.placed.Outcome == "" }

// settleIn lists each machine's workers in the order of runs and ranks, and
// prepares what all workers of a run share.
func (p *pass) settleIn() {
	p.byName = slices.Clone(p.queue)
	slices.SortFunc(p.byName, func(a, b *run) int { return schema.CompareKeys(a.key, b.key) })
	each(p.byName, func(r *run) {
		if r.active() {
			p.readyRun(r)
		}
	})
	counts := make(map[*machine]int, len(p.order))
	for _, r := range p.byName {
		if r.active() {
			for _, m := range r.on {
				counts[m]++
			}
		}
	}
	for _, m := range p.order {
		m.tenants = make([]tenant, 0, counts[m])
	}
	for _, r := range p.byName {
		if !r.active() {
			continue
		}
		for _, t := range r.current {
			p.out.Blobs[t.hash] = t.blob
		}
		for i, m := range r.on {
			if m != nil {
				m.tenants = append(m.tenants, tenant{run: r, i: i, at: -1})
			}
		}
	}
}

// readyRun makes what all workers of an active run share.
func (p *pass) readyRun(r *run) {
	r.on = make([]*machine, len(r.placed.Workers))
	for i := range r.placed.Workers {
		r.on[i] = p.machines[r.placed.Workers[i].Machine]
	}
	r.leader, r.egress = p.leaderOf(r.placed), p.egressOf(r)
	for _, t := range r.current {
		if t.hash == "" {
			t.hash, t.blob = blobOf(t.task)
			t.binds = t.bindsAlike()
		}
	}
}

// targetWorkers makes what follows from a machine's own workers.
func (p *pass) targetWorkers(m *machine) {
	s := p.newSite(m)
	m.site = s
	for i := range m.tenants {
		p.targetWorker(s, &m.tenants[i])
	}
	s.finishMounts(p)
}

// finishTarget adds what others need of the machine.
func (p *pass) finishTarget(m *machine) {
	m.site.finishExports()
	p.measure(m.site)
	m.site.sort()
}

func (p *pass) newSite(m *machine) *site {
	c := p.clusterSpec()
	s := &site{m: m, a: &schema.Assignment{
		Version: schema.AssignmentVersion, ClusterUID: p.in.Accepted.ClusterUID, Machine: m.name, Commit: p.out.Commit,
		DataLocations: m.dataLocations(), Eviction: c.Eviction, MeasureEvery: c.MeasureEvery, Drives: p.lists[m.org],
		AllowedVolumePrefixes: slices.Clone(m.spec.AllowedVolumePrefixes), Names: m.names(c.DNSDomain),
	}}
	if n := len(m.tenants); n > 0 {
		s.a.Workers = make([]schema.WorkerTarget, 0, n)
	}
	return s
}

// names says where the machine serves names, nil where it has no node network (N-3).
func (m *machine) names(domain string) *schema.NamesTarget {
	gateway := m.gatewayOf()
	if gateway == "" {
		return nil
	}
	return &schema.NamesTarget{Org: m.org, Domain: domain, Gateway: gateway, Network: m.spec.NodeNetwork}
}

// targetWorker puts a placed worker on its machine. One whose outcome is written
// down leaves the target, so that its machine forgets it.
func (p *pass) targetWorker(s *site, n *tenant) {
	r, w := n.run, n.worker()
	pl, t := r.placed, templateOfGroup(r.current, w.Group)
	if w.Outcome != nil || t == nil {
		return
	}
	n.at = len(s.a.Workers)
	target := schema.WorkerTarget{
		Run: r.key, RunUID: pl.RunUID, Generation: pl.Generation, Attempt: pl.Attempt, Name: w.Name, Group: w.Group,
		Rank: w.Rank, Index: w.Index, Template: t.hash, WorldSize: len(pl.Workers), Leader: r.leader,
		Address: addressOf(s.m, pl, w), Network: networkNow(w, s.m), GPUs: w.GPUs,
		StopIfAwayAfter: pl.Spec.StopIfAwayAfter, CPUCores: t.share, MemoryBytes: t.memory, Mounts: p.bindsFor(s, t, w),
	}
	if namesOf(t.network, s.m) == schema.NetworkNode {
		target.Resolver, target.Egress = s.m.gatewayOf(), r.egress
	}
	s.a.Workers = append(s.a.Workers, target)
	p.checksFor(s, r, &target)
}

// leaderOf is the address of worker 0 of the leader group (N-2, N-8).
func (p *pass) leaderOf(pl *schema.Placement) string {
	group := pl.Spec.LeaderGroup
	if len(pl.Spec.WorkerGroups) == 0 {
		group = ""
	}
	for i := range pl.Workers {
		if w := &pl.Workers[i]; w.Group == group && w.Index == 0 {
			return addressOf(p.machines[w.Machine], pl, w)
		}
	}
	return ""
}

// networkNow is the network that a placed worker is on: its address was given with it.
func networkNow(w *schema.PlacedWorker, m *machine) schema.NetworkMode {
	if m.hostNumber(w.Address) > 0 {
		return schema.NetworkNode
	}
	return schema.NetworkHost
}

// addressOf is a worker's address: the one given at placement on the node
// network, else its machine's newest. A state file may leave out what was given;
// the machine's report says it then.
func addressOf(m *machine, pl *schema.Placement, w *schema.PlacedWorker) string {
	if m == nil || m.hostNumber(w.Address) > 0 {
		return w.Address
	}
	seen := ""
	if m.seen != nil && (m.nodeNet.IsValid() || m.address == "") {
		seen = m.seen.workers[idOfPlaced(pl, w)].Address
	}
	if m.hostNumber(seen) > 0 {
		return seen
	}
	return cmp.Or(m.address, w.Address, seen)
}

// sort gives the assignment's lists an order of their own, so that it changes
// only when its content does. Its workers are in that of runs and ranks already.
func (s *site) sort() {
	a := s.a
	slices.SortFunc(a.Dirs, func(x, y schema.DirTarget) int { return compareSource(x.Drive, y.Drive, x.Source, y.Source) })
	slices.SortFunc(a.Copies, func(x, y schema.CopyTarget) int { return schema.CompareKeys(x.Drive, y.Drive) })
	slices.SortFunc(a.Measure, func(x, y schema.MeasureTarget) int { return compareSource(x.Drive, y.Drive, x.Source, y.Source) })
	slices.SortFunc(a.Checks, compareChecks)
	for i := range a.Dirs {
		s.dirs[sourceID{a.Dirs[i].UID, a.Dirs[i].Source}] = i
	}
	for i := range a.Copies {
		s.copies[a.Copies[i].UID] = i
	}
}

// worker is where a worker stands in the assignment.
func (s *site) worker(id workerID) (i int, wanted bool) {
	if s.wanted == nil {
		s.wanted = make(map[workerID]int, len(s.a.Workers))
		for i := range s.a.Workers {
			s.wanted[idOfTarget(&s.a.Workers[i])] = i
		}
	}
	i, wanted = s.wanted[id]
	return i, wanted
}

func compareSource(a, b schema.Key, x, y int) int {
	if c := schema.CompareKeys(a, b); c != 0 {
		return c
	}
	return x - y
}
