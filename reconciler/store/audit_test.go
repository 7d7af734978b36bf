package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func record(name string, kind schema.RecordType, message string) schema.Record {
	return schema.Record{Object: driveKey(name), Type: kind, Message: message}
}

// G-11: the audit log has one key a record, is written with its decision, outlives
// its object, is capped an object, and is no part of the state.
func TestHistory(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := open(t, func(o *Options) {
		o.HistoryPerObject = 10
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	l := lead(t, s)
	history := func(name string) []schema.Record {
		got, err := s.History(t.Context(), driveKey(name))
		require.NoError(t, err)
		return got
	}
	_, err := l.Commit(t.Context(), schema.Decisions{
		Accept:  []schema.Acceptance{accept("a", "c1")},
		Records: []schema.Record{record("a", schema.RecordAccepted, "one"), record("b", schema.RecordHeld, "two")},
	})
	require.NoError(t, err)
	require.Len(t, history("a"), 1)
	require.Len(t, history("b"), 1)
	_, err = l.Commit(t.Context(), schema.Decisions{
		Remove:  []schema.Removal{{Key: driveKey("a"), UID: "uid-a"}},
		Records: []schema.Record{record("a", schema.RecordRemoved, "gone")},
	})
	require.NoError(t, err)
	require.Equal(t, schema.RecordRemoved, history("a")[1].Type, "an object that is gone keeps its history")
	for i := range 40 {
		_, err = l.Commit(t.Context(), schema.Decisions{Records: []schema.Record{record("a", schema.RecordPlaced, fmt.Sprint(i))}})
		require.NoError(t, err)
	}
	got := history("a")
	require.LessOrEqual(t, len(got), 10)
	require.Equal(t, "39", got[len(got)-1].Message)
	require.Len(t, history("b"), 1, "the cap is an object's own")

	// The next leader goes on counting where this one stopped.
	l.Resign(t.Context())
	l = lead(t, s)
	for i := range 15 {
		_, err = l.Commit(t.Context(), schema.Decisions{Records: []schema.Record{record("a", schema.RecordPlaced, fmt.Sprint("next ", i))}})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(history("a")), 10)
	require.NotContains(t, load(t, s).Accepted.Objects, driveKey("b"))
}

// G-11: what became of a commit is kept by its id, merged over passes and terms.
func TestCommitStatus(t *testing.T) {
	s := open(t, func(o *Options) { o.Commits = 5 })
	l := lead(t, s)
	put := func(s *schema.CommitStatus) {
		_, err := l.Commit(t.Context(), schema.Decisions{Status: s})
		require.NoError(t, err)
	}
	of := func(id string, list ...schema.CommitObject) *schema.CommitStatus {
		return &schema.CommitStatus{Commit: schema.NewCommitInfo(id, "ada", "change", time.Time{}), Objects: list}
	}
	is := func(name string, state schema.CommitState) schema.CommitObject {
		return schema.CommitObject{Object: driveKey(name), State: state}
	}
	put(of("c1", is("a", schema.CommitOK), is("b", schema.CommitHeld)))
	got, err := s.CommitStatus(t.Context(), "c1")
	require.NoError(t, err)
	require.Equal(t, schema.CommitHeld, got.State)
	require.Equal(t, []schema.CommitObject{is("b", schema.CommitHeld), is("a", schema.CommitOK)}, got.Objects)

	// Another term that knows only what holds now: a stays, b was let through.
	l.Resign(t.Context())
	l = lead(t, s)
	put(of("c1"))
	got, err = s.CommitStatus(t.Context(), "c1")
	require.NoError(t, err)
	require.Equal(t, schema.CommitOK, got.State)
	require.Equal(t, []schema.CommitObject{is("a", schema.CommitOK), is("b", schema.CommitOK)}, got.Objects)
	before := revision(t, s)
	put(of("c1"))
	require.Equal(t, before, revision(t, s), "nothing new writes nothing")

	for i := range 20 {
		put(of(fmt.Sprintf("d%02d", i)))
	}
	got, err = s.CommitStatus(t.Context(), "c1")
	require.NoError(t, err)
	require.Nil(t, got, "the oldest commits go")
	got, err = s.CommitStatus(t.Context(), "d19")
	require.NoError(t, err)
	require.Equal(t, []schema.CommitObject{}, got.Objects)
}

// an approval outlives the controller that took it.
func TestApprovalIsDurable(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	st, err := l.Commit(t.Context(), schema.Decisions{Approve: &schema.Approval{Commit: "c1", By: "ada", At: at}})
	require.NoError(t, err)
	require.Equal(t, "c1", st.Approved.Commit)
	require.Equal(t, schema.Approval{Commit: "c1", By: "ada", At: at}, load(t, s).Approved)
}

// G-7, X-39: a saved plan is used once; the retry of the same apply is no second use.
func TestPlanIsUsedOnce(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	use := func(nonce string) error {
		_, err := l.Commit(t.Context(), schema.Decisions{Used: &schema.UsedPlan{Digest: "d", Commit: "c1", Nonce: nonce}})
		return err
	}
	none, err := s.UsedPlan(t.Context(), "d")
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, use("one"))
	require.NoError(t, use("one"))
	require.ErrorIs(t, use("two"), ErrUsed)
	got, err := s.UsedPlan(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, "one", got.Nonce)
	l.Resign(t.Context())
	require.ErrorIs(t, func() error {
		_, err := lead(t, s).Commit(t.Context(), schema.Decisions{Used: &schema.UsedPlan{Digest: "d", Nonce: "two"}})
		return err
	}(), ErrUsed)
}
