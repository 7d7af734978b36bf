package planner

import (
	"fmt"
	"slices"
	"strconv"

	"astraeus.io/astraeus/schema"
)

// Basis is what a plan depends on in the objects and machines that it touches,
// field by field, so that a saved plan that is stale can say what moved (G-7,
// Free bytes, measurements, last use and whether a machine is up just now
// are not in it.
type Basis struct {
	// ClusterUID is "" for a plan that was made without a cluster: uids and
	// generations are then made up and not compared.
	ClusterUID string                       `json:"cluster_uid"`
	Objects    map[string]map[string]string `json:"objects"`  // by key: field -> value
	Machines   map[string]map[string]string `json:"machines"` // by name: part of the report -> digest
}

// The fields of an object in a Basis.
const (
	basisInForce    = "in force"
	basisUID        = "uid"
	basisGeneration = "generation"
	basisSpec       = "spec"
	basisPlacement  = "placement"
)

// BasisOf is the basis of p, which was made from in.
func BasisOf(p schema.Plan, in Input) Basis {
	b := Basis{ClusterUID: in.Accepted.ClusterUID, Objects: map[string]map[string]string{}, Machines: map[string]map[string]string{}}
	for key := range touchedObjects(p, in) {
		b.Objects[key.String()] = objectParts(in, key)
	}
	machines := touchedMachines(p)
	for name, r := range newest(in.Observed.Machines) {
		if machines[name] {
			b.Machines[name] = reportParts(r)
		}
	}
	return b
}

// BasisNow is the same objects and machines in another state.
func (b Basis) BasisNow(in Input) Basis {
	now := Basis{ClusterUID: in.Accepted.ClusterUID, Objects: map[string]map[string]string{}, Machines: map[string]map[string]string{}}
	for text := range b.Objects {
		if key, err := schema.ParseKey(text); err == nil {
			now.Objects[text] = objectParts(in, key)
		}
	}
	for name, r := range newest(in.Observed.Machines) {
		if b.Machines[name] != nil {
			now.Machines[name] = reportParts(r)
		}
	}
	return now
}

// Moved says what differs, object by object and machine by machine, sorted;
// nothing when the plan still fits.
func (b Basis) Moved(now Basis) []string {
	var moved []string
	for key, was := range b.Objects {
		is := now.Objects[key]
		switch {
		case was[basisInForce] != is[basisInForce] && is[basisInForce] == "yes":
			moved = append(moved, key+" is in force by now")
			continue
		case was[basisInForce] != is[basisInForce]:
			moved = append(moved, key+" is not in force any more")
			continue
		}
		for field, value := range was {
			madeUp := field == basisUID || field == basisGeneration || field == basisPlacement
			if value == is[field] || b.ClusterUID == "" && madeUp {
				continue
			}
			text := fmt.Sprintf("%s: its %s changed", key, field)
			if field == basisGeneration {
				text = fmt.Sprintf("%s: its generation was %s and is %s", key, value, is[field])
			}
			moved = append(moved, text)
		}
	}
	for name, was := range b.Machines {
		is := now.Machines[name]
		if is == nil {
			moved = append(moved, "machine "+name+" has not reported here")
			continue
		}
		for part, digest := range was {
			if digest != is[part] {
				moved = append(moved, fmt.Sprintf("machine %s: its %s changed", name, part))
			}
		}
	}
	slices.Sort(moved)
	return moved
}

func touchedMachines(p schema.Plan) map[string]bool {
	touched := map[string]bool{}
	for _, s := range p.Steps {
		touched[s.Machine] = true
	}
	for _, pl := range p.Decisions.Place {
		for _, w := range pl.Workers {
			if w.Outcome == nil {
				touched[w.Machine] = true
			}
		}
	}
	return touched
}

// touchedObjects are what the commit changes, what is placed with the drives it
// uses, what steps act on, and the machines' own objects.
func touchedObjects(p schema.Plan, in Input) map[schema.Key]bool {
	touched := map[schema.Key]bool{}
	for i := range p.Decisions.Accept {
		touched[p.Decisions.Accept[i].Object.Object.Key] = true
	}
	for _, r := range p.Decisions.Remove {
		touched[r.Key] = true
	}
	for _, s := range p.Steps {
		touched[s.Object] = true
	}
	for _, pl := range p.Decisions.Place {
		touched[pl.Run] = true
		if pl.Spec == nil {
			continue
		}
		for _, g := range pl.Spec.Groups() {
			for _, ref := range g.TaskTemplate.DatavolumeRefs {
				touched[schema.Key{Kind: schema.KindDrive, Namespace: pl.Run.Namespace, Name: ref.Name}] = true
			}
		}
	}
	for name := range touchedMachines(p) {
		touched[schema.Key{Kind: schema.KindMachine, Name: name}] = true
	}
	delete(touched, schema.Key{})
	return touched
}

func objectParts(in Input, key schema.Key) map[string]string {
	a := in.Accepted.Objects[key]
	if !inForce(a) {
		return map[string]string{basisInForce: "no"}
	}
	parts := map[string]string{
		basisInForce: "yes", basisUID: a.UID, basisGeneration: strconv.FormatInt(a.Generation, 10), basisSpec: a.Object.Hash,
	}
	if key.Kind != schema.KindRun {
		return parts
	}
	type place struct {
		Name, Machine string
		Ended         bool
	}
	var places []place
	pl := in.Placed[key]
	for _, w := range pl.Workers {
		places = append(places, place{w.Name, w.Machine, w.Outcome != nil})
	}
	parts[basisPlacement] = schema.HashJSON(struct {
		Attempt int
		Places  []place
	}{pl.Attempt, places})
	return parts
}

// reportParts are the parts of a report that a plan depends on, each as a digest.
func reportParts(r *schema.MachineReport) map[string]string {
	return map[string]string{
		"addresses":      schema.HashJSON([]any{r.Address, r.Addresses}),
		"rdma":           schema.HashJSON(r.RDMA),
		"resources":      schema.HashJSON(r.Resources),
		"engine":         schema.HashJSON(r.Engine),
		"network mounts": schema.HashJSON([]any{r.Network, parts(r.Mounts, func(m schema.Mount) schema.Mount { m.Message = ""; return m })}),
		"filesystems": schema.HashJSON(parts(r.Filesystems, func(f schema.Filesystem) schema.Filesystem {
			return schema.Filesystem{MountPoint: f.MountPoint, ID: f.ID, Type: f.Type, Medium: f.Medium, System: f.System, Shared: f.Shared, ReadOnly: f.ReadOnly}
		})),
		"data locations": schema.HashJSON(parts(r.DataLocations, func(l schema.DataLocationState) schema.DataLocationState {
			return schema.DataLocationState{Path: l.Path, FSID: l.FSID, Present: l.Present, Mounted: l.Mounted}
		})),
		"paths":   schema.HashJSON(r.Paths),
		"exports": schema.HashJSON(r.Exports),
		"copies": schema.HashJSON(parts(r.Copies, func(c schema.Copy) schema.Copy {
			if c.State == "" {
				c.State = schema.CopyPresent
			}
			return schema.Copy{Drive: c.Drive, UID: c.UID, State: c.State, Folder: c.Folder, FSID: c.FSID, Filled: c.Filled, FilledGeneration: c.FilledGeneration}
		})),
		"workers": schema.HashJSON(parts(r.Workers, func(w schema.Worker) schema.Worker {
			kept := schema.Worker{Run: w.Run, RunUID: w.RunUID, Generation: w.Generation, Attempt: w.Attempt, Name: w.Name}
			if w.State.Ended() {
				kept.State = w.State
			}
			return kept
		})),
	}
}

// parts keeps of each item what matters; unknown stays unknown.
func parts[T any](list []T, keep func(T) T) []T {
	if list == nil {
		return nil
	}
	out := make([]T, len(list))
	for i, item := range list {
		out[i] = keep(item)
	}
	return out
}
