package reconciler

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// audit makes the history of objects and the status of commits out of what is
// decided (G-11), so that both are written with the decision itself.
type audit struct {
	known schema.CommitStatus // as it is written
	next  schema.CommitStatus // as it is once the decisions are written
}

// audit adds records and the commit's status to decisions that are about to be written.
func (l *leading) audit(d *schema.Decisions, plan schema.Plan, now time.Time) {
	c := chronicle{leading: l, now: now, info: l.found.info}
	if desired := l.found.desired; desired != nil {
		c.info.ID = desired.Commit
	}
	c.decisions(d)
	d.Records = append(d.Records, c.records...)
	l.log.next = l.log.known
	if !l.judged || c.info.ID == "" {
		return
	}
	look := l.look(plan, c.info)
	known := l.log.known
	if known.Commit.ID != c.info.ID {
		known = schema.CommitStatus{}
	}
	l.log.next = known.Merge(look)
	if !reflect.DeepEqual(l.log.next, l.log.known) {
		d.Status = &look
	}
}

// look is what a pass says of a commit: what it changed, what is held and what is invalid.
func (l *leading) look(plan schema.Plan, info schema.CommitInfo) schema.CommitStatus {
	s := schema.CommitStatus{Commit: info}
	if l.pending(info.ID) {
		s.State = schema.CommitPending
		return s
	}
	for _, d := range l.found.desired.Diagnostics {
		if d.Severity == schema.SeverityError {
			s.Objects = append(s.Objects, schema.CommitObject{Object: d.Object, State: schema.CommitFailed, Code: d.Code, Message: d.Message, Pos: d.Pos})
		}
	}
	for _, h := range plan.Holds {
		if h.Pending {
			continue // it clears by itself (D-31)
		}
		s.Objects = append(s.Objects, schema.CommitObject{Object: h.Object, State: schema.CommitHeld, Code: h.Code, Message: h.Message, Pos: h.Pos})
	}
	for i := range plan.Decisions.Accept {
		o := plan.Decisions.Accept[i].Object.Object
		s.Objects = append(s.Objects, schema.CommitObject{Object: o.Key, State: schema.CommitOK, Pos: o.Origin})
	}
	for _, r := range plan.Decisions.Remove {
		s.Objects = append(s.Objects, schema.CommitObject{Object: r.Key, State: schema.CommitOK, Message: "removed"})
	}
	return s
}

// chronicle writes records of one pass.
type chronicle struct {
	*leading
	now     time.Time
	info    schema.CommitInfo
	records []schema.Record
}

// touchedBy is the commit that touched a file: not always the newest, when several
// came at once.
func (c *chronicle) touchedBy(file string) schema.CommitInfo {
	if info, ok := c.found.touched[file]; ok {
		return info
	}
	return c.info
}

func (c *chronicle) add(r schema.Record) {
	r.At = c.now
	c.records = append(c.records, r)
}

func (c *chronicle) decisions(d *schema.Decisions) {
	for i := range d.Accept {
		c.accepted(&d.Accept[i])
	}
	for _, r := range d.Refuse {
		c.refused(r.Key, r.Refusal)
	}
	for _, r := range d.Remove {
		c.removed(r, d)
	}
	for i := range d.Place {
		c.placed(&d.Place[i])
	}
	for _, key := range d.Unplace {
		if old := c.state.Placed[key]; !old.Vacant() {
			c.unplaced(key)
		}
	}
	for _, e := range d.Events {
		c.copyGone(e)
	}
}

func (c *chronicle) accepted(a *schema.Acceptance) {
	next := &a.Object
	r := schema.Record{
		Object: next.Object.Key, UID: next.UID, Generation: next.Generation, Commit: c.touchedBy(next.Object.Origin.File), Type: schema.RecordAccepted,
		Message: next.Object.Origin.String(),
	}
	var before *schema.Refusal
	if a.Previous != nil {
		before = a.Previous.Refused
		r.Type = schema.RecordChanged
		if a.Previous.Generation == next.Generation && a.Previous.UID == next.UID {
			r.Type = schema.RecordMoved
		}
	}
	c.add(r)
	if next.Refused != nil && (before == nil || before.Hold != next.Refused.Hold) {
		c.refused(next.Object.Key, next.Refused)
	}
}

// refused is a hold, or the end of one without a change.
func (c *chronicle) refused(key schema.Key, refusal *schema.Refusal) {
	r := schema.Record{Object: key, Type: schema.RecordReleased, Commit: c.info}
	if o := c.state.Accepted.Objects[key]; o != nil {
		r.UID, r.Generation = o.UID, o.Generation
	}
	if refusal != nil {
		r.Type, r.Code, r.Message = schema.RecordHeld, refusal.Hold.Code, refusal.Hold.Message
		r.Commit = c.touchedBy(refusal.Hold.File)
	}
	c.add(r)
}

func (c *chronicle) removed(removal schema.Removal, d *schema.Decisions) {
	r := schema.Record{Object: removal.Key, UID: removal.UID, Type: schema.RecordRemoved, Commit: c.info}
	if o := c.state.Accepted.Objects[removal.Key]; o != nil && o.Object != nil {
		r.Commit = c.touchedBy(o.Object.Origin.File)
	}
	if by := c.forcedBy(removal, d); by != (schema.Key{}) {
		r.Type, r.Message = schema.RecordForcedDeletion, "by force of "+by.String()
	}
	c.add(r)
}

// forcedBy is the Deletion that is bound to a removed drive by force, of this
// pass or an earlier one.
func (c *chronicle) forcedBy(removal schema.Removal, d *schema.Decisions) schema.Key {
	if removal.Key.Kind != schema.KindDrive {
		return schema.Key{}
	}
	forces := func(a *schema.AcceptedObject) bool {
		if a == nil || a.Object == nil || a.Target != removal.UID {
			return false
		}
		spec, ok := a.Object.Spec.(*schema.DeletionSpec)
		return ok && spec.Force
	}
	for i := range d.Accept {
		if forces(&d.Accept[i].Object) {
			return d.Accept[i].Object.Object.Key
		}
	}
	for key, a := range c.state.Accepted.Objects {
		if key.Kind == schema.KindDeletion && forces(a) {
			return key
		}
	}
	return schema.Key{}
}

// maxNamedWorkers keeps the record of a large gang short.
const maxNamedWorkers = 8

func (c *chronicle) unplaced(run schema.Key) {
	c.add(schema.Record{Object: run, Type: schema.RecordUnplaced, Message: "its workers have no place any more"})
}

// placed tells of new places, not of what else a placement keeps.
func (c *chronicle) placed(p *schema.Placement) {
	old, had := c.state.Placed[p.Run]
	same := had && old.RunUID == p.RunUID && old.Generation == p.Generation && old.Attempt == p.Attempt &&
		slices.EqualFunc(old.Workers, p.Workers, func(a, b schema.PlacedWorker) bool { return a.Name == b.Name && a.Machine == b.Machine })
	if same || p.Vacant() && !had {
		return
	}
	if p.Vacant() { // only its workers' addresses are kept (N-8)
		if !old.Vacant() {
			c.unplaced(p.Run)
		}
		return
	}
	var parts []string
	for i, w := range p.Workers {
		if i == maxNamedWorkers {
			parts = append(parts, fmt.Sprintf("%d more", len(p.Workers)-i))
			break
		}
		parts = append(parts, w.Name+" on "+w.Machine)
	}
	r := schema.Record{Object: p.Run, UID: p.RunUID, Generation: p.Generation, Type: schema.RecordPlaced, Message: strings.Join(parts, ", ")}
	if p.Attempt > 0 {
		r.Message += fmt.Sprintf(" (attempt %d)", p.Attempt)
	}
	c.add(r)
}

// copyGone tells of copies that machines removed; an eviction says that it is one (D-71).
func (c *chronicle) copyGone(e schema.Event) {
	if e.Type != eventCopyRemoved || e.Machine == "" {
		return
	}
	r := schema.Record{Object: e.Object, Type: schema.RecordCopyRemoved, Machine: e.Machine, Message: e.Message}
	if strings.Contains(e.Message, ": evicted: ") {
		r.Type = schema.RecordEvicted
	}
	if o := c.state.Accepted.Objects[e.Object]; o != nil {
		r.UID = o.UID
	}
	c.add(r)
}

// eventCopyRemoved is the tracker's type of a copy that is gone.
const eventCopyRemoved = "Removed"
