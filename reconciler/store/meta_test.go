package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// which stores start, and with which identity.
func TestX4WhichStoresStart(t *testing.T) {
	kept := mark{"a", 2, 500}
	for name, tc := range map[string]struct {
		meta     Meta
		kept     mark
		there    bool
		revision int64
		newEpoch bool
		want     Meta
		err      string
	}{
		"the first start":                     {want: Meta{Epoch: 1}},
		"wiped":                               {kept: kept, err: "it is empty, and this controller had one of cluster a at epoch 2, revision 500: it was lost or restored: start with --new-epoch"},
		"wiped, a new epoch":                  {kept: kept, newEpoch: true, want: Meta{ClusterUID: "a", Epoch: 3, Adopting: true, Lost: true}},
		"wiped with everything, a new epoch":  {newEpoch: true, want: Meta{Epoch: 1, Adopting: true, Lost: true}},
		"as it was":                           {meta: Meta{ClusterUID: "a", Epoch: 2}, there: true, kept: kept, revision: 500, want: Meta{ClusterUID: "a", Epoch: 2}},
		"for another controller":              {meta: Meta{ClusterUID: "a", Epoch: 2}, there: true, revision: 3, want: Meta{ClusterUID: "a", Epoch: 2}},
		"restored":                            {meta: Meta{ClusterUID: "a", Epoch: 2}, there: true, kept: kept, revision: 499, err: "it is at epoch 2, revision 499, and had come to epoch 2, revision 500"},
		"restored from an older epoch":        {meta: Meta{ClusterUID: "a", Epoch: 1}, there: true, kept: kept, revision: 900, err: "it is at epoch 1"},
		"restored, a new epoch":               {meta: Meta{ClusterUID: "a", Epoch: 1}, there: true, kept: kept, revision: 9, newEpoch: true, want: Meta{ClusterUID: "a", Epoch: 3, Adopting: true}},
		"another's":                           {meta: Meta{ClusterUID: "b", Epoch: 9}, there: true, kept: kept, revision: 9, err: "it is of cluster b, and this controller had one of cluster a"},
		"another's, a new epoch":              {meta: Meta{ClusterUID: "b", Epoch: 9}, there: true, kept: kept, revision: 9, newEpoch: true, want: Meta{ClusterUID: "a", Epoch: 10, Adopting: true, Lost: true}},
		"still adopting":                      {meta: Meta{ClusterUID: "a", Epoch: 3, Adopting: true}, there: true, kept: kept, revision: 9, want: Meta{ClusterUID: "a", Epoch: 3, Adopting: true}},
		"adopting what is unknown, once more": {meta: Meta{Epoch: 1, Adopting: true, Lost: true}, there: true, newEpoch: true, want: Meta{Epoch: 2, Adopting: true, Lost: true}},
		"a machine has seen more": {meta: Meta{ClusterUID: "a", Epoch: 2, Doubt: &Doubt{"m1", "a", 4, 7}}, there: true, revision: 9,
			err: "and machine m1 has seen epoch 4, revision 7: the store was lost or restored"},
		"a machine has seen more, a new epoch": {meta: Meta{ClusterUID: "a", Epoch: 2, Doubt: &Doubt{"m1", "a", 4, 7}}, there: true, newEpoch: true,
			want: Meta{ClusterUID: "a", Epoch: 5, Adopting: true}},
		"a machine is another's": {meta: Meta{ClusterUID: "b", Epoch: 1, Doubt: &Doubt{"m1", "a", 4, 7}}, there: true,
			err: "it is new, and machine m1 belongs to cluster a already"},
		"a machine is another's, a new epoch": {meta: Meta{ClusterUID: "b", Epoch: 1, Doubt: &Doubt{"m1", "a", 4, 7}}, there: true, newEpoch: true,
			want: Meta{Epoch: 5, Adopting: true, Lost: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := begin(tc.meta, tc.kept, tc.there, tc.revision, tc.newEpoch)
			if tc.err != "" {
				require.ErrorIs(t, err, ErrOlder)
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			if name == "the first start" {
				require.Len(t, got.ClusterUID, 32)
				got.ClusterUID = ""
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// the mark outlives a store that was wiped, and follows one that is written to.
func TestX4MarkFollowsTheStore(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "mark")
	with := func(newEpoch bool) (*Store, error) {
		return Open(t.Context(), Options{Cluster: "c", Dir: dir, NewEpoch: newEpoch, MarkFile: file, NoSync: true})
	}
	s, err := with(false)
	require.NoError(t, err)
	l := lead(t, s)
	_, err = l.Commit(t.Context(), many(3, "c1"))
	require.NoError(t, err)
	reached := revision(t, s)
	l.Resign(t.Context())
	require.NoError(t, s.Close())
	m, err := readMark(file)
	require.NoError(t, err)
	require.Equal(t, s.Meta().ClusterUID, m.ClusterUID)
	require.Equal(t, int64(1), m.Epoch)
	require.LessOrEqual(t, m.Revision, reached)
	require.Greater(t, m.Revision, int64(1))
	s, err = with(false)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	m, err = readMark(file)
	require.NoError(t, err)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "etcd")))
	_, err = with(false)
	require.ErrorIs(t, err, ErrOlder)
	s, err = with(true)
	require.NoError(t, err)
	require.Equal(t, Meta{ClusterUID: m.ClusterUID, Epoch: 2, Adopting: true, Lost: true}, s.Meta())
	require.NoError(t, s.Close())
	again, err := readMark(file)
	require.NoError(t, err)
	require.Equal(t, m, again, "not before the epoch has begun: what is there now says nothing")

	s, err = with(false)
	require.NoError(t, err, "it goes on adopting")
	l = lead(t, s)
	meta := s.Meta()
	meta.Adopting, meta.Lost = false, false
	st, err := l.SetMeta(t.Context(), meta)
	require.NoError(t, err)
	require.Equal(t, int64(2), st.Accepted.Epoch)
	require.Equal(t, meta, load(t, s).Meta)
	require.Equal(t, meta, s.Meta())
	a := target("m1", "")
	_, err = l.Assign(t.Context(), map[string]*schema.Assignment{"m1": a}, nil)
	require.NoError(t, err)
	require.Equal(t, int64(2), a.Epoch)
	l.Resign(t.Context())
	require.NoError(t, s.Close())

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = with(false)
	require.ErrorContains(t, err, "remove it if you are sure that the store is the newest")
}
