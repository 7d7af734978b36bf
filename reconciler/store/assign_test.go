package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func target(machine, template string) *schema.Assignment {
	a := &schema.Assignment{Version: schema.AssignmentVersion, Machine: machine}
	if template != "" {
		a.Workers = []schema.WorkerTarget{{Name: "w-0", Template: template}}
		a.Copies = []schema.CopyTarget{{UID: "uid-a"}}
	}
	return a
}

// assignments are ordered by epoch and the store's revision; only
// changed ones are written.
func TestAssignments(t *testing.T) {
	s := open(t)
	l := lead(t, s)
	blob := []byte(`{"image":"x"}`)
	hash := schema.HashBytes(blob)
	blobs := map[string][]byte{hash: blob}
	assign := func(want int, targets ...*schema.Assignment) map[string]*schema.Assignment {
		set := map[string]*schema.Assignment{}
		for _, a := range targets {
			set[a.Machine] = a
		}
		n, err := l.Assign(t.Context(), set, blobs)
		require.NoError(t, err)
		require.Equal(t, want, n)
		return set
	}
	first := assign(2, target("m1", hash), target("m2", ""))
	require.Equal(t, s.Meta().ClusterUID, first["m1"].ClusterUID)
	require.Equal(t, int64(1), first["m1"].Epoch)
	st := load(t, s)
	require.Equal(t, st.Assigned["m1"].Revision, first["m1"].Revision)
	require.Equal(t, []string{hash}, st.Assigned["m1"].Blobs)
	require.Equal(t, []string{"uid-a"}, st.Assigned["m1"].Copies)
	data, err := s.Blob(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, blob, data)

	before := revision(t, s)
	for range 100 {
		same := target("m1", hash)
		same.Commit = "another commit that changes nothing here"
		again := assign(0, same, target("m2", ""))
		require.Equal(t, first["m1"].Revision, again["m1"].Revision)
	}
	require.Equal(t, before, revision(t, s))

	second := assign(1, target("m1", ""))
	require.Greater(t, second["m1"].Revision, first["m1"].Revision)
	require.NotContains(t, load(t, s).Assigned, "m2")
	data, err = s.Blob(t.Context(), hash)
	require.NoError(t, err)
	require.Nil(t, data, "nobody names it any more")

	// A new leader goes on from the same revisions.
	l.Resign(t.Context())
	l = lead(t, s)
	require.Equal(t, second["m1"].Revision, assign(0, target("m1", ""))["m1"].Revision)
}

//
func TestCrashWhileAssigning(t *testing.T) {
	boom := errors.New("crash")
	for _, point := range []string{"assign.before", "assign.batch"} {
		t.Run(point, func(t *testing.T) {
			armed := false
			s := open(t, func(o *Options) {
				o.Point = func(p string) error {
					if armed && p == point {
						return boom
					}
					return nil
				}
			})
			l := lead(t, s)
			targets := map[string]*schema.Assignment{}
			for i := range 250 {
				name := fmt.Sprintf("m-%03d", i)
				targets[name] = target(name, "")
			}
			armed = true
			_, err := l.Assign(t.Context(), targets, nil)
			require.ErrorIs(t, err, boom)
			_, err = l.Assign(t.Context(), targets, nil)
			require.ErrorIs(t, err, ErrStale)
			armed = false
			_, err = l.Load(t.Context())
			require.NoError(t, err)
			_, err = l.Assign(t.Context(), targets, nil)
			require.NoError(t, err)
			st := load(t, s)
			require.Len(t, st.Assigned, 250)
			for name, a := range targets {
				require.Equal(t, st.Assigned[name].Revision, a.Revision)
			}
		})
	}
}

// a new epoch gives every machine a newer assignment even when nothing else changed.
func TestNewEpochAssignsAnew(t *testing.T) {
	dir := t.TempDir()
	assign := func(newEpoch bool) *schema.Assignment {
		s, err := Open(t.Context(), Options{Cluster: "c", Dir: dir, NewEpoch: newEpoch})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		l, err := s.Campaign(t.Context(), "x")
		require.NoError(t, err)
		defer l.Resign(t.Context())
		_, err = l.Load(t.Context())
		require.NoError(t, err)
		a := target("m1", "")
		_, err = l.Assign(t.Context(), map[string]*schema.Assignment{"m1": a}, nil)
		require.NoError(t, err)
		return a
	}
	first, second := assign(false), assign(true)
	require.Equal(t, int64(2), second.Epoch)
	require.Greater(t, second.Revision, first.Revision)
}

func BenchmarkAssignUnchanged(b *testing.B) {
	l := lead(b, open(b))
	targets := func() map[string]*schema.Assignment {
		out := map[string]*schema.Assignment{}
		for i := range 5000 {
			a := target(fmt.Sprintf("m-%04d", i), "t")
			for j := range 8 {
				a.Workers = append(a.Workers, schema.WorkerTarget{Name: fmt.Sprint(j), Template: "t", Mounts: []schema.BindTarget{{Path: "/a"}, {Path: "/b"}}})
			}
			out[a.Machine] = a
		}
		return out
	}
	_, err := l.Assign(b.Context(), targets(), nil)
	require.NoError(b, err)
	next := targets()
	for b.Loop() {
		n, err := l.Assign(b.Context(), next, nil)
		require.NoError(b, err)
		require.Zero(b, n)
	}
}
