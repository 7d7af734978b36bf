package conform

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/host"
)

var dirTests = []test{
	{"grant", one(grant)},
	{"links", one(links)},
	{"forbidden", one(forbidden)},
	{"made", one(made)},
	{"beneath", one(beneath)},
	{"measured", one(measured)},
	{"facts", one(facts)},
}

// grant: a path is used only under its grant, by whole segments (D-20, D-21).
func grant(t *testing.T, m *Machine) {
	m.Mkdir("/data/set")
	m.Mkdir("/database")
	m.Write("/data/file")
	dir, err := open(t, m, "/data/set", "/data")
	must(t, err)
	require.Equal(t, "/data/set", dir.Path)
	require.NotEmpty(t, dir.FSID)
	for at, want := range map[string]error{
		"/database":     host.ErrOutsideGrant,
		"/data/none":    host.ErrMissing,
		"/data/file":    host.ErrNotDirectory,
		"data/set":      host.ErrBadPath,
		"/data/../data": host.ErrBadPath,
	} {
		_, err := open(t, m, at, "/data")
		require.ErrorIs(t, err, want, at)
	}
}

// links: what counts is where a path leads (D-21, kubernetes#104980).
func links(t *testing.T, m *Machine) {
	m.Mkdir("/data/set")
	m.Mkdir("/secret")
	m.Symlink("/secret", "/data/out")
	m.Symlink("set", "/data/in")
	_, err := open(t, m, "/data/out", "/data")
	require.ErrorIs(t, err, host.ErrOutsideGrant)
	dir, err := open(t, m, "/data/in", "/data")
	must(t, err)
	require.Equal(t, "/data/set", dir.Path)
	_, err = m.Host.MakeDir("/data/out/new", "/data", nil)
	require.Error(t, err)
	require.False(t, m.Exists("/secret/new"))
}

// forbidden: no path equals, lies in or contains what is the agent's.
func forbidden(t *testing.T, m *Machine) {
	m.Mkdir("/nvme/astraeus/drives/x")
	m.Mkdir(path.Join(WorkRoot, "exports"))
	for _, at := range []string{"/nvme", "/nvme/astraeus", "/nvme/astraeus/drives/x"} {
		_, err := open(t, m, at, "/", "/nvme/astraeus")
		require.ErrorIs(t, err, host.ErrForbidden, at)
	}
	_, err := open(t, m, path.Join(WorkRoot, "exports"), "/")
	require.ErrorIs(t, err, host.ErrForbidden)
	_, err = m.Host.MakeDir("/nvme/astraeus/new", "/", []string{"/nvme/astraeus"})
	require.ErrorIs(t, err, host.ErrForbidden)
	require.False(t, m.Exists("/nvme/astraeus/new"))
}

// made: missing directories are made below the grant, and only there (D-3, D-5).
func made(t *testing.T, m *Machine) {
	for range 2 { // the second time it is there
		dir, err := m.Host.MakeDir("/data/a/b", "/data", nil)
		must(t, err)
		require.Equal(t, "/data/a/b", dir.Path)
		must(t, dir.Close())
	}
	_, err := m.Host.MakeDir("/database/a", "/data", nil)
	require.ErrorIs(t, err, host.ErrOutsideGrant)
	require.False(t, m.Exists("/database"))
	dir, err := m.Host.MakeDir("/data/granted/a", "/data/granted", nil) // the grant's own directory is made
	must(t, err)
	must(t, dir.Close())
	_, err = m.Host.MakeDir("/none/granted/a", "/none/granted", nil) // but not those above it
	require.ErrorIs(t, err, host.ErrMissing)
	require.False(t, m.Exists("/none"))
}

// beneath: a sub path stays inside (D-40).
func beneath(t *testing.T, m *Machine) {
	m.Mkdir("/data/set/sub")
	m.Mkdir("/data/other")
	m.Symlink("../other", "/data/set/out")
	m.Symlink("/data/other", "/data/set/abs")
	m.Symlink("sub", "/data/set/in")
	dir, err := open(t, m, "/data/set", "/data")
	must(t, err)
	for sub, want := range map[string]error{
		"out": host.ErrOutsideParent, "abs": host.ErrOutsideParent, "../other": host.ErrBadPath, "none": host.ErrMissing, "sub": nil, "in": nil,
	} {
		got, err := m.Host.OpenBeneath(dir, sub)
		require.ErrorIs(t, err, want, sub)
		if err == nil {
			require.Equal(t, "/data/set/sub", got.Path)
			must(t, got.Close())
		}
	}
}

// measured: files below a directory are counted (D-91).
func measured(t *testing.T, m *Machine) {
	m.Write("/data/set/a")
	m.Write("/data/set/sub/b")
	dir, err := open(t, m, "/data/set", "/data")
	must(t, err)
	usage, err := m.Host.Measure(t.Context(), dir)
	must(t, err)
	require.Equal(t, int64(2), usage.Files)
	require.Positive(t, usage.FreeBytes)
}

// facts: a machine knows itself (D-33).
func facts(t *testing.T, m *Machine) {
	boot, err := m.Host.BootID()
	must(t, err)
	require.NotEmpty(t, boot)
	res, err := m.Host.Resources(t.Context())
	must(t, err)
	require.Positive(t, res.CPUCores)
	list, err := m.Host.Filesystems(t.Context())
	must(t, err)
	require.NotNil(t, list)
	m.Restart()
	again, err := m.Host.BootID()
	must(t, err)
	require.Equal(t, boot, again)
}
