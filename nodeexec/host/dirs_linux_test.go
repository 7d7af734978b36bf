package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// open is OpenDir whose Dir is closed with the test.
func open(t testing.TB, h *machine, path, grant string, forbidden ...string) (*Dir, error) {
	t.Helper()
	d, err := h.OpenDir(path, grant, forbidden)
	if err == nil {
		t.Cleanup(func() { d.Close() })
	}
	return d, err
}

func TestOpenDir(t *testing.T) { // D-21, D-3
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data/x/y"))
	mkdir(t, h.at("/mnt/database"))
	mkdir(t, h.at("/secret"))
	symlink(t, "x", h.at("/mnt/data/inside"))
	symlink(t, "/mnt/data/x", h.at("/mnt/data/absolute"))
	symlink(t, "/secret", h.at("/mnt/data/leaves"))
	symlink(t, "../database", h.at("/mnt/data/neighbour"))
	symlink(t, "/mnt/data", h.at("/alias"))
	symlink(t, "/../../../../../etc", h.at("/mnt/data/climbs"))
	symlink(t, "loop", h.at("/mnt/data/loop"))
	write(t, h.at("/mnt/data/file"), "x")
	require.NoError(t, unix.Mkfifo(h.at("/mnt/data/fifo"), 0o600))

	for _, tc := range []struct {
		name, path, grant string
		want              error
		resolved          string
	}{
		{"the grant itself", "/mnt/data", "/mnt/data", nil, "/mnt/data"},
		{"below", "/mnt/data/x/y", "/mnt/data", nil, "/mnt/data/x/y"},
		{"slashes", "/mnt//data/x//", "/mnt/data/", nil, "/mnt/data/x"},
		{"whole segments", "/mnt/database", "/mnt/data", ErrOutsideGrant, ""},
		{"link inside", "/mnt/data/inside/y", "/mnt/data", nil, "/mnt/data/x/y"},
		{"absolute link inside", "/mnt/data/absolute/y", "/mnt/data", nil, "/mnt/data/x/y"},
		{"link out", "/mnt/data/leaves", "/mnt/data", ErrOutsideGrant, ""},
		{"link to the neighbour", "/mnt/data/neighbour", "/mnt/data", ErrOutsideGrant, ""},
		{"link above the root", "/mnt/data/climbs", "/mnt/data", ErrMissing, ""},
		{"grant through a link", "/alias/x", "/alias", nil, "/mnt/data/x"},
		{"path through a link", "/alias/x", "/mnt/data", nil, "/mnt/data/x"},
		{"missing", "/mnt/data/none", "/mnt/data", ErrMissing, ""},
		{"missing grant", "/mnt/data/x", "/mnt/none", ErrMissing, ""},
		{"file", "/mnt/data/file", "/mnt/data", ErrNotDirectory, ""},
		{"below a file", "/mnt/data/file/x", "/mnt/data", ErrNotDirectory, ""},
		{"fifo", "/mnt/data/fifo", "/mnt/data", ErrNotDirectory, ""},
		{"link to itself", "/mnt/data/loop", "/mnt/data", ErrBadPath, ""},
		{"dots", "/mnt/data/x/../../database", "/mnt/data", ErrBadPath, ""},
		{"relative", "mnt/data", "/mnt/data", ErrBadPath, ""},
		{"long", "/mnt/data/" + strings.Repeat("n", 300), "/mnt/data", ErrBadPath, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := open(t, h, tc.path, tc.grant)
			require.ErrorIs(t, err, tc.want)
			if tc.want == nil {
				require.Equal(t, tc.resolved, d.Path)
				require.NotEmpty(t, d.FSID)
				require.NotZero(t, d.Inode)
			}
		})
	}
}

func TestOpenDirRefusesMagicLinksAndDevices(t *testing.T) { // D-21
	h := machineIn(t, "/")
	_, err := open(t, h, "/proc/self/root/tmp", "/proc/self/root")
	require.ErrorIs(t, err, ErrBadPath)
	_, err = open(t, h, "/proc/self/cwd", "/proc")
	require.ErrorIs(t, err, ErrBadPath)
	_, err = open(t, h, "/dev/null", "/dev")
	require.ErrorIs(t, err, ErrNotDirectory)
}

func TestOpenDirOnTheRealRoot(t *testing.T) { // D-21
	h := machineIn(t, "")
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "grant/x"))
	symlink(t, dir, filepath.Join(dir, "grant/up"))
	d, err := open(t, h, filepath.Join(dir, "grant/x"), filepath.Join(dir, "grant"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "grant/x"), d.Path)
	_, err = open(t, h, filepath.Join(dir, "grant/up"), filepath.Join(dir, "grant"))
	require.ErrorIs(t, err, ErrOutsideGrant)
}

func TestOpenDirForbidden(t *testing.T) {
	h := newMachine(t)
	mountTmpfs(t, h.at("/mnt/nvme0"), "size=8m")
	mkdir(t, h.at("/mnt/nvme0/astraeus/drives/ws-1.a"))
	mkdir(t, h.at("/mnt/nvme0/other/deep"))
	mkdir(t, h.at("/srv/x"))
	mkdir(t, h.at("/work/exports"))
	mkdir(t, h.at("/var/lib/astraeus-agent"))
	symlink(t, "/mnt/nvme0/astraeus/drives", h.at("/srv/link"))
	bindMount(t, h.at("/mnt/nvme0/astraeus"), h.at("/srv/bound"))
	bindMount(t, h.at("/mnt/nvme0/astraeus/drives"), h.at("/alias/part"))
	bindMount(t, h.at("/mnt/nvme0"), h.at("/alias/whole"))
	bindMount(t, h.at("/mnt/nvme0/other"), h.at("/alias/fine"))
	mkdir(t, h.at("/nest/deep"))
	bindMount(t, h.at("/mnt/nvme0/astraeus/drives/ws-1.a"), h.at("/nest/deep/inner"))
	data := "/mnt/nvme0/astraeus"

	for _, tc := range []struct {
		name, path string
		want       error
	}{
		{"itself", "/mnt/nvme0/astraeus", ErrForbidden},
		{"inside", "/mnt/nvme0/astraeus/drives/ws-1.a", ErrForbidden},
		{"contains", "/mnt", ErrForbidden},
		{"contains all", "/", ErrForbidden},
		{"by a link", "/srv/link/ws-1.a", ErrForbidden},
		{"by a bind mount", "/srv/bound", ErrForbidden},
		{"inside a bind mount", "/srv/bound/drives", ErrForbidden},
		{"bind mount of a part", "/alias/part", ErrForbidden},
		{"inside a bind mount of a part", "/alias/part/ws-1.a", ErrForbidden},
		{"bind mount of what contains it", "/alias/whole", ErrForbidden},
		{"holds a bind mount of a part", "/nest", ErrForbidden},
		{"holds one deeper", "/nest/deep", ErrForbidden},
		{"beside it", "/mnt/nvme0/other/deep", nil},
		{"bind mount of the neighbour", "/alias/fine/deep", nil},
		{"elsewhere", "/srv/x", nil},
		{"work root", "/work/exports", ErrForbidden},
		{"state", "/var/lib/astraeus-agent", ErrForbidden},
		{"contains state", "/var/lib", ErrForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := open(t, h, tc.path, "/", data)
			require.ErrorIs(t, err, tc.want)
		})
	}
}

func TestForbiddenThatDoesNotExistYet(t *testing.T) {
	h := newMachine(t)
	mkdir(t, h.at("/mnt/a"))
	mkdir(t, h.at("/other"))
	_, err := open(t, h, "/mnt/a", "/", "/mnt/a/astraeus/data")
	require.ErrorIs(t, err, ErrForbidden)
	_, err = open(t, h, "/other", "/", "/mnt/a/astraeus/data")
	require.NoError(t, err)
	_, err = h.MakeDir("/mnt/a/astraeus/data/x", "/mnt", []string{"/mnt/a/astraeus/data"})
	require.ErrorIs(t, err, ErrForbidden)
	require.NoDirExists(t, h.at("/mnt/a/astraeus/data"))
}

func TestMakeDir(t *testing.T) { // D-5, D-21
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data/real"))
	mkdir(t, h.at("/secret"))
	symlink(t, "/secret", h.at("/mnt/data/leaves"))
	symlink(t, "/mnt/data/real", h.at("/mnt/data/inside"))
	symlink(t, "/mnt/data/nowhere", h.at("/mnt/data/dangling"))
	write(t, h.at("/mnt/data/file"), "x")
	for _, tc := range []struct {
		name, path, grant string
		want              error
		made              string
	}{
		{"there already", "/mnt/data/real", "/mnt/data", nil, "/mnt/data/real"},
		{"segments", "/mnt/data/a/b/c", "/mnt/data", nil, "/mnt/data/a/b/c"},
		{"through a link inside", "/mnt/data/inside/n", "/mnt/data", nil, "/mnt/data/real/n"},
		{"through a link out", "/mnt/data/leaves/n", "/mnt/data", ErrOutsideGrant, ""},
		{"through a link to nothing", "/mnt/data/dangling/n", "/mnt/data", ErrMissing, ""},
		{"below a file", "/mnt/data/file/n", "/mnt/data", ErrNotDirectory, ""},
		{"outside", "/elsewhere/n", "/mnt/data", ErrOutsideGrant, ""},
		{"the grant too", "/mnt/fresh/n", "/mnt/fresh", nil, "/mnt/fresh/n"},
		{"not the grant's parents", "/none/at/all/n", "/none/at/all", ErrMissing, ""},
		{"not in the work root", "/work/exports/n", "/", ErrForbidden, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := h.MakeDir(tc.path, tc.grant, nil)
			require.ErrorIs(t, err, tc.want)
			if tc.want != nil {
				return
			}
			defer closeDir(t, d)
			require.Equal(t, tc.made, d.Path)
			if tc.name == "there already" {
				return
			}
			st, err := os.Stat(h.at(tc.made))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), st.Mode().Perm(), "whatever the umask")
		})
	}
	entries, err := os.ReadDir(h.at("/secret"))
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoDirExists(t, h.at("/mnt/data/nowhere"))
	require.NoDirExists(t, h.at("/work/exports"))
	require.NoDirExists(t, h.at("/none"))
}

func TestOpenBeneath(t *testing.T) { // D-40
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data/x/y"))
	mkdir(t, h.at("/mnt/secret"))
	symlink(t, "x/y", h.at("/mnt/data/in"))
	symlink(t, "../secret", h.at("/mnt/data/out"))
	symlink(t, "/mnt/data/x", h.at("/mnt/data/absolute"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	for sub, want := range map[string]error{
		"": nil, "x": nil, "x/y": nil, "in": nil, "x/": nil,
		"out": ErrOutsideParent, "absolute": ErrOutsideParent, "none": ErrMissing,
		"..": ErrBadPath, "x/../..": ErrBadPath, "/x": ErrBadPath,
	} {
		got, err := h.OpenBeneath(d, sub)
		require.ErrorIs(t, err, want, sub)
		closeDir(t, got)
	}
	made, err := h.MakeBeneath(d, "n/m")
	require.NoError(t, err)
	require.Equal(t, "/mnt/data/n/m", made.Path)
	require.Equal(t, d.FSID, made.FSID)
	closeDir(t, made)
	_, err = h.MakeBeneath(d, "out/n")
	require.ErrorIs(t, err, ErrOutsideParent)
	require.NoDirExists(t, h.at("/mnt/secret/n"))
}

// A link is exchanged for another while its path is opened and made: what is
// given back is never the secret (kubernetes#104980, CVE-2021-25741).
func TestSwappedLink(t *testing.T) { // D-21
	h := newMachine(t)
	for _, dir := range []string{"/mnt/data/good/sub", "/mnt/data/real/sub", "/secret/sub"} {
		mkdir(t, h.at(dir))
	}
	symlink(t, "/secret", h.at("/mnt/data/evil"))
	secret := map[ident]bool{}
	for _, p := range []string{"/secret", "/secret/sub"} {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(h.at(p), &st))
		secret[ident{uint64(st.Dev), st.Ino}] = true
	}
	stop := swap(t, h.at("/mnt/data/good"), h.at("/mnt/data/evil"))
	opened, refused := 0, 0
	for i := range 2000 {
		d, err := h.OpenDir("/mnt/data/good/sub", "/mnt/data", nil)
		if i%4 == 0 {
			d2, err2 := h.MakeDir("/mnt/data/good/new", "/mnt/data", nil)
			if err2 == nil {
				require.False(t, secret[ident{d2.Device, d2.Inode}])
				closeDir(t, d2)
			}
		}
		if err != nil {
			require.True(t, errors.Is(err, ErrOutsideGrant) || errors.Is(err, ErrMissing), "%v", err)
			refused++
			continue
		}
		require.False(t, secret[ident{d.Device, d.Inode}])
		if i%16 == 0 {
			require.NoError(t, h.Bind(d, "/work/w", true))
			var st unix.Stat_t
			require.NoError(t, unix.Stat(h.at("/work/w"), &st))
			require.False(t, secret[ident{uint64(st.Dev), st.Ino}])
			require.NoError(t, h.Unmount("/work/w", false, false))
		}
		closeDir(t, d)
		opened++
	}
	stop()
	t.Logf("opened %d, refused %d", opened, refused)
	require.NotZero(t, opened)
	require.NotZero(t, refused)
	entries, err := os.ReadDir(h.at("/secret"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing was made in there")
}

// swap exchanges two names for as long as stop is not called.
func swap(t testing.TB, a, b string) (stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func TestRemovedWhileOpen(t *testing.T) { // D-21
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data/x"))
	d, err := open(t, h, "/mnt/data/x", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, os.Remove(h.at("/mnt/data/x")))
	require.Error(t, h.Bind(d, "/work/w", false), "a removed directory cannot be mounted")
	mounts, err := h.Mounts(ctx(t))
	require.NoError(t, err)
	require.Empty(t, mounts)
}

func TestWeirdNames(t *testing.T) { // D-21
	h := newMachine(t)
	for _, name := range []string{"with space", "tab\\011", "\\", "(deleted)", "x (deleted)", "ünï", "'\"$", "-rf", "*"} {
		p := "/mnt/data/" + name
		mkdir(t, h.at(p))
		d, err := open(t, h, p, "/mnt/data")
		require.NoError(t, err, name)
		require.Equal(t, p, d.Path)
		target := "/work/exports/" + name
		require.NoError(t, h.Bind(d, target, true), name)
		require.NoError(t, h.Bind(d, target, true), "again: %s", name)
		mounts, err := h.Mounts(ctx(t))
		require.NoError(t, err)
		require.Len(t, mounts, 1)
		require.Equal(t, target, mounts[0].Target)
		require.NoError(t, h.Unmount(target, false, false), name)
	}
}

func TestOpenBeneathAnotherFilesystem(t *testing.T) { // D-40, X-17: it has an identity of its own
	h := newMachine(t)
	mountTmpfs(t, h.at("/mnt/data/nested"), "")
	mkdir(t, h.at("/mnt/data/nested/x"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	sub, err := h.OpenBeneath(d, "nested/x")
	require.NoError(t, err)
	defer closeDir(t, sub)
	require.NotEqual(t, d.FSID, sub.FSID)
	require.Equal(t, "/mnt/data/nested/x", sub.Path)
	require.NoError(t, h.Bind(sub, "/work/w", true))
	require.NoError(t, h.Unmount("/work/w", false, false))
}

func TestForbiddenThatCannotBeFound(t *testing.T) { // then the words must do
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data"))
	symlink(t, "loop", h.at("/mnt/loop"))
	_, err := open(t, h, "/mnt/data", "/mnt", "/mnt/loop/x")
	require.NoError(t, err)
	_, err = open(t, h, "/mnt", "/mnt", "/mnt/loop/x")
	require.ErrorIs(t, err, ErrForbidden)
	d, err := h.MakeDir("/mnt/data/new", "/mnt", []string{"/mnt/loop/x"})
	require.NoError(t, err)
	closeDir(t, d)
	_, err = h.MakeDir("/mnt/more/new", "/mnt", []string{"/mnt/more/new/loop", "/mnt/loop"})
	require.ErrorIs(t, err, ErrForbidden)
}

func TestParallelBinds(t *testing.T) { // one operation a target at a time
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { require.NoError(t, h.Bind(d, "/work/exports/x", true)) })
	}
	wg.Wait()
	require.Len(t, mustMounts(t, h, "/work/exports/x"), 1)
	require.NoError(t, h.Unmount("/work/exports/x", false, false))
}
