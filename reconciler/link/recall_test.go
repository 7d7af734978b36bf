package link

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

func (a *agent) welcomed() *schema.Welcome {
	a.t.Helper()
	down, err := a.Recv()
	require.NoError(a.t, err)
	require.NotNil(a.t, down.Welcome, "it is the first message")
	require.False(a.t, down.Time.IsZero())
	return down.Welcome
}

// a machine that has seen more than the store can have made is turned away,
// and what it says is known; one that has seen what this leader published is not.
func TestStoreBehindMachines(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 2, Revision: 100})
	seen := func(epoch, revision int64) func(*schema.Hello) {
		return func(h *schema.Hello) { h.ClusterUID, h.Epoch, h.Revision = "uid", epoch, revision }
	}
	connect(t, r.conn, "m1").hello(seen(2, 101)).refused(codes.FailedPrecondition, "epoch 2, revision 100, and the machine has seen epoch 2, revision 101")
	connect(t, r.conn, "m2").hello(seen(3, 1)).refused(codes.FailedPrecondition, "start the controller with --new-epoch")
	require.False(t, r.Machines()["m1"].Connected)
	require.True(t, r.Claims()["m1"].Later(2, 100))
	require.False(t, r.Claims()["m1"].Later(2, 101))
	require.True(t, r.Claims()["m2"].Later(2, 101))
	require.False(t, connect(t, r.conn, "m3").hello(seen(1, 5000)).welcomed().Recall)
	r.Publish(targets(&schema.Assignment{Machine: "m1", Epoch: 2, Revision: 130}), nil)
	connect(t, r.conn, "m1").hello(seen(2, 101)).welcomed()
	r.connected("m1")
}

// while a new epoch is adopted machines of any one cluster are let in and asked
// what they hold; when it is known whose the store is, the others are put off.
func TestRecall(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{Epoch: 1, Adopting: true})
	of := func(uid string) func(*schema.Hello) {
		return func(h *schema.Hello) { h.ClusterUID, h.Epoch, h.Revision = uid, 7, 900 }
	}
	ours := connect(t, r.conn, "m1").hello(of("uid-a"))
	require.True(t, ours.welcomed().Recall)
	theirs := connect(t, r.conn, "m2").hello(of("uid-b"))
	require.True(t, theirs.welcomed().Recall)
	data := []byte(strings.Repeat("x", 100))
	hash := schema.HashBytes(data)
	require.NoError(t, ours.Send(&schema.Up{Held: &schema.Held{Blobs: map[string][]byte{hash: data, "odd": data}, More: true}}))
	require.NoError(t, ours.Send(&schema.Up{Held: &schema.Held{Assignment: assignment("m1", 900),
		Ended: []schema.EndedWorker{{WorldSize: 2}}}}))
	r.until("m1 has told", func() bool { _, told := r.Held()["m1"]; return told })
	held := r.Held()["m1"]
	require.Equal(t, int64(900), held.Assignment.Revision)
	require.Equal(t, map[string][]byte{hash: data}, held.Blobs, "what does not have its hash is nothing")
	require.Len(t, held.Ended, 1)

	r.Identify("uid-a", 8, true)
	theirs.refused(codes.Aborted, "")
	connect(t, r.conn, "m2").hello(of("uid-b")).refused(codes.FailedPrecondition,
		"the machine belongs to cluster uid-b, this is cluster uid-a: if this controller's store was lost, start it with --new-epoch")
	require.Equal(t, "uid-b", r.Claims()["m2"].ClusterUID)
	require.True(t, r.Machines()["m1"].Connected)
	r.Identify("uid-a", 8, false)
	require.False(t, connect(t, r.conn, "m3").hello(of("uid-a")).welcomed().Recall)
	r.Follow("")
	require.Empty(t, r.Claims())
	require.Empty(t, r.Held())
}

// what a leader knows of a machine, from the store or from an earlier stream,
// is not asked for again.
func TestKnownReportsAreNotSentAgain(t *testing.T) {
	r := newRig(t, Options{})
	known := &schema.MachineReport{Name: "m1", Workers: []schema.Worker{{Name: "train-0"}}, Copies: []schema.Copy{{UID: "u"}}}
	r.Lead(Term{ClusterUID: "uid", Epoch: 1, Known: map[string]*schema.MachineReport{"m1": known}})
	now := *known
	now.Incarnation, now.Sequence, now.Copies = "i1", 1, []schema.Copy{{UID: "u2"}}
	digests, err := link.Digests(&now)
	require.NoError(t, err)
	a := connect(t, r.conn, "m1").hello(func(h *schema.Hello) { h.Parts = digests })
	have := a.welcomed().Have
	require.ElementsMatch(t, []string{"machine", "workers"}, have)
	a.sender = link.NewSender(digests, have)
	a.report(func(m *schema.MachineReport) { *m = now })
	got := r.reports("m1")
	require.Equal(t, now, *got)
	require.Nil(t, known.Mounts)
	a.report(func(m *schema.MachineReport) { *m = now; m.Sequence = 2 })
	a.report(func(m *schema.MachineReport) { *m = now; m.Sequence, m.Applied = 3, 5 })
	require.Equal(t, int64(3), r.reports("m1").Sequence, "a heartbeat is no news")

	again := connect(t, r.conn, "m1").hello(func(h *schema.Hello) { h.Parts = digests })
	require.ElementsMatch(t, []string{"machine", "workers", "copies"}, again.welcomed().Have)
}
