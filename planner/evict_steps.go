package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// evictCopies plans what Evict chooses on one machine (D-71). It comes after
// deleteCopies, whose bytes count as free. Numbers of a machine that is not up
// are old, and what is unknown might be in use: neither evicts.
func (p *pass) evictCopies(s *site) {
	if !s.m.up() || len(s.m.seen.copies) == 0 || s.m.seen.workers == nil || !s.pressed() {
		return
	}
	in := p.evictInput(s)
	for _, e := range Evict(in) {
		d, c := p.driveUID[e.UID], s.m.seen.copies[e.UID]
		// It comes after no stop: what a worker uses that is being stopped, or may
		// use, is not chosen before it has ended.
		args := schema.StepArgs{UID: e.UID, Path: c.Folder}
		id := s.step(schema.ActionEvictCopy, d.key, args, e.Why, "", edges{})
		s.made(schema.ActionEvictCopy, d.key.Scoped(), 0, id)
	}
}

// pressed is the cheap question whether Evict need be asked at all.
func (s *site) pressed() bool {
	r := s.m.seen.report
	if slices.ContainsFunc(r.Filesystems, func(fs schema.Filesystem) bool { return Evicting(fs, s.a.Eviction) }) {
		return true
	}
	l := s.m.location
	if l == nil || l.limit <= 0 {
		return false
	}
	var held int64
	for _, c := range s.m.seen.copies {
		held += max(0, c.Bytes)
	}
	return held > l.limit
}

func (p *pass) evictInput(s *site) EvictInput {
	r := s.m.seen.report
	in := EvictInput{Policy: s.a.Eviction, Filesystems: r.Filesystems, Now: p.now, Copies: make([]EvictCopy, 0, len(r.Copies))}
	present := ""
	if s.m.location != nil {
		in.MaxBytes, present = s.m.location.limit, s.m.location.path
	}
	for _, c := range r.Copies {
		c.UID = p.uidOf(schema.KindDrive, c.Drive, c.UID)
		e := EvictCopy{Copy: c, Present: present != "" && schema.Covers(present, c.Folder), Evictable: p.evictable(s, c.UID), Used: s.usesCopy(c.UID)}
		if t := p.tombs[c.UID]; t != nil {
			e.Leaving = s.maker(schema.ActionDeleteCopy, t.Key.Scoped(), 0) != ""
		}
		// Whatever keeps the machine from removing it, others do not wait for it:
		// the machine itself judges whether they must go.
		e.Failed = p.failureOf(s.m, schema.ActionEvictCopy, c.UID, 0, "") != nil ||
			p.failureOf(s.m, schema.ActionDeleteCopy, c.UID, 0, "") != nil
		in.Copies = append(in.Copies, e)
	}
	return in
}

// evictable: declared so, and in the complete list by which the machine judges
// it (D-61).
func (p *pass) evictable(s *site, uid string) bool {
	d := p.driveUID[uid]
	return d != nil && p.tombs[uid] == nil && d.spec.Placed() && d.spec.Evictable && s.a.Drives[d.key.Namespace] != ""
}

// usesCopy reports whether a worker here uses a copy, is to use it, or is being
// stopped and has not ended yet.
func (s *site) usesCopy(uid string) bool {
	return hasKey(s.copies, uid) || s.inUse(uid, -1)
}
