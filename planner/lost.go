package planner

import (
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

// A worker is lost while its machine is Down. It is replaced only when it can no
// longer write: all it writes lies behind claims whose sources export nothing
// to that machine any more (the fence), or it writes nothing but copies, or its
// machine was told to stop it after less time away. That it is replaced is decided,
// and kept in placed/, before the first of these happens, and holds until the machine
// shows that nothing of it is left.

// loss is what a run has on machines that are Down for long enough and that can be
// kept from writing.
type loss struct{ machines map[string]bool }

// on reports whether what the run has on a machine can be replaced.
func (l *loss) on(machine string) bool { return l != nil && l.machines[machine] }

// onLost is what the run wants of lost workers. The accepted spec counts, in place
// for as long as it is of the run that is placed.
func (r *run) onLost() schema.OnLost {
	if r.stopping || r.spec == nil {
		return r.placed.Spec.OnLost
	}
	return r.spec.OnLost
}

// stampLost notes since when the machines of a run's workers are Down.
func (p *pass) stampLost(r *run) {
	wanted := r.onLost() == schema.OnLostReplace && (r.placed.Outcome == "" || r.stopping)
	stamp := func(at *time.Time, machine string) {
		m := p.machines[machine]
		switch {
		case !wanted || m == nil || m.up():
			r.changed = r.changed || !at.IsZero()
			*at = time.Time{}
		case m.state == schema.MachineDown && at.IsZero():
			*at, r.changed = p.stamp(), true
		}
	}
	for i := range r.placed.Workers {
		if w := &r.placed.Workers[i]; w.Outcome == nil {
			stamp(&w.Lost, w.Machine)
		}
	}
	for i := range r.placed.Older {
		if o := &r.placed.Older[i]; !o.Fenced {
			stamp(&o.Lost, o.Machine)
		}
	}
}

// stamp is the time of a durable wait: the later of the clock and the newest stamp,
// because another leader's clock may have been ahead.
func (p *pass) stamp() time.Time {
	at := p.now
	for _, pl := range p.stored {
		for i := range pl.Workers {
			for _, t := range []time.Time{pl.Workers[i].Since, pl.Workers[i].Lost} {
				if t.After(at) {
					at = t
				}
			}
		}
	}
	return at
}

// longEnough reports whether what a machine has can be replaced by now: it is Down
// for replace_after, and a minute more than it was told to go on alone.
func (p *pass) longEnough(machine string, lost time.Time, stop schema.Duration) bool {
	m := p.machines[machine]
	if m == nil || m.state != schema.MachineDown || lost.IsZero() {
		return false
	}
	return p.now.Sub(lost) >= ReplaceAfter(p.clusterSpec(), stop)
}

// ReplaceAfter is how long a machine must be Down before workers of a run are
// replaced that it stops after so long away; 0 is never.
func ReplaceAfter(c *schema.ClusterSpec, stop schema.Duration) time.Duration {
	if stop == 0 {
		return c.ReplaceAfter.Std()
	}
	return max(c.ReplaceAfter.Std(), stop.Std()+schema.StopMargin)
}

// losing is what a run lost: the machines, and what its workers may use beside
// copies; nil uses are not known.
type losing struct {
	machines []schema.Older
	uses     []schema.OlderUse
}

// judgeLosses finds the runs whose lost workers can be replaced. Runs that share a
// claim are replaced together or not at all: its export ends for all of them.
func (p *pass) judgeLosses() {
	lost := map[*run]*losing{}
	for _, r := range p.queue {
		if l := p.overdue(r); l != nil {
			lost[r] = l
		}
	}
	if len(lost) == 0 {
		return
	}
	users := p.claimUsers()
	stays := func(r *run) bool { return lost[r] == nil }
	for again := true; again; {
		again = false
		for r, l := range lost {
			if p.unfenced(l, users, stays) != "" {
				delete(lost, r)
				again = true
			}
		}
	}
	for _, r := range p.queue {
		if l := lost[r]; l != nil {
			r.gone = &loss{machines: map[string]bool{}}
			for _, o := range l.machines {
				r.gone.machines[o.Machine] = true
			}
			p.fence(r)
		}
	}
}

// overdue is what a run lost and is due to be replaced: nil when there is nothing,
// or when something else of it is away and not due too.
func (p *pass) overdue(r *run) *losing {
	if !r.hasLost() || r.onLost() != schema.OnLostReplace || r.placed.Outcome != "" && !r.stopping {
		return nil
	}
	older, uses := p.olderThan(r)
	l := &losing{uses: uses}
	for _, o := range older {
		if m := p.machines[o.Machine]; o.Fenced || m == nil || m.workersKnown() {
			continue
		}
		if !p.longEnough(o.Machine, o.Lost, o.StopIfAwayAfter) {
			return nil
		}
		l.machines = append(l.machines, o)
	}
	if len(l.machines) == 0 {
		return nil
	}
	return l
}

// hasLost reports whether a machine of the run is known to be Down.
func (r *run) hasLost() bool {
	return r.placed != nil && (slices.ContainsFunc(r.placed.Workers, func(w schema.PlacedWorker) bool { return !w.Lost.IsZero() }) ||
		slices.ContainsFunc(r.placed.Older, func(o schema.Older) bool { return !o.Lost.IsZero() && !o.Fenced }))
}

// claimUsers are the runs whose workers use each claim and stay desired.
func (p *pass) claimUsers() map[claimKey][]*run {
	users := map[claimKey][]*run{}
	for _, r := range p.queue {
		if r.placed == nil || r.stopping || r.placed.Outcome != "" {
			continue
		}
		for i := range r.placed.Workers {
			w := &r.placed.Workers[i]
			t := templateOfGroup(r.current, w.Group)
			if w.Outcome != nil || t == nil {
				continue
			}
			for j := range t.uses {
				if u := &t.uses[j]; u.kind == useHome && u.from.Node != w.Machine {
					key := claimKey{u.drive.uid, u.source, w.Machine}
					users[key] = append(users[key], r)
				}
			}
		}
	}
	return users
}

// unfenced is a drive or volume that lost workers may write and that cannot be kept
// from them, "" for none. stays says of other runs that they go on using a claim.
func (p *pass) unfenced(l *losing, users map[claimKey][]*run, stays func(*run) bool) string {
	for i := range l.machines {
		o := &l.machines[i]
		if o.StopIfAwayAfter > 0 && p.stopsAway(o.Machine) {
			continue
		}
		if l.uses == nil {
			return unknownUses
		}
		for j := range l.uses {
			u := &l.uses[j]
			if u.Mode == schema.ReadOnly || p.noExport(o.Machine, u) {
				continue
			}
			if !p.canFence(o.Machine, u) || slices.ContainsFunc(users[claimKey{u.UID, u.Source, o.Machine}], stays) {
				return u.Name
			}
		}
	}
	return ""
}

// unknownUses stands for what nobody knows to be used.
const unknownUses = "what it mounts"

// stopsAway reports whether a machine said that it stops workers which are told so
// when it has no controller.
func (p *pass) stopsAway(machine string) bool {
	m := p.machines[machine]
	return m != nil && m.seen != nil && m.seen.report.Engine != nil && m.seen.report.Engine.StopsAway
}

// canFence reports whether a use lies behind a claim that its source can take back. A
// lab's mount shows the directory itself: nothing that the source does ends it.
func (p *pass) canFence(machine string, u *schema.OlderUse) bool {
	home := p.machines[u.From]
	return home != nil && u.From != machine && home.up() && home.seen.exports != nil && home.network() != networkLab
}

// noExport reports whether a source shows that it exports a use to a machine no
// more, and will not by anything that it was told before.
func (p *pass) noExport(machine string, u *schema.OlderUse) bool {
	home := p.machines[u.From]
	switch {
	case u.From == "" || u.From == machine:
		return false
	case home == nil:
		return true // it was forgotten
	case home.seen == nil || home.seen.exports == nil || home.network() == networkLab || home.mayExport(u.UID, u.Source, machine):
		return false
	}
	return !slices.ContainsFunc(home.seen.exports, func(e schema.Export) bool {
		client := p.clientOf(&e)
		return e.UID == u.UID && e.Source == u.Source && (client == machine || client == "")
	})
}

// cutOff reports whether the older workers of a machine that is away were replaced
// and can no longer write. One that is back stops them first.
func (p *pass) cutOff(pl *schema.Placement, o *schema.Older) bool {
	m := p.machines[o.Machine]
	return o.Fenced && m != nil && !m.up() && p.writtenFrom(pl, o) == ""
}

// writtenFrom is a drive or volume that older workers may still write from a
// machine, "" for none.
func (p *pass) writtenFrom(pl *schema.Placement, o *schema.Older) string {
	if o.Fenced && o.StopIfAwayAfter > 0 && p.stopsAway(o.Machine) {
		return "" // it has stopped them since
	}
	if pl.OlderUses == nil {
		return unknownUses
	}
	for i := range pl.OlderUses {
		if u := &pl.OlderUses[i]; u.Mode != schema.ReadOnly && !p.noExport(o.Machine, u) {
			return u.Name
		}
	}
	return ""
}

// readyLosses prepares what mayWrite goes by, once nothing is placed any more.
func (p *pass) readyLosses() {
	p.losing = map[*run]*losing{}
	for _, r := range p.byName {
		if r.active() && r.hasLost() {
			l := &losing{}
			l.machines, l.uses = p.olderThan(r)
			p.losing[r] = l
		}
	}
	if len(p.losing) > 0 {
		p.users = p.claimUsers()
	}
}

// mayWrite is a drive that a lost worker of a run with on_lost: Replace may still
// be writing and cannot be kept from, "" when it is only waited for, or will be
// replaced.
func (p *pass) mayWrite(r *run, machine string) string {
	l := p.losing[r]
	if l == nil || r.onLost() != schema.OnLostReplace {
		return ""
	}
	at := slices.IndexFunc(l.machines, func(o schema.Older) bool { return o.Machine == machine })
	if at < 0 {
		return ""
	}
	here := losing{machines: l.machines[at : at+1], uses: l.uses}
	return p.unfenced(&here, p.users, func(r *run) bool { return r.onLost() != schema.OnLostReplace })
}

// fence acts on what judgeLosses found: older workers that are lost are fenced at
// once, and a run that only stops is gone. Live workers wait for a new place
// (replaceLost): nothing is taken from them before there is one.
func (p *pass) fence(r *run) {
	for i := range r.placed.Older {
		if o := &r.placed.Older[i]; r.gone.on(o.Machine) && !o.Fenced {
			o.Fenced, r.changed = true, true
		}
	}
	if r.stopping && p.allGone(r) && !p.olderLeft(r) {
		p.eachHeld(r, p.release)
		p.unplace(r)
	}
}

// olderLeft reports whether older workers of the run may still run somewhere, but
// for those that are fenced off.
func (p *pass) olderLeft(r *run) bool {
	return slices.ContainsFunc(r.placed.Older, func(o schema.Older) bool { return !o.Fenced && !r.gone.on(o.Machine) })
}

// replaceLost begins the next attempt of a run, whose lost workers get other places.
// It is no failure of the run's.
func (p *pass) replaceLost(r *run) {
	old, attempt := r.placed, max(r.placed.Attempt+1, p.attempts[attemptKey{r.placed.RunUID, r.placed.Generation}])
	if !p.replace(r, attempt) {
		return
	}
	for i := range old.Workers {
		w := &old.Workers[i]
		if w.Outcome == nil && (p.machines[w.Machine] == nil || r.gone.on(w.Machine)) {
			r.placed.LastEnd = lostOn(w.Name, w.Machine)
			p.event(r.key, "Replaced", runReplaced(r.key.Name, w, attempt))
			break
		}
	}
	r.placed.Failures, r.placed.NotBefore = old.Failures, old.NotBefore
}

// olderThan is where older workers may run once a newer placement replaces the
// run's, and what they use beside copies; nil uses are not known.
func (p *pass) olderThan(r *run) ([]schema.Older, []schema.OlderUse) {
	pl := r.placed
	list, uses, known := slices.Clone(pl.Older), slices.Clone(pl.OlderUses), len(pl.Older) == 0 || pl.OlderUses != nil
	for i := range pl.Workers {
		w := &pl.Workers[i]
		if w.Outcome != nil {
			continue
		}
		o := schema.Older{Machine: w.Machine, StopIfAwayAfter: pl.Spec.StopIfAwayAfter, Lost: w.Lost, Fenced: r.gone.on(w.Machine)}
		if at := slices.IndexFunc(list, func(x schema.Older) bool { return x.Machine == w.Machine }); at >= 0 {
			list[at] = joinOlder(list[at], o)
		} else {
			list = append(list, o)
		}
		more, ok := p.usesOfPlaced(r, w)
		known = known && ok
		for _, u := range more {
			uses = addUse(uses, u)
		}
	}
	slices.SortFunc(list, func(a, b schema.Older) int { return compareStrings(a.Machine, b.Machine) })
	switch {
	case len(list) == 0 || !known:
		return list, nil
	case uses == nil:
		return list, []schema.OlderUse{}
	}
	return list, uses
}

func isFenced(o schema.Older) bool { return o.Fenced }

// joinOlder is what holds for the older workers of two placements on one machine:
// all of them are stopped, or fenced off, only when both are.
func joinOlder(a, b schema.Older) schema.Older {
	longest := max(a.StopIfAwayAfter, b.StopIfAwayAfter)
	if a.StopIfAwayAfter == 0 || b.StopIfAwayAfter == 0 {
		longest = 0
	}
	lost := a.Lost
	if b.Lost.After(lost) {
		lost = b.Lost
	}
	return schema.Older{Machine: a.Machine, StopIfAwayAfter: longest, Lost: lost, Fenced: a.Fenced && b.Fenced}
}

func addUse(list []schema.OlderUse, u schema.OlderUse) []schema.OlderUse {
	for i := range list {
		x := &list[i]
		if x.Name == u.Name && x.UID == u.UID && x.Source == u.Source && x.From == u.From {
			if u.Mode != schema.ReadOnly {
				x.Mode = u.Mode
			}
			return list
		}
	}
	return append(list, u)
}

// usesOfPlaced is what a placed worker uses beside copies: with the modes that its
// machine reports, else with those that it may have started with, which a drive or
// grant need no longer have.
func (p *pass) usesOfPlaced(r *run, w *schema.PlacedWorker) (list []schema.OlderUse, known bool) {
	t, m := templateOfGroup(r.current, w.Group), p.machines[w.Machine]
	if t == nil || len(t.problem) > 0 {
		return nil, false
	}
	var seen schema.Worker
	there := false
	if m != nil && m.seen != nil {
		seen, there = m.seen.workers[idOfPlaced(r.placed, w)]
	}
	for i := range t.uses {
		u := &t.uses[i]
		if u.kind == useCopy {
			continue
		}
		o := schema.OlderUse{Name: u.bind.Drive.Name, UID: u.bind.UID, Source: u.source, Mode: schema.ReadWrite}
		if o.Name == "" {
			o.Name = u.bind.Path // a host path in the old form
		}
		if u.kind == useHome {
			o.From = u.from.Node
		}
		if u.asked == schema.ReadOnly || there && u.bind.UID != "" && !writes(seen.Uses, u.bind.UID, u.source) {
			o.Mode = schema.ReadOnly
		}
		list = append(list, o)
	}
	for _, s := range seen.Uses {
		if s.Mode != schema.ReadOnly && !p.isCopy(s.UID) && !slices.ContainsFunc(t.uses, func(u use) bool { return u.bind.UID == s.UID && u.source == s.Source }) {
			return nil, false // started with something that its template does not name any more
		}
	}
	return list, true
}

// writes reports whether a worker that was seen may write a drive's source.
func writes(uses []schema.Use, uid string, source int) bool {
	return slices.ContainsFunc(uses, func(u schema.Use) bool { return u.UID == uid && u.Source == source && u.Mode != schema.ReadOnly }) ||
		!slices.ContainsFunc(uses, func(u schema.Use) bool { return u.UID == uid && u.Source == source })
}

// isCopy reports whether a uid is of a placed drive, also of a removed one.
func (p *pass) isCopy(uid string) bool {
	if d := p.driveByUID(uid); d != nil {
		return d.spec.Placed()
	}
	return p.tombs[uid] != nil
}
