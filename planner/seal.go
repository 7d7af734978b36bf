package planner

import (
	"maps"
	"slices"
	"strconv"

	"astraeus.io/astraeus/schema"
)

// seal numbers new objects in the order of kinds and keys and gives them uids,
// so that the order of files never shows.
func (p *pass) seal() {
	var last int64
	used := map[string]bool{}
	for _, a := range p.in.Accepted.Objects {
		if a != nil {
			last = max(last, a.Seq)
			used[a.UID] = true
		}
	}
	for uid := range p.tombs {
		used[uid] = true
	}
	slices.SortFunc(p.gate.through, func(a, b passed) int { return schema.CompareKeys(a.key, b.key) })
	for i := range p.gate.through {
		key, a := p.gate.through[i].key, p.gate.through[i].next
		if p.gate.through[i].prev != nil {
			continue
		}
		last++
		a.Seq = last
		a.UID = p.newUID(key, last, used)
	}
	for _, key := range sortedKeys(p.gate.leaving) {
		a := p.objects[key]
		p.bury(p.in.Accepted.Objects[key])
		a.UID = p.newUID(key, a.Seq, used) // the copies stay the old uid's
	}
}

// newUID never repeats one that is in use or has a tombstone: a name deleted and
// created again never inherits old bytes.
func (p *pass) newUID(key schema.Key, seq int64, used map[string]bool) string {
	for try := 0; ; try++ {
		buf := make([]byte, 0, 160)
		for _, part := range [...]string{p.in.Seed, p.in.Desired.Commit, string(key.Kind), key.Namespace, key.Name} {
			buf = append(append(buf, part...), 0)
		}
		buf = strconv.AppendInt(append(strconv.AppendInt(buf, seq, 10), 0), int64(try), 10)
		if uid := schema.HashBytes(buf); !used[uid] {
			return uid
		}
	}
}

// decide turns what the gate holds into decisions and holds. It comes after
// every removal was judged.
func (p *pass) decide() {
	if p.in.Desired == nil {
		return
	}
	d := &p.out.Decisions
	d.Accept = make([]schema.Acceptance, 0, len(p.gate.through))
	for i := range p.gate.through {
		p.decideAcceptance(&p.gate.through[i])
	}
	for _, key := range slices.Backward(sortedKeys(p.gate.removed)) { // inner kinds first
		old := p.in.Accepted.Objects[key]
		d.Remove = append(d.Remove, schema.Removal{Key: key, UID: old.UID, Commit: p.in.Desired.Commit})
		if to, moved := p.gate.lineage.movedTo(key); moved {
			p.event(key, "Renamed", volumeMoved(volumeID(old), to.Name)) // its record stays
			continue
		}
		p.removed(key, old)
	}
	p.decideRefusals()
	if !p.in.Rewritten && p.in.Desired.Commit != p.in.Accepted.Head {
		d.Head = p.in.Desired.Commit
	}
	if was := p.in.Accepted.NotWhole; !p.in.Rewritten && (was == nil || !maps.Equal(was, p.in.Desired.NotWhole)) {
		d.NotWhole = maps.Clone(p.in.Desired.NotWhole)
		if d.NotWhole == nil {
			d.NotWhole = map[string]schema.Pos{}
		}
	}
}

// removed says what becomes of the data of an object that goes (D-61, V-9).
func (p *pass) removed(key schema.Key, old *schema.AcceptedObject) {
	p.event(key, "Removed", removedWords(old))
	p.out.Decisions.Events[len(p.out.Decisions.Events)-1].Volume = removalOf(old)
	if text := dataStays(old); text != "" {
		p.note(schema.Diagnostic{Pos: old.Object.Origin, Object: key, Code: schema.CodeDataNotDeleted, Message: text})
	}
}

func (p *pass) decideAcceptance(t *passed) {
	acceptance := schema.Acceptance{Object: *t.next}
	acceptance.Object.Refused = nil
	if p.gate.held[t.key] != nil {
		acceptance.Object.Refused = p.keptRefusal(t.key, p.in.Accepted.Objects[t.key])
	}
	if p.replaced(t.key) {
		p.removed(t.key, p.in.Accepted.Objects[t.key])
	}
	switch {
	case t.prev == nil:
		p.event(t.key, "Accepted", "created in generation 1")
	case t.prev.Generation != t.next.Generation:
		p.event(t.key, "Accepted", "changed to generation "+strconv.FormatInt(t.next.Generation, 10))
	}
	if t.prev != nil {
		acceptance.Previous = cloneAccepted(t.prev)
	}
	p.out.Decisions.Accept = append(p.out.Decisions.Accept, acceptance)
}

// isThrough reports whether something of the object was let through in this pass.
func (p *pass) isThrough(key schema.Key) bool {
	a := p.objects[key]
	return a != nil && a != p.in.Accepted.Objects[key]
}

// keptRefusal is the refusal to store: the old one where nothing of it changed,
// so that planning after applying is empty.
func (p *pass) keptRefusal(key schema.Key, old *schema.AcceptedObject) *schema.Refusal {
	next := p.gate.held[key]
	if next != nil && old != nil && sameRefusal(old.Refused, next) {
		return cloneRefusal(old.Refused)
	}
	return next
}

func sameRefusal(a, b *schema.Refusal) bool {
	if a == nil || b == nil {
		return a == b
	}
	if (a.Candidate == nil) != (b.Candidate == nil) || a.Hold != b.Hold {
		return false
	}
	return a.Candidate == nil || a.Candidate.Hash == b.Candidate.Hash && a.Candidate.Origin == b.Candidate.Origin
}

func (p *pass) decideRefusals() {
	keys := map[schema.Key]bool{}
	for key := range p.gate.held {
		keys[key] = true
	}
	for key, a := range p.in.Accepted.Objects {
		if a != nil && a.Refused != nil {
			keys[key] = true
		}
	}
	for _, key := range sortedKeys(keys) {
		next, old := p.gate.held[key], p.in.Accepted.Objects[key]
		if next == nil && p.declaredInvalid(key) {
			p.out.Holds = append(p.out.Holds, old.Refused.Hold) // declared by a file that cannot be used now
			continue
		}
		if next != nil {
			p.out.Holds = append(p.out.Holds, next.Hold)
		}
		if p.isThrough(key) || p.gate.removed[key] {
			continue // stored with the acceptance, or gone
		}
		if old != nil && sameRefusal(old.Refused, next) {
			continue
		}
		p.out.Decisions.Refuse = append(p.out.Decisions.Refuse, schema.Refused{Key: key, Refusal: cloneRefusal(next)})
		if next != nil {
			p.event(key, "Held", next.Hold.Message)
		}
	}
}
