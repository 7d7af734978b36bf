package store

import (
	"cmp"
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"astraeus.io/astraeus/schema"
)

// op is one write.
type op struct {
	key    string
	value  []byte
	lease  clientv3.LeaseID
	remove bool
}

func (o op) size() int { return len(o.key) + len(o.value) + 16 }

func (o op) etcd() clientv3.Op {
	if o.remove {
		return clientv3.OpDelete(o.key)
	}
	return clientv3.OpPut(o.key, string(o.value), clientv3.WithLease(o.lease))
}

// group is writes that belong together: they share a transaction whenever they fit in one.
type group []op

// batches packs groups, in order, into transactions.
func batches(groups []group) [][]op {
	var out [][]op
	var batch []op
	bytes := 0
	flush := func() {
		if len(batch) > 0 {
			out = append(out, batch)
		}
		batch, bytes = nil, 0
	}
	for _, g := range groups {
		size := 0
		for _, o := range g {
			size += o.size()
		}
		if len(batch)+len(g) > MaxBatchOps || bytes+size > MaxBatchBytes {
			flush()
		}
		for _, o := range g {
			if len(batch) == MaxBatchOps || bytes+o.size() > MaxBatchBytes {
				flush()
			}
			batch, bytes = append(batch, o), bytes+o.size()
		}
	}
	flush()
	return out
}

// Commit writes decisions and returns the state that is then in force. They go in
// batches: creates and changes, placements, removals, the head last, so that a
// crash between two leaves a state from which the next pass decides the rest
// . Errors: ErrNotLeader; ErrStale until Load after any failed write;
// ErrTooLarge and ErrUsed, with nothing written.
func (l *Leader) Commit(ctx context.Context, d schema.Decisions) (*State, error) {
	if l.state == nil {
		return nil, ErrStale
	}
	if d.Empty() {
		return l.state, nil
	}
	next := l.state.Apply(d)
	audit, err := l.auditOps(ctx, d)
	if err != nil {
		return nil, err
	}
	groups, log, err := l.groups(ctx, d, next, audit)
	if err != nil {
		return nil, err
	}
	rev, err := l.write(ctx, batches(groups))
	if err != nil {
		return nil, err
	}
	next.Revision = max(rev, next.Revision)
	l.state, l.events = next, log
	l.audit.done(*audit)
	return next, nil
}

// write sends batches in order, with crash points around them.
func (l *Leader) write(ctx context.Context, list [][]op) (rev int64, err error) {
	defer func() {
		if err != nil {
			l.state = nil
		}
	}()
	point := l.store.opt.Point
	if err := point("commit.before"); err != nil {
		return 0, err
	}
	for i, batch := range list {
		if i > 0 {
			if err := point("commit.batch"); err != nil {
				return 0, err
			}
		}
		if rev, err = l.txn(ctx, batch); err != nil {
			return 0, err
		}
	}
	return rev, point("commit.after")
}

// groups turns decisions into writes, in the order of X-6. Values are taken from
// the state that they lead to, so each key is written once.
func (l *Leader) groups(ctx context.Context, d schema.Decisions, next *State, audit *audited) ([]group, eventLog, error) {
	w := &writer{keys: l.store.keys, old: l.state, next: next, groups: audit.first, last: audit.last}
	events, log, err := l.eventOps(ctx, d.Events)
	if err != nil {
		return nil, log, err
	}
	records, err := l.recordOps(ctx, d.Records, audit)
	if err != nil {
		return nil, log, err
	}
	w.events = map[schema.Key][]op{}
	for _, of := range []map[schema.Key][]op{events, records} {
		for object, ops := range of {
			w.events[object] = append(w.events[object], ops...)
		}
	}
	put := map[schema.Key]bool{}
	var changed, removed []schema.Key
	touch := func(key schema.Key) {
		switch {
		case put[key]:
			return
		case next.Accepted.Objects[key] == nil:
			removed = append(removed, key)
		default:
			changed = append(changed, key)
		}
		put[key] = true
	}
	for _, a := range d.Accept {
		touch(a.Object.Object.Key)
	}
	for _, r := range d.Refuse {
		touch(r.Key)
	}
	for _, r := range d.Remove {
		touch(r.Key)
	}
	slices.SortFunc(changed, schema.CompareKeys)
	slices.SortFunc(removed, func(a, b schema.Key) int { return schema.CompareKeys(b, a) })
	w.bury(d.Bury)
	w.objects(changed)
	w.place(d)
	w.objects(removed)
	w.rest(d)
	return w.groups, log, w.err
}

// writer collects groups; the first error stays.
type writer struct {
	keys   keyspace
	old    *State
	next   *State
	events map[schema.Key][]op // and records of the audit log
	groups []group
	last   []group // of the audit log
	err    error
}

func (w *writer) put(key string, v any) op {
	value, err := encode(key, v)
	w.err = cmp.Or(w.err, err)
	return op{key: key, value: value}
}

// add ends a group with the events of its object.
func (w *writer) add(object schema.Key, ops ...op) {
	ops = append(ops, w.eventsOf(object)...)
	if len(ops) > 0 {
		w.groups = append(w.groups, ops)
	}
}

// eventsOf takes an object's events, which are written once.
func (w *writer) eventsOf(object schema.Key) []op {
	ops := w.events[object]
	delete(w.events, object)
	return ops
}

// bury comes before the removals: a removed drive without its tombstone would be forgotten.
func (w *writer) bury(list []schema.Tombstone) {
	for _, t := range list {
		w.add(schema.Key{Kind: "tombstone"}, w.put(w.keys.under(areaTombstone, t.UID), t))
	}
}

// objects writes the half of each object that changed: what is in force, the refusal, or both.
func (w *writer) objects(list []schema.Key) {
	for _, key := range list {
		var none schema.AcceptedObject
		old, next := cmp.Or(w.old.Accepted.Objects[key], &none), cmp.Or(w.next.Accepted.Objects[key], &none)
		var ops []op
		name := w.keys.object(areaAccepted, key)
		switch {
		case next.UID != "" && !sameForce(old, next):
			plain := *next
			plain.Refused = nil
			ops = append(ops, w.put(name, plain))
		case next.UID == "" && old.UID != "":
			ops = append(ops, op{key: name, remove: true})
		}
		name = w.keys.object(areaRefused, key)
		switch {
		case next.Refused != nil && next.Refused != old.Refused:
			ops = append(ops, w.put(name, next.Refused))
		case next.Refused == nil && old.Refused != nil:
			ops = append(ops, op{key: name, remove: true})
		}
		w.add(key, ops...)
	}
}

func sameForce(a, b *schema.AcceptedObject) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Seq == b.Seq && a.Commit == b.Commit && a.Object == b.Object
}

// place writes what became of placements together: what one run gives up another
// may get in the same pass, and must not have it while the first still does.
func (w *writer) place(d schema.Decisions) {
	var all group
	for _, run := range d.Unplace {
		all = append(all, op{key: w.keys.placed(run), remove: true})
		all = append(all, w.eventsOf(run)...)
	}
	for _, p := range d.Place {
		if _, stays := w.next.Placed[p.Run]; stays {
			all = append(all, w.put(w.keys.placed(p.Run), p))
			all = append(all, w.eventsOf(p.Run)...)
		}
	}
	if len(all) > 0 {
		w.groups = append(w.groups, all)
	}
}

func (w *writer) rest(d schema.Decisions) {
	for _, uid := range d.Exhume {
		w.add(schema.Key{Kind: "tombstone"}, op{key: w.keys.under(areaTombstone, uid), remove: true})
	}
	keys := make([]schema.Key, 0, len(w.events))
	for key := range w.events {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, schema.CompareKeys)
	for _, key := range keys {
		w.add(key)
	}
	w.groups = append(w.groups, w.last...)
	var head group // a batch is all or none: it may share the last one
	if d.NotWhole != nil {
		head = append(head, w.put(w.keys.single(areaNotWhole), d.NotWhole))
	}
	if d.Head != "" {
		head = append(head, w.put(w.keys.single(areaHead), d.Head))
	}
	if len(head) > 0 {
		w.groups = append(w.groups, head)
	}
}
