package access

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"astraeus.io/astraeus/schema"
)

func object(kind schema.Kind, namespace, name, owner string, spec schema.Spec) *schema.Object {
	o := &schema.Object{Key: schema.Key{Kind: kind, Namespace: namespace, Name: name},
		Metadata: schema.Metadata{Name: name, Owner: owner}, Spec: spec}
	if spec == nil {
		o.Spec = schema.NewSpec(kind)
	}
	return o
}

func inWorkspace(kind schema.Kind, name, owner string, spec schema.Spec) *schema.Object {
	o := object(kind, "ws-0123456789ab", name, owner, spec)
	o.Org, o.Workspace = "acme", "research"
	return o
}

func machineOf(org string) *schema.Object {
	o := object(schema.KindMachine, "", "gpu-01", "", nil)
	o.Org = org
	return o
}

func rules() *Rules {
	return New(slices.Values([]*schema.Object{
		object(schema.KindOrg, "", "acme", "", &schema.OrgSpec{Admins: []string{"root", ""}}),
		object(schema.KindOrg, "", "other", "", &schema.OrgSpec{Admins: []string{"eve"}}),
		object(schema.KindWorkspace, "acme", "research", "", &schema.WorkspaceSpec{Members: []schema.Member{
			{User: "vic", Role: schema.RoleViewer}, {User: "ann", Role: schema.RoleMember}, {User: "ben", Role: schema.RoleMember},
			{User: "ed", Role: schema.RoleEditor}, {User: "ada", Role: schema.RoleAdmin}, {User: "odd", Role: "king"}, {User: "", Role: schema.RoleAdmin},
		}}),
		object(schema.KindWorkspace, "acme", "open", "", &schema.WorkspaceSpec{}),
		machineOf("acme"),
	}))
}

// actors by the names that the tables use.
var actors = map[string]Actor{
	"nobody": {}, "stranger": {User: "stranger"}, "odd": {User: "odd"}, "operator": {Operator: true}, "root": {User: "root"}, "eve": {User: "eve"},
	"vic": {User: "vic"}, "ann": {User: "ann"}, "ben": {User: "ben"}, "ed": {User: "ed"}, "ada": {User: "ada"},
	"root in open": {User: "root", Org: "acme", Workspace: "open"}, "ada as viewer": {User: "ada", Role: schema.RoleViewer},
	"vic as admin": {User: "vic", Role: schema.RoleAdmin}, "root as editor": {User: "root", Role: schema.RoleEditor},
	"pipeline": {Org: "acme", Workspace: "research", Role: schema.RoleEditor}, "pipeline of other": {Org: "other", Role: schema.RoleAdmin},
	"pipeline of none": {Role: schema.RoleAdmin}, "workspace alone": {User: "ada", Workspace: "research"},
	"vic's token for open": {User: "vic", Org: "acme", Workspace: "open", Role: schema.RoleMember},
	"token for open":       {User: "stranger", Org: "acme", Workspace: "open", Role: schema.RoleViewer},
	"operator of acme":     {Operator: true, Org: "acme"}, "org pipeline": {Org: "acme", Role: schema.RoleAdmin},
}

func allowed(can func(Actor) bool) []string {
	var names []string
	for name, actor := range actors {
		if can(actor) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func names(list ...string) []string {
	slices.Sort(list)
	return list
}

// everything is who may do everything in acme.
var everything = []string{"operator", "operator of acme", "org pipeline", "root"}

func with(list []string, more ...string) []string {
	return names(append(slices.Clone(list), more...)...)
}

// roles of workspaces and orgs.
func TestRoles(t *testing.T) {
	r := rules()
	for name, want := range map[string]schema.Role{
		"nobody": "", "stranger": "", "odd": "", "eve": "", "root in open": "", "vic's token for open": "", "token for open": "", "pipeline of other": "", "pipeline of none": "", "workspace alone": "",
		"vic": "viewer", "ann": "member", "ben": "member", "ed": "editor", "ada": "admin", "operator": "admin", "root": "admin",
		"ada as viewer": "viewer", "vic as admin": "viewer", "root as editor": "editor", "pipeline": "editor",
		"operator of acme": "admin", "org pipeline": "admin",
	} {
		assert.Equal(t, want, r.Role(actors[name], "acme", "research"), name)
	}
	assert.Len(t, actors, 23)
	assert.Equal(t, schema.RoleMember, r.Role(actors["vic's token for open"], "acme", "open"), "members are not in use")
	assert.Equal(t, with(everything), allowed(func(a Actor) bool { return r.IsOrgAdmin(a, "acme") }))
	assert.Equal(t, names("root in open", "operator", "operator of acme", "org pipeline", "root", "root as editor", "vic's token for open", "token for open"),
		allowed(func(a Actor) bool { return r.Role(a, "acme", "open") != "" }))
	assert.Empty(t, allowed(func(a Actor) bool { return r.Role(a, "", "") != "" || r.IsOrgAdmin(a, "") }))
}

// R-1, V-6, V-10: what an actor may not see does not exist for it.
func TestMaySee(t *testing.T) {
	r := rules()
	viewers := with(everything, "vic", "ed", "ada", "ada as viewer", "vic as admin", "root as editor", "pipeline")
	for _, c := range []struct {
		what string
		o    *schema.Object
		want []string
	}{
		{"a member's volume", inWorkspace(schema.KindVolume, "a", "ann", nil), with(viewers, "ann")},
		{"nobody's volume", inWorkspace(schema.KindVolume, "a", "", nil), viewers},
		{"a member's run", inWorkspace(schema.KindRun, "a", "ben", nil), with(viewers, "ben")},
		{"a drive", inWorkspace(schema.KindDrive, "a", "ed", nil), with(viewers, "ann", "ben")},
		{"the workspace", object(schema.KindWorkspace, "acme", "research", "", nil), with(viewers, "ann", "ben")},
		{"a machine", machineOf("acme"), with(viewers, "ann", "ben", "root in open", "vic's token for open", "token for open")},
		{"a machine of no org", machineOf(""), nil},
		{"the workspace's grant", object(schema.KindHostPathGrant, "acme", "g", "", &schema.HostPathGrantSpec{Workspace: "research"}), with(viewers, "ann", "ben")},
		{"another workspace's grant", object(schema.KindHostPathGrant, "acme", "g", "", &schema.HostPathGrantSpec{Workspace: "open"}),
			with(everything, "root in open", "root as editor", "vic's token for open", "token for open")},
		{"another org", object(schema.KindOrg, "", "other", "", nil), names("operator", "eve", "pipeline of other")},
	} {
		assert.Equal(t, c.want, allowed(func(a Actor) bool { return r.MaySee(a, c.o) }), c.what)
	}
	cluster := object(schema.KindCluster, "", "c", "", nil)
	for _, name := range []string{"nobody", "stranger", "pipeline of none"} {
		assert.False(t, r.MaySee(actors[name], cluster), name)
	}
	for _, name := range []string{"vic", "eve", "operator", "pipeline", "root in open"} {
		assert.True(t, r.MaySee(actors[name], cluster), name)
	}
}

// V-6: a member's run cannot mount another member's volume, an admin's can.
func TestMayUse(t *testing.T) {
	r := rules()
	editors := with(everything, "ed", "ada", "root as editor", "pipeline")
	use := func(v *schema.Object) []string { return allowed(func(a Actor) bool { return r.MayUse(a, v) }) }
	assert.Equal(t, with(editors, "ann"), use(inWorkspace(schema.KindVolume, "v", "ann", nil)))
	assert.Equal(t, editors, use(inWorkspace(schema.KindVolume, "v", "", nil)), "nobody's volume is no member's")
	assert.Equal(t, editors, use(inWorkspace(schema.KindVolume, "v", "vic", nil)), "a viewer has no runs")
	open := inWorkspace(schema.KindVolume, "v", "ann", nil)
	open.Workspace = "open"
	assert.Len(t, use(open), len(actors), "without members everyone of the workspace may")

	for user, want := range map[string]bool{"": false, "stranger": false, "vic": false, "odd": false, "ann": true, "ed": true, "ada": true, "root": true, "eve": false} {
		assert.Equal(t, want, r.MayOwn(user, "acme", "research"), user)
		assert.True(t, r.MayOwn(user, "acme", "open"), user)
	}
}

// who writes what.
func TestMayWrite(t *testing.T) {
	r := rules()
	editors := with(everything, "ed", "ada", "root as editor", "pipeline")
	admins := with(everything, "ada")
	allow := func(kind schema.Kind) *schema.Object {
		return inWorkspace(schema.KindDeletion, "d", "ann", &schema.DeletionSpec{Allow: &schema.DeletionAllow{Kind: kind, Count: 1}})
	}
	workspace := func(namespace string) *schema.Object {
		return object(schema.KindWorkspace, "acme", "research", "", &schema.WorkspaceSpec{Namespace: namespace})
	}
	for _, c := range []struct {
		what      string
		old, next *schema.Object
		want      []string
	}{
		{"a member's own run", nil, inWorkspace(schema.KindRun, "r", "ann", nil), with(editors, "ann")},
		{"a member's volume goes", inWorkspace(schema.KindVolume, "v", "ben", nil), nil, with(editors, "ben")},
		{"a member takes another's", inWorkspace(schema.KindVolume, "v", "ben", nil), inWorkspace(schema.KindVolume, "v", "ann", nil), editors},
		{"a member adds a drive", nil, inWorkspace(schema.KindDrive, "d", "ann", nil), editors},
		{"an endpoint", nil, inWorkspace(schema.KindEndpoint, "e", "ann", nil), editors},
		{"a deletion", nil, inWorkspace(schema.KindDeletion, "d", "ann", &schema.DeletionSpec{Volume: "v"}), editors},
		{"an allowance", nil, allow(schema.KindDrive), admins},
		{"an allowance of the org", nil, allow(schema.KindMachine), everything},
		{"the members", workspace(""), workspace(""), admins},
		{"a namespace", workspace(""), workspace("ws-000000000000"), names("operator", "operator of acme")},
		{"a new workspace", nil, workspace(""), everything},
		{"a new workspace with a namespace", nil, workspace("ws-000000000000"), names("operator", "operator of acme")},
		{"a workspace goes", workspace("ws-000000000000"), nil, everything},
		{"a grant", nil, object(schema.KindHostPathGrant, "acme", "g", "", nil), everything},
		{"a machine", machineOf("acme"), machineOf("acme"), everything},
		{"a machine taken from another org", machineOf("other"), machineOf("acme"), names("operator")},
		{"the org's admins", object(schema.KindOrg, "", "acme", "", nil), object(schema.KindOrg, "", "acme", "", nil), everything},
		{"a new org", nil, object(schema.KindOrg, "", "acme", "", nil), names("operator", "operator of acme")},
		{"the cluster", nil, object(schema.KindCluster, "", "c", "", nil), names("operator")},
		{"nothing", nil, nil, nil},
	} {
		assert.Equal(t, c.want, allowed(func(a Actor) bool { return r.MayWrite(a, c.old, c.next) }), c.what)
	}
}

// R-2, V-10: what an admin does for another names that other.
func TestActedFor(t *testing.T) {
	v := inWorkspace(schema.KindVolume, "v", "ann", nil)
	assert.Equal(t, "ann", ActedFor("ada", v))
	assert.Empty(t, ActedFor("ann", v))
	assert.Empty(t, ActedFor("", v))
	assert.Empty(t, ActedFor("ada", inWorkspace(schema.KindVolume, "v", "", nil)))
	assert.Empty(t, ActedFor("ada", nil))
}
