package statusapi

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/access"
	"astraeus.io/astraeus/statusapi/token"
)

// request is one question about one state.
type request struct {
	*state
	caller
	ctx    context.Context
	scope  scope
	actors []access.Actor // as which the caller sees; none for all
	query  url.Values
	name   string // of the object asked for, "" for a list
}

// scope is the workspace that the documents' long path names; the zero scope is
// the whole cluster.
type scope struct{ org, workspace, namespace string }

func (s scope) whole() bool { return s.namespace == "" }

// actors are the parts in which a token's bearer may look.
func (c caller) actors() []access.Actor {
	e := c.entry
	switch {
	case c.all():
		return nil
	case e.Role == token.OrgAdmin:
		return []access.Actor{{User: e.User, Org: e.Org, Role: schema.RoleAdmin}}
	}
	out := make([]access.Actor, len(e.Workspaces))
	for i, workspace := range e.Workspaces {
		out[i] = access.Actor{User: e.User, Org: e.Org, Workspace: workspace, Role: schema.Role(e.Role)}
	}
	return out
}

// sightID names what the request can see, for caches.
func (r *request) sightID() string { return r.grant() + "#" + r.scope.namespace }

// uncut reports whether the request sees the whole cluster.
func (r *request) uncut() bool { return r.all() && r.scope.whole() }

// sees reports whether the request may know of an object, one that is gone
// included: what it may not see does not exist for it.
func (r *request) sees(key schema.Key) bool { return r.uncut() || r.seesObject(r.objectOf(key)) }

func (r *request) seesObject(o *schema.Object) bool {
	return r.scope.covers(o) && (r.all() || slices.ContainsFunc(r.actors, func(a access.Actor) bool { return r.rules.MaySee(a, o) }))
}

// covers reports whether an object belongs to a workspace, or to what is around it.
func (s scope) covers(o *schema.Object) bool {
	if s.whole() {
		return true
	}
	switch spec := o.Spec.(type) {
	case *schema.ClusterSpec:
		return true
	case *schema.OrgSpec:
		return o.Key.Name == s.org
	case *schema.MachineSpec:
		return o.Org == s.org
	case *schema.HostPathGrantSpec:
		return o.Key.Namespace == s.org && spec.Workspace == s.workspace
	case *schema.WorkspaceSpec:
		return o.Key.Namespace == s.org && o.Key.Name == s.workspace
	}
	return o.Org == s.org && o.Workspace == s.workspace
}

// objectOf is an object as far as it is known. Of one that is gone only the place
// is left, so that a member does not see what may have been another's.
func (r *request) objectOf(key schema.Key) *schema.Object {
	if o := shown(r.accepted[key]); o != nil {
		return o.Object
	}
	at := r.places[key.Namespace]
	if p, placed := r.Input.Placed[key]; placed && key.Kind == schema.KindRun {
		at = place{p.Org, p.Workspace}
	}
	return &schema.Object{Key: key, Org: at.org, Workspace: at.workspace, Spec: schema.NewSpec(key.Kind)}
}

// administers reports whether the request sees all there is on machines of an org.
func (r *request) administers(org string) bool {
	return r.all() || slices.ContainsFunc(r.actors, func(a access.Actor) bool { return r.rules.IsOrgAdmin(a, org) })
}

// private reports whether there is anything around the caller that belongs to
// others and is hidden from it: a member sees its own runs and volumes only.
func (r *request) private() bool {
	return slices.ContainsFunc(r.actors, func(a access.Actor) bool {
		if a.Workspace == "" {
			return !r.rules.IsOrgAdmin(a, a.Org)
		}
		return r.rules.Role(a, a.Org, a.Workspace) == schema.RoleMember
	})
}

// ref names an object as the scope does: local names inside a workspace.
func (r *request) ref(key schema.Key) string {
	if r.scope.whole() {
		return key.Scoped()
	}
	return key.Name
}

// local is what a machine says of a "<namespace>.<name>" as the scope names it; ok
// is false for what the request does not see.
func (r *request) local(kind schema.Kind, scoped string) (name string, ok bool) {
	key, err := schema.ParseKey(kind.Word() + "/" + scoped)
	if err != nil {
		return scoped, r.uncut()
	}
	return r.ref(key), r.sees(key)
}

// named finds other objects' names in a sentence: "run/ws-….train", "run/train",
// "machine gpu-01".
var named = regexp.MustCompile(`\b(cluster|machine|org|workspace|grant|drive|volume|run|replica_group|endpoint|model|deletion)([/ ])([^\s,;:()"]+)`)

// say is a sentence about something in a namespace as the request may read it:
// names of what it does not see are left out (V-8, R-1).
func (r *request) say(namespace, text string) string {
	if r.all() || text == "" {
		return text
	}
	for _, at := range slices.Backward(named.FindAllStringSubmatchIndex(text, -1)) {
		word, sep, name := text[at[2]:at[3]], text[at[4]:at[5]], text[at[6]:at[7]]
		if sep == " " && word != "machine" || r.seesWord(namespace, word, name) {
			continue
		}
		rest := text[at[1]:]
		if word == "volume" {
			rest = "" // its name may go on: it can have blanks
		}
		text = text[:at[0]] + "another " + strings.ReplaceAll(word, "_", " ") + rest
	}
	return text
}

func (r *request) seesWord(namespace, word, name string) bool {
	key, err := schema.ParseKey(word + "/" + name)
	if err != nil {
		kind, _ := schema.KindOfWord(word)
		key = schema.Key{Kind: kind, Namespace: namespace, Name: name}
	}
	if key.Kind == schema.KindMachine && r.accepted[key] == nil {
		return true // no machine of anybody: a word like another
	}
	return r.sees(key)
}

// hold is a hold as the request may read it.
func (r *request) hold(h schema.Hold) schema.Hold {
	h.Message, h.Hint = r.say(h.Object.Namespace, h.Message), r.say(h.Object.Namespace, h.Hint)
	return h
}

// refused is the change of an object that is held back, nil when none is.
func (r *request) refused(o *schema.AcceptedObject) *schema.Hold {
	if o == nil || o.Refused == nil {
		return nil
	}
	hold := r.hold(o.Refused.Hold)
	return &hold
}

// seesFile reports whether a file of the repository is of a workspace or an org
// that the request sees; what lies elsewhere is the cluster's.
func (r *request) seesFile(file string) bool {
	if r.uncut() {
		return true
	}
	parts := strings.Split(file, "/")
	switch {
	case len(parts) > 4 && parts[0] == "orgs" && parts[2] == "workspaces":
		return r.sees(schema.Key{Kind: schema.KindWorkspace, Namespace: parts[1], Name: parts[3]}) && !r.private()
	case len(parts) > 2 && parts[0] == "orgs":
		return r.scope.whole() && r.administers(parts[1])
	}
	return false
}

// enter goes into the workspace that a path names. One text for org, workspace and
// cluster, so that nothing is learnt from which was wrong.
func (r *request) enter(prefix []string) error {
	org, name, cluster := prefix[0], prefix[1], prefix[2]
	ws := r.accepted[schema.Key{Kind: schema.KindWorkspace, Namespace: org, Name: name}]
	if ws == nil || ws.Object == nil || cluster != r.cluster || !r.seesObject(ws.Object) {
		return notFound("workspace")
	}
	r.scope = scope{org: org, workspace: name, namespace: r.namespaceOf(ws)}
	return nil
}

// find resolves the request's name to an accepted object: "<namespace>.<name>"
// or, where it is unique, the name alone; below a workspace the local name only.
func (r *request) find(kind schema.Kind) (*schema.AcceptedObject, error) {
	if key, err := schema.ParseKey(kind.Word() + "/" + r.name); err == nil && r.scope.whole() {
		if o := shown(r.accepted[key]); o != nil && r.seesObject(o.Object) {
			return o, nil
		}
	}
	return r.only(kind, r.names[kind][r.name])
}

// only is the one of a list that the request sees.
func (r *request) only(kind schema.Kind, list []*schema.AcceptedObject) (*schema.AcceptedObject, error) {
	var found []schema.Key
	var one *schema.AcceptedObject
	for _, o := range list {
		if r.seesObject(o.Object) {
			one, found = o, append(found, o.Object.Key)
		}
	}
	switch len(found) {
	case 0:
		return nil, notFound(kind.Word())
	case 1:
		return one, nil
	}
	return nil, ambiguous(found)
}
