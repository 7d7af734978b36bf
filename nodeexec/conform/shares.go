package conform

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/schema"
)

var shareTests = []test{
	{"thereAndBack", thereAndBack},
	{"clientAlone", clientAlone},
	{"modes", modes},
	{"olderDrive", olderDrive},
	{"adopted", adopted},
}

func exportTo(client *Machine, uid string, mode schema.Mode) schema.ExportTarget {
	return schema.ExportTarget{Drive: drive("set"), UID: uid, Path: "/data/set", Grant: "/data", Client: client.Name,
		Addresses: []string{client.Address}, Mode: mode, Transports: []schema.Transport{schema.TransportTCP}}
}

func mountFrom(server *Machine, uid string, mode schema.Mode) schema.MountTarget {
	return schema.MountTarget{Drive: drive("set"), UID: uid, From: server.Name, Addresses: []string{server.Address},
		Transports: []schema.Transport{schema.TransportTCP}, Mode: mode}
}

func export(t *testing.T, server *Machine, target schema.ExportTarget) {
	t.Helper()
	dir, err := open(t, server, target.Path, target.Grant)
	must(t, err)
	must(t, server.Shares.Export(t.Context(), target, dir))
}

func exports(t *testing.T, m *Machine) []schema.Export {
	t.Helper()
	list, err := m.Shares.Exports(t.Context())
	must(t, err)
	require.NotNil(t, list)
	return list
}

func mounts(t *testing.T, m *Machine) []schema.Mount {
	t.Helper()
	list, err := m.Shares.Mounts(t.Context())
	must(t, err)
	require.NotNil(t, list)
	return list
}

func pair(machines []*Machine) (server, client *Machine) {
	machines[0].Write("/data/set/a")
	return machines[0], machines[1]
}

// thereAndBack: exported, mounted, unmounted, not exported; each step twice (D-80, X-8).
func thereAndBack(t *testing.T, machines []*Machine) {
	server, client := pair(machines)
	claim := nfs.ClaimOfMount(mountFrom(server, "u1", schema.ReadWrite), client.Name)
	require.ErrorIs(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadWrite)), nfs.ErrAccessDenied)
	_, err := client.Shares.OpenMount(t.Context(), claim)
	require.ErrorIs(t, err, host.ErrNotMounted) // kubernetes#109955
	for range 2 {
		export(t, server, exportTo(client, "u1", schema.ReadWrite))
		must(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadWrite)))
	}
	e, m := exports(t, server), mounts(t, client)
	require.Len(t, e, 1)
	require.Equal(t, []string{client.Address}, e[0].Clients)
	require.Equal(t, client.Name, e[0].To)
	require.Equal(t, "/data/set", e[0].Path)
	require.Len(t, m, 1)
	require.Equal(t, schema.MountBound, m[0].State)
	require.Equal(t, server.Name, m[0].From)
	require.Equal(t, claim.MountDir(WorkRoot), m[0].Path)
	dir, err := client.Shares.OpenMount(t.Context(), claim)
	must(t, err)
	must(t, dir.Close())
	for range 2 {
		must(t, client.Shares.Unmount(t.Context(), claim))
		must(t, server.Shares.Unexport(t.Context(), claim))
	}
	require.Empty(t, exports(t, server))
	require.Empty(t, mounts(t, client))
	require.True(t, server.Exists("/data/set/a")) // D-9
	require.ErrorIs(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadWrite)), nfs.ErrAccessDenied)
}

// clientAlone: an export is for its client's address (D-80, rook#6341).
func clientAlone(t *testing.T, machines []*Machine) {
	server, client := pair(machines)
	stale := exportTo(client, "u1", schema.ReadOnly)
	stale.Addresses = []string{"192.0.2.99"}
	export(t, server, stale)
	require.ErrorIs(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadOnly)), nfs.ErrAccessDenied)
	export(t, server, exportTo(client, "u1", schema.ReadOnly)) // replaced, not added
	require.Len(t, exports(t, server), 1)
	must(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadOnly)))
	none := exportTo(client, "u2", schema.ReadOnly)
	none.Addresses = nil
	dir, err := open(t, server, none.Path, none.Grant)
	must(t, err)
	require.Error(t, server.Shares.Export(t.Context(), none, dir))
}

// modes: no wider than the export, and changed in place.
func modes(t *testing.T, machines []*Machine) {
	server, client := pair(machines)
	export(t, server, exportTo(client, "u1", schema.ReadOnly))
	require.ErrorIs(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadWrite)), nfs.ErrAccessDenied)
	must(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadOnly)))
	require.Equal(t, schema.ReadOnly, mounts(t, client)[0].Mode)
	export(t, server, exportTo(client, "u1", schema.ReadWrite))
	require.Equal(t, schema.ReadWrite, exports(t, server)[0].Mode)
	must(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadWrite)))
	require.Len(t, mounts(t, client), 1)
	require.Equal(t, schema.ReadWrite, mounts(t, client)[0].Mode)
}

// olderDrive: a mount of an older drive of the name is in the way, and not taken away for it.
func olderDrive(t *testing.T, machines []*Machine) {
	server, client := pair(machines)
	export(t, server, exportTo(client, "u1", schema.ReadOnly))
	must(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadOnly)))
	export(t, server, exportTo(client, "u2", schema.ReadOnly))
	require.Len(t, exports(t, server), 2)
	newer := mountFrom(server, "u2", schema.ReadOnly)
	require.ErrorIs(t, client.Shares.Mount(t.Context(), newer), nfs.ErrBusy)
	must(t, client.Shares.Unmount(t.Context(), nfs.ClaimOfMount(newer, client.Name)))
	require.Equal(t, "u1", mounts(t, client)[0].UID)
	_, err := client.Shares.OpenMount(t.Context(), nfs.ClaimOfMount(newer, client.Name))
	require.ErrorIs(t, err, host.ErrNotMounted)
}

// adopted: a restarted agent finds its exports and mounts (D-82, X-8).
func adopted(t *testing.T, machines []*Machine) {
	server, client := pair(machines)
	export(t, server, exportTo(client, "u1", schema.ReadOnly))
	must(t, client.Shares.Mount(t.Context(), mountFrom(server, "u1", schema.ReadOnly)))
	e, m := exports(t, server), mounts(t, client)
	server.Restart()
	client.Restart()
	require.Equal(t, e, exports(t, server))
	require.Equal(t, m, mounts(t, client))
	must(t, client.Shares.Unmount(t.Context(), nfs.ClaimOfMount(mountFrom(server, "u1", schema.ReadOnly), client.Name)))
	require.Empty(t, mounts(t, client))
}
