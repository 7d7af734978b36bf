package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// lineage pairs the volumes in force with the declared ones that are the same
// volume: by id, and without a written id by name (V-2).
type lineage struct {
	heir map[schema.Key]schema.Key   // of a volume in force, the declared one
	from map[schema.Key]schema.Key   // of a declared one, the volume in force
	has  map[string][]schema.Key     // volumes in force before this pass by id, sorted
	asks map[string][]*schema.Object // declared ones by written id, sorted
}

// pairVolumes is done before anything is removed: a renamed volume does not count
// as a deletion.
func (p *pass) pairVolumes() {
	l := &lineage{heir: map[schema.Key]schema.Key{}, from: map[schema.Key]schema.Key{}, has: map[string][]schema.Key{}, asks: map[string][]*schema.Object{}}
	p.gate.lineage = l
	declared := make(map[schema.Key]*schema.Object, len(p.gate.kinds[schema.KindVolume]))
	for _, o := range p.gate.kinds[schema.KindVolume] {
		declared[o.Key] = o
		if id := o.Metadata.ID; id != "" {
			l.asks[id] = append(l.asks[id], o)
		}
	}
	for _, list := range l.asks {
		slices.SortFunc(list, func(a, b *schema.Object) int { return schema.CompareKeys(a.Key, b.Key) })
	}
	for _, key := range p.keysOf(schema.KindVolume) {
		id := volumeID(p.objects[key])
		l.has[id] = append(l.has[id], key)
		switch o := l.claimOf(id, key.Namespace); {
		case p.declaredInvalid(key): // nobody knows what its file says
		case o != nil:
			l.pair(key, o.Key)
		case declared[key] != nil && declared[key].Metadata.ID == "":
			l.pair(key, key)
		}
	}
}

// claimOf is the one declared volume of a namespace with an id, nil for none.
func (l *lineage) claimOf(id, namespace string) (found *schema.Object) {
	for _, o := range l.asks[id] {
		if o.Key.Namespace == namespace {
			if found != nil {
				return nil
			}
			found = o
		}
	}
	return found
}

// pair: of two records of one volume, which a crash amid a rename leaves, the one
// under the declared name counts.
func (l *lineage) pair(key, declared schema.Key) {
	l.heir[key] = declared
	if _, known := l.from[declared]; !known || key == declared {
		l.from[declared] = key
	}
}

// movedTo is where a volume in force is declared now, when that is another name.
func (l *lineage) movedTo(key schema.Key) (schema.Key, bool) {
	if l == nil {
		return schema.Key{}, false
	}
	to, ok := l.heir[key]
	return to, ok && to != key
}

// replaced reports whether a volume in force goes although its name is declared:
// by another volume.
func (p *pass) replaced(key schema.Key) bool {
	l := p.gate.lineage
	if key.Kind != schema.KindVolume || l == nil || !p.hadBefore(key) || p.gate.declared[key] == nil {
		return false
	}
	_, stays := l.heir[key]
	return !stays
}

// before is the volume in force that a declared one is, nil for a new one.
func (p *pass) volumeBefore(o *schema.Object) *schema.AcceptedObject {
	if from, ok := p.gate.lineage.from[o.Key]; ok {
		return p.in.Accepted.Objects[from]
	}
	return nil
}

// considerVolumes lets volumes through together: names may be passed on within one
// commit. A volume takes a name only when the one that has it leaves it in the
// same pass, so that no record is lost.
func (p *pass) considerVolumes() {
	ready := map[schema.Key]*schema.Object{}
	for _, o := range p.gate.kinds[schema.KindVolume] {
		prev := p.volumeBefore(o)
		if prev != nil && prev.Object.Key == o.Key && p.unchanged(o, prev) {
			continue
		}
		if p.in.Rewritten {
			p.holdBack(o, holdOf(o, "", schema.CodeHistoryRewritten, rewrittenHistory))
		} else if _, hold := p.judge(o, prev); hold != nil {
			p.holdBack(o, hold)
		} else {
			ready[o.Key] = o
		}
	}
	for again := true; again; {
		again = false
		for _, key := range sortedKeys(ready) {
			if hold := p.nameHeld(ready, ready[key]); hold != nil {
				p.holdBack(ready[key], hold)
				delete(ready, key)
				again = true
			}
		}
	}
	for _, key := range sortedKeys(ready) {
		p.let(ready[key], p.volumeBefore(ready[key]))
	}
}

// nameHeld says why a volume cannot have its name yet, nil when it can.
func (p *pass) nameHeld(ready map[schema.Key]*schema.Object, o *schema.Object) *schema.Hold {
	holder := p.objects[o.Key]
	if holder == nil || p.gate.lineage.from[o.Key] == o.Key {
		return nil
	}
	if to, stays := p.gate.lineage.heir[o.Key]; stays {
		if ready[to] != nil {
			return nil // it moves in this pass too
		}
		return holdOf(o, "metadata.name", schema.CodeNameTaken, volumeNameTaken(o.Key.Name, volumeID(holder)))
	}
	if p.mayLeave(o.Key) {
		return nil
	}
	// Its removal is held for a reason of its own, which is the newcomer's then.
	hold := p.gate.held[o.Key].Hold
	delete(p.gate.held, o.Key)
	hold.Field, hold.Pos = "metadata.name", o.At("metadata.name")
	if id := volumeID(holder); o.Metadata.ID != "" {
		hold.Field, hold.Pos, hold.Hint = "metadata.id", o.At("metadata.id"), volumeKeepsID(o.Key.Name, id)
	}
	return &hold
}

// withID is a volume in force with its id, also where its file has none: once it
// is derived it stays (V-2). The hash stays that of what is declared.
func withID(o *schema.Object, id string) *schema.Object {
	if o.Metadata.ID != "" {
		return o
	}
	named := *o
	named.Metadata.ID = id
	return &named
}

// idOf is the id that a volume keeps, or gets.
func (p *pass) idOf(key schema.Key, prev *schema.AcceptedObject) string {
	if prev != nil {
		return volumeID(prev)
	}
	return p.newVolumeID(key)
}

// newVolumeID derives the id of a new volume that has none in its file.
func (p *pass) newVolumeID(key schema.Key) string {
	for try := byte(0); ; try++ {
		var buf []byte
		for _, part := range [...]string{"volume", p.in.Seed, p.in.Desired.Commit, key.Namespace, key.Name} {
			buf = append(append(buf, part...), 0)
		}
		id := "vol-" + schema.HashBytes(append(buf, try))[:16]
		if len(p.gate.lineage.has[id]) == 0 && len(p.gate.lineage.asks[id]) == 0 {
			return id
		}
	}
}
