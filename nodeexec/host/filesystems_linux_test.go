package host

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

func byMount(t testing.TB, list []schema.Filesystem, at string) schema.Filesystem {
	t.Helper()
	for _, f := range list {
		if f.MountPoint == at {
			return f
		}
	}
	require.Fail(t, "no "+at)
	return schema.Filesystem{}
}

func TestFilesystemsOfALab(t *testing.T) { // D-33
	h := newMachine(t, func(o *Options, _ *system) { o.Shared = []string{"/mnt/lustre"} })
	mountTmpfs(t, h.at("/mnt/nvme0"), "size=16m")
	mountTmpfs(t, h.at("/mnt/lustre"), "size=16m")
	mountTmpfs(t, h.at("/work/exports/x"), "size=1m")
	mountTmpfs(t, h.at("/mnt/ro"), "size=1m,ro")
	list, err := h.Filesystems(ctx(t))
	require.NoError(t, err)
	require.Len(t, list, 4)
	root := byMount(t, list, "/")
	require.True(t, root.System)
	require.False(t, root.Recommended)
	disk := byMount(t, list, "/mnt/nvme0")
	require.True(t, disk.Recommended)
	require.Equal(t, int64(16<<20), disk.TotalBytes)
	require.Positive(t, disk.FreeInodes)
	require.NotEqual(t, root.ID, disk.ID)
	shared := byMount(t, list, "/mnt/lustre")
	require.True(t, shared.Shared)
	require.Equal(t, schema.MediumShared, shared.Medium)
	require.True(t, byMount(t, list, "/mnt/ro").ReadOnly)

	for path, at := range map[string]string{
		"/mnt/nvme0/astraeus/x": "/mnt/nvme0", "/mnt/nvme01": "/", "/mnt/lustre": "/mnt/lustre", "/": "/",
	} {
		fs, err := h.FilesystemOf(ctx(t), path)
		require.NoError(t, err)
		require.Equal(t, at, fs.MountPoint, path)
		require.Equal(t, byMount(t, list, at).ID, fs.ID)
	}
	symlink(t, "/mnt/nvme0", h.at("/data"))
	fs, err := h.FilesystemOf(ctx(t), "/data/x")
	require.NoError(t, err)
	require.Equal(t, "/mnt/nvme0", fs.MountPoint, "links are followed")
	_, err = h.FilesystemOf(ctx(t), "data")
	require.ErrorIs(t, err, ErrBadPath)
}

func TestRealFilesystems(t *testing.T) { // D-33, X-17: the UUID that blkid knows
	for _, fstype := range []string{"ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			disk := loopDisk(t, fstype, 320)
			h := machineIn(t, "")
			fs, err := h.FilesystemOf(ctx(t), disk)
			require.NoError(t, err)
			require.Equal(t, disk, fs.MountPoint)
			require.Equal(t, fstype, fs.Type)
			require.Equal(t, schema.MediumVirtual, fs.Medium)
			want := strings.TrimSpace(run(t, "blkid", "-o", "value", "-s", "UUID", filepath.Join(disk, "../image")))
			require.Equal(t, want, fs.ID)
			require.False(t, fs.System)

			var st unix.Statfs_t
			require.NoError(t, unix.Statfs(disk, &st))
			require.Equal(t, int64(st.Bavail)*st.Bsize, fs.FreeBytes)
			list, err := h.Filesystems(ctx(t))
			require.NoError(t, err)
			require.Equal(t, fs.TotalBytes, byMount(t, list, disk).TotalBytes)
			require.True(t, byMount(t, list, "/").System)

			infos, err := h.table() // kernels without the ioctl
			require.NoError(t, err)
			e := covering(infos, disk)
			require.Equal(t, want, h.uuidOfDevice(e.Info))
			require.NotContains(t, fallbackID(int(h.root.Fd()), nil), " ")
		})
	}
}

func TestUUIDByName(t *testing.T) {
	disk := loopDisk(t, "ext4", 16)
	dev := t.TempDir()
	h := machineIn(t, "", func(_ *Options, s *system) { s.dev = dev })
	entries, err := h.table()
	require.NoError(t, err)
	e := covering(entries, disk)
	symlink(t, e.Source, filepath.Join(dev, "disk/by-uuid/ABCD-1234"))
	require.Equal(t, "abcd-1234", h.uuidOfDevice(e.Info))
}

func TestSuperblocks(t *testing.T) {
	uuid := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	btrfs := make([]byte, 0x10100)
	copy(btrfs[0x10040:], "_BHRfS_M")
	copy(btrfs[0x10020:], uuid)
	require.Equal(t, "01020304-0506-0708-090a-0b0c0d0e0f10", superblockUUID(btrfs))
	require.Empty(t, superblockUUID(make([]byte, 0x10100)))
	require.Empty(t, superblockUUID(nil))
}

// One dead server must not keep the others from being reported
// (kubernetes#100178), and is itself reported without numbers. D-33, D-91.
func TestHungFilesystem(t *testing.T) {
	h := newMachine(t)
	mountTmpfs(t, h.at("/mnt/dead"), "size=1m")
	mountTmpfs(t, h.at("/mnt/alive"), "size=1m")
	write(t, h.at("/mnt/dead/x"), "x")
	d, err := open(t, h, "/mnt/dead", "/mnt/dead")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked atomic.Int32
		h.sys.statfs = func(path string, st *unix.Statfs_t) error {
			if path == h.at("/mnt/dead") {
				asked.Add(1)
				<-release
			}
			return unix.Statfs(path, st)
		}
		start := time.Now()
		for range 5 {
			list, err := h.Filesystems(t.Context())
			require.NoError(t, err)
			require.Positive(t, byMount(t, list, "/mnt/alive").FreeBytes)
			dead := byMount(t, list, "/mnt/dead")
			require.Equal(t, int64(-1), dead.FreeBytes)
			require.False(t, dead.Recommended)
			require.ErrorIs(t, h.Probe(t.Context(), "/mnt/dead/x/y"), ErrNotAnswering)
			require.NoError(t, h.Probe(t.Context(), "/mnt/alive"))
			_, err = h.Measure(t.Context(), d)
			require.ErrorIs(t, err, ErrNotAnswering)
		}
		require.Equal(t, probeTimeout, time.Since(start), "waited for once")
		require.Equal(t, int32(1), asked.Load())
		close(release)
		synctest.Wait()
		require.NoError(t, h.Probe(t.Context(), "/mnt/dead"))
		require.Zero(t, h.probes.outstanding())
	})
}

func TestHungUnmount(t *testing.T) { // each way of unmounting hangs once, the next can be tried
	h := newMachine(t)
	mkdir(t, h.at("/mnt/data"))
	d, err := open(t, h, "/mnt/data", "/mnt/data")
	require.NoError(t, err)
	require.NoError(t, h.Bind(d, "/work/w", false))
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h.sys.umount = func(path string, flags int) error {
			if flags&unix.MNT_DETACH == 0 {
				<-release
			}
			return unix.Unmount(path, flags)
		}
		start := time.Now()
		require.ErrorIs(t, h.Unmount("/work/w", false, false), ErrNotAnswering)
		require.Equal(t, unmountTimeout, time.Since(start))
		require.ErrorIs(t, h.Unmount("/work/w", false, false), ErrNotAnswering)
		require.Equal(t, unmountTimeout, time.Since(start))
		require.ErrorIs(t, h.Unmount("/work/w", true, false), ErrNotAnswering)
		require.Equal(t, unmountTimeout+forceTimeout, time.Since(start))
		require.NoError(t, h.Unmount("/work/w", false, true))
		close(release)
		synctest.Wait()
		require.Zero(t, h.probes.outstanding())
	})
	require.Empty(t, mustMounts(t, h, "/work/w"))
}

func TestNumbers(t *testing.T) {
	n := numbersOf(&unix.Statfs_t{Bsize: 4096, Frsize: 1024, Blocks: 100, Bfree: 40, Bavail: 30})
	require.Equal(t, numbers{total: 102_400, free: 30_720, used: 61_440, inodes: -1}, n)
	n = numbersOf(&unix.Statfs_t{Bsize: 4096, Blocks: math.MaxUint64, Bavail: math.MaxUint64, Files: 10, Ffree: math.MaxUint64})
	require.Equal(t, int64(math.MaxInt64), n.free)
	require.Equal(t, int64(math.MaxInt64), n.inodes)
	n = numbersOf(&unix.Statfs_t{Bsize: 1, Blocks: 1, Bfree: 2})
	require.Zero(t, n.used)
}

func TestMedium(t *testing.T) { // D-33
	sys := t.TempDir()
	block := func(name, device string, files map[string]string) {
		dir := mkdir(t, filepath.Join(sys, "devices", name))
		for f, text := range files {
			write(t, filepath.Join(dir, f), text+"\n")
		}
		symlink(t, dir, filepath.Join(sys, "dev/block", device))
	}
	rotates, still := map[string]string{"queue/rotational": "1"}, map[string]string{"queue/rotational": "0"}
	block("nvme0n1", "259:0", still)
	block("nvme0n1/nvme0n1p1", "259:1", map[string]string{"partition": "1"})
	block("sda", "8:0", rotates)
	block("sda/sda1", "8:1", map[string]string{"partition": "1"})
	block("sdb", "8:16", still)
	block("sdc", "8:32", map[string]string{"queue/rotational": "1", "device/vendor": "QEMU", "device/model": "QEMU HARDDISK"})
	block("sdd", "8:48", map[string]string{"queue/rotational": "1", "device/vendor": "DELL", "device/model": "PERC H740P"})
	block("vda", "252:0", rotates)
	block("md0", "9:0", map[string]string{"md/level": "raid0", "queue/rotational": "0"})
	block("dm-0", "253:0", map[string]string{"dm/name": "vg-lv", "queue/rotational": "0"})
	symlink(t, filepath.Join(sys, "devices/nvme0n1/nvme0n1p1"), filepath.Join(sys, "devices/dm-0/slaves/nvme0n1p1"))
	block("dm-1", "253:1", map[string]string{"dm/name": "vg-mixed"})
	symlink(t, filepath.Join(sys, "devices/sda/sda1"), filepath.Join(sys, "devices/dm-1/slaves/sda1"))
	symlink(t, filepath.Join(sys, "devices/nvme0n1"), filepath.Join(sys, "devices/dm-1/slaves/nvme0n1"))
	block("dm-2", "253:2", map[string]string{"dm/name": "loop"})
	symlink(t, filepath.Join(sys, "devices/dm-2"), filepath.Join(sys, "devices/dm-2/slaves/dm-2"))
	h := machineIn(t, "", func(_ *Options, s *system) { s.sys = sys })
	for device, want := range map[string]schema.Medium{
		"259:0": schema.MediumNVMe, "259:1": schema.MediumNVMe, "8:0": schema.MediumHDD, "8:1": schema.MediumHDD,
		"8:16": schema.MediumSSD, "8:32": schema.MediumVirtual, "8:48": schema.MediumRAID, "252:0": schema.MediumVirtual,
		"9:0": schema.MediumRAID, "253:0": schema.MediumNVMe, "253:1": schema.MediumHDD, "253:2": "", "1:2": "",
	} {
		var major, minor int
		_, err := fmt.Sscanf(device, "%d:%d", &major, &minor)
		require.NoError(t, err)
		infos := parse(t, fmt.Sprintf("1 0 %s / / rw - ext4 /dev/x rw\n", device))
		require.Equal(t, want, h.medium(infos[0]), device)
	}
}

func TestResources(t *testing.T) {
	sys, proc, dev := t.TempDir(), t.TempDir(), t.TempDir()
	h := machineIn(t, "", func(_ *Options, s *system) { s.sys, s.proc, s.dev = sys, proc, dev })
	_, err := h.Resources(ctx(t))
	require.Error(t, err)
	write(t, filepath.Join(proc, "meminfo"), "MemFree: 1 kB\nMemTotal:       1024 kB\n")
	r, err := h.Resources(ctx(t))
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), r.MemoryBytes)
	require.Positive(t, r.CPUCores)
	require.Zero(t, r.GPUs)

	write(t, filepath.Join(proc, "self/cgroup"), "4:cpu,cpuacct:/v1\n2:memory:/v1/deep\n1:name=systemd:/x\n0::/svc/agent\ngarbage\n")
	write(t, filepath.Join(sys, "fs/cgroup/svc/cpu.max"), "50000 100000\n")
	write(t, filepath.Join(sys, "fs/cgroup/svc/agent/cpu.max"), "max 100000\n")
	write(t, filepath.Join(sys, "fs/cgroup/memory/v1/memory.limit_in_bytes"), "65536\n")
	r, err = h.Resources(ctx(t))
	require.NoError(t, err)
	require.InDelta(t, 0.5, r.CPUCores, 0)
	require.Equal(t, int64(65536), r.MemoryBytes)
	write(t, filepath.Join(sys, "fs/cgroup/cpu,cpuacct/v1/cpu.cfs_quota_us"), "25000\n")
	write(t, filepath.Join(sys, "fs/cgroup/cpu,cpuacct/v1/cpu.cfs_period_us"), "100000\n")
	r, err = h.Resources(ctx(t))
	require.NoError(t, err)
	require.InDelta(t, 0.25, r.CPUCores, 0)

	for i, class := range []string{"0x030200", "0x030000", "0x020000"} {
		dir := filepath.Join(sys, fmt.Sprintf("bus/pci/devices/%d", i))
		write(t, filepath.Join(dir, "class"), class)
		write(t, filepath.Join(dir, "vendor"), "0x10de")
	}
	require.Equal(t, 2, h.gpus())
	for _, n := range []string{"nvidia0", "nvidia1", "nvidia7", "nvidiactl", "nvidia-uvm", "nvidia0x"} {
		write(t, filepath.Join(dev, n), "")
	}
	require.Equal(t, 3, h.gpus())
}

func TestAddresses(t *testing.T) {
	h := machineIn(t, "", func(_ *Options, s *system) {
		s.addrs = func() ([]net.Interface, func(*net.Interface) ([]net.Addr, error), error) {
			ifs := []net.Interface{{Name: "lo", Flags: net.FlagUp | net.FlagLoopback}, {Name: "ib0", Flags: net.FlagUp},
				{Name: "down"}, {Name: "gone", Flags: net.FlagUp}}
			return ifs, func(i *net.Interface) ([]net.Addr, error) {
				if i.Name == "gone" {
					return nil, io.EOF
				}
				var list []net.Addr
				for _, a := range []string{"10.0.0.9/24", "10.0.0.10/24", "10.0.0.9/32", "fe80::1/64", "169.254.1.1/16",
					"fd00::5/64", "127.0.0.1/8", "224.0.0.1/4"} {
					ip, n, _ := net.ParseCIDR(a)
					list = append(list, &net.IPNet{IP: ip, Mask: n.Mask})
				}
				return list, nil
			}, nil
		}
	})
	list, err := h.Addresses(ctx(t))
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.9", "10.0.0.10", "fd00::5"}, list)
	real := machineIn(t, "")
	_, err = real.Addresses(ctx(t))
	require.NoError(t, err)
	id, err := real.BootID()
	require.NoError(t, err)
	require.Len(t, id, 36)
	r, err := real.Resources(ctx(t))
	require.NoError(t, err)
	require.Positive(t, r.MemoryBytes)
}

func TestPaths(t *testing.T) {
	h := newMachine(t)
	require.Equal(t, h.dir+"/mnt/x", h.RealPath("/mnt/x"))
	p, ok := h.hostPath(h.dir + "/mnt/x")
	require.True(t, ok)
	require.Equal(t, "/mnt/x", p)
	_, ok = h.hostPath(h.dir + "-other/x")
	require.False(t, ok)
	_, err := New(Options{Root: filepath.Join(h.dir, "none")})
	require.ErrorIs(t, err, ErrMissing)
	_, err = New(Options{WorkRoot: "relative"})
	require.ErrorIs(t, err, ErrBadPath)
	cancelled, cancel := context.WithCancel(ctx(t))
	cancel()
	_, err = h.Filesystems(cancelled)
	require.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(h.at("/work"))
	require.ErrorIs(t, err, os.ErrNotExist, "New touches nothing")
}
