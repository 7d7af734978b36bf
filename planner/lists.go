package planner

import (
	"encoding/json"

	"astraeus.io/astraeus/schema"
)

// blobOf is content that assignments name by hash.
func blobOf(v any) (hash string, data []byte) {
	data, err := json.Marshal(v)
	if err != nil {
		panic("planner: " + err.Error()) // no type of schema fails to marshal
	}
	return schema.HashBytes(data), data
}

// fillTemplates makes the blobs of the fills.
func (p *pass) fillTemplates() {
	p.fills = map[string][]byte{}
	for _, d := range p.drives {
		if d.spec.Fill != nil {
			hash, data := blobOf(&d.spec.Fill.Template)
			d.fillHash, p.fills[hash] = hash, data
		}
	}
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
		hash, data := blobOf(l)
		byOrg[orgs[ns]][ns], p.out.Blobs[hash] = hash, data
	}
	p.lists = byOrg
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
