package planner

import (
	"cmp"
	"encoding/json"
	"time"

	"astraeus.io/astraeus/schema"
)

// driveFact is what is known of the drive of one name: the newest uid.
type driveFact struct {
	uid     string
	rank    rank
	created time.Time // of its newest copy, where only listings tell
	placed  bool      // it was placed: its copies are ours to delete (D-9)
	spare   bool      // evictable
	hint    int64     // of its size
	// fill is the newest generation that its copies were to be filled by, task the
	// hash of that fill's template.
	fill int64
	task string
	// sources of a drive that is not placed, by index; on are the machines that use it.
	sources map[int]*sourceFact
	on      map[string]bool
}

// sourceFact is what machines know of one source of a drive that is not placed.
// Where they differ, the newest assignment counts.
type sourceFact struct {
	node     string // the machine whose directory others mount
	path     string
	nodeRank rank
	pathRank rank
	places   map[string]string // the directory on each machine that has one
	write    bool
	target   string             // where workers see it
	over     []schema.Transport // that its mounts may use
}

func (f *driveFact) usedOn(machine string) *driveFact {
	if f != nil {
		if f.on == nil {
			f.on = map[string]bool{}
		}
		f.on[machine] = true
	}
	return f
}

// at is a source of the drive, of which nothing is kept when it is another
// drive's by now.
func (f *driveFact) at(uid string, source int) *sourceFact {
	if f == nil || f.uid != uid {
		return &sourceFact{places: map[string]string{}}
	}
	if f.sources == nil {
		f.sources = map[int]*sourceFact{}
	}
	if f.sources[source] == nil {
		f.sources[source] = &sourceFact{places: map[string]string{}, nodeRank: rank{-9, 0}, pathRank: rank{-9, 0}}
	}
	return f.sources[source]
}

// here: the machine has it as a directory.
func (s *sourceFact) here(machine, path string, r rank) *sourceFact {
	s.places[machine] = path
	if r.compare(s.pathRank) >= 0 {
		s.path, s.pathRank = path, r
	}
	return s
}

// from: others mount it from the machine.
func (s *sourceFact) from(machine string, over []schema.Transport, r rank) {
	if r.compare(s.nodeRank) >= 0 {
		s.node, s.over, s.nodeRank = machine, over, r
	}
}

// homes are the machines that have it as the newest path.
func (s *sourceFact) homes() (names []string) {
	for _, name := range sortedStrings(s.places) {
		if s.places[name] == s.path {
			names = append(names, name)
		}
	}
	return names
}

func (s *sourceFact) used(b *schema.BindTarget) {
	s.target, s.write = b.Target, s.write || !b.ReadOnly
}

// hearList reads the complete list of a workspace's placed drives.
func (a *adopter) hearList(hash string, r rank) {
	var list schema.DriveList
	if json.Unmarshal(a.blobs[hash], &list) != nil {
		return // the machine does not have it any more
	}
	for _, d := range list.Drives {
		key := schema.Key{Kind: schema.KindDrive, Namespace: list.Namespace, Name: d.Name}
		if d.Removed {
			a.removed[d.UID] = key
			continue
		}
		if f := a.hearDrive(key, d.UID, r); f != nil && f.uid == d.UID {
			f.placed, f.spare = true, d.Evictable
		}
	}
}

// hearDrive takes that a drive has a uid; the newest says so.
func (a *adopter) hearDrive(key schema.Key, uid string, r rank) *driveFact {
	if uid == "" || key.Kind != schema.KindDrive {
		return nil
	}
	f := a.drives[key]
	if f == nil || f.uid != uid && r.compare(f.rank) > 0 {
		f = &driveFact{uid: uid, rank: r}
		a.drives[key] = f
	}
	if f.uid == uid && r.compare(f.rank) > 0 {
		f.rank = r
	}
	return f
}

// hearCopies reads a listing of copies: which uids have any, and, of a machine that
// has nothing else to say, which drive is whose.
func (a *adopter) hearCopies(r *schema.MachineReport) {
	if r == nil {
		return
	}
	for i := range r.Copies {
		c := &r.Copies[i]
		if c.UID == "" {
			continue // without a sidecar it is nobody's
		}
		a.copies[c.UID] = true
		if !a.said[r.Name].Newer || c.State == schema.CopyTrash {
			continue
		}
		key, created := driveKey(c.Drive), time.Time{}
		if c.Created != nil {
			created = *c.Created
		}
		f := a.drives[key]
		if f == nil || f.rank.epoch < 0 && f.uid != c.UID && created.After(f.created) {
			f = &driveFact{uid: c.UID, rank: rank{-1, 0}, created: created}
			a.drives[key] = f
		}
		if f.uid == c.UID {
			f.placed = true
			f.fill = max(f.fill, c.FilledGeneration)
			f.usedOn(r.Name)
		}
	}
}

// adoptDrives gives drives the uids that their copies have. Of one that
// is declared no longer its copies are known so that its removal is judged like
// any other.
func (a *adopter) adoptDrives() {
	kept := map[string]bool{}
	for _, key := range sortedKeys(a.drives) {
		f, old := a.drives[key], a.in.Accepted.Objects[key]
		kept[f.uid] = true
		object := a.want(key)
		if object == nil || !f.fits(object.Spec.(*schema.DriveSpec)) {
			// What is declared now is a change, to be judged as one.
			object = cmp.Or(a.undeclared(key, f), object)
		}
		if object == nil || inForce(old) && old.UID == f.uid && old.FillGeneration >= f.fill && f.fits(old.Object.Spec.(*schema.DriveSpec)) {
			continue
		}
		a.accept(adoptedDrive(object, old, f))
		if inForce(old) && old.UID != f.uid && a.copies[old.UID] {
			a.bury(old.UID, key, object.Org, object.Workspace)
		}
	}
	for _, uid := range sortedStrings(a.removed) {
		key := a.removed[uid]
		where, known := a.scopeOf(key.Namespace)
		if known && !kept[uid] && a.copies[uid] && a.in.Accepted.Tombstones[uid] == nil {
			a.bury(uid, key, where.org, where.workspace)
		}
	}
}

// adoptedDrive: what its copies are filled by stays, unless another fill is
// declared now (D-42).
func adoptedDrive(object *schema.Object, old *schema.AcceptedObject, f *driveFact) schema.AcceptedObject {
	next := schema.AcceptedObject{UID: f.uid, Generation: 1, Object: object}
	if inForce(old) {
		next.Generation = old.Generation
		if old.Object.Hash != object.Hash {
			next.Generation++
		}
	}
	spec := object.Spec.(*schema.DriveSpec)
	switch {
	case spec.Fill == nil:
	case f.fill > 0 && (f.task == "" || f.task == schema.HashJSON(&spec.Fill.Template)):
		next.FillGeneration = f.fill
		next.Generation = max(next.Generation, f.fill)
	default:
		next.Generation = max(next.Generation, f.fill+1)
		next.FillGeneration = next.Generation
	}
	return next
}

// undeclared is a drive that nothing declares any more, as far as it can be told
// from what machines were assigned: what uses it goes on with it, and its removal
// is judged like any other.
func (a *adopter) undeclared(key schema.Key, f *driveFact) *schema.Object {
	where, known := a.scopeOf(key.Namespace)
	if !known {
		return nil // nothing of it is ever deleted: it has no tombstone
	}
	spec := &schema.DriveSpec{Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced}}, Evictable: f.spare, SizeHintBytes: f.hint}
	if !f.placed {
		if spec = f.paths(); spec == nil {
			return nil
		}
	}
	for i := range spec.Sources {
		spec.Sources[i].EligibleNodes = sortedStrings(f.on) // what else it allowed is not known
	}
	spec.Normalize()
	o := &schema.Object{Key: key, Org: where.org, Workspace: where.workspace, Metadata: schema.Metadata{Name: key.Name}, Spec: spec}
	o.Rehash()
	return o
}

// fits reports whether a spec is of the drive that machines know: the rest of it
// may have changed.
func (f *driveFact) fits(spec *schema.DriveSpec) bool {
	if f.placed || spec.Placed() {
		return f.placed == spec.Placed() || !f.placed && len(f.sources) == 0
	}
	for i, s := range f.sources {
		if i >= len(spec.Sources) {
			return false
		}
		src := &spec.Sources[i]
		one := src.NodeScope == schema.ScopeOneMachine
		switch {
		case s.path != "" && s.path != src.Path, s.node != "" && (!one || src.Node != s.node), one && s.node == "" && s.places[src.Node] != src.Path:
			return false
		}
	}
	return true
}

// paths are the sources of a drive that is not placed, nil when a path is unknown.
// A directory on several machines that none of them mounts from another is one
// that each has.
func (f *driveFact) paths() *schema.DriveSpec {
	spec := &schema.DriveSpec{}
	for i := range len(f.sources) {
		s := f.sources[i]
		if s == nil || s.path == "" {
			return nil
		}
		if len(s.over) == 1 {
			spec.Transport = s.over[0]
		}
		src := schema.DriveSource{Node: s.node, Path: s.path, MountPath: s.target, Mode: schema.ReadOnly}
		if s.write {
			src.Mode = schema.ReadWrite
		}
		switch {
		case s.node != "":
		case len(s.homes()) == 1:
			src.Node = s.homes()[0]
		default:
			src.NodeScope = schema.ScopeLocalAny
		}
		spec.Sources = append(spec.Sources, src)
	}
	if len(spec.Sources) == 0 {
		return nil
	}
	return spec
}
