package load

import (
	"cmp"
	"path"
	"slices"

	"astraeus.io/astraeus/schema"
)

// assembly puts what the files say together: names the namespaces, finds
// repetitions and undeclared folders, and sorts objects from invalid keys.
type assembly struct {
	objects  []*declared
	claims   []placedClaim
	problems []problem
	// What is declared, also by a file that cannot be used.
	cluster    string
	orgs       map[string]bool
	workspaces map[string]string // "org/workspace" -> namespace, "" for the default
	namespaces map[[2]string]string
	// foreign holds the orgs and workspaces that a file elsewhere claims to be.
	foreign map[schema.Key]schema.Pos
}

type placedClaim struct {
	claim
	place filePlace
}

func newAssembly(problems []problem) *assembly {
	return &assembly{problems: problems, orgs: map[string]bool{}, workspaces: map[string]string{}, namespaces: map[[2]string]string{},
		foreign: map[schema.Key]schema.Pos{}}
}

// addFile takes one file's result. A handled file's objects come from its unit.
func (a *assembly) addFile(file string, st *fileState, handled bool) {
	p := st.place
	if p.org == "" && !p.cluster && path.Ext(file) != ".cue" && !slices.ContainsFunc(st.objects, known) && len(knownClaims(st.claims)) == 0 {
		return // somebody else's file: nothing of ours is in it
	}
	if inLib(file) {
		a.addFound(file, &found{faults: brokenFaults(st)})
		return
	}
	if st.broken {
		a.declareFolder(p)
	}
	if !handled || st.broken {
		a.addFound(file, &st.found)
	}
}

func known(d *declared) bool { return d.kind.Known() }

func knownClaims(list []claim) []claim {
	return slices.DeleteFunc(slices.Clone(list), func(c claim) bool { return c.name == "" })
}

// brokenFaults are the problems of a file that is only imported.
func brokenFaults(st *fileState) []fault {
	if st.broken {
		return st.faults
	}
	return nil
}

// declareFolder keeps an org or workspace declared whose file cannot be used.
func (a *assembly) declareFolder(p filePlace) {
	switch p.folder {
	case schema.KindOrg:
		a.orgs[p.org] = true
	case schema.KindWorkspace:
		if key := p.org + "/" + p.workspace; a.workspaces[key] == "" {
			a.workspaces[key] = ""
		}
	}
}

func (a *assembly) addUnit(u *unit, st *unitState) {
	if st.broken {
		for _, f := range u.main {
			a.declareFolder(placeOf(f))
		}
	}
	a.addFound(u.main[0], &st.found)
}

func (a *assembly) addFound(file string, f *found) {
	a.objects = append(a.objects, f.objects...)
	for _, d := range f.objects {
		a.declare(d.kind, d.meta.Name, d.namespace(), d.place)
	}
	for _, c := range f.claims {
		p := placeOf(cmp.Or(c.pos.File, file))
		a.claims = append(a.claims, placedClaim{c, p})
		a.declare(c.kind, c.name, c.namespace, p)
	}
	for _, bad := range f.faults {
		a.problems = append(a.problems, problem{scopeOfDir(path.Dir(file)), schema.Diagnostic{
			Pos: bad.Pos, Severity: schema.SeverityError, Code: bad.Code, Status: bad.Code.Status(), Message: bad.Text,
		}})
	}
}

func (d *declared) namespace() string {
	if ws, ok := d.spec.(*schema.WorkspaceSpec); ok && namespace.MatchString(ws.Namespace) {
		return ws.Namespace
	}
	return ""
}

func (d *declared) claim() claim {
	return claim{kind: d.kind, name: d.meta.Name, namespace: d.namespace(), pos: d.pos}
}

func (a *assembly) declare(kind schema.Kind, name, ns string, p filePlace) {
	switch {
	case !p.accepts(kind):
	case kind == schema.KindCluster:
		a.cluster = cmp.Or(a.cluster, name)
	case kind == schema.KindOrg:
		a.orgs[p.org] = true
	case kind == schema.KindWorkspace:
		key := p.org + "/" + p.workspace
		a.workspaces[key] = cmp.Or(a.workspaces[key], ns)
	}
}

// keyOf is an object's key; ok is false where its place gives it none.
func (a *assembly) keyOf(kind schema.Kind, name string, p filePlace) (key schema.Key, ok bool) {
	key = schema.Key{Kind: kind, Name: name}
	switch {
	case name == "":
		return key, false
	case kind == schema.KindWorkspace || kind == schema.KindHostPathGrant:
		key.Namespace = p.org
		return key, p.org != ""
	case kind.InWorkspace():
		key.Namespace = a.namespaceOf(p)
		return key, p.workspace != ""
	}
	return key, true
}

// namespaceOf is a workspace's own namespace or the default (kinds.md). It is
// asked for once the frame is known.
func (a *assembly) namespaceOf(p filePlace) string {
	at := [2]string{p.org, p.workspace}
	ns := a.namespaces[at]
	if ns == "" {
		ns = cmp.Or(a.workspaces[p.org+"/"+p.workspace], schema.Namespace(a.clusterName(), p.org, p.workspace))
		a.namespaces[at] = ns
	}
	return ns
}

func (a *assembly) clusterName() string { return cmp.Or(a.cluster, schema.DefaultCluster) }

// candidate is an object under its key.
type candidate struct {
	*declared
	key   schema.Key
	named bool
	bad   bool
	extra []schema.Diagnostic // problems that depend on other files
}

func (a *assembly) finish() *schema.Desired {
	d := &schema.Desired{
		Objects: make(map[schema.Key]*schema.Object, len(a.objects)), Invalid: map[schema.Key]schema.Pos{},
		NotWhole: map[string]schema.Pos{},
	}
	list := make([]candidate, len(a.objects))
	for i, o := range a.objects {
		c := &list[i]
		*c = candidate{declared: o, bad: !o.ok}
		c.key, c.named = a.keyOf(o.kind, o.meta.Name, c.place)
		a.checkDeclared(c)
	}
	a.refuseRepeated(list)
	a.checkReferences(list)
	for i := range list {
		a.settle(d, &list[i])
	}
	for _, c := range a.claims {
		if key, ok := a.keyOf(c.kind, c.name, c.place); ok {
			a.keepInvalid(d, key, c.place, c.pos)
		}
		if scope := c.place.otherScope(c.kind, c.name, ""); scope != "" {
			keepFirst(d.NotWhole, scope, c.pos)
		}
	}
	for key, pos := range a.foreign {
		if _, own := d.Invalid[key]; !own {
			d.Invalid[key] = pos
		}
	}
	for key := range d.Invalid {
		if d.Objects[key] != nil {
			delete(d.Invalid, key)
		}
	}
	a.report(d)
	return d
}

// checkDeclared answers 404 for a folder that nothing declares (G-3).
func (a *assembly) checkDeclared(c *candidate) {
	p := c.place
	switch {
	case p.org == "" || c.kind == schema.KindOrg:
	case !a.orgs[p.org]:
		c.refuse(schema.CodeNotFound, c.pos, sayUndeclaredOrg(p.org), "add "+replaceOrg(rightPlaces[schema.KindOrg], p.org))
	case p.workspace == "" || c.kind == schema.KindWorkspace:
	default:
		if _, ok := a.workspaces[p.org+"/"+p.workspace]; !ok {
			c.refuse(schema.CodeNotFound, c.pos, sayUndeclaredWorkspace(p.org, p.workspace),
				"add orgs/"+p.org+"/workspaces/"+p.workspace+"/workspace.cue")
		}
	}
}

func (c *candidate) refuse(code schema.Code, pos schema.Pos, text, hint string) {
	c.bad = true
	c.extra = append(c.extra, schema.Diagnostic{
		Pos: pos, Severity: schema.SeverityError, Code: code, Status: code.Status(), Message: text, Hint: hint,
	})
}

// refuseRepeated refuses every declaration of a key, volume id or cluster that
// is declared more than once (G-4): which one would win must not depend on order.
func (a *assembly) refuseRepeated(list []candidate) {
	keys := make(map[schema.Key]int, len(list))
	ids := map[string]int{}
	cluster := -1
	pair := func(first, i int, what string) {
		x, y := &list[first], &list[i]
		x.refuse(schema.CodeDuplicate, x.pos, sayDuplicate(what, y.pos), hintDuplicate)
		y.refuse(schema.CodeDuplicate, y.pos, sayDuplicate(what, x.pos), hintDuplicate)
	}
	for i := range list {
		c := &list[i]
		if c.misplaced {
			continue
		}
		if c.named {
			if first, ok := keys[c.key]; ok {
				pair(first, i, c.key.String())
			} else {
				keys[c.key] = i
			}
		}
		if id := c.meta.ID; id != "" && c.kind == schema.KindVolume {
			if first, ok := ids[id]; ok && list[first].key != c.key {
				pair(first, i, "volume id "+id)
			} else if !ok {
				ids[id] = i
			}
		}
		if c.kind == schema.KindCluster {
			if cluster >= 0 && list[cluster].key != c.key {
				pair(cluster, i, "the cluster")
			}
			cluster = max(cluster, i)
		}
	}
}

// settle files a candidate under Objects or Invalid and takes its problems.
func (a *assembly) settle(d *schema.Desired, c *candidate) {
	for _, list := range [][]schema.Diagnostic{c.problems, c.extra} {
		for _, diag := range list {
			if c.named {
				diag.Object = c.key
			}
			a.problems = append(a.problems, problem{c.scope, diag})
		}
	}
	switch {
	case !c.bad && c.named:
		d.Objects[c.key] = c.finished(c.key)
	case c.named:
		a.keepInvalid(d, c.key, c.place, c.pos)
	}
	if scope := c.place.otherScope(c.kind, c.meta.Name, c.meta.Workspace); scope != "" {
		field := "metadata.workspace"
		if c.place.foreign(c.kind, c.meta.Name) {
			field = "metadata.name"
		}
		keepFirst(d.NotWhole, scope, c.loc.locate(field))
	}
}

// keepInvalid files a key that cannot be used. The file in an org's or
// workspace's own folder stands before those that only claim its name.
func (a *assembly) keepInvalid(d *schema.Desired, key schema.Key, p filePlace, pos schema.Pos) {
	if p.foreign(key.Kind, key.Name) {
		keepFirst(a.foreign, key, pos)
		return
	}
	keepFirst(d.Invalid, key, pos)
}

// finished is the object of a valid declaration, shared between loads.
func (d *declared) finished(key schema.Key) *schema.Object {
	switch old := d.object; {
	case old != nil && old.Key == key:
		return old
	case old != nil:
		renamed := *old // its spec is normalised and may be in use: not touched again
		renamed.Key = key
		d.object = &renamed
	default:
		meta := d.meta
		meta.Workspace = "" // the path's, however it is written
		d.object = &schema.Object{
			Key: key, Org: d.place.org, Workspace: d.place.workspace, Metadata: meta, Spec: d.spec, Origin: d.pos, Locate: d.loc.locate,
		}
		d.object.Rehash()
	}
	return d.object
}

func (a *assembly) report(d *schema.Desired) {
	if a.cluster == "" {
		a.problems = append(a.problems, problem{"", schema.Diagnostic{
			Pos: schema.Pos{File: "cluster.cue"}, Severity: schema.SeverityWarning, Code: schema.CodeNoCluster,
			Status: schema.CodeNoCluster.Status(), Message: sayNoCluster, Hint: hintNoCluster,
		}})
	}
	d.Diagnostics = make([]schema.Diagnostic, 0, len(a.problems))
	for _, p := range a.problems {
		d.Diagnostics = append(d.Diagnostics, p.Diagnostic)
		if p.Severity == schema.SeverityError {
			keepFirst(d.NotWhole, p.scope, p.Pos)
		}
	}
	d.Diagnostics = schema.SortDiagnostics(d.Diagnostics)
}

// keepFirst keeps the place that comes first, so that order does not matter.
func keepFirst[K comparable](m map[K]schema.Pos, key K, pos schema.Pos) {
	old, ok := m[key]
	if !ok || cmp.Or(cmp.Compare(pos.File, old.File), cmp.Compare(pos.Line, old.Line), cmp.Compare(pos.Col, old.Col)) < 0 {
		m[key] = pos
	}
}
