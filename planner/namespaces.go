package planner

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/schema"
)

// judgePlace checks that the object's namespace is its workspace's, and
// that its folder's workspace is declared under that name: what a folder holds
// that was renamed without its name is not created beside what is in force (G-3).
func (p *pass) judgePlace(o *schema.Object) *schema.Hold {
	ws := schema.Key{Kind: schema.KindWorkspace, Namespace: o.Org, Name: o.Workspace}
	if p.objects[ws] == nil && !p.declared(ws) {
		return holdOf(o, "", schema.CodeNotFound, workspaceUndeclared(ws))
	}
	if was := p.otherNamespace(scope{o.Org, o.Workspace}); was != "" {
		return holdOf(o, "", schema.CodeNamespaceTaken, namespaceChanged(ws, was, o.Key.Namespace))
	}
	for _, holder := range p.namespaceHolders()[o.Key.Namespace] {
		if holder.Object.Org != o.Org || holder.Object.Metadata.Name != o.Workspace {
			return holdOf(o, "", schema.CodeNamespaceTaken, namespaceTaken(o.Key.Namespace, holder.Object.Key))
		}
	}
	return nil
}

// spaces are the namespaces of this pass: where objects are in force and where the
// commit declares them, and who has or wants each, as it was before the pass, so
// that no workspace's change has an order to another's.
type spaces struct {
	declared, inForce map[scope]string
	holders, wanted   map[string][]schema.Key // workspaces by namespace, sorted
}

func (p *pass) spaces() *spaces {
	if p.spaced != nil {
		return p.spaced
	}
	s := &spaces{map[scope]string{}, map[scope]string{}, map[string][]schema.Key{}, map[string][]schema.Key{}}
	p.spaced = s
	for key, o := range p.gate.declared {
		if key.Kind.InWorkspace() {
			s.declared[scope{o.Org, o.Workspace}] = key.Namespace
		}
	}
	for key, a := range p.in.Accepted.Objects {
		if !inForce(a) || !key.Kind.InWorkspace() {
			continue
		}
		at := scope{a.Object.Org, a.Object.Workspace}
		if old := s.inForce[at]; old == "" || key.Namespace == s.declared[at] || old != s.declared[at] && key.Namespace < old {
			s.inForce[at] = key.Namespace
		}
	}
	for _, key := range sortedKeys(p.in.Accepted.Objects) {
		if key.Kind == schema.KindWorkspace && p.hadBefore(key) {
			ns := p.namespaceOf(p.in.Accepted.Objects[key].Object)
			s.holders[ns] = append(s.holders[ns], key)
		}
	}
	for _, o := range p.gate.kinds[schema.KindWorkspace] {
		s.wanted[p.namespaceOf(o)] = append(s.wanted[p.namespaceOf(o)], o.Key)
	}
	for _, list := range s.wanted {
		slices.SortFunc(list, schema.CompareKeys)
	}
	return s
}

// otherNamespace is the namespace in force of a workspace whose objects the commit
// declares in another one, "" when it keeps its own. The keys of everything in it
// would change: the cluster was renamed or is not declared any more, or
// spec.namespace was changed. It is no deletion, and nothing is made twice.
func (p *pass) otherNamespace(where scope) string {
	s := p.spaces()
	was, now := s.inForce[where], s.declared[where]
	if now == "" || was == now {
		return ""
	}
	return was
}

// namespaceHolders are the accepted workspaces by namespace.
func (p *pass) namespaceHolders() map[string][]*schema.AcceptedObject {
	if p.holdersNS != nil {
		return p.holdersNS
	}
	p.holdersNS = map[string][]*schema.AcceptedObject{}
	for _, key := range p.keysOf(schema.KindWorkspace) {
		ns := p.namespaceOf(p.objects[key].Object)
		p.holdersNS[ns] = append(p.holdersNS[ns], p.objects[key])
	}
	return p.holdersNS
}

// namespaceOf is a workspace's namespace: written, that of what is in force in it,
// or derived.
func (p *pass) namespaceOf(o *schema.Object) string {
	if ns := o.Spec.(*schema.WorkspaceSpec).Namespace; ns != "" {
		return ns
	}
	if ns := p.spaces().inForce[scope{o.Org, o.Metadata.Name}]; ns != "" {
		return ns
	}
	return schema.Namespace(cmp.Or(p.clusterKey().Name, schema.DefaultCluster), o.Org, o.Metadata.Name)
}

// judgeWorkspace: a namespace is unique, its first accepted holder keeps it
// and it stays while anything is in it.
func (p *pass) judgeWorkspace(o *schema.Object) *schema.Hold {
	const field = "spec.namespace"
	ns, s := p.namespaceOf(o), p.spaces()
	p.holdersNS = nil
	if was := s.inForce[scope{o.Org, o.Metadata.Name}]; was != "" && was != ns {
		return holdOf(o, field, schema.CodeNamespaceTaken, namespaceChanged(o.Key, was, ns))
	}
	for _, other := range slices.Concat(s.holders[ns], s.wanted[ns]) { // with none accepted, both are held
		if other != o.Key {
			return holdOf(o, field, schema.CodeNamespaceTaken, namespaceTaken(ns, other))
		}
	}
	return nil
}
