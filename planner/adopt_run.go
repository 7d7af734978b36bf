package planner

import (
	"cmp"
	"encoding/json"
	"slices"

	"astraeus.io/astraeus/schema"
)

// lifeID is one life of a run's gang.
type lifeID struct {
	uid        string
	generation int64
	attempt    int
}

func lifeOf(w *schema.WorkerTarget) lifeID { return lifeID{w.RunUID, w.Generation, w.Attempt} }

// gang is a run's placement as machines know it.
type gang struct {
	object *schema.Object
	rank   rank // of the newest word on it
	life   lifeID
	pl     schema.Placement
	same   bool // its workers run what is wanted
	keeps  bool // it has a place: all its workers are known of
}

// adoptRuns gives running gangs their places back, the newest word first:
// two gangs that do not fit a machine together were not there at one time.
func (a *adopter) adoptRuns() {
	a.adopted = map[schema.Key]bool{}
	var gangs []gang
	for _, key := range sortedKeys(a.runs) {
		object := a.want(key)
		if object == nil {
			continue // its workers are orphans
		}
		life, workers := newestLife(a.runs[key])
		stored, placed := a.in.Placed[key]
		if placed && stored.RunUID == life.uid && (lifeID{life.uid, stored.Generation, stored.Attempt}).after(life) {
			continue // the store knows a later one
		}
		a.adopted[key] = true
		gangs = append(gangs, a.gather(object, life, workers, stored))
	}
	slices.SortStableFunc(gangs, func(x, y gang) int { return y.rank.compare(x.rank) })
	for i := range gangs {
		if g := &gangs[i]; g.keeps && a.fits(&g.pl) {
			a.keep(g)
		} else {
			a.startAnew(g.object, g.life)
		}
	}
	for _, key := range sortedKeys(a.in.Placed) {
		stored := clonePlacement(a.in.Placed[key])
		if a.adopted[key] || stored.Outcome != "" || !a.forgotten(&stored) && a.fits(&stored) {
			continue
		}
		if object := a.want(key); object != nil {
			a.startAnew(object, lifeID{stored.RunUID, stored.Generation, stored.Attempt})
			continue
		}
		a.out.Decisions.Unplace = append(a.out.Decisions.Unplace, key) // it was on its way out
	}
}

// fits takes what a placement holds of its machines. It reports whether it
// is there.
func (a *adopter) fits(pl *schema.Placement) bool {
	if pl.Outcome != "" {
		return true // it holds nothing
	}
	templates := a.pass.templatesOf(pl.Run, scope{pl.Org, pl.Workspace}, pl.Spec)
	type part struct {
		m *machine
		t *template
		w *schema.PlacedWorker
	}
	var taken []part
	fit := true
	for i := range pl.Workers {
		w := &pl.Workers[i]
		m, t := a.pass.machines[w.Machine], templateOfGroup(templates, w.Group)
		if m == nil || t == nil || !m.load.known {
			continue
		}
		free := !slices.ContainsFunc(w.GPUs, func(g int) bool { return g < len(m.load.gpuTaken) && m.load.gpuTaken[g] })
		fit = fit && free && m.load.gpus >= t.gpus && m.load.cpu >= t.cpu && m.load.memory >= t.memory
		if !fit {
			break
		}
		if w.GPUs == nil {
			w.GPUs = m.load.takeGPUs(t.gpus) // a listing does not say which
		} else {
			m.load.holdGPUs(w.GPUs)
		}
		m.load.cpu, m.load.memory = m.load.cpu-t.cpu, m.load.memory-t.memory
		taken = append(taken, part{m, t, w})
	}
	if fit {
		return true
	}
	for _, x := range taken {
		x.m.load.freeGPUs(x.w.GPUs)
		x.m.load.cpu, x.m.load.memory = x.m.load.cpu+x.t.cpu, x.m.load.memory+x.t.memory
	}
	return false
}

// after compares two lives of one run.
func (l lifeID) after(o lifeID) bool {
	return cmp.Or(cmp.Compare(l.generation, o.generation), cmp.Compare(l.attempt, o.attempt)) > 0
}

// forgotten reports whether a machine was told since the store was saved that a
// worker of a placement has no place on it any more. What became of it nobody knows.
func (a *adopter) forgotten(pl *schema.Placement) bool {
	return slices.ContainsFunc(pl.Workers, func(w schema.PlacedWorker) bool {
		t, said := a.said[w.Machine]
		return w.Outcome == nil && said && t.Newer && t.Held != nil && !slices.ContainsFunc(t.Held.Workers, func(x schema.WorkerTarget) bool {
			return lifeOf(&x) == lifeID{pl.RunUID, pl.Generation, pl.Attempt} && x.Name == w.Name
		})
	})
}

// startAnew keeps a run's identity and none of its workers: in a new generation,
// so that no worker of it is taken for one that was there before.
func (a *adopter) startAnew(object *schema.Object, life lifeID) {
	if _, placed := a.in.Placed[object.Key]; placed {
		a.out.Decisions.Unplace = append(a.out.Decisions.Unplace, object.Key)
	}
	next := schema.AcceptedObject{UID: life.uid, Generation: life.generation + 1, Object: object}
	if old := a.in.Accepted.Objects[object.Key]; !inForce(old) || old.UID != next.UID || old.Generation < next.Generation {
		a.accept(next)
	}
}

// newestLife is the newest life of a run that any machine knows, with its workers
// by name: of one that two machines know, where it was assigned last.
func newestLife(facts []workerFact) (lifeID, map[string]workerFact) {
	newest := slices.MaxFunc(facts, func(x, y workerFact) int {
		if x.target.RunUID == y.target.RunUID {
			return cmp.Or(cmp.Compare(x.target.Generation, y.target.Generation), cmp.Compare(x.target.Attempt, y.target.Attempt))
		}
		return cmp.Or(uidRank(facts, x.target.RunUID).compare(uidRank(facts, y.target.RunUID)), cmp.Compare(x.target.RunUID, y.target.RunUID))
	})
	life, workers := lifeOf(&newest.target), map[string]workerFact{}
	for _, f := range facts {
		if lifeOf(&f.target) != life {
			continue
		}
		old, twice := workers[f.target.Name]
		if !twice || f.rank.compare(old.rank) > 0 {
			workers[f.target.Name] = f
		}
	}
	return life, workers
}

func uidRank(facts []workerFact, uid string) rank {
	best := rank{-2, 0}
	for _, f := range facts {
		if f.target.RunUID == uid && f.rank.compare(best) > 0 {
			best = f.rank
		}
	}
	return best
}

// gather puts together what is known of a run's newest life.
func (a *adopter) gather(object *schema.Object, life lifeID, workers map[string]workerFact, stored schema.Placement) gang {
	wanted := object.Spec.(*schema.RunSpec)
	spec := a.heldSpec(wanted, workers)
	if stored.Spec != nil && stored.RunUID == life.uid && stored.Generation == life.generation {
		spec = stored.Spec
	}
	same := sameWorkers(spec, wanted) && sameTemplates(wanted, workers)
	if same && stored.Spec != spec {
		spec = wanted
	}
	g := gang{object: object, life: life, same: same, rank: rank{-3, 0}, pl: schema.Placement{Run: object.Key, RunUID: life.uid,
		Generation: life.generation, Attempt: life.attempt, Spec: spec, Org: object.Org, Workspace: object.Workspace}}
	for _, f := range workers {
		if f.rank.compare(g.rank) > 0 {
			g.rank = f.rank
		}
	}
	whole, live := a.members(&g.pl, workers, stored)
	if !live && g.pl.Outcome == "" {
		g.pl.Outcome = outcomeOf(&g.pl, wanted.RestartPolicy, whole)
	}
	g.keeps = whole && live || same && !live && g.pl.Outcome != ""
	return g
}

// keep gives a gang its place.
func (a *adopter) keep(g *gang) {
	a.out.Decisions.Place = append(a.out.Decisions.Place, g.pl)
	next := schema.AcceptedObject{UID: g.life.uid, Generation: g.life.generation, Object: g.object}
	if !g.same {
		next.Generation++
	}
	if old := a.in.Accepted.Objects[g.object.Key]; !inForce(old) || old.UID != next.UID || old.Generation < next.Generation {
		a.accept(next)
	}
}

// outcomeOf is how a run of which no worker lives has ended, "" for one that starts
// again. A worker that nobody knows of may not have started before another
// one failed.
func outcomeOf(pl *schema.Placement, policy schema.RestartPolicy, whole bool) schema.RunOutcome {
	failed := slices.ContainsFunc(pl.Workers, func(w schema.PlacedWorker) bool { return w.Outcome.State == schema.WorkerFailed })
	switch {
	case failed && policy == schema.RestartNever:
		return schema.RunFailed
	case whole && !failed && policy != schema.RestartAlways:
		return schema.RunSucceeded
	}
	return ""
}

// sameTemplates reports whether what is known of what workers ran, by hash alone
// where a machine does not keep the content any more, is what is declared.
func sameTemplates(wanted *schema.RunSpec, workers map[string]workerFact) bool {
	hashes := map[string]string{}
	for _, g := range wanted.Groups() {
		hashes[g.Name] = schema.HashJSON(&g.TaskTemplate)
	}
	for _, f := range workers {
		if f.outcome != nil && f.target.Template != "" && f.target.Template != hashes[f.target.Group] {
			return false
		}
	}
	return true
}

// members puts a placement's workers together. whole says that each is known of, live
// that one has not ended for good.
func (a *adopter) members(pl *schema.Placement, workers map[string]workerFact, stored schema.Placement) (whole, live bool) {
	size := len(slotsOf(pl.Run.Name, pl.Spec))
	for _, name := range sortedStrings(workers) {
		f := workers[name]
		size = max(size, f.target.WorldSize)
		live = live || f.outcome == nil
		pl.Workers = append(pl.Workers, schema.PlacedWorker{Name: name, Group: f.target.Group, Rank: f.target.Rank, Index: f.target.Index,
			Machine: f.machine, Address: f.target.Address, GPUs: f.target.GPUs, Since: a.in.Now, Outcome: f.outcome})
	}
	if stored.RunUID == pl.RunUID && stored.Generation == pl.Generation && stored.Attempt == pl.Attempt {
		pl.Outcome, pl.NotBefore = stored.Outcome, stored.NotBefore
		pl.Older, pl.OlderUses, pl.OlderOn = stored.Older, stored.OlderUses, stored.OlderOn
		pl.Failures, pl.LastEnd = stored.Failures, stored.LastEnd
		for _, w := range stored.Workers {
			if _, there := workers[w.Name]; !there {
				live = live || w.Outcome == nil
				pl.Workers = append(pl.Workers, w)
			}
		}
	}
	slices.SortFunc(pl.Workers, func(x, y schema.PlacedWorker) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Name, y.Name))
	})
	return len(pl.Workers) == size, live
}

// heldSpec is the spec that workers were started with: the wanted one with the
// templates that machines hold.
func (a *adopter) heldSpec(wanted *schema.RunSpec, workers map[string]workerFact) *schema.RunSpec {
	held := map[string]schema.TaskTemplate{}
	first := map[string]int{} // lowest rank of each group
	for _, name := range sortedStrings(workers) {
		t := workers[name].target
		if r, seen := first[t.Group]; !seen || t.Rank < r {
			first[t.Group] = t.Rank
		}
		var task schema.TaskTemplate
		if json.Unmarshal(a.blobs[t.Template], &task) == nil {
			held[t.Group] = task
		}
	}
	if len(held) == 0 {
		return wanted // nobody can tell: it is taken for what is declared
	}
	spec := *wanted
	if task, alone := held[""]; alone {
		spec.TaskTemplate, spec.WorkerGroups, spec.LeaderGroup = &task, nil, ""
		return &spec
	}
	if sameGroups(wanted, first) {
		spec.WorkerGroups = slices.Clone(wanted.WorkerGroups)
		for i := range spec.WorkerGroups {
			if task, known := held[spec.WorkerGroups[i].Name]; known {
				spec.WorkerGroups[i].TaskTemplate = task
			}
		}
		return &spec
	}
	spec.TaskTemplate, spec.WorkerGroups = nil, nil
	for _, group := range slices.SortedFunc(slices.Values(sortedStrings(held)), func(x, y string) int { return cmp.Compare(first[x], first[y]) }) {
		spec.WorkerGroups = append(spec.WorkerGroups, schema.WorkerGroup{Name: group, TaskTemplate: held[group]})
	}
	if _, there := held[spec.LeaderGroup]; !there {
		spec.LeaderGroup = spec.WorkerGroups[0].Name
	}
	return &spec
}

// sameGroups reports whether the spec has all these groups.
func sameGroups(spec *schema.RunSpec, groups map[string]int) bool {
	for name := range groups {
		if !slices.ContainsFunc(spec.WorkerGroups, func(g schema.WorkerGroup) bool { return g.Name == name }) {
			return false
		}
	}
	return len(spec.WorkerGroups) > 0
}
