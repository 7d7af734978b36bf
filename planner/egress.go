package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// egressOf is what a placed run's workers may look up by its newest accepted spec,
// which applies to running workers too; nil for everything (N-5). Names of
// its own workspace are always allowed.
func (p *pass) egressOf(r *run) *schema.EgressTarget {
	spec := r.spec
	if spec == nil {
		spec = r.placed.Spec
	}
	if !denies(spec.Network) {
		return nil
	}
	target := &schema.EgressTarget{Names: spec.Network.Egress.Names, Namespaces: []string{r.key.Namespace}}
	for _, name := range spec.Network.Egress.Cluster {
		if ns := p.otherSpace(r.where.org, name); ns != "" && !slices.Contains(target.Namespaces, ns) {
			target.Namespaces = append(target.Namespaces, ns)
		}
	}
	return target
}

// otherSpace is the namespace of a workspace of the org, which a policy names by its
// name or its namespace, "*" for every one; "" when there is none.
func (p *pass) otherSpace(org, name string) string {
	if name == "*" {
		return name
	}
	if a := p.objects[schema.Key{Kind: schema.KindWorkspace, Namespace: org, Name: name}]; a != nil {
		return p.namespaceOf(a.Object)
	}
	for _, a := range p.namespaceHolders()[name] {
		if a.Object.Org == org {
			return name
		}
	}
	return ""
}

// noteEgress warns of policies that cannot be enforced: workers on the host network
// do not ask the cluster's name server, and process workers of one machine cannot be
// told apart by their addresses (N-5, N-8).
func (p *pass) noteEgress() {
	for _, kind := range []schema.Kind{schema.KindRun, schema.KindReplicaGroup} {
		for _, o := range p.gate.kinds[kind] {
			network := networkSpec(o)
			if a := p.objects[o.Key]; a == nil || a.Object != o || o.ManagedBy != (schema.Key{}) || !denies(network) {
				continue
			}
			for i, name := range network.Egress.Cluster {
				if p.otherSpace(o.Org, name) == "" {
					field := indexed("spec.network.egress.cluster", i, "")
					p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeEgressNotEnforced, Message: egressNoSpace(name)})
				}
			}
			if why := p.whyNoEgress(o.Org, network.Mode); why != "" {
				const field = "spec.network.egress"
				p.note(schema.Diagnostic{Pos: o.At(field), Object: o.Key, Field: field, Code: schema.CodeEgressNotEnforced, Message: why})
			}
		}
	}
}

func networkSpec(o *schema.Object) *schema.Network {
	switch spec := o.Spec.(type) {
	case *schema.RunSpec:
		return spec.Network
	case *schema.ReplicaGroupSpec:
		return spec.Network
	}
	return nil
}

func denies(n *schema.Network) bool { return n != nil && n.Egress != nil && n.Egress.Default == "deny" }

// whyNoEgress is why a policy is not enforced everywhere in an org, "" when it is.
func (p *pass) whyNoEgress(org string, mode schema.NetworkMode) string {
	if mode == schema.NetworkHost {
		return egressOnHost
	}
	if f := p.orgs[org]; f != nil {
		for _, m := range f.list {
			switch {
			case namesOf(mode, m) == schema.NetworkHost:
				return egressOnHostOf(m.name)
			case m.spec.Engine == schema.EngineProcess:
				return egressShared(m.name)
			}
		}
	}
	return ""
}
