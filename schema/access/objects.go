package access

import "astraeus.io/astraeus/schema"

// private reports whether objects of a kind belong to the person who added them:
// a member sees and writes its own only. Drives, models and endpoints are the
// whole workspace's.
func private(kind schema.Kind) bool {
	switch kind {
	case schema.KindRun, schema.KindReplicaGroup, schema.KindVolume, schema.KindDeletion:
		return true
	}
	return false
}

// owns: an object without an owner is nobody's.
func owns(a Actor, o *schema.Object) bool { return a.User != "" && o.Metadata.Owner == a.User }

// MaySee reports whether the actor may know that an object exists (R-1, V-6, V-10).
//
//	operator                everything
//	org admin               everything of the org
//	viewer, editor, admin   everything of the workspace; the org's machines
//	member                  the same, but of runs, replica groups, volumes and deletions its own only
//	anyone with a role      the cluster
//
// o needs Key, Org, Workspace, Metadata.Owner and Spec (a grant's workspace).
func (r *Rules) MaySee(a Actor, o *schema.Object) bool {
	switch spec := o.Spec.(type) {
	case *schema.ClusterSpec:
		return r.anywhere(a)
	case *schema.OrgSpec:
		return r.inOrg(a, o.Key.Name)
	case *schema.MachineSpec:
		return r.inOrg(a, o.Org)
	case *schema.HostPathGrantSpec:
		return r.IsOrgAdmin(a, o.Key.Namespace) || r.Role(a, o.Key.Namespace, spec.Workspace) != ""
	case *schema.WorkspaceSpec:
		return r.Role(a, o.Key.Namespace, o.Key.Name) != ""
	}
	switch role := r.Role(a, o.Org, o.Workspace); role {
	case "":
		return false
	case schema.RoleMember:
		return !private(o.Key.Kind) || owns(a, o)
	}
	return true
}

// anywhere reports whether the actor has any role at all.
func (r *Rules) anywhere(a Actor) bool {
	if a.Operator {
		return true
	}
	if a.User == "" {
		return a.Org != "" && known(a.Role) != ""
	}
	for org := range r.admins {
		if r.inOrg(a, org) {
			return true
		}
	}
	for org := range r.seats {
		if r.inOrg(a, org) {
			return true
		}
	}
	return false
}

// MayUse reports whether the actor's runs may mount a volume of their workspace:
// a member only its own, editors and admins any, viewers none (V-6). Where members
// are not in use, everyone's run of the workspace may.
func (r *Rules) MayUse(a Actor, volume *schema.Object) bool {
	if !r.MembersInUse(volume.Org, volume.Workspace) {
		return true
	}
	role := r.Role(a, volume.Org, volume.Workspace)
	return AtLeast(role, schema.RoleEditor) || role == schema.RoleMember && owns(a, volume)
}

// MayOwn reports whether a user may be the owner of a run, replica group or volume
// of a workspace that lists its members: members, editors, admins and the
// org's admins may.
func (r *Rules) MayOwn(user, org, workspace string) bool {
	return !r.MembersInUse(org, workspace) || AtLeast(r.Role(Actor{User: user}, org, workspace), schema.RoleMember)
}

// MayWrite reports whether the actor may turn old into next: old nil adds, next
// nil removes.
//
//	operator          everything; it alone writes the cluster, adds and removes orgs, and sets namespaces
//	org admin         the org, its machines, grants and workspaces
//	workspace admin   everything of the workspace, its members, budget allowances
//	editor            every object of the workspace but those
//	member            its own runs, replica groups and volumes
func (r *Rules) MayWrite(a Actor, old, next *schema.Object) bool {
	for _, o := range []*schema.Object{old, next} {
		if o != nil && !r.mayWrite(a, o) {
			return false
		}
	}
	if old != nil && next != nil && old.Key.Kind == schema.KindWorkspace {
		return a.operates(old.Key.Namespace) || namespaceOf(old) == namespaceOf(next)
	}
	switch o := first(old, next); {
	case o == nil:
		return false
	case o.Key.Kind == schema.KindWorkspace:
		// Adding or removing one is the org's; a namespace of its choice is the operator's.
		return r.IsOrgAdmin(a, o.Key.Namespace) && (a.operates(o.Key.Namespace) || next == nil || namespaceOf(next) == "")
	case o.Key.Kind == schema.KindOrg && (old == nil || next == nil):
		return a.operates(o.Key.Name)
	}
	return true
}

func first(old, next *schema.Object) *schema.Object {
	if old != nil {
		return old
	}
	return next
}

func (a Actor) operates(org string) bool { return a.Operator && a.within(org, "") }

func namespaceOf(o *schema.Object) string {
	if spec, ok := o.Spec.(*schema.WorkspaceSpec); ok {
		return spec.Namespace
	}
	return ""
}

func (r *Rules) mayWrite(a Actor, o *schema.Object) bool {
	switch o.Key.Kind {
	case schema.KindCluster:
		return a.Operator && a.Org == ""
	case schema.KindOrg:
		return r.IsOrgAdmin(a, o.Key.Name)
	case schema.KindMachine:
		return r.IsOrgAdmin(a, o.Org)
	case schema.KindHostPathGrant:
		return r.IsOrgAdmin(a, o.Key.Namespace)
	case schema.KindWorkspace:
		return r.Role(a, o.Key.Namespace, o.Key.Name) == schema.RoleAdmin
	}
	role := r.Role(a, o.Org, o.Workspace)
	switch role {
	case schema.RoleAdmin:
		spec, ok := o.Spec.(*schema.DeletionSpec)
		return !ok || spec.Allow == nil || spec.Allow.Kind.InWorkspace() || r.IsOrgAdmin(a, o.Org)
	case schema.RoleEditor:
		spec, ok := o.Spec.(*schema.DeletionSpec)
		return !ok || spec.Allow == nil
	case schema.RoleMember:
		return private(o.Key.Kind) && o.Key.Kind != schema.KindDeletion && owns(a, o)
	}
	return false
}

// ActedFor is the user for whom an actor wrote an object: its owner, when that is
// somebody else; "" otherwise (R-2, V-10).
func ActedFor(actor string, o *schema.Object) string {
	if actor == "" || o == nil || o.Metadata.Owner == actor {
		return ""
	}
	return o.Metadata.Owner
}
