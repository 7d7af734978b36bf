package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

var sameState = cmp.Options{cmpopts.IgnoreFields(State{}, "Revision"), cmpopts.EquateEmpty()}

// what Commit returns is what is written, whatever the decisions.
func TestCommittedIsWhatIsLoaded(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 4).Draw(rt, "commits") {
			got, err := l.Commit(t.Context(), drawDecisions(rt, l.state))
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(got, load(t, s), sameState); diff != "" {
				rt.Fatalf("committed (-) and loaded (+) differ:\n%s", diff)
			}
		}
	})
}

// drawDecisions makes decisions that touch few names, so that they meet.
func drawDecisions(rt *rapid.T, st *State) schema.Decisions {
	var d schema.Decisions
	names := []string{"a", "b", "c", "d"}
	some := func(label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(rt, label)
	}
	for _, name := range some("accept") {
		a := accept(name, "c")
		a.Object.Generation = int64(rapid.IntRange(1, 3).Draw(rt, "generation"))
		a.Previous = st.Accepted.Objects[a.Object.Object.Key]
		d.Accept = append(d.Accept, a)
	}
	for _, name := range some("remove") {
		if o := st.Accepted.Objects[driveKey(name)]; o != nil && o.UID != "" {
			d.Remove = append(d.Remove, schema.Removal{Key: driveKey(name), UID: o.UID})
			d.Bury = append(d.Bury, schema.Tombstone{UID: o.UID, Key: driveKey(name)})
		}
	}
	for _, name := range some("refuse") {
		r := schema.Refused{Key: driveKey(name)}
		if rapid.Bool().Draw(rt, "held") {
			r.Refusal = &schema.Refusal{Commit: "c", Candidate: driveObject(name), Hold: schema.Hold{Object: driveKey(name), Code: schema.CodeInvalid}}
		}
		d.Refuse = append(d.Refuse, r)
	}
	for _, name := range some("place") {
		d.Place = append(d.Place, placement(name, "m1"))
	}
	for _, name := range some("unplace") {
		d.Unplace = append(d.Unplace, runKey(name))
	}
	for uid := range st.Accepted.Tombstones {
		if rapid.Bool().Draw(rt, "exhume") && !slices.ContainsFunc(d.Bury, func(t schema.Tombstone) bool { return t.UID == uid }) {
			d.Exhume = append(d.Exhume, uid)
		}
	}
	if rapid.Bool().Draw(rt, "head") {
		d.Head = rapid.SampledFrom([]string{"c1", "c2"}).Draw(rt, "commit")
	}
	d.NotWhole = rapid.SampledFrom([]map[string]schema.Pos{nil, {}, {"o/w": {File: "bad.cue", Line: 1}}}).Draw(rt, "not whole")
	for _, name := range some("events") {
		d.Events = append(d.Events, schema.Event{Object: driveKey(name), Type: "Accepted", Message: name})
	}
	return d
}

// at most 100 operations and 1 MB; creates and changes before removals; the head last.
func TestBatchesAreOrderedAndBounded(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	_, err := l.Commit(t.Context(), many(5, "c1"))
	require.NoError(t, err)
	d := many(300, "c2")
	d.Accept = d.Accept[5:]
	for i := range d.Accept {
		d.Accept[i].Object.Object.Metadata.Annotations = map[string]string{"pad": strings.Repeat("x", 20_000)}
	}
	d.Remove = []schema.Removal{{Key: driveKey("a-000"), UID: "uid-a-000"}, {Key: driveKey("a-001"), UID: "uid-a-001"}}
	d.Bury = []schema.Tombstone{{UID: "uid-a-000", Key: driveKey("a-000")}}
	d.Place = []schema.Placement{placement("train", "m1")}
	d.Unplace = []schema.Key{runKey("old")}
	d.Events = []schema.Event{{Object: driveKey("a-007"), Type: "Accepted", Message: "seven"}}

	groups, _, err := l.groups(t.Context(), d, l.state.Apply(d), &audited{})
	require.NoError(t, err)
	list := batches(groups)
	require.Greater(t, len(list), 3)
	var order []string
	for _, batch := range list {
		require.LessOrEqual(t, len(batch), MaxBatchOps)
		size := 0
		for _, o := range batch {
			size += o.size()
			key := strings.TrimPrefix(o.key, s.keys.root)
			if o.remove {
				key = "-" + key
			}
			order = append(order, key)
		}
		require.LessOrEqual(t, size, MaxBatchBytes)
	}
	at := func(want string) int {
		i := slices.IndexFunc(order, func(k string) bool { return strings.HasPrefix(k, want) })
		require.GreaterOrEqual(t, i, 0, want)
		return i
	}
	require.Less(t, at("accepted/drive/ws-1.a-299"), at("placed/ws-1.train"))
	require.Less(t, at("placed/ws-1.train"), at("-accepted/drive/ws-1.a-000"))
	require.Less(t, at("tombstones/uid-a-000"), at("-accepted/drive/ws-1.a-000"))
	require.Equal(t, at("accepted/drive/ws-1.a-007")+1, at("events/drive/ws-1.a-007/"), "an event goes with its object")
	require.Equal(t, len(order)-1, at("head"))
}

// what one run gives up and another gets is written at once, wherever the
// batches end.
func TestPlacementsShareATransaction(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	_, err := l.Commit(t.Context(), schema.Decisions{Place: []schema.Placement{placement("old", "m1")}})
	require.NoError(t, err)
	d := many(MaxBatchOps-1, "c2")
	d.Place = []schema.Placement{placement("train", "m1"), placement("other", "m2")}
	d.Unplace = []schema.Key{runKey("old")}
	groups, _, err := l.groups(t.Context(), d, l.state.Apply(d), &audited{})
	require.NoError(t, err)
	for _, batch := range batches(groups) {
		var placed []string
		for _, o := range batch {
			if area, name := s.keys.split(o.key); area == areaPlaced {
				placed = append(placed, name)
			}
		}
		if len(placed) > 0 {
			require.Equal(t, []string{"ws-1.old", "ws-1.train", "ws-1.other"}, placed)
		}
	}
}

// a crash between any two batches leaves whole objects, no head, and a
// state from which the same decisions lead to the same end.
func TestCrashBetweenBatches(t *testing.T) {
	boom := errors.New("crash")
	for crash := 1; ; crash++ {
		left := 0
		armed := false
		s := open(t, func(o *Options) {
			o.Point = func(string) error {
				if left--; armed && left == 0 {
					return boom
				}
				return nil
			}
		})
		l := lead(t, s)
		_, err := l.Commit(t.Context(), many(150, "c1"))
		require.NoError(t, err)
		next := many(280, "c2")
		next.Accept = next.Accept[150:]
		for i := range 30 {
			key := driveKey(fmt.Sprintf("a-%03d", i))
			next.Remove = append(next.Remove, schema.Removal{Key: key, UID: "uid-" + key.Name})
			next.Bury = append(next.Bury, schema.Tombstone{UID: "uid-" + key.Name, Key: key})
		}
		want := l.state.Apply(next)
		armed, left = true, crash
		_, err = l.Commit(t.Context(), next)
		if err == nil {
			require.Greater(t, crash, 3, "several crash points must exist")
			return
		}
		require.ErrorIs(t, err, boom)
		_, err = l.Commit(t.Context(), next)
		require.ErrorIs(t, err, ErrStale)
		armed = false
		after, err := l.Load(t.Context())
		require.NoError(t, err)
		for _, r := range next.Remove {
			if after.Accepted.Objects[r.Key] == nil {
				require.NotNil(t, after.Accepted.Tombstones[r.UID], "a removal without its tombstone (X-3)")
				require.Len(t, after.Accepted.Objects, 250+30-missing(after, next), "removals come after creates")
			}
		}
		got, err := l.Commit(t.Context(), next)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got, sameState))
		require.Empty(t, cmp.Diff(want, load(t, s), sameState))
	}
}

func missing(st *State, d schema.Decisions) (n int) {
	for _, r := range d.Remove {
		if st.Accepted.Objects[r.Key] == nil {
			n++
		}
	}
	return n
}

// the write of a deposed leader fails and writes nothing.
func TestDeposedLeaderCannotWrite(t *testing.T) {
	s := open(t)
	old := lead(t, s)
	_, err := s.client.Delete(t.Context(), s.keys.prefix(areaLeader), clientv3.WithPrefix())
	require.NoError(t, err)
	<-old.Done()
	now := lead(t, s)
	_, err = now.Commit(t.Context(), many(1, "c1"))
	require.NoError(t, err)
	before := revision(t, s)
	_, err = old.Commit(t.Context(), many(2, "c2"))
	require.ErrorIs(t, err, ErrNotLeader)
	_, err = old.Load(t.Context())
	require.NoError(t, err)
	_, err = old.Assign(t.Context(), map[string]*schema.Assignment{"m1": {Machine: "m1"}}, nil)
	require.ErrorIs(t, err, ErrNotLeader)
	_, err = old.PutReports(t.Context(), &schema.MachineReport{Name: "m1"})
	require.ErrorIs(t, err, ErrNotLeader)
	require.ErrorIs(t, old.PutAlive(t.Context(), Alive{Up: []string{"m1"}}), ErrNotLeader)
	require.Equal(t, before, revision(t, s))
	require.Equal(t, "c1", load(t, s).Accepted.Head)
}

//
func TestOneLeadsTheOtherTakesOver(t *testing.T) {
	s := open(t)
	seen := make(chan string, 10)
	go func() { _ = s.WatchLeader(t.Context(), func(a string) { seen <- a }) }()
	require.Equal(t, "", <-seen)
	first, err := s.Campaign(t.Context(), "one")
	require.NoError(t, err)
	require.Equal(t, "one", <-seen)
	second := make(chan *Leader)
	go func() {
		l, err := s.Campaign(t.Context(), "two")
		if err == nil {
			second <- l
		}
	}()
	first.Resign(t.Context())
	<-first.Done()
	l := <-second
	for a := range seen {
		if a == "two" {
			break
		}
	}
	l.Resign(t.Context())
}

func TestTooLargeValueWritesNothing(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	d := many(3, "c1")
	d.Accept[1].Object.Object.Metadata.Annotations = map[string]string{"pad": strings.Repeat("x", MaxValueBytes)}
	before := revision(t, s)
	_, err := l.Commit(t.Context(), d)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "accepted/drive/ws-1.a-001")
	require.Equal(t, before, revision(t, s))
	_, err = l.Commit(t.Context(), many(1, "c1"))
	require.NoError(t, err, "a refused value does not stop the leader")
}

func TestNothingDecidedWritesNothing(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	before := revision(t, s)
	for range 100 {
		_, err := l.Commit(t.Context(), schema.Decisions{})
		require.NoError(t, err)
	}
	require.Equal(t, before, revision(t, s))
}
