package access

import (
	"iter"

	"astraeus.io/astraeus/schema"
)

// Actor is who asks or acts. The zero Actor is nobody.
type Actor struct {
	// User takes its roles from org.admins and workspace.members; "" has none there.
	User string
	// Operator may do everything, within Org and Workspace.
	Operator bool
	// Org and Workspace limit the actor to one org, or to one workspace of it; "" is
	// no limit.
	Org, Workspace string
	// Role is for what stands for no user, such as a pipeline's token: its role in
	// every workspace within Org and Workspace, which must then name an org. With a
	// User it is a ceiling for that user's role; in a workspace that lists no members
	// nobody's role is known, and with an Org it is the role.
	Role schema.Role
}

// rank orders the roles; "" is none.
var rank = map[schema.Role]int{"": 0, schema.RoleViewer: 1, schema.RoleMember: 2, schema.RoleEditor: 3, schema.RoleAdmin: 4}

// AtLeast reports whether a role includes another one. An unknown role is none.
func AtLeast(role, least schema.Role) bool { return rank[role] >= rank[least] && rank[role] > 0 }

type place struct{ org, workspace string }

// Rules are the roles in force. They are never changed once made.
type Rules struct {
	admins  map[string]map[string]bool
	members map[place]map[string]schema.Role
	seats   map[string]map[string]bool // users with a role in any workspace of an org
}

// New reads the roles from orgs and workspaces; other kinds are passed over.
func New(objects iter.Seq[*schema.Object]) *Rules {
	r := &Rules{admins: map[string]map[string]bool{}, members: map[place]map[string]schema.Role{}, seats: map[string]map[string]bool{}}
	for o := range objects {
		switch spec := o.Spec.(type) {
		case *schema.OrgSpec:
			r.admins[o.Key.Name] = set(spec.Admins)
		case *schema.WorkspaceSpec:
			r.addWorkspace(o.Key, spec)
		}
	}
	return r
}

func (r *Rules) addWorkspace(key schema.Key, spec *schema.WorkspaceSpec) {
	roles := make(map[string]schema.Role, len(spec.Members))
	for _, m := range spec.Members {
		if m.User == "" || known(m.Role) == "" {
			continue
		}
		roles[m.User] = m.Role
		if r.seats[key.Namespace] == nil {
			r.seats[key.Namespace] = map[string]bool{}
		}
		r.seats[key.Namespace][m.User] = true
	}
	r.members[place{key.Namespace, key.Name}] = roles
}

func set(users []string) map[string]bool {
	s := make(map[string]bool, len(users))
	for _, user := range users {
		s[user] = user != ""
	}
	return s
}

// MembersInUse reports whether a workspace lists its members. Where none does,
// there is no secrecy and no ownership inside the workspace.
func (r *Rules) MembersInUse(org, workspace string) bool {
	return len(r.members[place{org, workspace}]) > 0
}

// AdminsInUse reports whether an org names its admins.
func (r *Rules) AdminsInUse(org string) bool { return len(r.admins[org]) > 0 }

// within reports whether an org, or a workspace of it, is inside the actor's limits.
func (a Actor) within(org, workspace string) bool {
	return (a.Org == "" || a.Org == org) && (a.Workspace == "" || a.Org != "" && a.Workspace == workspace)
}

// IsOrgAdmin reports whether the actor administers a whole org.
func (r *Rules) IsOrgAdmin(a Actor, org string) bool {
	if org == "" || !a.within(org, "") {
		return false
	}
	switch {
	case a.Operator:
		return true
	case a.User == "":
		return a.Org == org && a.Role == schema.RoleAdmin
	}
	return r.admins[org][a.User] && (a.Role == "" || a.Role == schema.RoleAdmin)
}

// Role is the actor's role in a workspace, "" for none. Operators and the org's
// admins are admins in all of its workspaces.
func (r *Rules) Role(a Actor, org, workspace string) schema.Role {
	if org == "" || workspace == "" || !a.within(org, workspace) {
		return ""
	}
	role := r.members[place{org, workspace}][a.User]
	switch {
	case a.Operator, a.User != "" && r.admins[org][a.User]:
		role = schema.RoleAdmin
	case a.User == "" && a.Org == org:
		return known(a.Role)
	case a.User == "":
		return ""
	case a.Org == org && !r.MembersInUse(org, workspace):
		role = known(a.Role)
	}
	if a.Role != "" && rank[a.Role] < rank[role] {
		role = a.Role
	}
	return known(role)
}

func known(role schema.Role) schema.Role {
	if rank[role] == 0 {
		return ""
	}
	return role
}

// inOrg reports whether the actor has any role in an org: such a person sees its
// machines.
func (r *Rules) inOrg(a Actor, org string) bool {
	if org == "" {
		return false
	}
	if a.Workspace != "" {
		return r.Role(a, org, a.Workspace) != ""
	}
	if !a.within(org, "") {
		return false
	}
	if a.User == "" && !a.Operator {
		return a.Org == org && known(a.Role) != ""
	}
	return a.Operator || r.admins[org][a.User] || r.seats[org][a.User]
}
