package lab

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/schema"
)

const workRoot = "/var/lib/astraeus-agent/work"

var drive = schema.Key{Kind: schema.KindDrive, Namespace: "ws-aaaaaaaaaaaa", Name: "imagenet"}

// machine is one machine of a lab of two.
type machine struct {
	t      *testing.T
	root   string
	host   *host.Host
	shares *Shares
}

type pair struct{ server, client *machine }

func newPair(t *testing.T) pair {
	peers := filepath.Join(t.TempDir(), "lab.json")
	p := pair{server: newMachine(t, "gpu-01", "192.0.2.1", peers), client: newMachine(t, "gpu-02", "192.0.2.2", peers)}
	require.NoError(t, WritePeers(peers, map[string]Peer{
		"192.0.2.1": {"gpu-01", p.server.root, workRoot}, "192.0.2.2": {"gpu-02", p.client.root, workRoot}}))
	require.NoError(t, os.MkdirAll(filepath.Join(p.server.root, "data/imagenet"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(p.server.root, "data/imagenet/a"), []byte("bytes"), 0o644))
	return p
}

func newMachine(t *testing.T, name, address, peers string) *machine {
	m := &machine{t: t, root: t.TempDir()}
	h, err := host.New(host.Options{Root: m.root, WorkRoot: workRoot})
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	m.host = h
	m.shares, err = New(Options{Machine: name, WorkRoot: workRoot, Host: h, Peer: PeersFile(peers),
		Addresses: func(context.Context) ([]string, error) { return []string{address}, nil }})
	require.NoError(t, err)
	t.Cleanup(func() {
		mounts, _ := h.Mounts(context.Background())
		for _, mount := range mounts {
			_ = h.Unmount(mount.Target, false, true)
		}
		// Mount points may be immutable, which t.TempDir cannot remove.
		for _, c := range []string{"exports", "datavolumes/mounts"} {
			_ = h.Unmount(filepath.Join(workRoot, c), false, false)
		}
	})
	return m
}

func exportTarget(mode schema.Mode) schema.ExportTarget {
	return schema.ExportTarget{Drive: drive, UID: "u1", Path: "/data/imagenet", Grant: "/data", Client: "gpu-02",
		Addresses: []string{"192.0.2.2"}, Mode: mode, Transports: []schema.Transport{schema.TransportTCP}}
}

func mountTarget(mode schema.Mode) schema.MountTarget {
	return schema.MountTarget{Drive: drive, UID: "u1", From: "gpu-01", Addresses: []string{"192.0.2.1"},
		Transports: []schema.Transport{schema.TransportTCP}, Mode: mode}
}

func claim() nfs.Claim { return nfs.ClaimOfMount(mountTarget(schema.ReadOnly), "gpu-02") }

func (m *machine) export(t schema.ExportTarget) error {
	dir, err := m.host.OpenDir(t.Path, t.Grant, nil)
	require.NoError(m.t, err)
	defer dir.Close()
	return m.shares.Export(m.t.Context(), t, dir)
}

func (m *machine) file(name string) string {
	return filepath.Join(m.root, workRoot, "datavolumes/mounts", drive.Scoped()+"-0", name)
}

func TestExportMountAndBack(t *testing.T) { // D-80, X-20
	p, ctx := newPair(t), t.Context()
	require.ErrorIs(t, p.client.shares.Mount(ctx, mountTarget(schema.ReadOnly)), nfs.ErrAccessDenied)

	for range 2 { // the second time there is nothing to do
		require.NoError(t, p.server.export(exportTarget(schema.ReadWrite)))
		require.NoError(t, p.client.shares.Mount(ctx, mountTarget(schema.ReadWrite)))
	}
	exports, err := p.server.shares.Exports(ctx)
	require.NoError(t, err)
	require.Equal(t, []schema.Export{{Drive: drive.Scoped(), UID: "u1", Path: "/data/imagenet", Client: "192.0.2.2",
		Clients: []string{"192.0.2.2"}, To: "gpu-02", Mode: schema.ReadWrite, Transport: schema.TransportLab}}, exports)
	mounts, err := p.client.shares.Mounts(ctx)
	require.NoError(t, err)
	require.Equal(t, []schema.Mount{{Drive: drive.Scoped(), UID: "u1", From: "gpu-01",
		Path: workRoot + "/datavolumes/mounts/" + drive.Scoped() + "-0", State: schema.MountBound, Mode: schema.ReadWrite,
		Transport: schema.TransportLab, Server: "192.0.2.1", Export: workRoot + "/exports/u1-0-gpu-02"}}, mounts)

	require.NoError(t, os.WriteFile(p.client.file("b"), []byte("written"), 0o644))
	body, err := os.ReadFile(filepath.Join(p.server.root, "data/imagenet/b"))
	require.NoError(t, err)
	require.Equal(t, "written", string(body))

	require.NoError(t, p.client.shares.Unmount(ctx, claim()))
	require.NoError(t, p.server.shares.Unexport(ctx, claim()))
	require.NoError(t, p.client.shares.Unmount(ctx, claim()))
	require.NoError(t, p.server.shares.Unexport(ctx, claim()))
	require.NoFileExists(t, p.client.file("a"))
	require.FileExists(t, filepath.Join(p.server.root, "data/imagenet/a")) // D-9
	require.ErrorIs(t, p.client.shares.Mount(ctx, mountTarget(schema.ReadOnly)), nfs.ErrAccessDenied)
}

func TestOnlyTheClaimsClientMounts(t *testing.T) { // D-80, rook#6341
	p := newPair(t)
	target := exportTarget(schema.ReadOnly)
	target.Addresses = []string{"192.0.2.9"} // a stale address of the client
	require.NoError(t, p.server.export(target))
	require.ErrorIs(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)), nfs.ErrAccessDenied)
	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	require.ErrorIs(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadWrite)), nfs.ErrAccessDenied)
	require.NoError(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)))
	require.Error(t, os.WriteFile(p.client.file("b"), nil, 0o644))
}

func TestExportIsNarrowedInPlace(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.server.export(exportTarget(schema.ReadWrite)))
	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	exports, err := p.server.shares.Exports(t.Context())
	require.NoError(t, err)
	require.Len(t, exports, 1)
	require.Equal(t, schema.ReadOnly, exports[0].Mode)
	require.ErrorIs(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadWrite)), nfs.ErrAccessDenied)
}

func TestMountIsRemadeWhenItsModeChanges(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.server.export(exportTarget(schema.ReadWrite)))
	require.NoError(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)))
	require.NoError(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadWrite)))
	require.NoError(t, os.WriteFile(p.client.file("b"), nil, 0o644))
}

func TestWhatRebootTakesIsNotListed(t *testing.T) { // D-82, X-22
	p := newPair(t)
	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	require.NoError(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)))
	require.NoError(t, p.server.host.Unmount(workRoot+"/exports/u1-0-gpu-02", false, false))
	require.NoError(t, p.client.host.Unmount(workRoot+"/datavolumes/mounts/"+drive.Scoped()+"-0", false, false))
	exports, err := p.server.shares.Exports(t.Context())
	require.NoError(t, err)
	require.Empty(t, exports)
	mounts, err := p.client.shares.Mounts(t.Context())
	require.NoError(t, err)
	require.Empty(t, mounts)
	// The table is there, what it exports is not: a bare directory is never mounted.
	require.Error(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)))
	_, err = p.client.shares.OpenMount(t.Context(), claim())
	require.ErrorIs(t, err, host.ErrNotMounted) // kubernetes#109955

	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	require.NoError(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)))
	dir, err := p.client.shares.OpenMount(t.Context(), claim())
	require.NoError(t, err)
	require.NoError(t, dir.Close())
}

func TestAnotherDriveOfTheSameName(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	require.NoError(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)))
	newer := exportTarget(schema.ReadOnly)
	newer.UID = "u2"
	require.NoError(t, p.server.export(newer))
	mount := mountTarget(schema.ReadOnly)
	mount.UID = "u2"
	require.ErrorIs(t, p.client.shares.Mount(t.Context(), mount), nfs.ErrBusy)
	require.NoError(t, p.client.shares.Unmount(t.Context(), nfs.ClaimOfMount(mount, "gpu-02"))) // not its mount
	require.FileExists(t, p.client.file("a"))
	_, err := p.client.shares.OpenMount(t.Context(), nfs.ClaimOfMount(mount, "gpu-02"))
	require.ErrorIs(t, err, host.ErrNotMounted)
}

func TestLeftoverExportMountIsSwept(t *testing.T) { // vagrant#2851
	p := newPair(t)
	dir, err := p.server.host.OpenDir("/data/imagenet", "/data", nil)
	require.NoError(t, err)
	defer dir.Close()
	// A crash after the bind mount and before its entry.
	require.NoError(t, p.server.host.Bind(dir, workRoot+"/exports/u7-0-gpu-09", false))
	require.ErrorIs(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)), nfs.ErrAccessDenied)
	require.NoError(t, p.server.shares.Unexport(t.Context(), claim()))
	mounts, err := p.server.host.Mounts(t.Context())
	require.NoError(t, err)
	require.Empty(t, mounts)
}

func TestForeignMountIsLeftAlone(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	require.NoError(t, os.MkdirAll(filepath.Join(p.client.root, "srv"), 0o755))
	dir, err := p.client.host.OpenDir("/srv", "/srv", nil)
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, p.client.host.Bind(dir, claim().MountDir(workRoot), false))
	require.ErrorIs(t, p.client.shares.Mount(t.Context(), mountTarget(schema.ReadOnly)), nfs.ErrForeign)
}

func TestDamagedTableIsUnknownNotEmpty(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.server.export(exportTarget(schema.ReadOnly)))
	name := filepath.Join(p.server.root, workRoot, "exports/table.json")
	require.NoError(t, os.WriteFile(name, []byte(`{"version":2,"entries":[]}`), 0o644))
	_, err := p.server.shares.Exports(t.Context())
	require.ErrorContains(t, err, "version 2")
	require.Error(t, p.server.export(exportTarget(schema.ReadOnly)))
}
