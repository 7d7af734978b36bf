package reconciler

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// fakeSource is a repository in memory: commits by name, each on the one before.
type fakeSource struct {
	mu      sync.Mutex
	commits map[string]*schema.Desired
	line    []string // the history of the newest commit, oldest first
	err     error
	fetches int
	signals chan struct{}
}

func newSource() *fakeSource {
	return &fakeSource{commits: map[string]*schema.Desired{}, signals: make(chan struct{}, 1)}
}

// push makes a commit the newest one and signals it.
func (s *fakeSource) push(commit string, objects ...*schema.Object) {
	d := &schema.Desired{Commit: commit, Objects: map[schema.Key]*schema.Object{}}
	for _, o := range objects {
		d.Objects[o.Key] = o
	}
	s.mu.Lock()
	s.commits[commit] = d
	s.line = append(s.line, commit)
	s.mu.Unlock()
	s.signal()
}

// rewrite drops the history.
func (s *fakeSource) rewrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = nil
}

func (s *fakeSource) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.signal()
}

func (s *fakeSource) signal() {
	select {
	case s.signals <- struct{}{}:
	default:
	}
}

func (s *fakeSource) Fetch(context.Context) (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if s.err != nil {
		return Snapshot{}, s.err
	}
	if len(s.line) == 0 {
		return Snapshot{}, errors.New("the repository has no commit")
	}
	return Snapshot{Commit: s.line[len(s.line)-1]}, nil
}

func (s *fakeSource) Watch(context.Context) (<-chan struct{}, error) { return s.signals, nil }

func (s *fakeSource) IsAncestor(_ context.Context, older, newer string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, j := slices.Index(s.line, older), slices.Index(s.line, newer)
	return i >= 0 && i <= j, nil
}

func (s *fakeSource) load(_ context.Context, _ fs.FS, commit string, _ time.Time) (*schema.Desired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits[commit], nil
}

// fakeStore keeps decisions in memory; several controllers may share it.
type fakeStore struct {
	mu       sync.Mutex
	state    *store.State
	revision int64
	err      error // of every write
	writes   int
	events   []schema.Event
	free     chan struct{} // holds a token while nobody leads
	leader   string        // as WatchLeader says
	blind    error         // of WatchLeader
}

func newFakeStore() *fakeStore {
	s := &fakeStore{free: make(chan struct{}, 1), leader: "elsewhere"}
	s.free <- struct{}{}
	s.state = (&store.State{
		Meta:     store.Meta{ClusterUID: "uid", Epoch: 1},
		Accepted: schema.Accepted{Objects: map[schema.Key]*schema.AcceptedObject{}, Tombstones: map[string]*schema.Tombstone{}},
		Placed:   map[schema.Key]schema.Placement{}, Assigned: map[string]store.Assigned{},
		Observed: map[string]*schema.MachineReport{},
	})
	return s
}

func (s *fakeStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) Campaign(ctx context.Context, _ string) (Leader, error) {
	select {
	case <-s.free:
		return &fakeLeader{fakeStore: s, done: make(chan struct{})}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *fakeStore) WatchLeader(ctx context.Context, f func(string)) error {
	s.mu.Lock()
	leader, err := s.leader, s.blind
	s.mu.Unlock()
	if err != nil {
		return err
	}
	f(leader)
	<-ctx.Done()
	return ctx.Err()
}

type fakeLeader struct {
	*fakeStore
	done chan struct{}
	once sync.Once
}

func (l *fakeLeader) Done() <-chan struct{} { return l.done }

func (l *fakeLeader) Term() int64 { return 7 }

func (l *fakeLeader) Resign(context.Context) {
	l.once.Do(func() { close(l.done); l.free <- struct{}{} })
}

func (l *fakeLeader) Load(context.Context) (*store.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.err
}

func (l *fakeLeader) Commit(_ context.Context, d schema.Decisions) (*store.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Empty() {
		return l.state, nil
	}
	if l.err != nil {
		return nil, l.err
	}
	l.writes++
	l.state = l.state.Apply(d)
	l.events = append(l.events, d.Events...)
	return l.state, nil
}

func (l *fakeLeader) Assign(_ context.Context, targets map[string]*schema.Assignment, _ map[string][]byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, n := maps.Clone(l.state.Assigned), 0
	for name, a := range targets {
		plain := *a
		plain.Commit = ""
		if hash := schema.HashJSON(plain); next[name].Hash != hash {
			if l.err != nil {
				return 0, l.err
			}
			l.revision++
			l.writes++
			n++
			next[name] = store.Assigned{Epoch: 1, Hash: hash, Revision: l.revision}
		}
		a.ClusterUID, a.Epoch, a.Revision = "uid", 1, next[name].Revision
	}
	state := *l.state
	state.Assigned = next
	l.state = &state
	return n, nil
}

func (l *fakeLeader) SetMeta(_ context.Context, meta store.Meta) (*store.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	l.writes++
	state := *l.state
	state.Meta = meta
	l.state = &state
	return l.state, nil
}

func (l *fakeLeader) PutReports(_ context.Context, reports ...*schema.MachineReport) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(reports), l.err
}

func (l *fakeLeader) PutAlive(context.Context, store.Alive) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// fakeLink is machines in memory.
type fakeLink struct {
	mu        sync.Mutex
	leading   bool
	leader    string
	heard     map[string]link.Presence
	reports   map[string]*schema.MachineReport
	claims    map[string]link.Claim
	held      map[string]link.Held
	term      link.Term
	published []map[string]*schema.Assignment
	orgs      map[string]string
	zones     link.Zones
	named     int
	changed   chan struct{}
}

func newFakeLink() *fakeLink {
	return &fakeLink{changed: make(chan struct{}, 1), heard: map[string]link.Presence{}, reports: map[string]*schema.MachineReport{}}
}

func (f *fakeLink) Lead(t link.Term) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading, f.term = true, t
}

func (f *fakeLink) Identify(clusterUID string, epoch int64, adopting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.term.ClusterUID, f.term.Epoch, f.term.Adopting = clusterUID, epoch, adopting
}

func (f *fakeLink) Claims() map[string]link.Claim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.claims)
}

func (f *fakeLink) Held() map[string]link.Held {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.held)
}

func (f *fakeLink) Follow(leader string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading, f.leader, f.heard = false, leader, map[string]link.Presence{}
}

func (f *fakeLink) Publish(targets map[string]*schema.Assignment, _ map[string][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published = append(f.published, targets)
}

func (f *fakeLink) PublishNames(orgs map[string]string, zones link.Zones) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orgs, f.zones = orgs, zones
	f.named++
}

func (f *fakeLink) Changed() <-chan struct{} { return f.changed }

func (f *fakeLink) Take() ([]*schema.MachineReport, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Collect(maps.Values(f.reports))
	f.reports = map[string]*schema.MachineReport{}
	return out, false
}

func (f *fakeLink) Machines() map[string]link.Presence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.heard)
}

// hear is a report coming in now.
func (f *fakeLink) hear(r schema.MachineReport) {
	f.mu.Lock()
	f.heard[r.Name] = link.Presence{Connected: true, Heard: time.Now()}
	f.reports[r.Name] = &r
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fakeLink) isLeading() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leading
}

func (f *fakeLink) passes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.published)
}

func (f *fakeLink) last() map[string]*schema.Assignment {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.published) == 0 {
		return nil
	}
	return f.published[len(f.published)-1]
}

// fakePlan lets everything through, places each run's one worker on the first
// machine, and asks for it to be started.
func fakePlan(in planner.Input) schema.Plan {
	p := schema.Plan{Targets: map[string]*schema.Assignment{}, Blobs: map[string][]byte{}}
	objects := map[schema.Key]*schema.Object{}
	for key, a := range in.Accepted.Objects {
		objects[key] = a.Object
	}
	if in.Desired != nil && !in.Rewritten {
		objects = in.Desired.Objects
		p.Commit = in.Desired.Commit
		if p.Commit != in.Accepted.Head {
			p.Decisions.Head = p.Commit
		}
		fakeAccept(in, &p)
	}
	var machines []string
	for key := range objects {
		if key.Kind == schema.KindMachine {
			machines = append(machines, key.Name)
			p.Targets[key.Name] = &schema.Assignment{Version: schema.AssignmentVersion, Machine: key.Name, Commit: p.Commit}
		}
	}
	slices.Sort(machines)
	for _, key := range slices.SortedFunc(maps.Keys(objects), schema.CompareKeys) {
		if key.Kind == schema.KindRun && len(machines) > 0 {
			fakePlace(in, &p, key, machines[0], objects[key])
		}
	}
	for key := range in.Placed {
		if objects[key] == nil {
			p.Decisions.Unplace = append(p.Decisions.Unplace, key)
		}
	}
	return p
}

func fakeAccept(in planner.Input, p *schema.Plan) {
	for _, key := range slices.SortedFunc(maps.Keys(in.Desired.Objects), schema.CompareKeys) {
		o, old := in.Desired.Objects[key], in.Accepted.Objects[key]
		if old != nil && old.Object.Hash == o.Hash {
			continue
		}
		next := schema.AcceptedObject{UID: "uid-" + key.Scoped(), Generation: 1, Commit: p.Commit, Object: o}
		if old != nil {
			next.UID, next.Generation = old.UID, old.Generation+1
		}
		p.Decisions.Accept = append(p.Decisions.Accept, schema.Acceptance{Object: next, Previous: old})
		p.Decisions.Events = append(p.Decisions.Events, schema.Event{At: in.Now, Object: key, Type: "Accepted", Commit: p.Commit})
	}
	for _, key := range slices.SortedFunc(maps.Keys(in.Accepted.Objects), schema.CompareKeys) {
		if in.Desired.Objects[key] == nil {
			p.Decisions.Remove = append(p.Decisions.Remove, schema.Removal{Key: key, UID: in.Accepted.Objects[key].UID})
		}
	}
}

func fakePlace(in planner.Input, p *schema.Plan, key schema.Key, machine string, o *schema.Object) {
	blob := []byte(o.Hash)
	hash := schema.HashBytes(blob)
	p.Blobs[hash] = blob
	uid := "uid-" + key.Scoped()
	if _, ok := in.Placed[key]; !ok {
		p.Decisions.Place = append(p.Decisions.Place, schema.Placement{
			Run: key, RunUID: uid, Generation: 1, Spec: o.Spec.(*schema.RunSpec), Org: o.Org, Workspace: o.Workspace,
			Workers: []schema.PlacedWorker{{Name: key.Name + "-0", Machine: machine}},
		})
	}
	w := schema.WorkerTarget{Run: key, RunUID: uid, Generation: 1, Name: key.Name + "-0", Template: hash}
	p.Targets[machine].Workers = append(p.Targets[machine].Workers, w)
	for _, r := range in.Observed.Machines {
		for _, seen := range r.Workers {
			if seen.RunUID == uid {
				return
			}
		}
	}
	p.Steps = append(p.Steps, &schema.Step{Machine: machine, Action: schema.ActionStartWorker, Object: key})
}

func machineObject(name string) *schema.Object {
	o := &schema.Object{Key: schema.Key{Kind: schema.KindMachine, Name: name}, Org: "acme", Metadata: schema.Metadata{Name: name}, Spec: &schema.MachineSpec{}}
	o.Rehash()
	return o
}

func runObject(name string, labels ...string) *schema.Object {
	o := &schema.Object{Key: runKey(name), Org: "acme", Workspace: "w", Metadata: schema.Metadata{Name: name}, Spec: &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{Image: "x"}}}
	for _, l := range labels {
		o.Metadata.Labels = map[string]string{"l": l}
	}
	o.Rehash()
	return o
}

func clusterObject(change func(*schema.ClusterSpec)) *schema.Object {
	spec := &schema.ClusterSpec{}
	if change != nil {
		change(spec)
	}
	o := &schema.Object{Key: schema.Key{Kind: schema.KindCluster, Name: "c"}, Metadata: schema.Metadata{Name: "c"}, Spec: spec}
	o.Rehash()
	return o
}

func runKey(name string) schema.Key {
	return schema.Key{Kind: schema.KindRun, Namespace: "ws-1", Name: name}
}

var errTest = errors.New("broken")
