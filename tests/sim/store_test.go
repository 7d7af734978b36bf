package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

const clusterUID = "cluster-1"

var (
	errStore = errors.New("the store did not answer")
	errCrash = errors.New("the controller died")
)

// memStore keeps decisions in memory with the semantics of reconciler/store:
// writes compare the leader, go in batches in the order of X-6, and may end
// between any two of them.
type memStore struct {
	terms    int64
	w        *world
	state    *store.State
	leader   *memLeader
	revision int64
	// issued is every assignment that was written, by machine and order.
	issued map[string]map[order]string
	// fault happens at the write after countdown more, nil for none.
	fault     func(l *memLeader) error
	countdown int
}

// order is an assignment's place in the order of X-4.
type order struct{ epoch, revision int64 }

func orderOf(a *schema.Assignment) order { return order{a.Epoch, a.Revision} }

func newStore(w *world) *memStore {
	return &memStore{w: w, issued: map[string]map[order]string{}, state: emptyState(store.Meta{ClusterUID: clusterUID, Epoch: 1})}
}

func emptyState(meta store.Meta) *store.State {
	return &store.State{
		Meta: meta,
		Accepted: schema.Accepted{ClusterUID: meta.ClusterUID, Epoch: meta.Epoch, Objects: map[schema.Key]*schema.AcceptedObject{},
			Tombstones: map[string]*schema.Tombstone{}},
		Placed: map[schema.Key]schema.Placement{}, Assigned: map[string]store.Assigned{}, Observed: map[string]*schema.MachineReport{},
	}
}

// point is a place where a write may end: an error is what the writer sees.
func (s *memStore) point(l *memLeader) error {
	if s.fault != nil {
		if s.countdown--; s.countdown < 0 {
			fault := s.fault
			s.fault = nil
			if err := fault(l); err != nil {
				return err
			}
		}
	}
	if s.leader != l {
		return fmt.Errorf("write: %w", store.ErrNotLeader)
	}
	return nil
}

// memLeader is a term.
type memLeader struct {
	s     *memStore
	name  string
	term  int64
	stale bool // a write failed: nobody knows what is there
	done  chan struct{}
}

var _ reconciler.Leader = (*memLeader)(nil)

func (s *memStore) campaign(name string) *memLeader {
	s.terms++
	s.leader = &memLeader{s: s, name: name, term: s.terms, stale: true, done: make(chan struct{})}
	return s.leader
}

func (l *memLeader) Done() <-chan struct{} { return l.done }

func (l *memLeader) Term() int64 { return l.term }

func (l *memLeader) Resign(context.Context) {
	if l.s.leader == l {
		l.s.leader = nil
	}
}

// Load gives what was written, as it is read back: nothing is shared with the writer.
func (l *memLeader) Load(context.Context) (*store.State, error) {
	st := *l.s.state
	st.Accepted.Objects = map[schema.Key]*schema.AcceptedObject{}
	for key, a := range l.s.state.Accepted.Objects {
		st.Accepted.Objects[key] = again(a)
	}
	st.Accepted.Tombstones = map[string]*schema.Tombstone{}
	for uid, t := range l.s.state.Accepted.Tombstones {
		st.Accepted.Tombstones[uid] = again(t)
	}
	st.Placed = map[schema.Key]schema.Placement{}
	for key, p := range l.s.state.Placed {
		st.Placed[key] = again(p)
	}
	st.Observed = map[string]*schema.MachineReport{}
	for name, r := range l.s.state.Observed {
		st.Observed[name] = again(r)
	}
	st.Assigned = maps.Clone(l.s.state.Assigned)
	st.Revision = l.s.revision
	l.stale = false
	return &st, nil
}

// saved is a copy of the store as an operator keeps one.
type saved struct {
	state    *store.State
	revision int64
}

// pinned reports whether a machine knows which cluster it belongs to.
func (w *world) pinned() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		_, err := os.Stat(filepath.Join(m.state, "cluster.json"))
		return err == nil
	})
}

// lose takes the store away and gives the controllers an older copy of it, or
// nothing, with a new epoch as `serve --new-epoch` begins one.
func (w *world) lose() {
	if w.saved.state == nil || w.chance(3) {
		if w.store.state.Meta.ClusterUID != "" {
			w.saved = saved{w.store.state, w.store.revision}
		}
		return
	}
	for _, c := range w.ctl {
		c.end("the store is gone", true)
	}
	w.store.leader, w.store.fault = nil, nil
	reached := w.store.state.Meta.Epoch
	switch meta, how := w.saved.state.Meta, w.rng.IntN(4); {
	case how == 0 && w.pinned(): // wiped, and nobody knows what there was: machines that are declared say it
		for _, m := range w.machines {
			if w.declared.objects[schema.Key{Kind: schema.KindMachine, Name: m.name}] == nil {
				w.declared.machine(m.name)
			}
		}
		w.commit()
		w.store.state, w.store.revision = emptyState(store.Meta{Epoch: 1, Adopting: true, Lost: true}), 0
	case how <= 1: // wiped, but for the controller's mark
		w.store.state, w.store.revision = emptyState(store.Meta{ClusterUID: clusterUID, Epoch: reached + 1, Adopting: true, Lost: true}), 0
	default: // restored
		meta.Epoch, meta.Adopting = meta.Epoch+1, true
		st := *w.saved.state
		st.Meta, st.Accepted.Epoch = meta, meta.Epoch
		w.store.state, w.store.revision = &st, w.saved.revision
	}
	w.count("the store is lost")
	w.tracef("the store is lost: epoch %d, revision %d, cluster %q", w.store.state.Meta.Epoch, w.store.revision, w.store.state.Meta.ClusterUID)
}

// again is what a value is once written down and read.
func again[T any](v T) T {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("%v in %s", err, data))
	}
	return out
}

func (l *memLeader) Commit(_ context.Context, d schema.Decisions) (st *store.State, err error) {
	if l.stale {
		return nil, store.ErrStale
	}
	if d.Empty() {
		return l.s.state, nil
	}
	defer func() { l.stale = l.stale || err != nil }()
	for _, part := range parts(d) {
		if err := l.s.point(l); err != nil {
			return nil, err
		}
		l.s.state = l.s.state.Apply(part)
	}
	if err := l.s.point(l); err != nil {
		return nil, err
	}
	return l.s.state, nil
}

// parts are the groups of writes of decisions, in the order of X-6. In a small
// cluster they would share a transaction; here a crash comes between any two.
func parts(d schema.Decisions) []schema.Decisions {
	var list []schema.Decisions
	for _, t := range d.Bury {
		list = append(list, schema.Decisions{Bury: []schema.Tombstone{t}})
	}
	objects := map[schema.Key]*schema.Decisions{}
	at := func(key schema.Key) *schema.Decisions {
		if objects[key] == nil {
			objects[key] = &schema.Decisions{}
		}
		return objects[key]
	}
	for _, a := range d.Accept {
		p := at(a.Object.Object.Key)
		p.Accept = append(p.Accept, a)
	}
	for _, r := range d.Refuse {
		p := at(r.Key)
		p.Refuse = append(p.Refuse, r)
	}
	for _, key := range slices.SortedFunc(maps.Keys(objects), schema.CompareKeys) {
		list = append(list, *objects[key])
	}
	if len(d.Place)+len(d.Unplace) > 0 { // they share a transaction
		list = append(list, schema.Decisions{Place: d.Place, Unplace: d.Unplace})
	}
	for _, r := range slices.Backward(slices.SortedFunc(slices.Values(d.Remove), func(a, b schema.Removal) int { return schema.CompareKeys(a.Key, b.Key) })) {
		list = append(list, schema.Decisions{Remove: []schema.Removal{r}})
	}
	for _, uid := range d.Exhume {
		list = append(list, schema.Decisions{Exhume: []string{uid}})
	}
	if d.Head != "" || d.NotWhole != nil {
		list = append(list, schema.Decisions{Head: d.Head, NotWhole: d.NotWhole})
	}
	return list
}

func (l *memLeader) Assign(_ context.Context, targets map[string]*schema.Assignment, _ map[string][]byte) (n int, err error) {
	if l.stale {
		return 0, store.ErrStale
	}
	defer func() { l.stale = l.stale || err != nil }()
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		changed, err := l.assign(name, targets[name])
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.s.state.Assigned)) {
		if targets[name] != nil {
			continue
		}
		if err := l.s.point(l); err != nil {
			return n, err
		}
		l.s.setAssigned(name, nil)
	}
	return n, nil
}

func (l *memLeader) assign(name string, a *schema.Assignment) (changed bool, err error) {
	given, known := l.s.state.Assigned[name]
	epoch := l.s.state.Meta.Epoch
	if next := store.ReferTo(a, epoch); !known || given.Hash != next.Hash || given.Epoch != epoch {
		if err := l.s.point(l); err != nil {
			return false, err
		}
		l.s.revision++
		given, changed = next, true
		given.Revision = l.s.revision
		l.s.setAssigned(name, &given)
		if l.s.issued[name] == nil {
			l.s.issued[name] = map[order]string{}
		}
		l.s.issued[name][order{epoch, given.Revision}] = given.Hash
	}
	a.ClusterUID, a.Epoch, a.Revision = l.s.state.Meta.ClusterUID, epoch, given.Revision
	return changed, nil
}

func (s *memStore) setAssigned(name string, given *store.Assigned) {
	st := *s.state
	st.Assigned = maps.Clone(st.Assigned)
	delete(st.Assigned, name)
	if given != nil {
		st.Assigned[name] = *given
	}
	s.state = &st
}

func (l *memLeader) SetMeta(_ context.Context, meta store.Meta) (*store.State, error) {
	if l.stale {
		return nil, store.ErrStale
	}
	if err := l.s.point(l); err != nil {
		l.stale = true
		return nil, err
	}
	if l.s.revision++; meta.ClusterUID != clusterUID {
		l.s.w.failf("the store takes itself for the cluster %q", meta.ClusterUID)
	}
	st := *l.s.state
	st.Meta = meta
	st.Accepted.ClusterUID, st.Accepted.Epoch = meta.ClusterUID, meta.Epoch
	l.s.state = &st
	return l.s.state, nil
}

func (l *memLeader) PutReports(_ context.Context, reports ...*schema.MachineReport) (int, error) {
	for _, r := range slices.SortedFunc(slices.Values(reports), func(a, b *schema.MachineReport) int { return compare(a.Name, b.Name) }) {
		if err := l.s.point(l); err != nil {
			return 0, err
		}
		st := *l.s.state
		st.Observed = maps.Clone(st.Observed)
		kept := *r
		kept.Sequence = 0 // it is not written down
		st.Observed[r.Name] = &kept
		l.s.state = &st
	}
	return len(reports), nil
}

func (l *memLeader) PutAlive(_ context.Context, alive store.Alive) error {
	if err := l.s.point(l); err != nil {
		return err
	}
	st := *l.s.state
	st.Alive = alive
	l.s.state = &st
	return nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// repo is a repository in memory: commits with their parents.
type repo struct {
	commits map[string]*commit
	head    string
	broken  error // of the next fetches
}

type commit struct {
	desired *schema.Desired
	parent  string
}

func newRepo() *repo { return &repo{commits: map[string]*commit{}} }

var _ reconciler.Source = (*repo)(nil)

// push makes a commit on parent the newest.
func (r *repo) push(parent string, d *schema.Desired) {
	d.Commit = fmt.Sprintf("c%03d", len(r.commits))
	r.commits[d.Commit] = &commit{d, parent}
	r.head = d.Commit
}

func (r *repo) Fetch(context.Context) (reconciler.Snapshot, error) {
	if r.broken != nil {
		return reconciler.Snapshot{}, r.broken
	}
	return reconciler.Snapshot{Commit: r.head, Time: time.Time{}}, nil
}

func (r *repo) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

func (r *repo) IsAncestor(_ context.Context, older, newer string) (bool, error) {
	for at := newer; at != ""; at = r.commits[at].parent {
		if at == older {
			return true, nil
		}
	}
	return false, nil
}
