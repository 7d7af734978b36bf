package planner

import (
	"cmp"
	"encoding/json"
	"slices"

	"astraeus.io/astraeus/schema"
)

// workshop is where targets and steps are made.
type workshop struct {
	sites    map[string]*site
	withheld map[string]bool // ids of steps that a machine may not carry out yet
	stops    map[string][]stop
}

// site is one machine's target while it is being made.
type site struct {
	m       *machine
	a       *schema.Assignment
	dirs    map[sourceID]int // indexes into the assignment's lists
	copies  map[string]int
	mounts  []*claim // claims of which it is the client
	exports []*claim // claims of which it is the source
	wanted  map[workerID]int
	makers  map[madeID]string // ids of steps here that a worker may have to wait for
	stopIDs []stop
}

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
}

// buildTargets says what each machine must hold.
func (p *pass) buildTargets() {
	p.claims = map[claimKey]*claim{}
	p.work = &workshop{sites: make(map[string]*site, len(p.order)),
		withheld: map[string]bool{}, stops: map[string][]stop{}}
	p.address = map[string]string{}
	for _, m := range p.order {
		for _, a := range m.ownAddresses() {
			p.address[a] = m.name
		}
		p.work.sites[m.name] = p.newSite(m)
	}
	p.driveLists()
	p.sizeTargets()
	p.endpoints = p.indexEndpoints()
	for _, r := range p.queue {
		if r.placed != nil && !r.stopping && r.placed.Outcome == "" {
			p.targetRun(r)
		}
	}
	p.finishClaims()
	p.measure()
	for _, m := range p.order {
		s := p.work.sites[m.name]
		s.sort()
		p.out.Targets[m.name] = s.a
	}
}

func (p *pass) newSite(m *machine) *site {
	c := p.clusterSpec()
	return &site{m: m, a: &schema.Assignment{
		Version: schema.AssignmentVersion, ClusterUID: p.in.Accepted.ClusterUID, Machine: m.name, Commit: p.out.Commit,
		DataLocations: m.dataLocations(), Eviction: c.Eviction, MeasureEvery: c.MeasureEvery,
		AllowedVolumePrefixes: slices.Clone(m.spec.AllowedVolumePrefixes), Names: m.names(c.DNSDomain),
	}}
}

// names says where the machine serves names, nil where it has no node network (N-3).
func (m *machine) names(domain string) *schema.NamesTarget {
	gateway := m.gatewayOf()
	if gateway == "" {
		return nil
	}
	return &schema.NamesTarget{Domain: domain, Gateway: gateway, Network: m.spec.NodeNetwork}
}

// sizeTargets makes room for each machine's workers at once.
func (p *pass) sizeTargets() {
	counts := make(map[string]int, len(p.order))
	for _, r := range p.queue {
		if r.placed != nil {
			for i := range r.placed.Workers {
				counts[r.placed.Workers[i].Machine]++
			}
		}
	}
	for name, s := range p.work.sites {
		if n := counts[name]; n > 0 {
			s.a.Workers = make([]schema.WorkerTarget, 0, n)
			s.wanted = make(map[workerID]int, n)
		}
	}
}

// targetRun puts a placed run's workers on their machines. A worker whose
// outcome is written down leaves the target, so that its machine forgets it.
func (p *pass) targetRun(r *run) {
	pl := r.placed
	leader := p.leaderOf(pl)
	for _, t := range r.current {
		if t.hash == "" {
			t.hash = p.blob(t.task)
		}
	}
	for i := range pl.Workers {
		w := &pl.Workers[i]
		s, t := p.work.sites[w.Machine], templateOfGroup(r.current, w.Group)
		if w.Outcome != nil || s == nil || t == nil {
			continue
		}
		target := schema.WorkerTarget{
			Run: r.key, RunUID: pl.RunUID, Generation: pl.Generation, Attempt: pl.Attempt, Name: w.Name, Group: w.Group,
			Rank: w.Rank, Index: w.Index, Template: t.hash, WorldSize: len(pl.Workers), Leader: leader,
			Address: p.addressOf(pl, w), Network: networkNow(w, s.m), GPUs: w.GPUs,
			CPUCores: t.share, MemoryBytes: t.memory, Mounts: p.bindsFor(s, t, w),
		}
		if namesOf(t.network, s.m) == schema.NetworkNode {
			target.Resolver, target.Egress = s.m.gatewayOf(), p.egressOf(r)
		}
		s.a.Workers = append(s.a.Workers, target)
		p.checksFor(s, r, &target)
	}
}

// leaderOf is the address of worker 0 of the leader group (N-2, N-8).
func (p *pass) leaderOf(pl *schema.Placement) string {
	group := pl.Spec.LeaderGroup
	if len(pl.Spec.WorkerGroups) == 0 {
		group = ""
	}
	for i := range pl.Workers {
		if w := &pl.Workers[i]; w.Group == group && w.Index == 0 {
			return p.addressOf(pl, w)
		}
	}
	return ""
}

// networkNow is the network that a placed worker is on: its address was given with it.
func networkNow(w *schema.PlacedWorker, m *machine) schema.NetworkMode {
	if hostNumber(m.spec.NodeNetwork, w.Address) > 0 {
		return schema.NetworkNode
	}
	return schema.NetworkHost
}

// addressOf is a worker's address: the one given at placement on the node
// network, else its machine's newest. A state file may leave out what was given;
// the machine's report says it then.
func (p *pass) addressOf(pl *schema.Placement, w *schema.PlacedWorker) string {
	m := p.machines[w.Machine]
	if m == nil || hostNumber(m.spec.NodeNetwork, w.Address) > 0 {
		return w.Address
	}
	seen := ""
	if m.seen != nil {
		seen = m.seen.workers[idOfPlaced(pl, w)].Address
	}
	if hostNumber(m.spec.NodeNetwork, seen) > 0 {
		return seen
	}
	return cmp.Or(m.address, w.Address, seen)
}

// bindsFor resolves a template's mounts on a machine and puts what they stand
// on into its target. Templates without one-machine drives bind alike everywhere.
func (p *pass) bindsFor(s *site, t *template, w *schema.PlacedWorker) []schema.BindTarget {
	if len(t.uses) == 0 {
		return nil
	}
	if t.binds != nil {
		t.standOn(p, s)
		return t.binds
	}
	binds := make([]schema.BindTarget, len(t.uses))
	alike := true
	for i := range t.uses {
		u := &t.uses[i]
		binds[i] = u.bind
		if u.kind == useHome {
			alike = false
			if u.from.Node == s.m.name {
				s.needDir(u, u.drive.spec.Permissions.Create)
				continue
			}
			binds[i].From, binds[i].Path, binds[i].Grant = schema.BindClaim, "", ""
			p.claimFor(s, u, w.Name)
		}
	}
	t.standOn(p, s)
	if alike {
		t.binds = binds
	}
	return binds
}

// standOn puts what every machine needs of its own for a template's mounts into
// a target.
func (t *template) standOn(p *pass, s *site) {
	for i := range t.uses {
		switch u := &t.uses[i]; u.kind {
		case useCopy:
			s.needCopy(p, u.drive)
		case useHere:
			s.needDir(u, u.from.NodeScope == schema.ScopeLocalAny || u.drive.spec.Permissions.Create)
		}
	}
}

func (s *site) needDir(u *use, create bool) {
	id := sourceID{u.drive.uid, u.source}
	if _, there := s.dirs[id]; there {
		return
	}
	if s.dirs == nil {
		s.dirs = map[sourceID]int{}
	}
	s.dirs[id] = len(s.a.Dirs)
	s.a.Dirs = append(s.a.Dirs, schema.DirTarget{Drive: u.drive.key, UID: u.drive.uid, Source: u.source,
		Path: u.from.Path, Grant: u.drive.grants[u.source].path, Create: create})
}

// needCopy: a copy that is there stays in its location, a new one goes to the
// present one (D-32).
func (s *site) needCopy(p *pass, d *drive) {
	if _, there := s.copies[d.uid]; there {
		return
	}
	if s.copies == nil {
		s.copies = map[string]int{}
	}
	s.copies[d.uid] = len(s.a.Copies)
	t := schema.CopyTarget{Drive: d.key, UID: d.uid, Evictable: d.spec.Evictable, SizeHint: d.spec.SizeHintBytes, FillGeneration: d.object.FillGeneration}
	if s.m.location != nil {
		t.Location = s.m.location.path
	}
	if base := s.m.seen.locationOf(d.uid); base != "" {
		t.Location = base
	}
	if d.spec.Fill != nil {
		if d.fillHash == "" {
			d.fillHash = p.blob(&d.spec.Fill.Template)
		}
		t.FillTemplate = d.fillHash
	}
	s.a.Copies = append(s.a.Copies, t)
}

func (p *pass) claimFor(s *site, u *use, worker string) {
	key := claimKey{u.drive.uid, u.source, s.m.name}
	c := p.claims[key]
	if c == nil {
		c = &claim{key: key, drive: u.drive, home: p.machines[u.from.Node], client: s.m, mode: schema.ReadOnly}
		p.claims[key] = c
		s.mounts = append(s.mounts, c)
		if home := p.work.sites[u.from.Node]; home != nil {
			home.exports = append(home.exports, c)
			home.needDir(u, u.drive.spec.Permissions.Create)
		}
	}
	if u.mode == schema.ReadWrite {
		c.mode = schema.ReadWrite
	}
	if len(c.users) == 0 || c.users[len(c.users)-1] != worker {
		c.users = append(c.users, worker)
	}
}

// blob keeps content that assignments name by hash.
func (p *pass) blob(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("planner: " + err.Error()) // no type of schema fails to marshal
	}
	hash := schema.HashBytes(data)
	p.out.Blobs[hash] = data
	return hash
}

// driveLists gives each org's machines the complete drive list of each of its
// workspaces (D-61). The map is one an org and only read afterwards.
func (p *pass) driveLists() {
	lists := map[string]*schema.DriveList{}
	orgs := map[string]string{}
	list := func(ns, org, workspace string) *schema.DriveList {
		if !p.whole(org, workspace) {
			return nil
		}
		if lists[ns] == nil {
			lists[ns] = &schema.DriveList{Namespace: ns, Drives: []schema.ListedDrive{}}
			orgs[ns] = org
		}
		return lists[ns]
	}
	for _, key := range p.keysOf(schema.KindDrive) {
		d := p.drives[key]
		if d == nil || !d.spec.Placed() {
			continue
		}
		if l := list(key.Namespace, d.org, d.object.Object.Workspace); l != nil {
			l.Drives = append(l.Drives, schema.ListedDrive{Name: key.Name, UID: d.uid, Evictable: d.spec.Evictable})
		}
	}
	for _, uid := range sortedStrings(p.tombs) {
		t := p.tombs[uid]
		if l := list(t.Key.Namespace, t.Org, t.Workspace); l != nil {
			l.Drives = append(l.Drives, schema.ListedDrive{Name: t.Key.Name, UID: uid, Removed: true})
		}
	}
	byOrg := map[string]map[string]string{}
	for ns, l := range lists {
		if byOrg[orgs[ns]] == nil {
			byOrg[orgs[ns]] = map[string]string{}
		}
		byOrg[orgs[ns]][ns] = p.blob(l)
	}
	for _, m := range p.order {
		p.work.sites[m.name].a.Drives = byOrg[m.org]
	}
}

// whole reports whether what is gone from a workspace is known to be gone: by the
// commit that is looked at, else by the one in force (G-5, D-61).
func (p *pass) whole(org, workspace string) bool {
	if p.in.Desired == nil {
		return p.in.Accepted.Whole(org, workspace)
	}
	_, whole := p.in.Desired.Whole(org, workspace)
	return whole
}

// sort gives the assignment's lists an order of their own, so that it changes
// only when its content does.
func (s *site) sort() {
	a := s.a
	slices.SortFunc(a.Dirs, func(x, y schema.DirTarget) int { return compareSource(x.Drive, y.Drive, x.Source, y.Source) })
	slices.SortFunc(a.Copies, func(x, y schema.CopyTarget) int { return schema.CompareKeys(x.Drive, y.Drive) })
	slices.SortFunc(a.Measure, func(x, y schema.MeasureTarget) int { return compareSource(x.Drive, y.Drive, x.Source, y.Source) })
	slices.SortFunc(a.Workers, func(x, y schema.WorkerTarget) int {
		if c := schema.CompareKeys(x.Run, y.Run); c != 0 {
			return c
		}
		return x.Rank - y.Rank
	})
	slices.SortFunc(a.Checks, compareChecks)
	for i := range a.Workers {
		w := &a.Workers[i]
		s.wanted[workerID{w.RunUID, w.Generation, w.Attempt, w.Name}] = i
	}
	for i := range a.Dirs {
		s.dirs[sourceID{a.Dirs[i].UID, a.Dirs[i].Source}] = i
	}
	for i := range a.Copies {
		s.copies[a.Copies[i].UID] = i
	}
}

func compareSource(a, b schema.Key, x, y int) int {
	if c := schema.CompareKeys(a, b); c != 0 {
		return c
	}
	return x - y
}
