package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// bindsAlike are a template's mounts where every machine has the same: none of its
// drives is one machine's. Else nil.
func (t *template) bindsAlike() []schema.BindTarget {
	if len(t.uses) == 0 || slices.ContainsFunc(t.uses, func(u use) bool { return u.kind == useHome }) {
		return nil
	}
	binds := make([]schema.BindTarget, len(t.uses))
	for i := range t.uses {
		binds[i] = t.uses[i].bind
	}
	return binds
}

// bindsFor resolves a template's mounts on a machine and puts what they stand on
// into its target.
func (p *pass) bindsFor(s *site, t *template, w *schema.PlacedWorker) []schema.BindTarget {
	if len(t.uses) == 0 {
		return nil
	}
	t.standOn(s)
	if t.binds != nil {
		return t.binds
	}
	binds := make([]schema.BindTarget, len(t.uses))
	for i := range t.uses {
		u := &t.uses[i]
		binds[i] = u.bind
		if u.kind != useHome {
			continue
		}
		if u.from.Node == s.m.name {
			s.needDir(u.drive, u.source, u.drive.spec.Permissions.Create)
			continue
		}
		binds[i].From, binds[i].Path, binds[i].Grant = schema.BindClaim, "", ""
		p.claimFor(s, u, w.Name)
	}
	return binds
}

// standOn puts what every machine needs of its own for a template's mounts into
// a target.
func (t *template) standOn(s *site) {
	for i := range t.uses {
		switch u := &t.uses[i]; u.kind {
		case useCopy:
			s.needCopy(u.drive)
		case useHere:
			s.needDir(u.drive, u.source, u.from.NodeScope == schema.ScopeLocalAny || u.drive.spec.Permissions.Create)
		}
	}
}

func (s *site) needDir(d *drive, source int, create bool) {
	id := sourceID{d.uid, source}
	if _, there := s.dirs[id]; there {
		return
	}
	if s.dirs == nil {
		s.dirs = map[sourceID]int{}
	}
	s.dirs[id] = len(s.a.Dirs)
	s.a.Dirs = append(s.a.Dirs, schema.DirTarget{Drive: d.key, UID: d.uid, Source: source,
		Path: d.spec.Sources[source].Path, Grant: d.grants[source].path, Create: create})
}

// needCopy: a copy that is there stays in its location, a new one goes to the
// present one (D-32).
func (s *site) needCopy(d *drive) {
	if _, there := s.copies[d.uid]; there {
		return
	}
	if s.copies == nil {
		s.copies = map[string]int{}
	}
	s.copies[d.uid] = len(s.a.Copies)
	t := schema.CopyTarget{Drive: d.key, UID: d.uid, Evictable: d.spec.Evictable, SizeHint: d.spec.SizeHintBytes,
		FillGeneration: d.object.FillGeneration, FillTemplate: d.fillHash}
	if s.m.location != nil {
		t.Location = s.m.location.path
	}
	if base := s.m.seen.locationOf(d.uid); base != "" {
		t.Location = base
	}
	s.a.Copies = append(s.a.Copies, t)
}

func (p *pass) claimFor(s *site, u *use, worker string) {
	id := sourceID{u.drive.uid, u.source}
	c := s.claims[id]
	if c == nil {
		if s.claims == nil {
			s.claims = map[sourceID]*claim{}
		}
		c = &claim{key: claimKey{id.uid, id.source, s.m.name}, drive: u.drive, home: p.machines[u.from.Node], client: s.m, mode: schema.ReadOnly}
		s.claims[id] = c
		s.mounts = append(s.mounts, c)
	}
	if u.mode == schema.ReadWrite {
		c.mode = schema.ReadWrite
	}
	if len(c.users) == 0 || c.users[len(c.users)-1] != worker {
		c.users = append(c.users, worker)
	}
}

// claimOf is the claim of a client machine, nil for none.
func (p *pass) claimOf(uid string, source int, client string) *claim {
	if m := p.machines[client]; m != nil && m.site != nil {
		return m.site.claims[sourceID{uid, source}]
	}
	return nil
}
