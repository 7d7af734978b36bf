package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// collectClaims reads the wanted claims from the targets and the others from
// what machines still export or mount.
func (v *View) collectClaims(p schema.Plan) {
	wanted := map[claimKey]bool{}
	for _, name := range sortedStrings(p.Targets) {
		t := p.Targets[name]
		for i := range t.Mounts {
			m := &t.Mounts[i]
			wanted[claimKey{m.UID, m.Source, name}] = true
			v.claims = append(v.claims, v.wantedClaim(t, m, p.Targets[m.From]))
		}
	}
	v.collectReleased(wanted)
	slices.SortFunc(v.claims, func(a, b Claim) int {
		if c := compareSource(a.Drive, b.Drive, a.Source, b.Source); c != 0 {
			return c
		}
		return compareStrings(a.Client, b.Client, a.From, b.From)
	})
	for _, c := range v.claims {
		v.byDrive[c.UID] = append(v.byDrive[c.UID], c)
	}
}

// wantedClaim is a claim that live workers need.
func (v *View) wantedClaim(client *schema.Assignment, m *schema.MountTarget, source *schema.Assignment) Claim {
	c := &claim{key: claimKey{m.UID, m.Source, client.Machine}, mode: m.Mode, home: v.pass.machines[m.From], client: v.pass.machines[client.Machine],
		way: way{transports: m.Transports, server: m.Addresses}}
	out := Claim{Drive: m.Drive, UID: m.UID, Source: m.Source, From: m.From, Client: client.Machine, Mode: m.Mode}
	for i := range client.Workers {
		w := &client.Workers[i]
		if slices.ContainsFunc(w.Mounts, func(b schema.BindTarget) bool {
			return b.From == schema.BindClaim && b.UID == m.UID && b.Source == m.Source
		}) {
			out.Users = append(out.Users, w.Name)
		}
	}
	if len(m.Transports) > 0 {
		out.Transport = m.Transports[0]
	}
	if c.client != nil {
		c.seen = c.client.seen.mountOf(m.UID, m.Source)
	}
	if c.seen != nil {
		out.Transport, out.Message = c.seen.Transport, c.seen.Message
	}
	out.State = v.stateOf(c, source)
	if f := firstFailure(v.pass, c); f != nil && out.State == ClaimFailed {
		out.Message = f.Message
	}
	if out.State == ClaimBound && out.Message == "" && out.Transport == schema.TransportTCP && len(m.Transports) > 1 && m.Transports[0] == schema.TransportRDMA {
		out.Message = fellBack // D-81
	}
	return out
}

func firstFailure(p *pass, c *claim) *schema.Failure {
	if f := p.failureOf(c.home, schema.ActionExport, c.key.uid, c.key.source, ""); f != nil {
		return f
	}
	return p.failureOf(c.client, schema.ActionMount, c.key.uid, c.key.source, "")
}

func (v *View) stateOf(c *claim, source *schema.Assignment) ClaimState {
	switch {
	case c.seen != nil && c.seen.State == schema.MountBound && c.home != nil && c.seen.From == c.home.name:
		return ClaimBound
	case firstFailure(v.pass, c) != nil, c.seen != nil && c.seen.State == schema.MountFailed:
		return ClaimFailed
	case source != nil && v.exportedTo(c, source):
		return ClaimExported
	}
	return ClaimPending
}

func (v *View) exportedTo(c *claim, source *schema.Assignment) bool {
	i := slices.IndexFunc(source.Exports, func(e schema.ExportTarget) bool {
		return e.UID == c.key.uid && e.Source == c.key.source && e.Client == c.key.client
	})
	if i < 0 || c.home == nil || c.home.seen == nil {
		return false
	}
	for j := range c.home.seen.exports {
		e := &c.home.seen.exports[j]
		if e.UID == c.key.uid && e.Source == c.key.source && v.pass.clientOf(e) == c.key.client && exportRight(e, &source.Exports[i]) {
			return true
		}
	}
	return false
}

// collectReleased lists the claims that nobody needs any more: Releasing while
// the client still has the mount, Released while only the export is left.
func (v *View) collectReleased(wanted map[claimKey]bool) {
	for _, m := range v.pass.order {
		if m.seen == nil {
			continue
		}
		for i := range m.seen.mounts {
			s := &m.seen.mounts[i]
			key := claimKey{s.UID, s.Source, m.name}
			if wanted[key] {
				continue
			}
			wanted[key] = true
			v.claims = append(v.claims, Claim{Drive: driveKey(s.Drive), UID: s.UID, Source: s.Source, From: s.From, Client: m.name,
				State: ClaimReleasing, Transport: s.Transport, Mode: s.Mode, Message: s.Message})
		}
	}
	for _, m := range v.pass.order {
		if m.seen == nil {
			continue
		}
		for i := range m.seen.exports {
			e := &m.seen.exports[i]
			client := v.pass.clientOf(e)
			if client == "" {
				client = e.Client
			}
			if key := (claimKey{e.UID, e.Source, client}); !wanted[key] {
				wanted[key] = true
				v.claims = append(v.claims, Claim{Drive: driveKey(e.Drive), UID: e.UID, Source: e.Source, From: m.name, Client: client,
					State: ClaimReleased, Transport: e.Transport, Mode: e.Mode})
			}
		}
	}
}
