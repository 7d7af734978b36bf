package statusapi

import (
	"cmp"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// AcceptedVersion is the format of Accepted.
const AcceptedVersion = 1

// Accepted is everything in force, for a plan made elsewhere (G-6).
type Accepted struct {
	Version int `json:"version"`
	// Complete: nothing was left out. A caller that does not see the whole cluster
	// gets what it sees, and a plan of that is not complete either.
	Complete   bool   `json:"complete"`
	ClusterUID string `json:"cluster_uid"`
	Epoch      int64  `json:"epoch"`
	Head       string `json:"head"`
	// NotWhole are the scopes of the repository in which nothing is deleted (G-5),
	// null while that is not known.
	NotWhole   map[string]schema.Pos    `json:"not_whole" nullable:"true"`
	Objects    []*schema.AcceptedObject `json:"objects"`
	Tombstones []*schema.Tombstone      `json:"tombstones"`
	Placed     []schema.Placement       `json:"placed"`
}

func oneAccepted(r *request) (any, error) {
	acc := r.Input.Accepted
	out := Accepted{
		Version: AcceptedVersion, Complete: r.uncut(), ClusterUID: acc.ClusterUID, Epoch: acc.Epoch, Head: acc.Head,
		NotWhole: r.notWhole(), Objects: []*schema.AcceptedObject{}, Tombstones: []*schema.Tombstone{}, Placed: []schema.Placement{},
	}
	for _, key := range sortedKeys(acc.Objects) {
		if o := r.acceptedOf(acc.Objects[key]); o != nil {
			out.Objects = append(out.Objects, o)
		}
	}
	for _, t := range acc.Tombstones {
		if r.sees(t.Key) {
			out.Tombstones = append(out.Tombstones, t)
		}
	}
	slices.SortFunc(out.Tombstones, func(a, b *schema.Tombstone) int {
		return cmp.Or(schema.CompareKeys(a.Key, b.Key), cmp.Compare(a.UID, b.UID))
	})
	for _, key := range sortedKeys(r.Input.Placed) {
		if r.sees(key) {
			out.Placed = append(out.Placed, r.Input.Placed[key])
		}
	}
	return out, nil
}

// acceptedOf is an object as the request may read it, nil when it does not see it.
func (r *request) acceptedOf(o *schema.AcceptedObject) *schema.AcceptedObject {
	s := shown(o)
	switch {
	case r.uncut():
		return o
	case s == nil || !r.seesObject(s.Object):
		return nil
	case o.Refused == nil:
		return o
	}
	cut, refusal := *o, *o.Refused
	refusal.Hold = r.hold(refusal.Hold)
	cut.Refused = &refusal
	return &cut
}

// notWhole leaves out the scopes that the request does not see.
func (r *request) notWhole() map[string]schema.Pos {
	all := r.Input.Accepted.NotWhole
	if r.uncut() || all == nil {
		return all
	}
	out := map[string]schema.Pos{}
	for scope, pos := range all {
		org, workspace, inside := strings.Cut(scope, "/")
		switch {
		case inside && !r.sees(schema.Key{Kind: schema.KindWorkspace, Namespace: org, Name: workspace}):
		case !inside && org != "" && !r.sees(schema.Key{Kind: schema.KindOrg, Name: org}):
		case r.seesFile(pos.File):
			out[scope] = pos
		default:
			out[scope] = schema.Pos{} // that it is not whole matters; which file it is does not
		}
	}
	return out
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

// oneObserved is what machines report. A caller that does not see the whole cluster
// gets its org's machines, with what it sees on them.
func oneObserved(r *request) (any, error) {
	out := r.View.Observed()
	if r.uncut() {
		return out, nil
	}
	cut := schema.Observed{At: out.At, Machines: []*schema.MachineReport{}}
	for _, m := range out.Machines {
		if m != nil && r.sees(schema.Key{Kind: schema.KindMachine, Name: m.Name}) {
			cut.Machines = append(cut.Machines, r.report(m))
		}
	}
	for _, p := range out.Placements {
		if r.seesScoped(schema.KindRun, p.Run) {
			cut.Placements = append(cut.Placements, p)
		}
	}
	return cut, nil
}

// report is a machine's report, cut to what the request sees on it. A part that is
// not known stays unknown.
func (r *request) report(m *schema.MachineReport) *schema.MachineReport {
	out := *m
	drive := func(name string) bool { return r.seesScoped(schema.KindDrive, name) }
	out.Copies = keep(m.Copies, func(c schema.Copy) bool { return drive(c.Drive) })
	out.Exports = keep(m.Exports, func(e schema.Export) bool { return drive(e.Drive) })
	out.Mounts = keep(m.Mounts, func(x schema.Mount) bool { return drive(x.Drive) })
	out.Measurements = keep(m.Measurements, func(x schema.Measurement) bool { return drive(x.Drive) })
	out.MountSeries = keep(m.MountSeries, func(x schema.MountSeries) bool { return drive(x.Drive) })
	out.Workers = keep(m.Workers, func(w schema.Worker) bool { return r.seesScoped(schema.KindRun, w.Run) })
	out.Failures = keep(m.Failures, func(f schema.Failure) bool { return r.sees(f.Object) })
	out.Checks = keep(m.Checks, func(c schema.CheckState) bool { return r.seesScoped(schema.KindEndpoint, c.Endpoint) })
	if !r.administers(r.objectOf(schema.Key{Kind: schema.KindMachine, Name: m.Name}).Org) {
		// They name what lies on the machine, whosever it is.
		out.Problems, out.Paths, out.Evicted = nil, nil, nil
	}
	return &out
}

func (r *request) seesScoped(kind schema.Kind, scoped string) bool {
	key, err := schema.ParseKey(kind.Word() + "/" + scoped)
	return err == nil && r.sees(key)
}

// keep is the part of a list, nil only for nil.
func keep[T any](list []T, wanted func(T) bool) []T {
	if list == nil {
		return nil
	}
	out := []T{}
	for _, x := range list {
		if wanted(x) {
			out = append(out, x)
		}
	}
	return out
}

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
