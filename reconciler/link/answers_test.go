package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// Machines with workers that end when nobody hears them are told what was heard,
// heartbeats too, and others are not: X-13.
func TestReportsAreAnsweredWhereWorkersGoByIt(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	with := assignment("m1", 1)
	with.Workers = []schema.WorkerTarget{{Name: "w-0"}, {Name: "w-1", StopIfAwayAfter: schema.Duration(time.Minute)}}
	r.Publish(targets(with, assignment("m2", 1)), nil)

	a := connect(t, r.conn, "m1").hello()
	a.assigned()
	heard := func(want int64) {
		t.Helper()
		for {
			down, err := a.Recv()
			require.NoError(t, err)
			if down.Heard == want {
				require.Nil(t, down.Assignment)
				return
			}
		}
	}
	a.report()
	heard(1)
	a.report() // with nothing new in it
	heard(2)

	b := connect(t, r.conn, "m2").hello()
	b.assigned()
	b.report(func(r *schema.MachineReport) { r.Address = "192.0.2.2" })
	r.reports("m2")
	r.Publish(targets(with, assignment("m2", 2)), nil)
	down, err := b.Recv()
	require.NoError(t, err)
	require.NotNil(t, down.Assignment)
}
