package planner

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/schema"
)

// finishMounts decides the transports and modes of a machine's claims and writes
// its mounts into its target.
func (s *site) finishMounts(p *pass) {
	slices.SortFunc(s.mounts, func(a, b *claim) int { return compareSource(a.drive.key, b.drive.key, a.key.source, b.key.source) })
	if len(s.mounts) > 0 {
		s.a.Mounts = make([]schema.MountTarget, 0, len(s.mounts))
	}
	for _, c := range s.mounts {
		slices.Sort(c.users)
		c.users = slices.Compact(c.users)
		p.finishClaim(c)
		p.guardClaim(s, c)
		if !c.remake && !c.idle {
			s.a.Mounts = append(s.a.Mounts, c.mount())
		}
	}
}

// finishExports writes the other side of claims into the target of their source.
func (s *site) finishExports() {
	slices.SortFunc(s.exports, func(a, b *claim) int {
		if n := compareSource(a.drive.key, b.drive.key, a.key.source, b.key.source); n != 0 {
			return n
		}
		return compareStrings(a.key.client, b.key.client)
	})
	for _, c := range s.exports {
		s.needDir(c.drive, c.key.source, c.drive.spec.Permissions.Create)
		if len(c.way.client) > 0 && !c.remake { // nothing is exported to nobody knows whom (D-80)
			s.a.Exports = append(s.a.Exports, c.export())
		}
	}
}

// finishClaim: what is mounted under live workers stays as it is mounted;
// it is as wide as its widest live user.
func (p *pass) finishClaim(c *claim) {
	c.seen = c.client.seen.mountOf(c.key.uid, c.key.source)
	if c.home == nil {
		return
	}
	e, _, _ := p.exported(c)
	if c.home.seen != nil && c.client.seen != nil {
		problem := ""
		if c.way, problem = wayBetween(c.home, c.client, c.drive.spec.Transport); problem != "" {
			c.way = p.wayThere(c, e)
		}
	}
	c.stale = e != nil && e.Path != "" && e.Path != c.drive.spec.Sources[c.key.source].Path
	started := false
	if c.client.seen != nil {
		for _, w := range c.client.seen.workers {
			for _, u := range w.Uses {
				if u.UID == c.key.uid && u.Source == c.key.source && !w.State.Ended() {
					started = true
					if u.Mode == schema.ReadWrite {
						c.mode = schema.ReadWrite
					}
				}
			}
		}
	}
	if m := c.seen; started && m != nil && m.State == schema.MountBound && m.From == c.home.name {
		if m.Transport != "" && !slices.Contains(c.way.transports, m.Transport) {
			c.way.transports = append(c.way.transports, m.Transport)
			c.way.server = append(c.way.server, nonEmpty(m.Server)...)
		}
	}
}

// wayThere is the way that the claim is exported and mounted by already: what is
// there stays when the machines no longer say how they are reached, but for
// addresses that are not the client's (D-82).
func (p *pass) wayThere(c *claim, e *schema.Export) (w way) {
	if e == nil {
		return w
	}
	own, clients := c.client.ownAddresses(), e.Clients
	if len(clients) == 0 {
		clients = nonEmpty(e.Client)
	}
	for _, a := range clients {
		if slices.Contains(own, a) || len(own) == 0 && p.address[a] == "" {
			w.client = append(w.client, a)
		}
	}
	transport := e.Transport
	if m := c.seen; m != nil && m.State == schema.MountBound && m.From == c.home.name {
		transport, w.server = cmp.Or(m.Transport, transport), nonEmpty(m.Server)
	}
	if transport != "" {
		w.transports = []schema.Transport{transport}
	}
	return w
}

func (c *claim) from() string {
	if c.home == nil {
		return c.drive.spec.Sources[c.key.source].Node
	}
	return c.home.name
}

func (c *claim) mount() schema.MountTarget {
	return schema.MountTarget{Drive: c.drive.key, UID: c.key.uid, Source: c.key.source, From: c.from(),
		Addresses: c.way.server, Transports: c.way.transports, Mode: c.mode}
}

func (c *claim) export() schema.ExportTarget {
	src := &c.drive.spec.Sources[c.key.source]
	return schema.ExportTarget{Drive: c.drive.key, UID: c.key.uid, Source: c.key.source, Path: src.Path,
		Grant: c.drive.grants[c.key.source].path, Create: c.drive.spec.Permissions.Create, Client: c.key.client,
		Addresses: c.way.client, Mode: c.mode, Squash: c.drive.spec.NFS.Squash, Transports: c.way.transports}
}

// exported is the claim's export as the source reports it; known is false when
// its table is unknown.
func (p *pass) exported(c *claim) (e *schema.Export, right, known bool) {
	if c.home == nil || c.home.seen == nil || c.home.seen.exports == nil {
		return nil, false, false
	}
	want := c.export()
	for i := range c.home.seen.exports {
		e := &c.home.seen.exports[i]
		if e.UID != c.key.uid || e.Source != c.key.source || p.clientOf(e) != c.key.client {
			continue
		}
		if exportRight(e, &want) {
			return e, true, true
		}
	}
	for i := range c.home.seen.exports {
		if e := &c.home.seen.exports[i]; e.UID == c.key.uid && e.Source == c.key.source && p.clientOf(e) == c.key.client {
			return e, false, true
		}
	}
	return nil, false, true
}

// clientOf is the client machine of an export as read back: named, or known by
// its address; "" when nobody has that address.
func (p *pass) clientOf(e *schema.Export) string {
	if e.To != "" {
		return e.To
	}
	if name := p.address[e.Client]; name != "" {
		return name
	}
	if p.machines[e.Client] != nil {
		return e.Client
	}
	return ""
}

// exportRight: the table holds the wanted path, clients and options. A
// report that leaves a part out is not taken for a wrong one.
func exportRight(e *schema.Export, want *schema.ExportTarget) bool {
	if e.Path != want.Path || e.Mode != "" && e.Mode != want.Mode {
		return false
	}
	if len(e.Clients) == 0 {
		return e.Client == want.Client || slices.Contains(want.Addresses, e.Client)
	}
	for _, a := range want.Addresses {
		if !slices.Contains(e.Clients, a) {
			return false
		}
	}
	for _, a := range e.Clients {
		if !slices.Contains(want.Addresses, a) {
			return false
		}
	}
	return true
}

// mountRight: Bound, with the wanted server, export, mode and an allowed transport
//
func (c *claim) mountRight() bool {
	m := c.seen
	return m != nil && !c.stale && !c.remake && !c.idle && m.State == schema.MountBound && m.From == c.from() && (m.Mode == "" || m.Mode == c.mode) &&
		(m.Server == "" || slices.Contains(c.way.server, m.Server)) &&
		(m.Transport == "" || m.Transport == schema.TransportLab || slices.Contains(c.way.transports, m.Transport))
}

// state is where the claim is on its way to Bound (D-80).
func (p *pass) stateOf(c *claim) ClaimState {
	if c.mountRight() {
		return ClaimBound
	}
	if p.failureOf(c.client, schema.ActionMount, c.key.uid, c.key.source, "") != nil ||
		p.failureOf(c.home, schema.ActionExport, c.key.uid, c.key.source, "") != nil ||
		c.seen != nil && c.seen.State == schema.MountFailed {
		return ClaimFailed
	}
	if _, right, _ := p.exported(c); right {
		return ClaimExported
	}
	return ClaimPending
}

// failureOf is a machine's report of a failed step, nil when there is none.
func (p *pass) failureOf(m *machine, action schema.Action, uid string, source int, worker string) *schema.Failure {
	if m == nil || m.seen == nil || m.seen.failed == nil {
		return nil
	}
	if f, ok := m.seen.failed[failureID{action, uid, source, worker}]; ok {
		return &f
	}
	return nil
}

// indexSources notes for each machine which sources it measures because they name it.
func (p *pass) indexSources() {
	for _, m := range p.order {
		m.sources = nil
	}
	for _, d := range p.drives {
		for i := range d.spec.Sources {
			src := &d.spec.Sources[i]
			// One machine's, or the machine that measures a shared one (D-4).
			if src.NodeScope == schema.ScopePlaced || src.NodeScope == schema.ScopeLocalAny || d.grants[i].path == "" {
				continue
			}
			if m := p.machines[src.Node]; m != nil && m.org == d.org {
				m.sources = append(m.sources, driveSource{d, i})
			}
		}
	}
}

// driveSource is one source of a drive.
type driveSource struct {
	drive  *drive
	source int
}

// measure tells a machine which paths it measures (D-91).
func (p *pass) measure(s *site) {
	add := func(d *drive, i int, path string) {
		s.a.Measure = append(s.a.Measure, schema.MeasureTarget{Drive: d.key, UID: d.uid, Source: i, Path: path, Grant: d.grants[i].path})
	}
	for _, at := range s.m.sources {
		add(at.drive, at.source, at.drive.spec.Sources[at.source].Path)
	}
	if s.m.seen == nil {
		return
	}
	mine := func(uid string) *drive {
		d := p.driveUID[uid]
		if d == nil || d.org != s.m.org || p.drives[d.key] != d {
			return nil
		}
		return d
	}
	s.m.seen.eachHeld(func(uid string) {
		d := mine(uid)
		for i := 0; d != nil && i < len(d.spec.Sources); i++ {
			if d.spec.Sources[i].NodeScope == schema.ScopePlaced {
				add(d, i, "")
			}
		}
	})
	for id, path := range s.m.seen.paths {
		d := mine(id.uid)
		if d != nil && path.Exists && id.source >= 0 && id.source < len(d.spec.Sources) && d.spec.Sources[id.source].NodeScope == schema.ScopeLocalAny {
			add(d, id.source, d.spec.Sources[id.source].Path)
		}
	}
}
