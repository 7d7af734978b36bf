package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestBind(t *testing.T) { // X-20, D-41
	h := newMachine(t)
	write(t, h.at("/mnt/data/x/file"), "hello")
	mkdir(t, h.at("/mnt/data/y"))
	d, err := open(t, h, "/mnt/data/x", "/mnt/data")
	require.NoError(t, err)
	const target = "/work/exports/uid-0-gpu-02"

	require.NoError(t, h.Bind(d, target, true))
	require.NoError(t, h.Bind(d, target, true), "idempotent")
	require.FileExists(t, h.at(target+"/file"))
	require.ErrorIs(t, os.WriteFile(h.at(target+"/new"), nil, 0o600), unix.EROFS)
	mounts, err := h.Mounts(ctx(t))
	require.NoError(t, err)
	require.Len(t, mounts, 1)
	require.Equal(t, target, mounts[0].Target)
	require.True(t, mounts[0].ReadOnly())
	require.True(t, hasOption(mounts[0].Options, "nosuid") && hasOption(mounts[0].Options, "nodev"), mounts[0].Options)

	require.NoError(t, h.Bind(d, target, false), "wider now")
	write(t, h.at(target+"/new"), "x")
	require.FileExists(t, h.at("/mnt/data/x/new"))
	require.NoError(t, h.Bind(d, target, true), "narrower again")
	require.ErrorIs(t, os.WriteFile(h.at(target+"/new2"), nil, 0o600), unix.EROFS)

	other, err := open(t, h, "/mnt/data/y", "/mnt/data")
	require.NoError(t, err)
	require.ErrorIs(t, h.Bind(other, target, true), ErrBoundElsewhere)

	require.NoError(t, h.Unmount(target, false, false))
	require.NoError(t, h.Unmount(target, false, false), "absent is done")
	require.NoDirExists(t, h.at(target))
	require.FileExists(t, h.at("/mnt/data/x/file"))
}

func TestBindStaysBelowTheWorkRoot(t *testing.T) {
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data"))
	mkdir(t, h.at("/etc"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	for _, target := range []string{"/etc", "/work", "/work/../etc", "/work2/x", "work/x", "/"} {
		require.ErrorIs(t, h.Bind(d, target, true), ErrBadPath, target)
		require.ErrorIs(t, h.Unmount(target, false, true), ErrBadPath, target)
	}
	mkdir(t, h.at("/work"))
	symlink(t, "/etc", h.at("/work/exports"))
	require.Error(t, h.Bind(d, "/work/exports/x", true), "a link in the work root is not followed")
	entries, err := os.ReadDir(h.at("/etc"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestMountPointRefusesWrites(t *testing.T) { // kubernetes#109955
	needRoot(t)
	disk := loopDisk(t, "ext4", 16)
	h := machineIn(t, disk)
	const target = "/work/datavolumes/mounts/ws-1.a-0"
	require.NoError(t, h.MakeMountPoint(target))
	require.NoError(t, h.MakeMountPoint(target))
	require.Error(t, os.WriteFile(h.at(target+"/x"), nil, 0o600), "even for root")
	mkdir(t, h.at("/mnt/data"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, target, false))
	write(t, h.at(target+"/x"), "x")
	require.NoError(t, h.Unmount(target, false, false))
	require.NoDirExists(t, h.at(target))
	require.DirExists(t, h.at("/work/datavolumes"))
}

func TestUnmountBusyAndLazy(t *testing.T) {
	h := newMachine(t)
	write(t, h.at("/mnt/data/file"), "x")
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, "/work/w", false))
	f, err := os.Open(h.at("/work/w/file"))
	require.NoError(t, err)
	require.ErrorIs(t, h.Unmount("/work/w", false, false), ErrBusy)
	require.ErrorIs(t, h.Unmount("/work/w", true, false), ErrBusy, "force is no help for a local user")
	require.NoError(t, h.Unmount("/work/w", false, true))
	mounts, err := h.Mounts(ctx(t))
	require.NoError(t, err)
	require.Empty(t, mounts)
	require.NoError(t, f.Close())
}

func TestUnmountTakesOffAllThatIsStacked(t *testing.T) {
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, "/work/w", false))
	require.NoError(t, unix.Mount("tmpfs", h.at("/work/w"), "tmpfs", 0, ""))
	require.ErrorIs(t, h.Bind(d, "/work/w", false), ErrBoundElsewhere)
	mounts, err := h.Mounts(ctx(t))
	require.NoError(t, err)
	require.Len(t, mounts, 2, "a covered mount is listed too")
	require.NoError(t, h.Unmount("/work/w", false, false))
	mounts, err = h.Mounts(ctx(t))
	require.NoError(t, err)
	require.Empty(t, mounts)
}

func TestBindLeavesNestedMountsOut(t *testing.T) { // another filesystem was not verified
	h := newMachine(t)
	mountTmpfs(t, h.at("/mnt/data/nested"), "")
	write(t, h.at("/mnt/data/nested/file"), "x")
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, "/work/w", false))
	require.NoFileExists(t, h.at("/work/w/nested/file"))
	require.NoError(t, h.Unmount("/work/w", false, false))
	require.FileExists(t, h.at("/mnt/data/nested/file"))
}

func TestOpenMount(t *testing.T) { // D-41: a claim's mount, and nothing else at that path
	h := newMachine(t)
	write(t, h.at("/mnt/data/file"), "x")
	const target = "/work/datavolumes/mounts/ws-1.a-0"
	_, err := h.OpenMount(ctx(t), target)
	require.ErrorIs(t, err, ErrNotMounted)
	require.NoError(t, h.MakeMountPoint(target))
	_, err = h.OpenMount(ctx(t), target)
	require.ErrorIs(t, err, ErrNotMounted, "a bare mount point is no mount")
	src, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(src, target, false))
	d, err := h.OpenMount(ctx(t), target)
	require.NoError(t, err)
	require.Equal(t, src.Inode, d.Inode)
	require.NoError(t, h.Bind(d, "/work/w", true))
	require.FileExists(t, h.at("/work/w/file"))
	closeDir(t, d)
	require.NoError(t, h.Unmount("/work/w", false, false))
	require.NoError(t, h.Unmount(target, false, false))
}

func TestBindWhileTheMountIsShared(t *testing.T) { // what is bound stays with us
	h := newMachine(t)
	require.NoError(t, unix.Mount("", h.dir, "", unix.MS_SHARED, ""))
	mkdir(t, h.at("/mnt/data/inner"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, "/work/w", false))
	require.NoError(t, unix.Mount("tmpfs", h.at("/work/w/inner"), "tmpfs", 0, ""))
	require.Equal(t, 1, len(mustMounts(t, h, "/work/w/inner")))
	infos, err := h.rawTable()
	require.NoError(t, err)
	for _, m := range infos {
		require.NotEqual(t, h.at("/mnt/data/inner"), m.Mountpoint, "it did not spread to the source")
	}
	require.NoError(t, h.Unmount("/work/w/inner", false, false))
	require.NoError(t, h.Unmount("/work/w", false, false))
}

func mustMounts(t testing.TB, h *machine, target string) []MountInfo {
	t.Helper()
	all, err := h.Mounts(ctx(t))
	require.NoError(t, err)
	var found []MountInfo
	for _, m := range all {
		if filepath.Clean(m.Target) == target {
			found = append(found, m)
		}
	}
	return found
}
