package planner

import (
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

// Apply is what the store holds after decisions were written. The result
// shares nothing mutable with the arguments; objects are never changed and are
// shared.
func Apply(acc schema.Accepted, placed map[schema.Key]schema.Placement, d schema.Decisions) (schema.Accepted, map[schema.Key]schema.Placement) {
	next := schema.Accepted{
		ClusterUID: acc.ClusterUID, Epoch: acc.Epoch, Head: acc.Head, NotWhole: acc.NotWhole,
		Objects:    make(map[schema.Key]*schema.AcceptedObject, len(acc.Objects)+len(d.Accept)),
		Tombstones: make(map[string]*schema.Tombstone, len(acc.Tombstones)+len(d.Bury)),
	}
	if d.Head != "" {
		next.Head = d.Head
	}
	if d.NotWhole != nil {
		next.NotWhole = maps.Clone(d.NotWhole)
	}
	for key, a := range acc.Objects {
		next.Objects[key] = cloneAccepted(a)
	}
	for i := range d.Accept {
		next.Objects[d.Accept[i].Object.Object.Key] = cloneAccepted(&d.Accept[i].Object)
	}
	for _, r := range d.Refuse {
		applyRefusal(next.Objects, r)
	}
	for _, r := range d.Remove {
		delete(next.Objects, r.Key)
	}
	for uid, t := range acc.Tombstones {
		copied := *t
		next.Tombstones[uid] = &copied
	}
	for _, t := range d.Bury {
		next.Tombstones[t.UID] = &t
	}
	for _, uid := range d.Exhume {
		delete(next.Tombstones, uid)
	}
	return next, applyPlacements(placed, d)
}

func applyRefusal(objects map[schema.Key]*schema.AcceptedObject, r schema.Refused) {
	a := objects[r.Key]
	switch {
	case a == nil && r.Refusal != nil:
		objects[r.Key] = &schema.AcceptedObject{Refused: cloneRefusal(r.Refusal)}
	case a != nil && r.Refusal == nil && !inForce(a):
		delete(objects, r.Key)
	case a != nil:
		a.Refused = cloneRefusal(r.Refusal)
	}
}

func applyPlacements(placed map[schema.Key]schema.Placement, d schema.Decisions) map[schema.Key]schema.Placement {
	next := make(map[schema.Key]schema.Placement, len(placed)+len(d.Place))
	for key, pl := range placed {
		next[key] = clonePlacement(pl)
	}
	for _, pl := range d.Place {
		next[pl.Run] = clonePlacement(pl)
	}
	for _, key := range d.Unplace {
		delete(next, key)
	}
	return next
}

func cloneAccepted(a *schema.AcceptedObject) *schema.AcceptedObject {
	if a == nil {
		return nil
	}
	copied := *a
	copied.Refused = cloneRefusal(a.Refused)
	return &copied
}

func cloneRefusal(r *schema.Refusal) *schema.Refusal {
	if r == nil {
		return nil
	}
	copied := *r
	return &copied
}

func clonePlacement(pl schema.Placement) schema.Placement {
	pl.Workers, pl.Released = slices.Clone(pl.Workers), slices.Clone(pl.Released)
	pl.Older, pl.OlderUses = slices.Clone(pl.Older), slices.Clone(pl.OlderUses)
	for _, name := range pl.OlderOn {
		if !pl.IsOlder(name) {
			pl.Older, pl.OlderUses = append(pl.Older, schema.Older{Machine: name}), nil
		}
	}
	pl.OlderOn = nil
	for i := range pl.Workers {
		w := &pl.Workers[i]
		w.GPUs = slices.Clone(w.GPUs)
		w.Outcome = cloneOutcome(w.Outcome)
	}
	return pl
}

func cloneOutcome(o *schema.Outcome) *schema.Outcome {
	if o == nil {
		return nil
	}
	copied := *o
	if o.ExitCode != nil {
		code := *o.ExitCode
		copied.ExitCode = &code
	}
	return &copied
}

// placementsOf makes placements of an observed state's records, for a plan that
// knows no store: each run's by its accepted spec.
func placementsOf(acc schema.Accepted, records []schema.PlacementRecord) map[schema.Key]schema.Placement {
	where := map[string]map[string]string{}
	for _, r := range records {
		if where[r.Run] == nil {
			where[r.Run] = map[string]string{}
		}
		where[r.Run][r.Worker] = r.Machine
	}
	placed := map[schema.Key]schema.Placement{}
	for key, a := range acc.Objects {
		if key.Kind != schema.KindRun || !inForce(a) || where[key.Scoped()] == nil {
			continue
		}
		if pl, ok := placementFrom(a, where[key.Scoped()]); ok {
			placed[key] = pl
		}
	}
	return placed
}

func placementFrom(a *schema.AcceptedObject, machines map[string]string) (schema.Placement, bool) {
	spec := a.Object.Spec.(*schema.RunSpec)
	pl := schema.Placement{Run: a.Object.Key, RunUID: a.UID, Generation: a.Generation, Spec: spec,
		Org: a.Object.Org, Workspace: a.Object.Workspace}
	for _, slot := range slotsOf(a.Object.Key.Name, spec) {
		machine, ok := machines[slot.Name]
		if !ok {
			return schema.Placement{}, false // not the whole gang: it is not placed
		}
		slot.Machine = machine
		pl.Workers = append(pl.Workers, slot)
	}
	return pl, len(pl.Workers) > 0
}

// slotsOf is the workers that a spec asks for, without a place.
func slotsOf(run string, spec *schema.RunSpec) []schema.PlacedWorker {
	var slots []schema.PlacedWorker
	for _, g := range spec.Groups() {
		for i := range max(1, g.TaskTemplate.RequestedResources.Machines) {
			slots = append(slots, schema.PlacedWorker{Name: schema.WorkerName(run, g.Name, i), Group: g.Name,
				Rank: len(slots), Index: i})
		}
	}
	return slots
}
