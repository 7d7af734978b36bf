package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

// Testimony is what one machine says after the store was lost or restored.
type Testimony struct {
	Report *schema.MachineReport
	// Held is what the machine was assigned last, nil for nothing, and Blobs the content
	// that it names, as far as the machine has it.
	Held  *schema.Assignment
	Blobs map[string][]byte
	// Ended are workers that ended there and that it has forgotten else.
	Ended []schema.EndedWorker
	// Newer: the machine was assigned this after all that the store knows of it. Where
	// it is not, the store knows better.
	Newer bool
}

// Adoption is what becomes of testimonies.
type Adoption struct {
	Decisions schema.Decisions
	// Orphans are workers that run and of which neither the commit nor the store knows:
	// they would be stopped once the adoption is over.
	Orphans []string
}

// Adopt makes accepted facts of what machines say, before anything is planned by a
// store that was lost or restored: drives keep their uids, removed ones their
// tombstones, workers their places. in.Desired is nil when nothing new is declared.
// A gang of which a worker is known to nobody gets no place: it is stopped and
// placed anew. Deletions on purpose that are declared now are bound
// to nothing: which of them are spent is lost, and none may work twice.
func Adopt(in Input, said map[string]Testimony) Adoption {
	a := &adopter{in: in, said: said, drives: map[schema.Key]*driveFact{}, removed: map[string]schema.Key{},
		copies: map[string]bool{}, runs: map[schema.Key][]workerFact{}, blobs: map[string][]byte{}}
	a.pass = newPass(in)
	a.pass.accept()
	for _, name := range sortedStrings(said) {
		if t := said[name]; t.Newer {
			a.hear(name, t)
		}
		a.hearCopies(said[name].Report)
	}
	a.adoptDrives()
	a.adoptRuns()
	a.adoptMachines()
	a.adoptDeletions()
	a.findOrphans()
	a.number()
	return a.out
}

type adopter struct {
	in   Input
	pass *pass // of the commit, for what its objects stand for
	said map[string]Testimony

	drives  map[schema.Key]*driveFact
	removed map[string]schema.Key // drives that were removed already, by uid
	copies  map[string]bool       // uids of which a machine holds, or may hold, a copy
	runs    map[schema.Key][]workerFact
	blobs   map[string][]byte
	adopted map[schema.Key]bool // runs with a place
	out     Adoption
}

// rank orders what machines say: by the assignment that it comes from. What only
// a listing shows comes before all assignments.
type rank struct{ epoch, revision int64 }

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.epoch, o.epoch), cmp.Compare(r.revision, o.revision))
}

func rankOf(t Testimony) rank {
	if t.Held == nil {
		return rank{-1, 0}
	}
	return rank{t.Held.Epoch, t.Held.Revision}
}

// workerFact is one worker as a machine was assigned or lists it.
type workerFact struct {
	machine string
	rank    rank
	target  schema.WorkerTarget // of a listing: without template and GPUs
	outcome *schema.Outcome     // of one that has ended and is known for that alone
}

func (a *adopter) hear(machine string, t Testimony) {
	r := rankOf(t)
	maps.Copy(a.blobs, t.Blobs)
	a.hearEnded(machine, t)
	if t.Held == nil {
		a.hearWorkers(machine, t.Report)
		return
	}
	for _, ns := range sortedStrings(t.Held.Drives) {
		a.hearList(t.Held.Drives[ns], r)
	}
	for i := range t.Held.Copies {
		c := &t.Held.Copies[i]
		f := a.hearDrive(c.Drive, c.UID, r).usedOn(machine)
		if f != nil && f.uid == c.UID {
			f.placed, f.spare, f.hint = true, c.Evictable, c.SizeHint
			if c.FillGeneration >= f.fill {
				f.fill, f.task = c.FillGeneration, c.FillTemplate
			}
		}
	}
	for i := range t.Held.Dirs {
		d := &t.Held.Dirs[i]
		a.hearDrive(d.Drive, d.UID, r).usedOn(machine).at(d.UID, d.Source).here(machine, d.Path, r)
	}
	for i := range t.Held.Exports {
		e := &t.Held.Exports[i]
		a.hearDrive(e.Drive, e.UID, r).at(e.UID, e.Source).here(machine, e.Path, r).from(machine, e.Transports, r)
	}
	for i := range t.Held.Mounts {
		m := &t.Held.Mounts[i]
		a.hearDrive(m.Drive, m.UID, r).usedOn(machine).at(m.UID, m.Source).from(m.From, m.Transports, r)
	}
	for i := range t.Held.Workers {
		w := &t.Held.Workers[i]
		a.runs[w.Run] = append(a.runs[w.Run], workerFact{machine: machine, rank: r, target: *w})
		for j := range w.Mounts {
			if b := &w.Mounts[j]; b.From != schema.BindVolume {
				a.hearDrive(b.Drive, b.UID, r).at(b.UID, b.Source).used(b)
			}
		}
	}
}

// hearWorkers reads the listing of a machine that has lost what it was assigned.
func (a *adopter) hearWorkers(machine string, r *schema.MachineReport) {
	if r == nil {
		return
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		key, err := schema.ParseKey("run/" + w.Run)
		if err != nil || w.RunUID == "" {
			continue
		}
		a.runs[key] = append(a.runs[key], workerFact{machine: machine, rank: rank{-1, 0}, target: targetOfListed(key, w)})
	}
}

// hearEnded reads which workers have ended and left the machine's target.
func (a *adopter) hearEnded(machine string, t Testimony) {
	add := func(w *schema.Worker, template string, size int) {
		key, err := schema.ParseKey("run/" + w.Run)
		if err != nil || w.RunUID == "" || !w.State.Ended() {
			return
		}
		f := workerFact{machine: machine, rank: rank{-2, 0}, target: targetOfListed(key, w),
			outcome: &schema.Outcome{State: w.State, ExitCode: w.ExitCode, Reason: short(w.Reason), At: w.Ended}}
		f.target.Template, f.target.WorldSize = template, size
		a.runs[key] = append(a.runs[key], f)
	}
	for i := range t.Ended {
		add(&t.Ended[i].Worker, t.Ended[i].Template, t.Ended[i].WorldSize)
	}
	if t.Report == nil || t.Held == nil {
		return
	}
	for i := range t.Report.Workers {
		if w := &t.Report.Workers[i]; !holdsWorker(t.Held, w) {
			add(w, "", 0)
		}
	}
}

func targetOfListed(key schema.Key, w *schema.Worker) schema.WorkerTarget {
	return schema.WorkerTarget{
		Run: key, RunUID: w.RunUID, Generation: w.Generation, Attempt: w.Attempt, Name: w.Name, Group: w.Group,
		Rank: w.Rank, Index: w.Index, Address: w.Address, GPUs: w.GPUs,
	}
}

// want is an object as the commit declares it or stands for it, or as it is in
// force; nil for neither.
func (a *adopter) want(key schema.Key) *schema.Object {
	if o := a.pass.gate.want(key); o != nil {
		return o
	}
	if old := a.in.Accepted.Objects[key]; inForce(old) {
		return old.Object
	}
	return nil
}

func (a *adopter) commit() string {
	if a.in.Desired != nil {
		return a.in.Desired.Commit
	}
	return a.in.Accepted.Head
}

// accept puts an object in force with the identity that machines know it by.
func (a *adopter) accept(next schema.AcceptedObject) {
	acceptance := schema.Acceptance{Object: next}
	if old := a.in.Accepted.Objects[next.Object.Key]; old != nil {
		acceptance.Previous = cloneAccepted(old)
		acceptance.Object.Seq, acceptance.Object.Refused = old.Seq, cloneRefusal(old.Refused)
	}
	acceptance.Object.Commit = a.commit()
	a.out.Decisions.Accept = append(a.out.Decisions.Accept, acceptance)
}

// number orders what is new after what is known.
func (a *adopter) number() {
	var last int64
	for _, old := range a.in.Accepted.Objects {
		if old != nil {
			last = max(last, old.Seq)
		}
	}
	list := a.out.Decisions.Accept
	slices.SortFunc(list, func(x, y schema.Acceptance) int { return schema.CompareKeys(x.Object.Object.Key, y.Object.Object.Key) })
	for i := range list {
		if list[i].Object.Seq == 0 {
			last++
			list[i].Object.Seq = last
		}
	}
}

// scopeOf is the workspace with a namespace.
func (a *adopter) scopeOf(namespace string) (scope, bool) {
	for where, ns := range a.pass.spaces().declared {
		if ns == namespace {
			return where, true
		}
	}
	for _, holder := range a.pass.namespaceHolders()[namespace] {
		return scope{holder.Object.Org, holder.Object.Metadata.Name}, true
	}
	return scope{}, false
}

func (a *adopter) bury(uid string, key schema.Key, org, workspace string) {
	a.out.Decisions.Bury = append(a.out.Decisions.Bury,
		schema.Tombstone{UID: uid, Key: key, Org: org, Workspace: workspace, Commit: a.commit()})
}

// adoptMachines takes a machine that nothing declares any more for one that is
// removed now, while anything of ours is on it: that removal is held.
func (a *adopter) adoptMachines() {
	for _, name := range sortedStrings(a.said) {
		t, key := a.said[name], schema.Key{Kind: schema.KindMachine, Name: name}
		if t.Held == nil || !t.Newer || a.want(key) != nil {
			continue
		}
		namespaces := sortedStrings(t.Held.Drives)
		for i := range t.Held.Workers {
			namespaces = append(namespaces, t.Held.Workers[i].Run.Namespace)
		}
		for i := range t.Held.Mounts {
			namespaces = append(namespaces, t.Held.Mounts[i].Drive.Namespace)
		}
		for _, ns := range namespaces {
			where, known := a.scopeOf(ns)
			if !known {
				continue
			}
			spec := &schema.MachineSpec{}
			if t.Report != nil {
				spec.Address = t.Report.Address
			}
			for _, l := range t.Held.DataLocations {
				if l.Present {
					spec.DataLocation = &schema.DataLocationSpec{Path: l.Path, MaxBytes: l.MaxBytes}
				}
			}
			spec.Normalize()
			o := &schema.Object{Key: key, Org: where.org, Metadata: schema.Metadata{Name: name}, Spec: spec}
			o.Rehash()
			uid := schema.HashBytes(fmt.Appendf(nil, "%s\x00%s\x00%s", a.in.Seed, a.commit(), key))
			a.accept(schema.AcceptedObject{UID: uid, Generation: 1, Object: o})
			break
		}
	}
}

// adoptDeletions binds declared deletions to nothing.
func (a *adopter) adoptDeletions() {
	if a.in.Desired == nil {
		return
	}
	for _, key := range sortedKeys(a.in.Desired.Objects) {
		o := a.in.Desired.Objects[key]
		if key.Kind != schema.KindDeletion || inForce(a.in.Accepted.Objects[key]) {
			continue
		}
		uid := schema.HashBytes(fmt.Appendf(nil, "%s\x00%s\x00%s", a.in.Seed, a.commit(), key))
		a.accept(schema.AcceptedObject{UID: uid, Generation: 1, Object: o, Target: SpentBefore})
	}
}

// SpentBefore is the target of a Deletion that was declared when a new epoch began.
const SpentBefore = "declared before the new epoch"

// findOrphans names the live workers that nothing accounts for.
func (a *adopter) findOrphans() {
	for _, name := range sortedStrings(a.said) {
		t := a.said[name]
		if t.Report == nil || !t.Newer {
			continue
		}
		for i := range t.Report.Workers {
			w := &t.Report.Workers[i]
			key, err := schema.ParseKey("run/" + w.Run)
			if err != nil || w.State.Ended() || a.adopted[key] || t.Held != nil && !holdsWorker(t.Held, w) {
				continue // it was to be stopped anyway
			}
			if _, placed := a.in.Placed[key]; !placed {
				a.out.Orphans = append(a.out.Orphans, fmt.Sprintf("%s of %s on %s", w.Name, key, name))
			}
		}
	}
}

func holdsWorker(t *schema.Assignment, w *schema.Worker) bool {
	return slices.ContainsFunc(t.Workers, func(x schema.WorkerTarget) bool {
		return x.RunUID == w.RunUID && x.Generation == w.Generation && x.Attempt == w.Attempt && x.Name == w.Name
	})
}
