package planner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// what moved is named by object or machine and field; free bytes,
// measurements, last use, and machines and objects that the plan does not touch
// move nothing.
func TestBasisNamesWhatMoved(t *testing.T) {
	_, in := sampleDocument(t)
	in.Accepted.ClusterUID = "u"
	basis := BasisOf(Plan(in), in)
	require.NotEmpty(t, basis.Machines)
	require.Empty(t, basis.Moved(basis.BasisNow(in)))

	moved := func(change func(*Input, *schema.MachineReport)) []string {
		again := in
		again.Accepted, again.Placed = Apply(in.Accepted, in.Placed, schema.Decisions{})
		again.Observed.Machines = nil
		for _, m := range in.Observed.Machines {
			c := *m
			c.Filesystems, c.Copies = append([]schema.Filesystem{}, m.Filesystems...), append([]schema.Copy{}, m.Copies...)
			c.Workers = append([]schema.Worker{}, m.Workers...)
			change(&again, &c)
			again.Observed.Machines = append(again.Observed.Machines, &c)
		}
		return basis.Moved(basis.BasisNow(again))
	}
	now := time.Now()
	require.Empty(t, moved(func(in *Input, m *schema.MachineReport) {
		in.Now = in.Now.Add(time.Hour)
		m.State, m.BootID, m.Sequence, m.Measurements = schema.MachineUnknown, "other", 99, []schema.Measurement{{Bytes: 1}}
		for i := range m.Filesystems {
			m.Filesystems[i].FreeBytes++
		}
		for i := range m.Copies {
			m.Copies[i].LastUsed, m.Copies[i].Bytes = &now, 7
		}
		for i := range m.Workers {
			m.Workers[i].Reason = "slow"
		}
	}))
	var touched string
	for name := range basis.Machines {
		touched = name
	}
	on := func(f func(*schema.MachineReport)) func(*Input, *schema.MachineReport) {
		return func(_ *Input, m *schema.MachineReport) {
			if m.Name == touched {
				f(m)
			}
		}
	}
	require.Equal(t, []string{"machine " + touched + ": its addresses changed"}, moved(on(func(m *schema.MachineReport) { m.Address = "203.0.113.9" })))
	require.Equal(t, []string{"machine " + touched + ": its copies changed"}, moved(on(func(m *schema.MachineReport) {
		m.Copies = append(m.Copies, schema.Copy{Drive: "ws-1.x", UID: "u"})
	})))
	next := schema.Key{Kind: schema.KindRun, Namespace: testNS, Name: "next"}
	require.Contains(t, basis.Objects, next.String(), "a created object is not in force")
	require.Equal(t, []string{next.String() + " is in force by now"}, moved(func(in *Input, _ *schema.MachineReport) {
		in.Accepted.Objects[next] = &schema.AcceptedObject{UID: "u", Generation: 1, Object: in.Desired.Objects[next]}
	}))
	train := schema.Key{Kind: schema.KindRun, Namespace: testNS, Name: "train"}
	for _, key := range sortedKeys(in.Accepted.Objects) {
		if basis.Objects[key.String()] == nil || !inForce(in.Accepted.Objects[key]) || key.Kind == schema.KindMachine {
			continue
		}
		require.Contains(t, moved(func(in *Input, _ *schema.MachineReport) { delete(in.Accepted.Objects, key) }), key.String()+" is not in force any more")
		got := moved(func(in *Input, _ *schema.MachineReport) {
			a := *in.Accepted.Objects[key]
			a.Generation = 6
			in.Accepted.Objects[key] = &a
		})
		require.Len(t, got, 1)
		require.Contains(t, got[0], key.String()+": its generation was 1 and is 6")
	}
	if basis.Objects[train.String()] != nil {
		require.Contains(t, moved(func(in *Input, _ *schema.MachineReport) { delete(in.Placed, train) }), train.String()+": its placement changed")
	}
	gone := in
	gone.Observed.Machines = nil
	require.Contains(t, basis.Moved(basis.BasisNow(gone)), "machine "+touched+" has not reported here")

	// Without a cluster uids and generations are made up: only contents count.
	offline := basis
	offline.ClusterUID = ""
	again := in
	again.Accepted, _ = Apply(in.Accepted, nil, schema.Decisions{})
	for _, a := range again.Accepted.Objects {
		a.UID, a.Generation = "other", 17
	}
	require.Empty(t, offline.Moved(offline.BasisNow(again)))
}
