package planner

import (
	"iter"
	"slices"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/access"
)

// rules are the roles that this commit's objects are judged by: those in force
// before it. Of an org or workspace that is new there are none from before,
// so that its own count. They are asked for once orgs and workspaces are judged.
func (p *pass) rules() *access.Rules {
	if p.roles == nil {
		p.roles = access.New(p.roleObjects())
	}
	return p.roles
}

// rulesNow are the roles in force: what runs and waits goes by them.
func (p *pass) rulesNow() *access.Rules {
	if p.rolesNow == nil {
		p.rolesNow = access.New(func(yield func(*schema.Object) bool) {
			for _, kind := range []schema.Kind{schema.KindOrg, schema.KindWorkspace} {
				for _, key := range p.keysIn(kind) {
					if !yield(p.objects[key].Object) {
						return
					}
				}
			}
		})
	}
	return p.rolesNow
}

func (p *pass) roleObjects() iter.Seq[*schema.Object] {
	return func(yield func(*schema.Object) bool) {
		for _, kind := range []schema.Kind{schema.KindOrg, schema.KindWorkspace} {
			for _, key := range p.keysIn(kind) {
				o := p.objects[key].Object
				if before := p.in.Accepted.Objects[key]; inForce(before) {
					o = p.rolesBefore(before)
				}
				if !yield(o) {
					return
				}
			}
		}
	}
}

// rolesBefore is an org or workspace in force as it was before this commit, also
// when an earlier pass let the commit's own through already.
func (p *pass) rolesBefore(a *schema.AcceptedObject) *schema.Object {
	if a.Former == nil || p.in.Desired == nil || a.Former.Commit != p.in.Desired.Commit {
		return a.Object
	}
	o := *a.Object
	switch spec := a.Object.Spec.(type) {
	case *schema.OrgSpec:
		was := *spec
		was.Admins = a.Former.Admins
		o.Spec = &was
	case *schema.WorkspaceSpec:
		was := *spec
		was.Members = a.Former.Members
		o.Spec = &was
	}
	return &o
}

// formerRoles is what to keep of the roles that a change of an org or workspace
// replaces; next is nil where it changes none.
func (p *pass) formerRoles(prev *schema.AcceptedObject, o *schema.Object) *schema.FormerRoles {
	if prev == nil {
		return nil
	}
	former := &schema.FormerRoles{Commit: p.in.Desired.Commit}
	switch spec := o.Spec.(type) {
	case *schema.OrgSpec:
		former.Admins = prev.Object.Spec.(*schema.OrgSpec).Admins
		if slices.Equal(former.Admins, spec.Admins) {
			return prev.Former
		}
	case *schema.WorkspaceSpec:
		former.Members = prev.Object.Spec.(*schema.WorkspaceSpec).Members
		if slices.Equal(former.Members, spec.Members) {
			return prev.Former
		}
	}
	if prev.Former != nil && prev.Former.Commit == former.Commit {
		return prev.Former // changed again within the commit: what was before it counts
	}
	return former
}

// ownerActor is who acts with an object: its owner.
func ownerActor(o *schema.Object) access.Actor { return access.Actor{User: o.Metadata.Owner} }

// mayUse reports whether a run's owner may mount a volume (V-6).
func (p *pass) mayUse(o *schema.Object, v *volume) bool {
	return p.rules().MayUse(ownerActor(o), v.object.Object)
}

// judgeOwner: where members are in use, runs, replica groups and volumes are some
// member's, and an owner has nothing that its role may not add. It is
// judged when the object is new or its owner changes.
func (p *pass) judgeOwner(o *schema.Object, prev *schema.AcceptedObject) *schema.Hold {
	if !o.Key.Kind.InWorkspace() {
		return nil
	}
	if spec, ok := o.Spec.(*schema.DeletionSpec); ok && spec.Allow != nil {
		return p.judgeAllowance(o, spec.Allow) // whatever of it changes
	}
	if o.ManagedBy != (schema.Key{}) || prev != nil && prev.Object.Metadata.Owner == o.Metadata.Owner {
		return nil
	}
	rules, owner := p.rules(), o.Metadata.Owner
	switch o.Key.Kind {
	case schema.KindRun, schema.KindReplicaGroup, schema.KindVolume:
		switch {
		case rules.MayOwn(owner, o.Org, o.Workspace):
			return nil
		case owner == "":
			return p.forbidden(o, ownerNeeded(o))
		}
	default:
		if owner == "" || !rules.MembersInUse(o.Org, o.Workspace) || rules.MayWrite(ownerActor(o), nil, o) {
			return nil
		}
	}
	return p.forbidden(o, ownerMayNot(o, rules.Role(ownerActor(o), o.Org, o.Workspace)))
}

// judgeAllowance: a budget of the workspace's kinds is lifted by an admin of the
// workspace, one of the org's kinds by an admin of the org, whichever workspace the
// file is in.
func (p *pass) judgeAllowance(o *schema.Object, allow *schema.DeletionAllow) *schema.Hold {
	rules, by := p.rules(), ownerActor(o)
	switch {
	case !allow.Kind.InWorkspace() && rules.AdminsInUse(o.Org) && !rules.IsOrgAdmin(by, o.Org):
		return p.forbidden(o, allowanceOfOrg(o, allow.Kind))
	case allow.Kind.InWorkspace() && rules.MembersInUse(o.Org, o.Workspace) && !rules.MayWrite(by, nil, o):
		return p.forbidden(o, allowanceOfWorkspace(o))
	}
	return nil
}

// allowOwner is somebody who may allow a deletion of the kind, "" where nobody has
// to be named or nobody can be.
func (p *pass) allowOwner(org, workspace string, kind schema.Kind) string {
	if spec := specOf[schema.OrgSpec](p, schema.Key{Kind: schema.KindOrg, Name: org}); !kind.InWorkspace() && spec != nil && len(spec.Admins) > 0 {
		return spec.Admins[0]
	}
	ws := specOf[schema.WorkspaceSpec](p, schema.Key{Kind: schema.KindWorkspace, Namespace: org, Name: workspace})
	if !kind.InWorkspace() || ws == nil {
		return ""
	}
	for _, m := range ws.Members {
		if m.Role == schema.RoleAdmin {
			return m.User
		}
	}
	return ""
}

// forbidden is a hold on an object's owner. Where the commit itself changes the
// roles, it says from when they count.
func (p *pass) forbidden(o *schema.Object, message string) *schema.Hold {
	hold := holdOf(o, "metadata.owner", schema.CodeForbidden, message)
	for _, key := range []schema.Key{{Kind: schema.KindOrg, Name: o.Org}, {Kind: schema.KindWorkspace, Namespace: o.Org, Name: o.Workspace}} {
		if p.rolesChange(key) {
			hold.Hint = rolesCountLater
		}
	}
	return hold
}

// rolesChange reports whether this commit changes the roles of an org or workspace.
func (p *pass) rolesChange(key schema.Key) bool {
	a := p.objects[key]
	return a != nil && a.Former != nil && p.in.Desired != nil && a.Former.Commit == p.in.Desired.Commit
}
