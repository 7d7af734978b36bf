package statusapi

import (
	"cmp"
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

// Fit makes one state of what a commit alone says is in force and of what an
// observed state file reports (G-6). A commit knows no uids, generations or
// places: an object gets those that all reports agree on for its name, and a run
// its place where the file has one for each of its workers. It is the inverse of
// View.Observed, changes neither argument, and the placements are never nil.
func Fit(accepted schema.Accepted, observed schema.Observed) (schema.Accepted, map[schema.Key]schema.Placement) {
	f := fitting{
		drives: map[string]uidSet{}, runs: map[string]uidSet{}, filled: map[string]int64{},
		places: map[string]map[string]schema.PlacementRecord{}, recorded: map[string]string{},
	}
	f.objects = make(map[schema.Key]*schema.AcceptedObject, len(accepted.Objects))
	for key, o := range accepted.Objects {
		if s := shown(o); s != nil {
			copied := *o
			f.objects[key] = &copied
		}
	}
	for _, r := range observed.Placements {
		f.place(r)
		f.recorded[r.Run+"/"+r.Worker] = r.Machine
	}
	whole := f.whole()
	for _, m := range observed.Machines {
		if m != nil {
			f.read(m, whole)
		}
	}
	f.readPaths(observed.Machines)
	f.renew()
	accepted.Objects = f.objects
	return accepted, f.placed()
}

// uidSet is the uids that reports give for one name.
type uidSet map[string]bool

type fitting struct {
	objects map[schema.Key]*schema.AcceptedObject
	drives  map[string]uidSet // by "<namespace>.<name>"
	runs    map[string]uidSet
	filled  map[string]int64 // the newest fill that is in a drive's copies
	places  map[string]map[string]schema.PlacementRecord
	// recorded is the machine of each worker that the file has a record of.
	recorded map[string]string
}

func note(of map[string]uidSet, name, uid string) {
	if name == "" || uid == "" {
		return
	}
	if of[name] == nil {
		of[name] = uidSet{}
	}
	of[name][uid] = true
}

// only is the uid that all agree on, "" when there is none.
func (n uidSet) only() string {
	if len(n) != 1 {
		return ""
	}
	for uid := range n {
		return uid
	}
	return ""
}

func (f *fitting) place(r schema.PlacementRecord) {
	if f.places[r.Run] == nil {
		f.places[r.Run] = map[string]schema.PlacementRecord{}
	}
	f.places[r.Run][r.Worker] = r
	note(f.runs, r.Run, r.RunUID)
}

func (f *fitting) read(m *schema.MachineReport, whole map[string]bool) {
	for _, c := range m.Copies {
		if c.State == schema.CopyTrash {
			continue // perhaps of an earlier drive of that name
		}
		note(f.drives, c.Drive, c.UID)
		if c.Filled {
			f.filled[c.Drive] = max(f.filled[c.Drive], c.FilledGeneration)
		}
	}
	for _, e := range m.Exports {
		note(f.drives, e.Drive, e.UID)
	}
	for _, mount := range m.Mounts {
		note(f.drives, mount.Drive, mount.UID)
	}
	for _, x := range m.Measurements {
		note(f.drives, x.Drive, x.UID)
	}
	for _, w := range m.Workers {
		if !whole[w.Run] {
			f.readWorker(m.Name, w)
		}
	}
}

// readWorker takes a worker's newest attempt for its place, or completes a place
// that says no more than the machine.
func (f *fitting) readWorker(machine string, w schema.Worker) {
	r, had := f.places[w.Run][w.Name]
	if at, recorded := f.recorded[w.Run+"/"+w.Name]; recorded && at != machine {
		return
	}
	if newer := cmp.Or(cmp.Compare(w.Generation, r.Generation), cmp.Compare(w.Attempt, r.Attempt)); had && newer < 0 {
		return
	}
	r.Run, r.Worker, r.Machine, r.RunUID, r.Generation, r.Attempt, r.Outcome = w.Run, w.Name, machine, w.RunUID, w.Generation, w.Attempt, nil
	if w.State.Ended() {
		r.Outcome = &schema.Outcome{State: w.State, ExitCode: w.ExitCode, Reason: w.Reason, At: w.Ended}
	}
	f.place(r)
}

// whole names the runs of which the file has the leader's own record: it stands
// against earlier workers that a machine still lists.
func (f *fitting) whole() map[string]bool {
	out := map[string]bool{}
	for run := range f.runs {
		out[run] = true
	}
	return out
}

// readPaths finds the drives of which machines report nothing but a directory,
// which has a uid and no name, by where the directory is.
func (f *fitting) readPaths(machines []*schema.MachineReport) {
	known := map[string]bool{}
	for _, uids := range f.drives {
		maps.Copy(known, uids)
	}
	type place struct {
		path   string
		source int
	}
	unnamed := map[place]uidSet{}
	for _, m := range machines {
		if m == nil {
			continue
		}
		for _, p := range m.Paths {
			at := place{schema.CleanPath(p.Path), p.Source}
			if unnamed[at] == nil {
				unnamed[at] = uidSet{}
			}
			unnamed[at][p.UID] = !known[p.UID]
		}
	}
	for key, o := range f.objects {
		spec, ok := shown(o).Object.Spec.(*schema.DriveSpec)
		if !ok || f.drives[key.Scoped()] != nil {
			continue
		}
		for i, source := range spec.Sources {
			for uid, free := range unnamed[place{schema.CleanPath(source.Path), i}] {
				if free && source.NodeScope != schema.ScopePlaced {
					note(f.drives, key.Scoped(), uid)
				}
			}
		}
	}
}

// renew gives the objects the uids and generations that are reported.
func (f *fitting) renew() {
	became := map[string]string{}
	for key, o := range f.objects {
		old := o.UID
		switch key.Kind {
		case schema.KindDrive:
			o.UID = cmp.Or(f.drives[key.Scoped()].only(), o.UID)
			if filled := f.filled[key.Scoped()]; filled > 0 && o.FillGeneration > 0 {
				o.FillGeneration = filled
			}
			o.Generation = max(o.Generation, o.FillGeneration)
		case schema.KindRun:
			o.UID = cmp.Or(f.runs[key.Scoped()].only(), o.UID)
			for _, r := range f.places[key.Scoped()] {
				o.Generation = max(o.Generation, r.Generation)
			}
		}
		if old != "" {
			became[old] = o.UID
		}
	}
	for _, o := range f.objects {
		o.Target = cmp.Or(became[o.Target], o.Target) // of a Deletion
	}
}

// placed are the runs that have a place for each of their workers (D-59).
func (f *fitting) placed() map[schema.Key]schema.Placement {
	out, gpus := map[schema.Key]schema.Placement{}, gpusTaken{}
	for _, key := range sortedKeys(f.objects) {
		o := f.objects[key]
		if spec, ok := shown(o).Object.Spec.(*schema.RunSpec); ok && o.UID != "" && f.places[key.Scoped()] != nil {
			if pl, all := f.placement(o, spec); all {
				out[key] = pl
				gpus.hold(pl)
			}
		}
	}
	for _, key := range sortedKeys(out) {
		gpus.give(out[key])
	}
	return out
}

func (f *fitting) placement(o *schema.AcceptedObject, spec *schema.RunSpec) (pl schema.Placement, all bool) {
	pl = schema.Placement{Run: o.Object.Key, RunUID: o.UID, Generation: o.Generation, Spec: spec, Org: o.Object.Org, Workspace: o.Object.Workspace}
	places := f.places[pl.Run.Scoped()]
	for _, r := range places {
		pl.Attempt = max(pl.Attempt, r.Attempt)
	}
	for _, group := range spec.Groups() {
		for i := range max(1, group.TaskTemplate.RequestedResources.Machines) {
			name := schema.WorkerName(pl.Run.Name, group.Name, i)
			r, ok := places[name]
			if !ok || r.RunUID != "" && r.RunUID != o.UID {
				return pl, false
			}
			w := schema.PlacedWorker{Name: name, Group: group.Name, Rank: len(pl.Workers), Index: i, Machine: r.Machine, Address: r.Address, GPUs: slices.Clone(r.GPUs)}
			if r.Attempt == pl.Attempt {
				w.Outcome = r.Outcome
			}
			pl.Workers = append(pl.Workers, w)
		}
	}
	pl.Outcome = outcomeOf(pl.Workers, spec.RestartPolicy)
	return pl, len(pl.Workers) > 0
}

// outcomeOf is how a run has ended, "" when it has not.
func outcomeOf(workers []schema.PlacedWorker, policy schema.RestartPolicy) schema.RunOutcome {
	succeeded := 0
	for _, w := range workers {
		switch {
		case w.Outcome == nil:
		case w.Outcome.State == schema.WorkerSucceeded:
			succeeded++
		case policy == schema.RestartNever:
			return schema.RunFailed
		}
	}
	if succeeded == len(workers) && policy != schema.RestartAlways {
		return schema.RunSucceeded
	}
	return ""
}

// gpusTaken are the indexes in use by machine.
type gpusTaken map[string]map[int]bool

func (g gpusTaken) hold(pl schema.Placement) {
	for _, w := range pl.Workers {
		if g[w.Machine] == nil {
			g[w.Machine] = map[int]bool{}
		}
		for _, i := range w.GPUs {
			g[w.Machine][i] = true
		}
	}
}

// give gives workers the lowest free indexes where the file does not say which
// they have: they are not free for others (D-59).
func (g gpusTaken) give(pl schema.Placement) {
	want := map[string]int{}
	for _, group := range pl.Spec.Groups() {
		res := group.TaskTemplate.RequestedResources
		want[group.Name] = res.GPURequests.Count / max(1, res.Machines)
	}
	for i := range pl.Workers {
		w := &pl.Workers[i]
		if pl.Outcome != "" || w.GPUs != nil {
			continue
		}
		for n := 0; len(w.GPUs) < want[w.Group]; n++ {
			if !g[w.Machine][n] {
				g[w.Machine][n] = true
				w.GPUs = append(w.GPUs, n)
			}
		}
	}
}
