package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func dirOf(t testing.TB, path string) *Dir {
	t.Helper()
	fd, err := openat2(unix.AT_FDCWD, path, dirFlags, 0)
	require.NoError(t, err)
	id, err := identOf(fd)
	require.NoError(t, err)
	d := &Dir{File: os.NewFile(uintptr(fd), path), Path: path, Device: id.dev, Inode: id.ino}
	t.Cleanup(func() { d.Close() })
	return d
}

func du(t testing.TB, dir string) int64 {
	t.Helper()
	out := run(t, "du", "-sx", "--block-size=512", dir)
	n, err := strconv.ParseInt(strings.Fields(out)[0], 10, 64)
	require.NoError(t, err)
	return n * 512
}

func TestTreeSizeEqualsDu(t *testing.T) { // D-91
	for _, fstype := range []string{"tmpfs", "ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			dir := t.TempDir()
			if fstype == "tmpfs" {
				mountTmpfs(t, dir, "")
			} else {
				dir = loopDisk(t, fstype, 320)
			}
			root := filepath.Join(dir, "root")
			want := int64(0)
			for i := range 40 {
				for j := range 25 {
					write(t, filepath.Join(root, fmt.Sprint(i%7), fmt.Sprint(i), fmt.Sprint(j)), strings.Repeat("x", i*j*13))
					want++
				}
			}
			require.NoError(t, os.Link(filepath.Join(root, "0/0/3"), filepath.Join(root, "linked")))
			symlink(t, "/", filepath.Join(root, "out"))
			require.NoError(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
			sparse, err := os.Create(filepath.Join(root, "sparse"))
			require.NoError(t, err)
			require.NoError(t, sparse.Truncate(1<<30))
			require.NoError(t, sparse.Close())
			mountTmpfs(t, filepath.Join(root, "mounted"), "")
			write(t, filepath.Join(root, "mounted/other"), strings.Repeat("x", 1<<20))
			unix.Sync()

			for workers := range 5 {
				bytes, files, err := TreeSize(ctx(t), dirOf(t, root), workers)
				require.NoError(t, err)
				require.Equal(t, want+3, files, "link once, fifo, sparse, symlink, nothing of the mounts")
				require.Equal(t, du(t, root), bytes)
			}
			before := du(t, filepath.Join(root, "0"))
			bindMount(t, filepath.Join(root, "1"), filepath.Join(root, "0/bound")) // of the same filesystem
			bytes, _, err := TreeSize(ctx(t), dirOf(t, filepath.Join(root, "0")), 2)
			require.NoError(t, err)
			require.Equal(t, before, bytes)
		})
	}
}

func TestTreeSizeOfADeepTree(t *testing.T) { // 10,000 levels
	h := newMachine(t)
	mkdir(t, h.at("/deep"))
	deepTree(t, h.at("/deep"), 10_000)
	deepTree(t, mkdir(t, h.at("/deep/second")), 2_000)
	for _, workers := range []int{1, 2, 4} {
		_, files, err := TreeSize(ctx(t), dirOf(t, h.at("/deep")), workers)
		require.NoError(t, err)
		require.Equal(t, int64(12_000), files)
	}
	fd := dirOf(t, h.at("/deep"))
	w := &wiper{ctx: ctx(t), step: func(string) {}}
	r, err := openat2(int(fd.File.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, strict)
	require.NoError(t, err)
	defer unix.Close(r)
	for w.top = r; ; w.removed = 0 {
		require.NoError(t, w.wipe(r, 0))
		if w.removed == 0 {
			break
		}
	}
}

// A wide and deep tree keeps more directories unfinished than may be open.
func TestTreeSizeClosesEarly(t *testing.T) {
	h := newMachine(t)
	dir := mkdir(t, h.at("/deep"))
	cur, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for i := range 3_000 {
		names := []string{"a", "b"} // the filesystem lists them in this order or the other
		if i%3 == 0 {
			names = []string{"b", "a"}
		}
		for _, n := range names {
			require.NoError(t, unix.Mkdirat(cur, n, 0o700))
		}
		next, err := unix.Openat(cur, "b", unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		fd, err := unix.Openat(cur, "a/file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		require.NoError(t, err)
		unix.Close(fd)
		unix.Close(cur)
		cur = next
	}
	unix.Close(cur)
	before := openFiles(t)
	for _, workers := range []int{1, 4} {
		_, files, err := TreeSize(ctx(t), dirOf(t, dir), workers)
		require.NoError(t, err)
		require.Equal(t, int64(3_000), files)
	}
	require.LessOrEqual(t, openFiles(t), before+2, "all closed again")
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestTreeSizeHardLinksOnce(t *testing.T) { // a million links to 20 files
	if testing.Short() {
		t.Skip("makes a million names")
	}
	h := newMachine(t)
	mountTmpfs(t, h.at("/links"), "size=2g,nr_inodes=0")
	total := 1_000_000
	if raceEnabled {
		total /= 10
	}
	for i := range 20 {
		write(t, h.at(fmt.Sprintf("/links/file-%d", i)), strings.Repeat("x", 4096))
	}
	for i := range total / 10_000 {
		dir := mkdir(t, h.at(fmt.Sprintf("/links/d%d", i)))
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		from := h.at(fmt.Sprintf("/links/file-%d", i%20))
		for j := range 10_000 {
			require.NoError(t, unix.Linkat(unix.AT_FDCWD, from, fd, strconv.Itoa(j), 0))
		}
		unix.Close(fd)
	}
	bytes, files, err := TreeSize(ctx(t), dirOf(t, h.at("/links")), 4)
	require.NoError(t, err)
	require.Equal(t, int64(20), files)
	require.Equal(t, int64(20*4096), bytes)
}

func TestTreeSizeWhileItChanges(t *testing.T) { // what goes is not an error
	h := newMachine(t)
	var wg sync.WaitGroup
	done := make(chan struct{})
	mkdir(t, h.at("/tree"))
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				p := h.at(fmt.Sprintf("/tree/%d/%d", i%5, i%3))
				_ = os.MkdirAll(p, 0o755)
				_ = os.WriteFile(p+"/f", []byte("x"), 0o600)
				_ = os.RemoveAll(h.at(fmt.Sprintf("/tree/%d", (i+2)%5)))
			}
		}
	})
	for range 300 {
		_, _, err := TreeSize(ctx(t), dirOf(t, h.at("/tree")), 3)
		require.NoError(t, err)
	}
	close(done)
	wg.Wait()
}

func TestTreeSizeStops(t *testing.T) {
	h := newMachine(t)
	deepTree(t, mkdir(t, h.at("/tree")), 50)
	before := openFiles(t)
	cancelled, cancel := context.WithCancel(ctx(t))
	cancel()
	d := dirOf(t, h.at("/tree"))
	_, _, err := TreeSize(cancelled, d, 2)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, d.Close())
	require.LessOrEqual(t, openFiles(t), before)
}

func TestMeasure(t *testing.T) { // D-91
	h := diskMachine(t)
	write(t, h.at("/data/x/file"), strings.Repeat("x", 10_000))
	d, err := open(t, h, "/data/x", "/data")
	require.NoError(t, err)
	u, err := h.Measure(ctx(t), d)
	require.NoError(t, err)
	require.Equal(t, int64(1), u.Files)
	require.Equal(t, int64(12_288), u.Bytes)
	fs, err := h.FilesystemOf(ctx(t), "/data/x")
	require.NoError(t, err)
	require.Equal(t, fs.FreeBytes, u.FreeBytes)
	require.Equal(t, fs.FreeInodes, u.FreeInodes)
	require.Positive(t, u.FreeBytes)
	cancelled, cancel := context.WithTimeout(ctx(t), 0)
	defer cancel()
	_, err = h.Measure(cancelled, d)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// BenchmarkTreeSize measures against du in the same run and reports how many
// times longer du takes ("du/TreeSize").
func BenchmarkTreeSize(b *testing.B) {
	const dirs, perDir = 300, 1_000
	root := filepath.Join(b.TempDir(), "tree")
	for i := range dirs {
		dir := mkdir(b, filepath.Join(root, fmt.Sprintf("%d/%d", i%10, i)))
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(b, err)
		for j := range perDir {
			f, err := unix.Openat(fd, fmt.Sprintf("file-%d", j), unix.O_CREAT|unix.O_WRONLY, 0o600)
			require.NoError(b, err)
			unix.Close(f)
		}
		unix.Close(fd)
	}
	want := du(b, root)
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			d := dirOf(b, root)
			var ours, theirs time.Duration
			for b.Loop() {
				start := time.Now()
				bytes, files, err := TreeSize(b.Context(), d, workers)
				ours += time.Since(start)
				require.NoError(b, err)
				require.Equal(b, int64(dirs*perDir), files)
				require.Equal(b, want, bytes)
				start = time.Now()
				du(b, root)
				theirs += time.Since(start)
			}
			b.ReportMetric(float64(theirs)/float64(ours), "du/TreeSize")
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N)/1000, "TreeSize-ms")
			b.ReportMetric(float64(theirs.Microseconds())/float64(b.N)/1000, "du-ms")
		})
	}
}
