package reconciler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// written gathers what passes wrote.
type written struct {
	mu   sync.Mutex
	list []schema.Decisions
}

func (w *written) add(d schema.Decisions) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, d)
}

func (w *written) records() (out []schema.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.list {
		out = append(out, d.Records...)
	}
	return out
}

func (w *written) types(key schema.Key) (out []schema.RecordType) {
	for _, r := range w.records() {
		if r.Object == key {
			out = append(out, r.Type)
		}
	}
	return out
}

// lastStatus is the newest status that was written of a commit.
func (w *written) lastStatus(commit string) *schema.CommitStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out schema.CommitStatus
	seen := false
	for _, d := range w.list {
		if d.Status != nil && d.Status.Commit.ID == commit {
			out, seen = out.Merge(*d.Status), true
		}
	}
	if !seen {
		return nil
	}
	return &out
}

// G-11: what commits did to an object and where it was placed is in its history,
// with the commit; and each commit has its status.
func TestHistoryOfObjects(t *testing.T) {
	in(t, func(t *testing.T) {
		var w written
		b := start(t, func(c *Config) { c.Hooks.Committed = w.add })
		defer b.stop()
		b.source.push("c1", machineObject("m1"), runObject("train"))
		time.Sleep(time.Second)
		b.source.push("c2", machineObject("m1"), runObject("train", "x"))
		time.Sleep(time.Second)
		b.source.push("c3", machineObject("m1"))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []schema.RecordType{
			schema.RecordAccepted, schema.RecordPlaced, schema.RecordChanged, schema.RecordRemoved, schema.RecordUnplaced,
		}, w.types(runKey("train")))
		changed := w.records()[3]
		require.Equal(t, "c2", changed.Commit.ID)
		require.EqualValues(t, 2, changed.Generation)
		require.Equal(t, "train-0 on m1", w.records()[2].Message)

		for _, commit := range []string{"c1", "c2", "c3"} {
			s := w.lastStatus(commit)
			require.NotNil(t, s, commit)
			require.Equal(t, schema.CommitOK, s.State, commit)
			require.NotEmpty(t, s.Objects)
		}
		require.Len(t, w.lastStatus("c2").Objects, 1, "only what the commit touched")
	})
}

// G-9, G-11: holds and invalid files are in the commit's status, and holds in the history.
func TestHoldsAreTold(t *testing.T) {
	now := time.Unix(1000, 0)
	key := runKey("train")
	l := &leading{Reconciler: &Reconciler{}, state: &store.State{}, judged: true}
	l.found.desired = &schema.Desired{Commit: "c2", Diagnostics: []schema.Diagnostic{
		{Severity: schema.SeverityError, Code: schema.CodeSyntax, Message: "no", Pos: schema.Pos{File: "x.cue", Line: 3}},
		{Severity: schema.SeverityWarning, Code: schema.CodeWarning, Message: "careful"},
	}}
	l.found.info = schema.NewCommitInfo("c2", "ada <ada@example.org>", "more", now)
	hold := schema.Hold{Object: key, Code: schema.CodeDatavolumeInUse, Status: 409, Message: "in use"}
	d := schema.Decisions{Refuse: []schema.Refused{{Key: key, Refusal: &schema.Refusal{Hold: hold}}, {Key: runKey("b")}}}
	l.audit(&d, schema.Plan{Holds: []schema.Hold{hold}, Decisions: d}, now)
	require.Equal(t, schema.RecordHeld, d.Records[0].Type)
	require.Equal(t, schema.CodeDatavolumeInUse, d.Records[0].Code)
	require.Equal(t, "unverified author ada <ada@example.org>", d.Records[0].Commit.By())
	require.Equal(t, schema.RecordReleased, d.Records[1].Type)
	status := (schema.CommitStatus{}).Merge(*d.Status)
	require.Equal(t, schema.CommitFailed, status.State)
	require.Equal(t, "x.cue", status.Objects[0].File)
	require.Equal(t, schema.CommitHeld, status.Objects[1].State)
	require.Len(t, status.Objects, 2, "a warning is no failure")

	// Nothing new: nothing to write.
	l.log.known = l.log.next
	again := schema.Decisions{}
	l.audit(&again, schema.Plan{Holds: []schema.Hold{hold}}, now)
	require.True(t, again.Empty())
}

// X-27, D-71: a deletion by force names what forced it, and an eviction says that it is one.
func TestForcedDeletionsAndEvictionsAreTold(t *testing.T) {
	drive := schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "cache"}
	by := schema.Key{Kind: schema.KindDeletion, Namespace: "ws-1", Name: "away"}
	deletion := func(force bool) *schema.AcceptedObject {
		return &schema.AcceptedObject{UID: "d", Target: "u", Object: &schema.Object{Key: by, Spec: &schema.DeletionSpec{Drive: "cache", Force: force}}}
	}
	removed := func(force bool) schema.Record {
		l := &leading{Reconciler: &Reconciler{}, state: &store.State{Accepted: schema.Accepted{Objects: map[schema.Key]*schema.AcceptedObject{by: deletion(force)}}}}
		d := schema.Decisions{Remove: []schema.Removal{{Key: drive, UID: "u"}}}
		l.audit(&d, schema.Plan{}, time.Unix(1, 0))
		return d.Records[0]
	}
	require.Equal(t, schema.RecordForcedDeletion, removed(true).Type)
	require.Contains(t, removed(true).Message, "deletion/ws-1.away")
	require.Equal(t, schema.RecordRemoved, removed(false).Type)

	l := &leading{Reconciler: &Reconciler{}, state: &store.State{}}
	d := schema.Decisions{Events: []schema.Event{
		{Object: drive, Type: "Removed", Machine: "m1", Message: "Copy removed from m1: evicted: the disk it is on is nearly full"},
		{Object: drive, Type: "Removed", Machine: "m2", Message: "Copy removed from m2"},
		{Object: drive, Type: "Removed", Message: "its copies on every machine are deleted"},
	}}
	l.audit(&d, schema.Plan{}, time.Unix(1, 0))
	require.Len(t, d.Records, 2)
	require.Equal(t, schema.RecordEvicted, d.Records[0].Type)
	require.Equal(t, schema.RecordCopyRemoved, d.Records[1].Type)
}

// an approval names what waits; it is written before it is answered, and
// another controller honours it.
func TestApproval(t *testing.T) {
	in(t, func(t *testing.T) {
		var w written
		b := start(t, func(c *Config) { c.Hooks.Committed = w.add })
		_, err := b.Approve(t.Context(), "c1", "ada")
		require.ErrorIs(t, err, ErrNotLeading, "before it leads")
		cluster := clusterObject(func(c *schema.ClusterSpec) { c.Sync = schema.SyncApprove })
		b.source.push("c1", cluster)
		time.Sleep(time.Second)
		for _, c := range []struct{ commit, want string }{
			{"c1", ""}, // in force already
			{"c9", `commit "c9" does not wait for approval: no commit waits`},
			{"", "does not wait"},
		} {
			_, err := b.Approve(t.Context(), c.commit, "ada")
			if c.want == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, c.want)
		}
		b.source.push("c2-0123456789", cluster, machineObject("m1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, schema.CommitPending, w.lastStatus("c2-0123456789").State)
		_, err = b.Approve(t.Context(), "c2", "ada")
		require.ErrorContains(t, err, "commit c2-0123456789 does", "two digits are not enough")
		b.store.fail(errTest)
		_, err = b.Approve(t.Context(), "c2-0123", "ada")
		require.ErrorIs(t, err, errTest)
		b.store.fail(nil)
		time.Sleep(time.Minute)
		require.Equal(t, "c1", b.Status().Head)
		full, err := b.Approve(t.Context(), "c2-0123", "ada")
		require.NoError(t, err)
		require.Equal(t, "c2-0123456789", full)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "c2-0123456789", b.store.state.Approved.Commit)
		require.Equal(t, "c2-0123456789", b.Status().Head)
		require.Equal(t, schema.CommitOK, w.lastStatus("c2-0123456789").State)
		b.stop()
		_, err = b.Approve(t.Context(), "c2-0123", "ada")
		require.ErrorIs(t, err, ErrNotLeading)
	})
}

// where nobody is asked there is nothing to approve.
func TestApprovalWithoutApproveMode(t *testing.T) {
	in(t, func(t *testing.T) {
		b := start(t)
		defer b.stop()
		b.source.push("c1", clusterObject(nil))
		time.Sleep(time.Second)
		_, err := b.Approve(t.Context(), "c1", "ada")
		require.ErrorContains(t, err, "asks for no approval")
		b.source.push("c2", clusterObject(func(c *schema.ClusterSpec) { c.Sync = schema.SyncApprove }))
		time.Sleep(time.Second)
		b.source.push("c3", clusterObject(nil))
		time.Sleep(time.Second)
		_, err = b.Approve(t.Context(), "c3", "ada")
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "c3", b.Status().Head)
	})
}

// G-7: what is written first is judged under leadership, and a refusal of it ends the controller.
func TestOpening(t *testing.T) {
	in(t, func(t *testing.T) {
		calls := 0
		b := start(t, func(c *Config) {
			c.Opening = func(s *store.State) (schema.Decisions, error) {
				calls++
				require.NotNil(t, s)
				return schema.Decisions{Approve: &schema.Approval{Commit: "c9"}}, nil
			}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "c9", b.store.state.Approved.Commit)
		b.stop()
		require.Equal(t, 1, calls)

		refuse := errors.New("stale")
		r, err := New(Config{Source: newSource(), Load: b.source.load, Store: newFakeStore(), Link: newFakeLink(),
			Opening: func(*store.State) (schema.Decisions, error) { return schema.Decisions{}, refuse }})
		require.NoError(t, err)
		err = r.Run(context.Background())
		require.ErrorIs(t, err, refuse)
		require.ErrorAs(t, err, new(*OpeningError))
	})
}
