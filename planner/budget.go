package planner

import (
	"astraeus.io/astraeus/schema"
)

// budget counts what would go with this head, from what is in force.
type budget struct {
	kinds  map[budgetKey]budgetCount
	scopes map[schema.Key]int // objects in each workspace and org
	going  map[spareKey]int   // workspaces and orgs with objects that go, by org and kind
}

// budgetKey is what the deletion budget counts over: a kind in a workspace or org.
type budgetKey struct {
	kind           schema.Kind
	org, workspace string
}

type budgetCount struct{ leaving, total int }

// overBudget says why a removal is too much for one head, or "". Deletions on
// purpose do not count; Deletion {allow} lifts it for one head.
func (p *pass) overBudget(key schema.Key) string {
	a := p.objects[key]
	if p.budget == nil {
		p.budget = p.countBudget()
	}
	if frame := p.goingFrame(a); frame != (schema.Key{}) && p.budget.scopes[frame] > 0 {
		of := spareKey{frameOrg(frame), frame.Kind}
		if p.budget.going[of] > p.gate.spared[of] {
			return wholeScope(frame, p.budget.scopes[frame])
		}
		return "" // with everything in it: its own folder, where an allowance of a kind would stand, is gone
	}
	c := p.budget.kinds[budgetKey{key.Kind, a.Object.Org, a.Object.Workspace}]
	b := p.clusterSpec().DeletionBudget
	spared := p.gate.spared[spareKey{spareScope(a.Object), key.Kind}]
	if c.leaving <= spared || !(c.leaving > b.Count || c.leaving >= 3 && c.leaving*100 > b.Percent*c.total) {
		return ""
	}
	return overBudget(c.leaving, c.total, key.Kind, a.Object.Workspace, b)
}

// spareScope is where an allowance for the object's kind stands: its namespace,
// or its org for the kinds outside workspaces.
func spareScope(o *schema.Object) string {
	if o.Key.Kind.InWorkspace() {
		return o.Key.Namespace
	}
	return o.Org
}

// goingFrame is the workspace or org that goes and takes the object with it, or
// that the object is. One that was never accepted goes too, with what is in force
// in it, when its folder is gone.
func (p *pass) goingFrame(a *schema.AcceptedObject) schema.Key {
	org := schema.Key{Kind: schema.KindOrg, Name: a.Object.Org}
	if a.Object.Org != "" && !p.declared(org) {
		return org
	}
	ws := schema.Key{Kind: schema.KindWorkspace, Namespace: a.Object.Org, Name: a.Object.Workspace}
	if a.Object.Key.Kind == schema.KindWorkspace {
		ws = a.Object.Key
	}
	if ws.Name != "" && !p.declared(ws) {
		return ws
	}
	return schema.Key{}
}

// goes reports whether an object in force is no longer declared.
func (p *pass) goes(key schema.Key) bool { return p.hadBefore(key) && !p.declared(key) }

// declared reports whether a file declares the key, also one that cannot be used.
func (p *pass) declared(key schema.Key) bool {
	return p.gate.want(key) != nil || p.declaredInvalid(key)
}

func (p *pass) countBudget() *budget {
	b := &budget{kinds: map[budgetKey]budgetCount{}, scopes: map[schema.Key]int{}, going: map[spareKey]int{}}
	for key, a := range p.in.Accepted.Objects {
		if !inForce(a) || a.Object.ManagedBy != (schema.Key{}) {
			continue
		}
		k := budgetKey{key.Kind, a.Object.Org, a.Object.Workspace}
		c := b.kinds[k]
		c.total++
		_, moved := p.gate.lineage.movedTo(key)
		gone := p.goes(key) && !moved || p.replaced(key) || p.leavesPlaced(key)
		if !hasKey(p.gate.forced, key) && gone {
			c.leaving++
		}
		b.kinds[k] = c
		if key.Kind.InWorkspace() && key.Kind != schema.KindDeletion {
			b.scopes[schema.Key{Kind: schema.KindWorkspace, Namespace: a.Object.Org, Name: a.Object.Workspace}]++
		}
		if key.Kind != schema.KindOrg {
			b.scopes[schema.Key{Kind: schema.KindOrg, Name: a.Object.Org}]++
		}
	}
	for frame := range b.scopes {
		if frame.Name != "" && !p.declared(frame) {
			b.going[spareKey{frameOrg(frame), frame.Kind}]++
		}
	}
	return b
}
