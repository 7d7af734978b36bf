package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// removeKinds judges the objects of the kinds that are no longer declared.
func (p *pass) removeKinds(kinds ...schema.Kind) {
	for _, kind := range kinds {
		for _, key := range p.leavingOf(kind) {
			if p.mayLeave(key) {
				p.remove(key)
			}
		}
	}
}

// leavingOf lists what is in force and no longer declared: not by a file that
// could not be used either.
func (p *pass) leavingOf(kind schema.Kind) []schema.Key {
	var list []schema.Key
	for _, key := range p.keysIn(kind) {
		if p.gate.want(key) == nil && !p.declaredInvalid(key) {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, schema.CompareKeys)
	return list
}

// mayLeave judges one removal by what holds for every kind; a removal that is
// not let through is held.
func (p *pass) mayLeave(key schema.Key) bool {
	a := p.objects[key]
	if a.Object.ManagedBy != (schema.Key{}) {
		return true // goes with its owner, or because the owner has fewer now
	}
	if to, moved := p.gate.lineage.movedTo(key); moved {
		return p.mayMove(key, to)
	}
	if p.in.Rewritten {
		p.holdRemoval(key, schema.CodeHistoryRewritten, rewrittenHistory, a.Object.Origin)
		return false
	}
	where := scope{a.Object.Org, a.Object.Workspace}
	if was := p.otherNamespace(where); key.Kind.InWorkspace() && was == key.Namespace {
		ws := schema.Key{Kind: schema.KindWorkspace, Namespace: where.org, Name: where.workspace}
		p.holdRemoval(key, schema.CodeNamespaceTaken, namespaceChanged(ws, was, p.spaces().declared[where]), a.Object.Origin)
		return false
	}
	if pos, whole := p.in.Desired.Whole(a.Object.Org, a.Object.Workspace); !whole {
		p.holdRemoval(key, schema.CodeWorkspaceNotWhole, notWhole(pos), pos)
		return false
	}
	if text := p.overBudget(key); text != "" {
		p.holdRemoval(key, schema.CodeDeletionBudget, text, a.Object.Origin)
		p.gate.held[key].Hold.Hint = p.budgetHint(key)
		return false
	}
	if key.Kind == schema.KindVolume {
		if users := p.volumeUsers(a); users.any() {
			p.holdRemoval(key, schema.CodeVolumeInUse, users.sentence(a), a.Object.Origin)
			p.gate.held[key].Hold.Hint = p.volumeHint(a)
			return false
		}
	}
	return true
}

// mayMove reports whether a renamed volume's older name may go: not before the
// newer one is in force, or the record would be lost (V-2, V-8).
func (p *pass) mayMove(from, to schema.Key) bool {
	if a := p.objects[to]; a != nil && a.UID == p.objects[from].UID {
		return true
	}
	hold := p.gate.held[to].Hold
	p.holdRemoval(from, hold.Code, hold.Message, hold.Pos)
	return false
}

func (p *pass) remove(key schema.Key) {
	p.gate.removed[key] = true
	p.drop(key)
}

// removeDrives judges what only shows after placement: drives and models by
// their live workers (D-60), then machines, workspaces and orgs by what is still
// in them.
func (p *pass) removeDrives() {
	if p.in.Desired != nil {
		p.removeModels()
		for _, key := range p.leavingOf(schema.KindDrive) {
			if p.mayLeave(key) && p.driveFree(key, key) {
				p.removeDrive(key)
			}
		}
		p.removeFrames()
		p.noteRevoked()
	}
	p.exhume()
	p.decide()
}

// removeModels takes a model and its drive out together.
func (p *pass) removeModels() {
	for _, key := range p.leavingOf(schema.KindModel) {
		drive := schema.Key{Kind: schema.KindDrive, Namespace: key.Namespace, Name: modelDrive(key.Name)}
		if !p.mayLeave(key) {
			continue
		}
		if a := p.objects[drive]; a != nil && a.Object.ManagedBy == key {
			if !p.driveFree(drive, key) {
				continue
			}
			p.removeDrive(drive)
		}
		p.remove(key)
	}
}

// driveFree reports whether no live worker that stays desired uses a drive;
// else the removal of declared is held (D-60). A Deletion by force stops the
// workers instead.
func (p *pass) driveFree(key, declared schema.Key) bool {
	a := p.objects[key]
	users := p.stayingUsers(a.UID)
	if len(users) == 0 {
		return true
	}
	if p.gate.force[key] {
		for _, r := range users {
			p.stopForDrive(r)
		}
		return true
	}
	n := 0
	for _, r := range users {
		n += r.usersOf(a.UID)
	}
	p.holdRemoval(declared, schema.CodeDatavolumeInUse, driveInUse(key.Name, n), p.objects[declared].Object.Origin)
	p.gate.held[declared].Hold.Hint = usersHint(users, a.UID)
	return false
}

// stayingUsers are the runs with a place whose live workers use a drive and
// that are not on their way out.
func (p *pass) stayingUsers(uid string) []*run {
	var list []*run
	for _, r := range p.queue {
		if r.placed != nil && !r.stopping && r.placed.Outcome == "" && r.usersOf(uid) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// usersOf counts the run's workers that use a drive.
func (r *run) usersOf(uid string) (n int) {
	for i := range r.placed.Workers {
		if r.uses(&r.placed.Workers[i], uid) {
			n++
		}
	}
	return n
}

// uses reports whether a worker uses a drive: one that has not ended, or that
// starts again when its gang does.
func (r *run) uses(w *schema.PlacedWorker, uid string) bool {
	t := templateOfGroup(r.current, w.Group)
	again := r.spec != nil && r.spec.RestartPolicy != schema.RestartNever
	return (w.Outcome == nil || again) && t != nil && slices.ContainsFunc(t.uses, func(u use) bool { return u.drive != nil && u.drive.uid == uid })
}

// stopForDrive stops a run whose drive is deleted on purpose; it then waits for
// the drive.
func (p *pass) stopForDrive(r *run) {
	r.forced, r.stopping = true, true
	r.short = &shortage{reasons: nil}
}

// removeDrive takes a drive out of force. Only copies of placed drives are
// deleted (D-9): the tombstone says so until every machine's is gone.
func (p *pass) removeDrive(key schema.Key) {
	a := p.objects[key]
	if a.Object.Spec.(*schema.DriveSpec).Placed() {
		p.bury(a)
	}
	p.remove(key)
	delete(p.drives, key)
}

func (p *pass) bury(a *schema.AcceptedObject) {
	t := schema.Tombstone{UID: a.UID, Key: a.Object.Key, Org: a.Object.Org, Workspace: a.Object.Workspace, Commit: p.in.Desired.Commit}
	p.tombs[a.UID] = &t
	p.out.Decisions.Bury = append(p.out.Decisions.Bury, t)
}

// exhume drops the tombstones of drives of which no machine has a copy any more
// . A machine that was never heard of and has a data location may hold one.
func (p *pass) exhume() {
	p.exhumeLiving()
	for _, uid := range sortedStrings(p.tombs) {
		t := p.tombs[uid]
		if slices.ContainsFunc(p.out.Decisions.Bury, func(b schema.Tombstone) bool { return b.UID == uid }) {
			continue // one pass at least, so that Apply sees it
		}
		f := p.orgs[t.Org]
		if f != nil && slices.ContainsFunc(f.list, func(m *machine) bool { return m.mayHold(uid) }) {
			continue
		}
		delete(p.tombs, uid)
		p.out.Decisions.Exhume = append(p.out.Decisions.Exhume, uid)
	}
}

// exhumeLiving drops the tombstones of drives that are in force: a leader that died
// while it wrote a removal may leave them.
func (p *pass) exhumeLiving() {
	if len(p.in.Accepted.Tombstones) == 0 {
		return
	}
	for _, key := range p.keysOf(schema.KindDrive) {
		uid := p.objects[key].UID
		if p.in.Accepted.Tombstones[uid] == nil {
			continue
		}
		delete(p.tombs, uid)
		p.out.Decisions.Exhume = append(p.out.Decisions.Exhume, uid)
	}
}

// mayHold reports whether the machine may still hold bytes of a drive.
func (m *machine) mayHold(uid string) bool {
	if m.seen == nil || m.seen.copies == nil {
		return m.location != nil || len(m.former) > 0
	}
	return m.seen.hasCopy(uid) || m.mayCopy(uid)
}
