package statusapi

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// AcceptedVersion is the format of Accepted.
const AcceptedVersion = 1

// Accepted is everything in force, for a plan made elsewhere (G-6).
type Accepted struct {
	Version    int                      `json:"version"`
	ClusterUID string                   `json:"cluster_uid"`
	Epoch      int64                    `json:"epoch"`
	Head       string                   `json:"head"`
	NotWhole   map[string]schema.Pos    `json:"not_whole,omitzero"`
	Objects    []*schema.AcceptedObject `json:"objects"`
	Tombstones []*schema.Tombstone      `json:"tombstones"`
	Placed     []schema.Placement       `json:"placed"`
}

func oneAccepted(r *request) (any, error) {
	acc := r.Input.Accepted
	out := Accepted{
		Version: AcceptedVersion, ClusterUID: acc.ClusterUID, Epoch: acc.Epoch, Head: acc.Head, NotWhole: acc.NotWhole,
		Objects: []*schema.AcceptedObject{}, Tombstones: []*schema.Tombstone{}, Placed: []schema.Placement{},
	}
	for _, key := range sortedKeys(acc.Objects) {
		out.Objects = append(out.Objects, acc.Objects[key])
	}
	for _, t := range acc.Tombstones {
		out.Tombstones = append(out.Tombstones, t)
	}
	slices.SortFunc(out.Tombstones, func(a, b *schema.Tombstone) int { return schema.CompareKeys(a.Key, b.Key) })
	for _, key := range sortedKeys(r.Input.Placed) {
		out.Placed = append(out.Placed, r.Input.Placed[key])
	}
	return out, nil
}

// State is the planner's form of the body.
func (a Accepted) State() (schema.Accepted, map[schema.Key]schema.Placement) {
	acc := schema.Accepted{
		ClusterUID: a.ClusterUID, Epoch: a.Epoch, Head: a.Head, NotWhole: a.NotWhole,
		Objects: map[schema.Key]*schema.AcceptedObject{}, Tombstones: map[string]*schema.Tombstone{},
	}
	for _, o := range a.Objects {
		if s := shown(o); s != nil {
			acc.Objects[s.Object.Key] = o
		}
	}
	for _, t := range a.Tombstones {
		if t != nil {
			acc.Tombstones[t.UID] = t
		}
	}
	placed := map[schema.Key]schema.Placement{}
	for _, p := range a.Placed {
		placed[p.Run] = p
	}
	return acc, placed
}

func oneObserved(r *request) (any, error) { return r.View.Observed(), nil }

// Observed is the observed state file of `plan --observed`: what machines report,
// and where every worker was placed. Ended ones are there too, because a gang
// counts as placed with all its workers only.
func (v *View) Observed() schema.Observed {
	out := v.Input.Observed
	if out.Machines == nil {
		out.Machines = []*schema.MachineReport{}
	}
	if len(out.Placements) > 0 {
		return out
	}
	out.Placements = nil
	for _, key := range sortedKeys(v.Input.Placed) {
		placed := v.Input.Placed[key]
		for _, w := range placed.Workers {
			out.Placements = append(out.Placements, schema.PlacementRecord{
				Run: key.Scoped(), Worker: w.Name, Machine: w.Machine, RunUID: placed.RunUID, Generation: placed.Generation,
				Attempt: placed.Attempt, GPUs: w.GPUs, Address: w.Address, Outcome: w.Outcome,
			})
		}
	}
	return out
}
