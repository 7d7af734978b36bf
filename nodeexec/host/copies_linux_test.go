package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// diskMachine is a machine with a disk of its own at /data.
func diskMachine(t testing.TB, change ...func(*Options, *system)) *machine {
	t.Helper()
	h := newMachine(t, change...)
	mountTmpfs(t, h.at("/data"), "size=32m")
	return h
}

func list(t testing.TB, c *Copies, locs ...schema.DataLocation) CopyListing {
	t.Helper()
	if len(locs) == 0 {
		locs = []schema.DataLocation{here}
	}
	l, err := c.List(ctx(t), locs)
	require.NoError(t, err)
	return l
}

func present(t testing.TB, l CopyListing, uid string) schema.Copy {
	t.Helper()
	for _, c := range l.Copies {
		if c.UID == uid && c.State != schema.CopyTrash {
			return c
		}
	}
	require.Fail(t, "no copy "+uid)
	return schema.Copy{}
}

func TestCopyLife(t *testing.T) { // D-2, D-41, D-70, X-2, X-8, X-17, X-26
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := diskMachine(t, func(_ *Options, s *system) { s.now = func() time.Time { return now } })
	c := h.copies(t)
	l := list(t, c)
	require.Empty(t, l.Copies)
	require.True(t, l.Complete)
	require.True(t, l.Locations[0].Mounted)
	require.Positive(t, l.Locations[0].FreeBytes)
	require.NoDirExists(t, h.at(here.Path), "listing makes nothing")

	require.NoError(t, c.Create(ctx(t), here, drive("hf-cache"), "uid-1"))
	require.NoError(t, c.Create(ctx(t), here, drive("hf-cache"), "uid-1"), "idempotent")
	require.FileExists(t, h.at("/data/astraeus/.astraeus-data.json"))
	require.FileExists(t, h.at("/data/astraeus/drives/.astraeus/ws-1.hf-cache.json"))
	st, err := os.Stat(h.at("/data/astraeus"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o711), st.Mode().Perm())

	cp := present(t, list(t, c), "uid-1")
	require.Equal(t, schema.CopyPresent, cp.State)
	require.Equal(t, "/data/astraeus/drives/ws-1.hf-cache", cp.Folder)
	require.Equal(t, now, *cp.Created)
	require.Nil(t, cp.LastUsed)
	require.False(t, cp.Filled)
	require.NotEmpty(t, cp.FSID)

	d, err := c.Open("uid-1", "hub/models")
	require.NoError(t, err)
	require.Equal(t, cp.Folder+"/hub/models", d.Path)
	require.Equal(t, cp.FSID, d.FSID)
	require.NoError(t, h.Bind(d, "/work/w", false))
	write(t, h.at("/work/w/weights"), "123")
	require.FileExists(t, h.at(cp.Folder+"/hub/models/weights"))
	require.NoError(t, h.Unmount("/work/w", false, false))
	closeDir(t, d)

	require.NoError(t, c.MarkUsed("uid-1", now))
	require.NoError(t, c.MarkUsed("uid-1", now.Add(59*time.Minute)), "at most hourly")
	require.NoError(t, c.MarkUsed("uid-1", now.Add(-time.Hour)), "never back (X-26)")
	require.Equal(t, now, *present(t, list(t, c), "uid-1").LastUsed)
	require.NoError(t, c.MarkUsed("uid-1", now.Add(time.Hour)))
	require.Equal(t, now.Add(time.Hour), *present(t, list(t, c), "uid-1").LastUsed)

	has, err := c.HasFillMarker("uid-1")
	require.NoError(t, err)
	require.False(t, has)
	write(t, h.at(cp.Folder+"/"+schema.FillMarker), "")
	has, err = c.HasFillMarker("uid-1")
	require.NoError(t, err)
	require.True(t, has)
	require.NoError(t, c.SetFilled("uid-1", 3))
	cp = present(t, list(t, c), "uid-1")
	require.True(t, cp.Filled)
	require.Equal(t, int64(3), cp.FilledGeneration)

	require.NoError(t, c.Delete(ctx(t), drive("hf-cache"), "uid-1"))
	require.NoError(t, c.Delete(ctx(t), drive("hf-cache"), "uid-1"), "idempotent")
	require.NoDirExists(t, h.at(cp.Folder))
	_, err = c.Open("uid-1", "")
	require.ErrorIs(t, err, ErrNoCopy)
	settled(t, c)
	require.Empty(t, list(t, c).Copies)
	requireEmptyTrash(t, h)

	require.NoError(t, c.Create(ctx(t), here, drive("hf-cache"), "uid-2"))
	cp = present(t, list(t, c), "uid-2")
	require.False(t, cp.Filled, "a name created again inherits nothing")
	require.NoFileExists(t, h.at(cp.Folder+"/hub/models/weights"))
}

func requireEmptyTrash(t testing.TB, h *machine) {
	t.Helper()
	entries, err := os.ReadDir(h.at("/data/astraeus/drives/.astraeus/trash"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestForeignCopies(t *testing.T) { // reported, never adopted, never deleted
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	meta, drives := "/data/astraeus/drives/.astraeus/", "/data/astraeus/drives/"
	sidecarText := `{"version":1,"cluster_uid":"cluster-1","drive":"ws-1.NAME","drive_uid":"UID","filled_generation":0,` +
		`"created":"2026-01-02T03:04:05Z","last_used":null}`
	for name, text := range map[string]string{
		"none":    "",
		"other":   strings.Replace(sidecarText, "cluster-1", "cluster-2", 1),
		"newer":   strings.Replace(sidecarText, `"version":1`, `"version":2,"colour":"red"`, 1),
		"unknown": strings.Replace(sidecarText, `"version":1`, `"version":1,"colour":"red"`, 1),
		"torn":    sidecarText[:40],
		"moved":   strings.Replace(sidecarText, "ws-1.NAME", "ws-1.elsewhere", 1),
		"reused":  sidecarText,
	} {
		write(t, h.at(drives+"ws-1."+name+"/canary"), name)
		if text != "" {
			text = strings.Replace(strings.Replace(text, "NAME", name, 1), "UID", "uid-of-"+name, 1)
			write(t, h.at(meta+"ws-1."+name+".json"), text)
		}
	}
	symlink(t, "/etc/passwd", h.at(meta+"ws-1.linked.json"))
	write(t, h.at(drives+"ws-1.linked/canary"), "x")
	require.NoError(t, unix.Mkfifo(h.at(meta+"ws-1.fifo.json"), 0o600))
	write(t, h.at(drives+"ws-1.fifo/canary"), "x")

	for name, want := range map[string]error{
		"none": ErrNoSidecar, "other": ErrForeignCopy, "newer": ErrNewerFormat, "unknown": ErrDamaged, "torn": ErrDamaged,
		"moved": ErrForeignCopy, "reused": ErrForeignCopy, "linked": ErrDamaged, "fifo": ErrDamaged,
	} {
		uid := "wanted-" + name
		require.ErrorIs(t, c.Create(ctx(t), here, drive(name), uid), want, name)
		require.ErrorIs(t, c.Delete(ctx(t), drive(name), uid), want, name)
		_, err := c.Open(uid, "")
		require.ErrorIs(t, err, ErrNoCopy, name)
		require.FileExists(t, h.at(drives+"ws-1."+name+"/canary"))
	}
	l := list(t, c)
	require.True(t, l.Complete)
	require.Len(t, l.Copies, 2, "ours and the one whose name is used again")
	require.Len(t, l.Problems, 8)
	for _, p := range l.Problems {
		require.Contains(t, p, "it is left alone")
	}
}

func TestCopyThatIsALinkOrAMountPoint(t *testing.T) { // D-9, D-21
	h := diskMachine(t)
	c := h.copies(t)
	write(t, h.at("/precious/canary"), "x")
	write(t, h.at("/data/other/canary"), "x")
	folder := func(n string) string { return h.at("/data/astraeus/drives/ws-1." + n) }
	for _, n := range []string{"link", "mount", "samefs", "file"} {
		require.NoError(t, c.Create(ctx(t), here, drive(n), "uid-"+n))
	}
	require.NoError(t, os.Remove(folder("link")))
	symlink(t, h.at("/precious"), folder("link"))
	bindMount(t, h.at("/precious"), folder("mount"))
	bindMount(t, h.at("/data/other"), folder("samefs"))
	require.NoError(t, os.Remove(folder("file")))
	write(t, folder("file"), "x")

	for n, want := range map[string]error{
		"link": ErrNotDirectory, "mount": ErrMountPoint, "samefs": ErrMountPoint, "file": ErrNotDirectory,
	} {
		_, err := c.Open("uid-"+n, "")
		require.ErrorIs(t, err, want, n)
		require.ErrorIs(t, c.Delete(ctx(t), drive(n), "uid-"+n), want, n)
		require.ErrorIs(t, c.Create(ctx(t), here, drive(n), "uid-"+n), want, n)
		require.ErrorIs(t, c.MarkUsed("nobody", time.Now()), ErrNoCopy)
		require.Equal(t, schema.CopyUnknown, present(t, list(t, c), "uid-"+n).State)
	}
	require.FileExists(t, h.at("/precious/canary"))
	require.FileExists(t, h.at("/data/other/canary"))
	require.FileExists(t, folder("file"))
	requireEmptyTrash(t, h)
}

func TestFolderOfACopyStaysInside(t *testing.T) { // D-2, D-21
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	folder := h.at("/data/astraeus/drives/ws-1.a")
	mkdir(t, h.at("/data/secret"))
	symlink(t, "/data/secret", filepath.Join(folder, "absolute"))
	symlink(t, "../../../secret", filepath.Join(folder, "up"))
	symlink(t, "real", filepath.Join(folder, "inner"))
	mkdir(t, filepath.Join(folder, "real"))
	mountTmpfs(t, filepath.Join(folder, "mounted"), "")
	for sub, want := range map[string]error{
		"absolute": ErrOutsideParent, "up": ErrOutsideParent, "up/x": ErrOutsideParent, "..": ErrBadPath, "/x": ErrBadPath,
		"mounted": ErrOutsideParent, "mounted/x": ErrOutsideParent, "inner": nil, "a/b": nil,
	} {
		d, err := c.Open("uid-a", sub)
		require.ErrorIs(t, err, want, sub)
		closeDir(t, d)
	}
	entries, err := os.ReadDir(h.at("/data/secret"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestFillMarkerIsARealFile(t *testing.T) { // D-42
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	at := h.at("/data/astraeus/drives/ws-1.a/" + schema.FillMarker)
	symlink(t, "/etc/passwd", at)
	has, err := c.HasFillMarker("uid-a")
	require.NoError(t, err)
	require.False(t, has)
	require.NoError(t, os.Remove(at))
	mkdir(t, at)
	has, err = c.HasFillMarker("uid-a")
	require.NoError(t, err)
	require.False(t, has)
}

func TestLocationNotMounted(t *testing.T) {
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	fsid := list(t, c).Locations[0].FSID
	write(t, h.at("/data/astraeus/drives/ws-1.a/canary"), "x")
	disk := h.at("/parked")
	mkdir(t, disk)
	require.NoError(t, unix.Mount(h.at("/data"), disk, "", unix.MS_MOVE, ""))

	missing := func(c *Copies, reason string) {
		t.Helper()
		l := list(t, c)
		require.True(t, l.Complete)
		loc := l.Locations[0]
		require.False(t, loc.Mounted)
		require.Contains(t, loc.Message, "data location /data/astraeus is not mounted: ")
		require.Contains(t, loc.Message, reason)
		require.Equal(t, int64(-1), loc.FreeBytes)
		require.Equal(t, fsid, loc.FSID)
		cp := present(t, l, "uid-a")
		require.Equal(t, schema.CopyUnknown, cp.State)
		require.Equal(t, "ws-1.a", cp.Drive)
		require.ErrorIs(t, c.Create(ctx(t), here, drive("b"), "uid-b"), ErrLocationNotMounted)
		require.ErrorIs(t, c.Delete(ctx(t), drive("a"), "uid-a"), ErrLocationNotMounted)
		require.ErrorIs(t, c.MarkUsed("uid-a", time.Now()), ErrLocationNotMounted)
		_, err := c.Open("uid-a", "")
		require.ErrorIs(t, err, ErrLocationNotMounted)
		require.NoFileExists(t, h.at("/data/astraeus/.astraeus-data.json"))
	}
	missing(c, "there is no such directory")
	mkdir(t, h.at("/data/astraeus"))
	missing(c, "it was first used on filesystem")
	missing(h.copies(t), "it was first used on filesystem") // after a restart, too
	mountTmpfs(t, h.at("/data"), "size=1m")                 // another disk
	mkdir(t, h.at("/data/astraeus"))
	missing(c, "it was first used on filesystem")
	require.NoError(t, unix.Unmount(h.at("/data"), 0))

	require.NoError(t, os.RemoveAll(h.at("/data")))
	mkdir(t, h.at("/data"))
	require.NoError(t, unix.Mount(disk, h.at("/data"), "", unix.MS_MOVE, ""))
	require.Equal(t, schema.CopyPresent, present(t, list(t, c), "uid-a").State)
	require.NoError(t, os.Rename(h.at("/data/astraeus/.astraeus-data.json"), h.at("/data/saved")))
	missing(c, "its marker .astraeus-data.json is not there")
	require.FileExists(t, h.at("/data/astraeus/drives/ws-1.a/canary"))
}

func TestForeignMarker(t *testing.T) {
	h := diskMachine(t)
	require.NoError(t, h.copies(t).Create(ctx(t), here, drive("a"), "uid-a"))

	other := h.Copies("cluster-2")
	defer other.Close()
	_, err := other.List(ctx(t), []schema.DataLocation{here})
	require.ErrorIs(t, err, ErrForeignCopy, "the state directory is the other cluster's")

	require.NoError(t, os.RemoveAll(h.at("/var/lib/astraeus-agent"))) // the agent was set up anew
	l := list(t, other)
	require.False(t, l.Locations[0].Mounted)
	require.Contains(t, l.Locations[0].Message, "its marker is of another cluster")
	require.ErrorIs(t, other.Create(ctx(t), here, drive("b"), "uid-b"), ErrLocationNotMounted)
	require.ErrorIs(t, other.Delete(ctx(t), drive("a"), "uid-a"), ErrLocationNotMounted)

	again := h.copies(t) // the same cluster takes its own location up again
	require.Equal(t, schema.CopyPresent, present(t, list(t, again), "uid-a").State)
	require.FileExists(t, h.at("/var/lib/astraeus-agent/data-locations.json"))
}

func TestLocationMustBeLocal(t *testing.T) { // D-31
	h := diskMachine(t, func(o *Options, _ *system) { o.Shared = []string{"/mnt/lustre"} })
	mountTmpfs(t, h.at("/mnt/lustre"), "")
	c := h.copies(t)
	err := c.Create(ctx(t), schema.DataLocation{Path: "/mnt/lustre/astraeus"}, drive("a"), "uid-a")
	require.ErrorIs(t, err, ErrNotLocal)
	require.NoFileExists(t, h.at("/mnt/lustre/astraeus/.astraeus-data.json"))
}

func TestFormerLocation(t *testing.T) { // D-32
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	next := schema.DataLocation{Path: "/data/next", Present: true}
	former := schema.DataLocation{Path: here.Path}
	l := list(t, c, next, former)
	require.Equal(t, schema.CopyPresent, present(t, l, "uid-a").State)
	require.True(t, l.Locations[0].Present)
	require.False(t, l.Locations[1].Present)
	require.NoError(t, c.Create(ctx(t), next, drive("a"), "uid-a"), "present in any known location")
	require.NoDirExists(t, h.at("/data/next"))
	require.NoError(t, c.Create(ctx(t), next, drive("b"), "uid-b"))
	require.Equal(t, "/data/next/drives/ws-1.b", present(t, list(t, c, next, former), "uid-b").Folder)
	require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"))
	require.NoDirExists(t, h.at("/data/astraeus/drives/ws-1.a"))
}

func TestReadOnlyState(t *testing.T) { // no location is used that could not be remembered
	h := diskMachine(t)
	mountTmpfs(t, h.at("/var/lib/astraeus-agent"), "size=1m,ro")
	c := h.copies(t)
	require.ErrorIs(t, c.Create(ctx(t), here, drive("a"), "uid-a"), unix.EROFS)
	require.NoDirExists(t, h.at("/data/astraeus/drives/ws-1.a"))
	require.NoError(t, unix.Mount("", h.at("/var/lib/astraeus-agent"), "", unix.MS_REMOUNT, ""))
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))

	require.NoError(t, unix.Mount("", h.at("/var/lib/astraeus-agent"), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	l := list(t, c)
	require.Equal(t, schema.CopyPresent, present(t, l, "uid-a").State)
	require.Len(t, l.Problems, 1, "told, and no more than that")
}

func TestDamagedState(t *testing.T) { // an error is never empty
	h := diskMachine(t)
	write(t, h.at("/var/lib/astraeus-agent/data-locations.json"), "{")
	c := h.copies(t)
	_, err := c.List(ctx(t), []schema.DataLocation{here})
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorIs(t, c.Create(ctx(t), here, drive("a"), "uid-a"), ErrDamaged)
}

func TestBadDrives(t *testing.T) {
	h := diskMachine(t)
	c := h.copies(t)
	list(t, c)
	for _, key := range []schema.Key{
		{}, {Kind: schema.KindDrive, Name: "x"}, {Kind: schema.KindRun, Namespace: "ws-1", Name: "x"},
		{Kind: schema.KindDrive, Namespace: "..", Name: "x"}, {Kind: schema.KindDrive, Namespace: "ws-1", Name: "../x"},
	} {
		require.ErrorIs(t, c.Create(ctx(t), here, key, "uid"), ErrBadPath)
		require.ErrorIs(t, c.Delete(ctx(t), key, "uid"), ErrBadPath)
	}
	for _, uid := range []string{"", "..", "a/b", ".x", strings.Repeat("x", 200)} {
		require.ErrorIs(t, c.Create(ctx(t), here, drive("a"), uid), ErrBadPath)
		require.ErrorIs(t, c.Delete(ctx(t), drive("a"), uid), ErrBadPath)
	}
	require.ErrorIs(t, h.copies(t).Delete(ctx(t), drive("a"), "uid"), ErrNoCopy, "nothing was listed yet")
}

func TestLocationThatIsNoLongerListed(t *testing.T) { // D-32
	h := diskMachine(t)
	c := h.copies(t)
	require.NoError(t, c.Create(ctx(t), here, drive("a"), "uid-a"))
	next := schema.DataLocation{Path: "/data/next", Present: true}
	require.NoError(t, c.Create(ctx(t), next, drive("b"), "uid-b"))
	list(t, c, next)
	_, err := c.Open("uid-a", "")
	require.ErrorIs(t, err, ErrNoCopy)
	require.NoError(t, c.Delete(ctx(t), drive("a"), "uid-a"), "not in any location that is ours to look at")
	require.DirExists(t, h.at("/data/astraeus/drives/ws-1.a"))
	d, err := c.Open("uid-b", "")
	require.NoError(t, err)
	closeDir(t, d)
}
