package conform

import (
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

var copyTests = []test{
	{"life", one(life)},
	{"foreign", one(foreign)},
	{"nameAgain", one(nameAgain)},
	{"filled", one(filled)},
	{"used", one(used)},
	{"notListedYet", one(notListedYet)},
	{"otherCluster", one(otherCluster)},
	{"linkInPlace", one(linkInPlace)},
	{"former", one(former)},
}

// copies are the machine's, listed once as an agent does first.
func copies(t *testing.T, m *Machine, clusterUID string, locations ...schema.DataLocation) nodeexec.Copies {
	t.Helper()
	c := m.Host.Copies(clusterUID)
	t.Cleanup(c.Close)
	if len(locations) == 0 {
		locations = []schema.DataLocation{location}
	}
	_, err := c.List(t.Context(), locations)
	must(t, err)
	return c
}

func listed(t *testing.T, c nodeexec.Copies, locations ...schema.DataLocation) host.CopyListing {
	t.Helper()
	if len(locations) == 0 {
		locations = []schema.DataLocation{location}
	}
	list, err := c.List(t.Context(), locations)
	must(t, err)
	return list
}

// present finds a copy, nil when there is none that can be used.
func present(list host.CopyListing, uid string) *schema.Copy {
	for i := range list.Copies {
		if c := &list.Copies[i]; c.UID == uid && c.State == schema.CopyPresent {
			return c
		}
	}
	return nil
}

func at(name string) string { return path.Join(location.Path, "drives", drive(name).Scoped()) }

// life: made once, found again after a restart, gone when deleted (X-2, X-8, D-70).
func life(t *testing.T, m *Machine) {
	c := copies(t, m, cluster)
	list := listed(t, c)
	require.True(t, list.Complete)
	require.Empty(t, list.Copies)
	require.True(t, list.Locations[0].Mounted)
	for range 2 {
		must(t, c.Create(t.Context(), location, drive("a"), "u1"))
	}
	m.Write(at("a") + "/data")
	m.Restart()
	c = copies(t, m, cluster)
	got := present(listed(t, c), "u1")
	require.NotNil(t, got)
	require.Equal(t, drive("a").Scoped(), got.Drive)
	require.Equal(t, at("a"), got.Folder)
	require.NotNil(t, got.Created)
	require.False(t, got.Filled)
	dir, err := c.Open("u1", "sub/folder")
	must(t, err)
	require.Equal(t, at("a")+"/sub/folder", dir.Path)
	must(t, dir.Close())

	for range 2 {
		must(t, c.Delete(t.Context(), drive("a"), "u1"))
	}
	require.Nil(t, present(listed(t, c), "u1"))
	require.False(t, m.Exists(at("a")))
	_, err = c.Open("u1", "")
	require.ErrorIs(t, err, host.ErrNoCopy)
}

// foreign: what is not ours is reported, never taken and never deleted (D-9, X-2).
func foreign(t *testing.T, m *Machine) {
	c := copies(t, m, cluster)
	must(t, c.Create(t.Context(), location, drive("a"), "u1"))
	m.Write(at("a") + "/canary")
	require.ErrorIs(t, c.Create(t.Context(), location, drive("a"), "u2"), host.ErrForeignCopy)
	require.ErrorIs(t, c.Delete(t.Context(), drive("a"), "u2"), host.ErrForeignCopy)
	must(t, c.Delete(t.Context(), drive("b"), "u3")) // there is no such copy
	require.True(t, m.Exists(at("a")+"/canary"))

	m.Write(at("stray") + "/canary")
	list := listed(t, c)
	require.True(t, list.Complete)
	require.Len(t, list.Copies, 1)
	require.Len(t, list.Problems, 1)
	require.ErrorIs(t, c.Create(t.Context(), location, drive("stray"), "u4"), host.ErrNoSidecar)
	require.ErrorIs(t, c.Delete(t.Context(), drive("stray"), "u4"), host.ErrNoSidecar)
	require.True(t, m.Exists(at("stray")+"/canary"))
	for _, key := range []schema.Key{{Kind: schema.KindRun, Namespace: namespace, Name: "a"}, drive("../a"), {Kind: schema.KindDrive, Name: "a"}} {
		require.ErrorIs(t, c.Delete(t.Context(), key, "u1"), host.ErrBadPath)
	}
}

// nameAgain: a name deleted and created again has none of the old bytes.
func nameAgain(t *testing.T, m *Machine) {
	c := copies(t, m, cluster)
	must(t, c.Create(t.Context(), location, drive("a"), "u1"))
	must(t, c.SetFilled("u1", 3))
	m.Write(at("a") + "/old")
	must(t, c.Delete(t.Context(), drive("a"), "u1"))
	must(t, c.Create(t.Context(), location, drive("a"), "u2"))
	require.False(t, m.Exists(at("a")+"/old"))
	got := present(listed(t, c), "u2")
	require.NotNil(t, got)
	require.Zero(t, got.FilledGeneration)
	require.Nil(t, got.LastUsed)
}

// filled: the sidecar keeps the generation, whatever becomes of the marker (D-42, X-8).
func filled(t *testing.T, m *Machine) {
	c := copies(t, m, cluster)
	must(t, c.Create(t.Context(), location, drive("a"), "u1"))
	marker, err := c.HasFillMarker("u1")
	must(t, err)
	require.False(t, marker)
	m.Write(path.Join(at("a"), schema.FillMarker))
	marker, err = c.HasFillMarker("u1")
	must(t, err)
	require.True(t, marker)
	must(t, c.SetFilled("u1", 2))
	got := present(listed(t, c), "u1")
	require.True(t, got.Filled)
	require.Equal(t, int64(2), got.FilledGeneration)
	require.ErrorIs(t, c.SetFilled("u9", 1), host.ErrNoCopy)
}

// used: the time of last use goes forward, at most hourly (D-70, X-26).
func used(t *testing.T, m *Machine) {
	c := copies(t, m, cluster)
	must(t, c.Create(t.Context(), location, drive("a"), "u1"))
	first := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for _, step := range []struct{ at, want time.Time }{
		{first, first},
		{first.Add(time.Minute), first},
		{first.Add(-2 * time.Hour), first},
		{first.Add(2 * time.Hour), first.Add(2 * time.Hour)},
	} {
		must(t, c.MarkUsed("u1", step.at))
		require.Equal(t, step.want, present(listed(t, c), "u1").LastUsed.UTC())
	}
}

// notListedYet: nothing is deleted before the locations were listed.
func notListedYet(t *testing.T, m *Machine) {
	must(t, copies(t, m, cluster).Create(t.Context(), location, drive("a"), "u1"))
	m.Restart()
	c := m.Host.Copies(cluster)
	defer c.Close()
	require.ErrorIs(t, c.Delete(t.Context(), drive("a"), "u1"), host.ErrNoCopy)
	require.True(t, m.Exists(at("a")))
}

// otherCluster: a machine's memory and copies are one cluster's.
func otherCluster(t *testing.T, m *Machine) {
	must(t, copies(t, m, cluster).Create(t.Context(), location, drive("a"), "u1"))
	c := m.Host.Copies("cluster-2")
	defer c.Close()
	_, err := c.List(t.Context(), []schema.DataLocation{location})
	require.ErrorIs(t, err, host.ErrForeignCopy)
	require.Error(t, c.Create(t.Context(), location, drive("b"), "u2"))
	require.Error(t, c.Delete(t.Context(), drive("a"), "u1"))
	require.True(t, m.Exists(at("a")))
}

// linkInPlace: a link in a copy's place is never followed (CVE-2021-25741).
func linkInPlace(t *testing.T, m *Machine) {
	c := copies(t, m, cluster)
	must(t, c.Create(t.Context(), location, drive("a"), "u1"))
	m.Write("/data/set/canary")
	m.Symlink("/data/set", at("b"))
	require.ErrorIs(t, c.Create(t.Context(), location, drive("b"), "u2"), host.ErrNotDirectory)
	require.Error(t, c.Delete(t.Context(), drive("b"), "u2"))
	require.True(t, m.Exists("/data/set/canary"))
}

// former: copies stay where they are; new ones go to the present location (D-32).
func former(t *testing.T, m *Machine) {
	must(t, copies(t, m, cluster).Create(t.Context(), location, drive("a"), "u1"))
	now, old := schema.DataLocation{Path: "/nvme/new", Present: true}, schema.DataLocation{Path: location.Path}
	c := copies(t, m, cluster, now, old)
	must(t, c.Create(t.Context(), now, drive("b"), "u2"))
	must(t, c.Create(t.Context(), now, drive("a"), "u1")) // it is there already, elsewhere
	list := listed(t, c, now, old)
	require.Equal(t, at("a"), present(list, "u1").Folder)
	require.Equal(t, "/nvme/new/drives/"+drive("b").Scoped(), present(list, "u2").Folder)
	require.True(t, list.Locations[0].Present)
	require.False(t, list.Locations[1].Present)
	must(t, c.Delete(t.Context(), drive("a"), "u1"))
	require.False(t, m.Exists(at("a")))
}
