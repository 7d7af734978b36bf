package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// Canaries in every other kind of source, and at the places a delete could
// stray to. D-9.
func canaries(t *testing.T, h *machine) (check func()) {
	t.Helper()
	files := []string{
		"/mnt/one-machine/canary", "/mnt/shared/canary", "/scratch/local-any/canary", "/volumes/v/canary",
		"/data/astraeus/canary", "/data/astraeus/drives/canary", "/data/astraeus/drives/ws-1.stranger/canary",
		"/data/canary", "/etc/canary", "/var/lib/astraeus-agent/canary", "/work/canary",
		"/data/astraeus/drives/.astraeus/trash/stranger-1/canary",
	}
	for _, f := range files {
		write(t, h.at(f), "canary")
	}
	return func() {
		t.Helper()
		for _, f := range files {
			require.FileExists(t, h.at(f))
		}
	}
}

func TestDeleteTouchesNothingElse(t *testing.T) { // D-9
	h := diskMachine(t)
	mountTmpfs(t, h.at("/mnt/shared"), "")
	check := canaries(t, h)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	folder := h.at("/data/astraeus/drives/ws-1.a")
	// A worker's own doing inside its copy: links of every kind that lead out.
	symlink(t, "/mnt/one-machine", folder+"/link")
	symlink(t, h.at("/mnt/one-machine"), folder+"/reallink")
	symlink(t, "../..", folder+"/up")
	symlink(t, h.at("/mnt/shared/canary"), folder+"/filelink")
	require.NoError(t, os.Link(h.at("/data/canary"), folder+"/hardlink"))
	require.NoError(t, unix.Mkfifo(folder+"/fifo", 0o600))
	write(t, folder+"/deep/er/file", "x")
	symlink(t, h.at("/etc"), folder+"/deep/etc")
	// And the machine's: the other kinds mounted inside.
	bindMount(t, h.at("/mnt/one-machine"), folder+"/m1")
	bindMount(t, h.at("/mnt/shared"), folder+"/deep/er/m2")
	write(t, folder+"/f", "")
	require.NoError(t, unix.Mount(h.at("/volumes/v/canary"), folder+"/f", "", unix.MS_BIND, ""))

	require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
	settled(t, c)
	check()
	require.NoDirExists(t, folder)
	l := list(t, c)
	require.Equal(t, schema.CopyTrash, l.Copies[0].State)
	require.Equal(t, "uid-a", l.Copies[0].UID)
	require.Zero(t, l.Copies[0].Bytes, "what does not go frees nothing, and eviction does not wait for it (D-71)")
	require.Len(t, l.Problems, 4, "two strangers, one of them in the trash; a file; and what is left: %v", l.Problems)
	left := h.at(l.Copies[0].Folder)
	require.FileExists(t, left+"/m1/canary")
	require.FileExists(t, left+"/deep/er/m2/canary")
	require.NoFileExists(t, left+"/hardlink")
	require.NoFileExists(t, left+"/deep/er/file")

	for _, m := range []string{"/m1", "/deep/er/m2", "/f"} {
		require.NoError(t, unix.Unmount(left+m, unix.MNT_DETACH))
	}
	again := h.copies(t) // tried again by the next process
	list(t, again)
	settled(t, again)
	require.NoDirExists(t, left)
	check()
}

func TestTrashIsTriedAgainLater(t *testing.T) { // D-9
	now := time.Unix(1_800_000_000, 0)
	h := diskMachine(t, func(_ *Options, s *system) { s.now = func() time.Time { return now } })
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	folder := h.at("/data/astraeus/drives/ws-1.a")
	mountTmpfs(t, folder+"/m", "")
	require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
	settled(t, c)
	left := h.at(list(t, c).Copies[0].Folder)
	settled(t, c)
	require.NoError(t, unix.Unmount(left+"/m", 0))
	list(t, c)
	settled(t, c)
	require.DirExists(t, left, "not again at once")
	now = now.Add(retryTrash)
	list(t, c)
	settled(t, c)
	require.NoDirExists(t, left)
	require.Empty(t, list(t, c).Problems)
}

func TestDeleteNeedsTheUID(t *testing.T) { // D-9, X-2
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-1"))
	write(t, h.at("/data/astraeus/drives/ws-1.a/canary"), "x")
	require.ErrorIs(t, c.Delete(ctx(t), drive("a"), "uid-2"), ErrForeignCopy)
	require.NoError(t, c.Delete(ctx(t), drive("b"), "uid-1"), "no such copy")
	require.FileExists(t, h.at("/data/astraeus/drives/ws-1.a/canary"))
	require.Equal(t, schema.CopyPresent, present(t, list(t, c), "uid-1").State)
}

func TestDeleteWhileSwapped(t *testing.T) { // D-9
	h := diskMachine(t)
	check := canaries(t, h)
	c := h.copies(t)
	folder := h.at("/data/astraeus/drives/ws-1.a")
	symlink(t, h.at("/data"), h.at("/data/evil"))
	gone, refused := 0, 0
	for i := range 300 {
		uid := fmt.Sprintf("uid-%d", i)
		require.NoError(t, c.Create(ctx(t), here, drive("a"), uid))
		stop := swap(t, folder, h.at("/data/evil"))
		err := c.Delete(ctx(t), drive("a"), uid)
		stop()
		if err == nil {
			gone++
		} else {
			// A directory that is moved away while it is opened is out of scope (EXDEV).
			require.True(t, errors.Is(err, ErrNotDirectory) || errors.Is(err, ErrMountPoint), "%v", err)
			refused++
			require.NoError(t, c.remove(t, h, uid))
		}
		for _, p := range []string{folder, h.at("/data/evil")} {
			_ = os.Remove(p) // whichever is where
		}
		symlink(t, h.at("/data"), h.at("/data/evil"))
		check()
	}
	t.Logf("deleted %d, refused %d", gone, refused)
	settled(t, c)
	check()
}

// remove drops a refused copy's sidecar for the next round.
func (c *Copies) remove(_ *testing.T, h *machine, uid string) error {
	c.forget(uid)
	return os.Remove(h.at("/data/astraeus/drives/.astraeus/ws-1.a.json"))
}

func TestDeleteDeepTree(t *testing.T) { // D-9: 10,000 levels
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	deepTree(t, h.at("/data/astraeus/drives/ws-1.a"), 10_000)
	require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
	settled(t, c)
	requireEmptyTrash(t, h)
}

// deepTree makes a chain of directories with a file in each.
func deepTree(t testing.TB, dir string, levels int) {
	t.Helper()
	cur, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for range levels {
		require.NoError(t, unix.Mkdirat(cur, "directory", 0o700))
		fd, err := unix.Openat(cur, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		require.NoError(t, err)
		unix.Close(fd)
		next, err := unix.Openat(cur, "directory", unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		unix.Close(cur)
		cur = next
	}
	unix.Close(cur)
}

func TestFullDisk(t *testing.T) { // nothing half-done; and a full disk can be freed
	for _, fstype := range []string{"tmpfs", "ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			h := newMachine(t)
			mkdir(t, h.at("/data"))
			if fstype == "tmpfs" {
				mountTmpfs(t, h.at("/data"), "size=2m,nr_inodes=100")
			} else {
				bindMount(t, loopDisk(t, fstype, 320), h.at("/data"))
			}
			c := h.copies(t)
			require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
			fill(t, h.at("/data/astraeus/drives/ws-1.a"))
			var failed int
			for i := range 50 {
				name := fmt.Sprintf("n%d", i)
				err := c.Create(ctx(t), here, drive(name), "uid-"+name)
				if err == nil {
					continue
				}
				failed++
				require.ErrorIs(t, err, unix.ENOSPC)
				require.NoDirExists(t, h.at("/data/astraeus/drives/ws-1."+name))
				require.NoFileExists(t, h.at("/data/astraeus/drives/.astraeus/ws-1."+name+".json"))
			}
			require.NotZero(t, failed)
			l := list(t, c)
			require.Empty(t, l.Problems)
			for _, cp := range l.Copies {
				require.Equal(t, schema.CopyPresent, cp.State)
			}
			entries, err := filepath.Glob(h.at("/data/astraeus/drives/.astraeus/.tmp-*"))
			require.NoError(t, err)
			require.Empty(t, entries)

			require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
			settled(t, c)
			require.NoError(t, c.Create(ctx(t), here, drive("z"), "uid-z"))
			closeAll(t, h)
		})
	}
}

// fill uses up a disk's blocks and inodes.
func fill(t testing.TB, dir string) {
	t.Helper()
	fd, err := unix.Open(filepath.Join(dir, "big"), unix.O_CREAT|unix.O_WRONLY, 0o600)
	require.NoError(t, err)
	for size, at := int64(1<<28), int64(0); size >= 512; {
		if err := unix.Fallocate(fd, 0, at, size); err != nil {
			size /= 2
			continue
		}
		at += size
	}
	unix.Close(fd)
	for i := range 20_000 {
		if os.WriteFile(filepath.Join(dir, fmt.Sprintf("small-%d", i)), []byte("x"), 0o600) != nil {
			break
		}
	}
}

func closeAll(t testing.TB, h *machine) {
	t.Helper()
	require.Zero(t, h.probes.outstanding())
}
