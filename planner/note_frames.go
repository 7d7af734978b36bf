package planner

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// noteFrames warns of declared machines and grants that are valid each by itself
// and can hardly be meant.
func (p *pass) noteFrames() {
	p.noteShared("spec.address", schema.CodeAddressShared, func(s *schema.MachineSpec) string { return s.Address })
	p.noteShared("spec.node_network", schema.CodeNodeNetworkShared, func(s *schema.MachineSpec) string { return s.NodeNetwork })
	denied := slices.Concat(schema.DeniedPrefixes, p.clusterSpec().PathPolicy.Denied)
	for _, o := range p.gate.kinds[schema.KindHostPathGrant] {
		p.noteGrant(o, o.Spec.(*schema.HostPathGrantSpec), denied)
	}
}

// noteShared: each machine has an address and a node network of its own. All
// networks are of one size (/24), so that those that overlap are equal.
func (p *pass) noteShared(field string, code schema.Code, value func(*schema.MachineSpec) string) {
	first := make(map[string]*schema.Object, len(p.gate.kinds[schema.KindMachine]))
	shared := map[*schema.Object]*schema.Object{}
	for _, o := range p.gate.kinds[schema.KindMachine] {
		text := value(o.Spec.(*schema.MachineSpec))
		other := first[text]
		switch {
		case text == "":
		case other == nil:
			first[text] = o
		case schema.CompareKeys(o.Key, other.Key) < 0: // the first by name, in whatever order they come
			first[text] = o
			shared[other] = o
		default:
			shared[o] = other
		}
	}
	for o := range shared {
		text := value(o.Spec.(*schema.MachineSpec))
		p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: code, Message: sharedValue(field, text, first[text].Key.Name)})
	}
}

// noteGrant: a grant for nobody, or of what volumes never reach (V-4).
func (p *pass) noteGrant(o *schema.Object, spec *schema.HostPathGrantSpec, denied []string) {
	ws := schema.Key{Kind: schema.KindWorkspace, Namespace: o.Org, Name: spec.Workspace}
	if !p.declared(ws) && p.objects[ws] == nil {
		p.note(schema.Diagnostic{Pos: o.At("spec.workspace"), Object: o.Key, Field: "spec.workspace", Code: schema.CodeGrantNoWorkspace,
			Message: workspaceUndeclared(ws) + ": the grant allows nothing"})
	}
	for i, path := range spec.Paths {
		at := slices.IndexFunc(denied, func(prefix string) bool { return strings.HasPrefix(schema.CleanPath(path), prefix) })
		if at >= 0 {
			field := indexed("spec.paths", i, "")
			p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeGrantDeniedPath, Message: grantDenied(path, denied[at])})
		}
	}
}
