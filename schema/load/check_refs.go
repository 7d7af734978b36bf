package load

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// references are what objects of an org may refer to, also what a file that
// cannot be used declares.
type references struct {
	machines map[[2]string]bool // org and name
	grants   map[[2]string][]string
	unsure   map[string]bool // scopes with a file of which nobody knows what it declares
	badGrant map[string]bool // orgs with a grant that cannot be used
}

// checkReferences says of objects that cannot be used what the planner says of
// the others: which machines are not there and which paths no grant covers. So
// nobody finds a second problem after the first was put right (G-4). What cannot
// be known because another file cannot be used is not said.
func (a *assembly) checkReferences(list []candidate) {
	if !slices.ContainsFunc(list, func(c candidate) bool { return !c.ok && refers(&c) }) {
		return
	}
	refs := a.references(list)
	for i := range list {
		c := &list[i]
		if c.ok || c.misplaced {
			continue
		}
		switch spec := c.spec.(type) {
		case *schema.DriveSpec:
			for i := range spec.Sources {
				refs.checkSource(c, each("spec.sources", i), &spec.Sources[i])
			}
		case *schema.VolumeSpec:
			refs.checkMachine(c, "spec.node_id", spec.NodeID)
		}
	}
}

func refers(c *candidate) bool { return c.kind == schema.KindDrive || c.kind == schema.KindVolume }

func (a *assembly) references(list []candidate) *references {
	refs := &references{machines: map[[2]string]bool{}, grants: map[[2]string][]string{}, unsure: map[string]bool{}, badGrant: map[string]bool{}}
	for i := range list {
		c := &list[i]
		switch spec := c.spec.(type) {
		case *schema.MachineSpec:
			refs.machines[[2]string{c.place.org, c.meta.Name}] = true
		case *schema.HostPathGrantSpec:
			at := [2]string{c.place.org, spec.Workspace}
			refs.grants[at] = append(refs.grants[at], spec.Paths...)
			refs.badGrant[c.place.org] = refs.badGrant[c.place.org] || c.bad
		}
	}
	for _, c := range a.claims {
		if c.kind == schema.KindMachine {
			refs.machines[[2]string{c.place.org, c.name}] = true
		}
	}
	for _, p := range a.problems {
		refs.unsure[p.scope] = true
	}
	return refs
}

func (r *references) isUnsure(c *candidate) bool { return r.unsure[c.place.org] || r.unsure[""] }

func (r *references) checkMachine(c *candidate, field, name string) {
	if name != "" && !r.isUnsure(c) && !c.wrong(field) && !r.machines[[2]string{c.place.org, name}] {
		c.report(schema.CodeNotFound, field, schema.MachineNotFound(name), "")
	}
}

func (r *references) checkSource(c *candidate, at string, src *schema.DriveSource) {
	if c.wrong(at+".node_scope") || src.NodeScope == schema.ScopePlaced {
		return
	}
	r.checkMachine(c, at+".node", src.Node)
	if src.Path == "" || c.wrong(at+".path") || r.isUnsure(c) || r.badGrant[c.place.org] {
		return
	}
	covered := slices.ContainsFunc(r.grants[[2]string{c.place.org, c.place.workspace}], func(path string) bool { return schema.Covers(path, src.Path) })
	if !covered {
		c.report(schema.CodeHostAccessForbidden, at+".path", schema.HostPathForbidden(src.Path), schema.GrantHint(c.place.org, c.place.workspace))
	}
}

// wrong reports whether something is wrong with the field itself already.
func (c *candidate) wrong(field string) bool {
	return slices.ContainsFunc(c.problems, func(d schema.Diagnostic) bool {
		return d.Severity == schema.SeverityError && d.Field != "" && within(field, d.Field)
	})
}

func (c *candidate) report(code schema.Code, field, text, hint string) {
	c.extra = append(c.extra, schema.Diagnostic{Pos: c.loc.locate(field), Severity: schema.SeverityError, Field: field,
		Code: code, Status: code.Status(), Message: text, Hint: hint})
}
