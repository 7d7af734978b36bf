package link

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"astraeus.io/astraeus/schema"
)

//
func TestOnlyTheLeaderServes(t *testing.T) {
	r := newRig(t, Options{})
	connect(t, r.conn, "m1").hello().refused(codes.FailedPrecondition, "no leader is known yet")
	r.Follow("192.0.2.7:7443")
	connect(t, r.conn, "m1").hello().refused(codes.FailedPrecondition, "not leader, try 192.0.2.7:7443")

	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	a := connect(t, r.conn, "m1").hello()
	r.connected("m1")
	r.Follow("192.0.2.8:7443")
	a.refused(codes.FailedPrecondition, "not leader, try 192.0.2.8:7443")
	require.Empty(t, r.Machines())
	r.Publish(targets(assignment("m1", 1)), nil) // not leading: nothing happens
}

// a machine of another cluster and one of another version are refused.
func TestHelloIsChecked(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid-a", Epoch: 1})
	for _, tc := range []struct {
		change  func(*schema.Hello)
		code    codes.Code
		message string
	}{
		{func(h *schema.Hello) { h.Version = 99 }, codes.FailedPrecondition, "version 99, this controller speaks 1"},
		{func(h *schema.Hello) { h.ClusterUID = "uid-b" }, codes.FailedPrecondition, "belongs to cluster uid-b, this is cluster uid-a"},
		{func(h *schema.Hello) { h.Machine = "m2" }, codes.PermissionDenied, `machine "m1" cannot speak for "m2"`},
		{func(h *schema.Hello) { h.Incarnation = "" }, codes.InvalidArgument, "no incarnation"},
	} {
		connect(t, r.conn, "m1").hello(tc.change).refused(tc.code, tc.message)
	}
	a := connect(t, r.conn, "m1")
	a.report()
	a.refused(codes.InvalidArgument, "not a hello")
	a = connect(t, r.conn, "m1").hello().hello()
	a.refused(codes.InvalidArgument, "a second hello")
	connect(t, r.conn, "m1").hello(func(h *schema.Hello) { h.ClusterUID = "uid-a" })
	r.connected("m1")
}

func TestSilentStreamIsClosed(t *testing.T) {
	r := newRig(t, Options{HelloTimeout: time.Millisecond})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	connect(t, r.conn, "m1").refused(codes.DeadlineExceeded, "no hello came")
}

func TestMachineSpeaksForItselfAlone(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	a := connect(t, r.conn, "m1").hello()
	a.report(func(m *schema.MachineReport) { m.Name = "m2" })
	a.refused(codes.PermissionDenied, `machine "m1" cannot speak for "m2"`)
	require.Empty(t, r.taken())
	require.NotContains(t, r.Machines(), "m2")
}

// older reports are dropped, the newest of each machine is handed out once.
func TestOlderReportsAreDropped(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	a := connect(t, r.conn, "m1").hello()
	a.report(func(m *schema.MachineReport) { m.Sequence, m.Applied = 5, 50 })
	require.Equal(t, int64(50), r.reports("m1").Applied)
	a.report(func(m *schema.MachineReport) { m.Sequence, m.Applied = 4, 40 })
	a.report(func(m *schema.MachineReport) { m.Sequence, m.Applied = 5, 55 })
	a.report(func(m *schema.MachineReport) { m.Sequence, m.Applied, m.Incarnation = 9, 90, "another" })
	a.report(func(m *schema.MachineReport) { m.Sequence, m.Applied, m.Name = 6, 60, "" })
	got := r.reports("m1")
	require.Equal(t, int64(60), got.Applied, "the dropped ones came before this one")
	require.Equal(t, "m1", got.Name)
	require.Empty(t, r.taken())
}

// of two live agents with one name the second is turned away and reported; a
// stream of the same agent takes over from a dead one.
func TestTwoAgentsWithOneName(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	first := connect(t, r.conn, "m1").hello()
	first.report()
	r.reports("m1")
	second := connect(t, r.conn, "m1")
	second.incarnation = "i2"
	second.hello().refused(codes.AlreadyExists, "two agents with one name")
	require.Equal(t, "two agents with one name", r.Machines()["m1"].Problem)
	require.True(t, r.Machines()["m1"].Connected)

	again := connect(t, r.conn, "m1").hello()
	first.refused(codes.Aborted, "took over")
	again.sequence = 1 // it goes on counting
	again.report(func(m *schema.MachineReport) { m.Applied = 7 })
	require.Equal(t, int64(7), r.reports("m1").Applied)

	again.drop()
	r.until("m1 is gone", func() bool { return !r.Machines()["m1"].Connected })
	third := connect(t, r.conn, "m1")
	third.incarnation = "i3"
	third.hello().report()
	require.Equal(t, "i3", r.reports("m1").Incarnation)
}

// content goes down unless the hello or the assignment before names it, in
// chunks, before or with the assignment that names it. What no assignment names any
// more is not kept at the other end, so it is sent again.
func TestContentIsSentOnce(t *testing.T) {
	r := newRig(t, Options{ChunkBytes: 1000})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	blobs := map[string][]byte{}
	var hashes []string
	for i := range 5 {
		data := bytes.Repeat([]byte{byte('a' + i)}, 600)
		hashes = append(hashes, schema.HashBytes(data))
		blobs[hashes[i]] = data
	}
	named := func(revision int64, list ...int) *schema.Assignment {
		a := assignment("m1", revision)
		for _, i := range list {
			a.Workers = append(a.Workers, schema.WorkerTarget{Template: hashes[i]})
		}
		return a
	}
	a := connect(t, r.conn, "m1").hello(func(h *schema.Hello) { h.Blobs = []string{hashes[0]} })
	r.connected("m1")
	r.Publish(targets(named(1, 0, 1, 2, 3)), blobs)
	got, content := a.assigned()
	require.Equal(t, int64(1), got.Revision)
	require.Equal(t, map[string][]byte{hashes[1]: blobs[hashes[1]], hashes[2]: blobs[hashes[2]], hashes[3]: blobs[hashes[3]]}, content)
	r.Publish(targets(named(2, 3, 4)), blobs)
	_, content = a.assigned()
	require.Equal(t, map[string][]byte{hashes[4]: blobs[hashes[4]]}, content)

	r.Publish(targets(named(3, 4, 0)), blobs)
	_, content = a.assigned()
	require.Equal(t, map[string][]byte{hashes[0]: blobs[hashes[0]]}, content)

	r.Publish(targets(named(4, 0)), map[string][]byte{})
	_, _ = a.assigned() // known from the one before
	b := connect(t, r.conn, "m1").hello()
	b.refused(codes.Internal, "is missing")
}

// A machine with very many workers or drives gets its assignment all the same.
func TestLargeAssignment(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	a := connect(t, r.conn, "m1").hello()
	r.connected("m1")
	large := assignment("m1", 1)
	for i := range 10_000 {
		large.Copies = append(large.Copies, schema.CopyTarget{UID: fmt.Sprint(i), Location: strings.Repeat("x", 500)})
	}
	list := bytes.Repeat([]byte("x"), 5<<20)
	hash := schema.HashBytes(list)
	large.Drives = map[string]string{"ws-1": hash}
	r.Publish(targets(large), map[string][]byte{hash: list})
	got, content := a.assigned()
	require.Len(t, got.Copies, 10_000)
	require.Len(t, content[hash], 5<<20)
}

// Only a machine whose assignment changed hears of it; one that connects later gets the newest.
func TestOnlyChangesAreSent(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	a := connect(t, r.conn, "m1").hello()
	r.connected("m1")
	r.Publish(targets(assignment("m1", 1), assignment("m2", 1)), nil)
	got, _ := a.assigned()
	require.Equal(t, int64(1), got.Revision)
	for range 100 {
		r.Publish(targets(assignment("m1", 1), assignment("m2", 2)), nil)
	}
	r.Publish(targets(assignment("m1", 3), assignment("m2", 2)), nil)
	got, _ = a.assigned()
	require.Equal(t, int64(3), got.Revision, "nothing was sent in between")
	got, _ = connect(t, r.conn, "m2").hello().assigned()
	require.Equal(t, int64(2), got.Revision)
}

// A machine that does not read delays nobody, and gets the newest when it reads again.
func TestSlowMachineBlocksNobody(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	slow := connect(t, r.conn, "slow").hello()
	quick := connect(t, r.conn, "quick").hello()
	r.connected("slow")
	r.connected("quick")
	const n = 200
	big := bytes.Repeat([]byte("x"), 100_000) // more than all windows hold together
	for i := int64(1); i <= n; i++ {
		heavy := assignment("slow", i)
		heavy.AllowedVolumePrefixes = []string{string(big)}
		r.Publish(targets(heavy, assignment("quick", i)), nil)
		got, _ := quick.assigned()
		require.LessOrEqual(t, got.Revision, i)
		for got.Revision < i {
			got, _ = quick.assigned()
		}
	}
	count := 0
	for {
		got, _ := slow.assigned()
		count++
		if got.Revision == n {
			break
		}
	}
	require.Less(t, count, n, "assignments that were overtaken are left out")
}

func TestPresence(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1000, 0)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r := newRig(t, Options{Now: clock})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	a := connect(t, r.conn, "m1").hello()
	r.connected("m1")
	require.Equal(t, clock(), r.Machines()["m1"].Heard)
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	a.report()
	r.reports("m1")
	require.Equal(t, clock(), r.Machines()["m1"].Heard)
	require.NoError(t, a.CloseSend())
	r.until("m1 is gone", func() bool { return !r.Machines()["m1"].Connected })
	require.Equal(t, clock(), r.Machines()["m1"].Heard)
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	require.Empty(t, r.Machines(), "a new term has heard nobody")
}

func BenchmarkReports(b *testing.B) {
	r := newRig(b, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	const machines = 100
	agents := make([]*agent, machines)
	for i := range agents {
		agents[i] = connect(b, r.conn, fmt.Sprintf("m-%03d", i)).hello()
	}
	for b.Loop() {
		for _, a := range agents {
			a.report()
		}
		seen := 0
		for seen < machines {
			<-r.Changed()
			seen += len(r.taken())
		}
	}
}
