package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func parse(t testing.TB, text string) []*mountinfo.Info {
	t.Helper()
	infos, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
	require.NoError(t, err)
	return infos
}

const gpuServer = `22 28 0:20 / /proc rw - proc proc rw
23 28 0:21 / /sys rw - sysfs sysfs rw
24 28 0:5 / /dev rw - devtmpfs udev rw
25 28 0:22 / /run rw - tmpfs tmpfs rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
29 28 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw
30 28 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
31 28 259:3 / /mnt/nvme0 rw - xfs /dev/nvme1n1 rw
32 28 8:1 / /mnt/slow rw - ext4 /dev/sda1 rw
33 28 9:0 / /mnt/md0 rw - ext4 /dev/md0 rw
34 28 0:50 / /mnt/lustre rw - lustre 10.0.0.1@o2ib:/scratch rw
35 28 0:51 / /mnt/nfs rw - nfs4 filer:/home rw
36 28 0:52 / /mnt/sshfs rw - fuse.sshfs me@box:/x rw
37 28 0:53 / /mnt/keys rw - fuse.gocryptfs /enc rw
38 28 259:3 /astraeus/drives/ws-1.a /work/exports/uid-0-gpu-02 rw - xfs /dev/nvme1n1 rw
39 28 0:60 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
40 28 259:3 /some/dir /srv/bound rw - xfs /dev/nvme1n1 rw
41 24 0:61 / /dev/shm rw - tmpfs tmpfs rw
42 28 0:62 / /mnt/ram rw - tmpfs tmpfs rw
43 28 0:63 / /mnt/hidden rw - nfs filer:/hidden rw
44 43 8:17 / /mnt/hidden rw - ext4 /dev/sdb1 rw
45 28 8:33 / /data/deep/disk rw - ext4 /dev/sdc1 rw
46 28 8:49 / /data rw - ext4 /dev/sdd1 rw
47 28 0:64 / /tank rw - zfs tank rw
`

func describeAll(cands []*candidate) string {
	var b strings.Builder
	for _, c := range cands {
		fmt.Fprintf(&b, "%s %s", c.host, c.FSType)
		if c.system {
			b.WriteString(" system")
		}
		if c.kind == fsShared {
			b.WriteString(" shared")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestCandidates(t *testing.T) { // D-33
	entries := buildTable(parse(t, gpuServer), "")
	got := describeAll(candidates(entries, view{hide: []string{"/work", "/var/lib/astraeus-agent"}}))
	require.Equal(t, `/ ext4 system
/data ext4
/mnt/hidden ext4
/mnt/lustre lustre shared
/mnt/md0 ext4
/mnt/nfs nfs4 shared
/mnt/nvme0 xfs
/mnt/slow ext4
/mnt/sshfs fuse.sshfs shared
/tank zfs
`, got)
}

func TestCandidatesOfALab(t *testing.T) { // D-33
	const text = `1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:30 / /labs rw - tmpfs tmpfs rw
3 2 0:31 / /labs/m1/mnt/nvme0 rw - tmpfs tmpfs rw
4 2 0:30 /stores/lustre /labs/m1/mnt/lustre rw - tmpfs tmpfs rw
5 2 0:30 /m1/work/x /labs/m1/work/x rw - tmpfs tmpfs rw
6 2 0:30 /stores/disk /labs/m1/mnt/disk rw - tmpfs tmpfs rw
7 2 0:32 / /labs/m10/mnt/nvme0 rw - tmpfs tmpfs rw
8 1 0:33 / /mnt rw - tmpfs tmpfs rw
`
	entries := buildTable(parse(t, text), "/labs/m1")
	require.Equal(t, "/m1", entries[0].fsRoot)
	got := describeAll(candidates(entries, view{lab: true, shared: []string{"/mnt/lustre"}, hide: []string{"/work"}}))
	require.Equal(t, `/ tmpfs system
/mnt/disk tmpfs
/mnt/lustre tmpfs shared
/mnt/nvme0 tmpfs
`, got)
	require.Equal(t, 3, covering(entries, "/mnt/nvme0/astraeus").ID)
	require.Equal(t, 2, covering(entries, "/mnt/nvme01").ID)
}

func TestHiddenMounts(t *testing.T) {
	hidden := hiddenMounts(parse(t, gpuServer))
	require.True(t, hidden[43], "something was mounted on it")
	require.True(t, hidden[45], "something was mounted above it later")
	require.False(t, hidden[44])
	require.False(t, hidden[46])
	require.Len(t, hidden, 2)

	hidden = hiddenMounts(parse(t, `1 1 0:1 / / rw - rootfs rootfs rw
2 1 8:1 / / rw - ext4 /dev/sda1 rw
3 2 8:2 / /a rw - ext4 /dev/sdb1 rw
4 3 8:3 / /a/b rw - ext4 /dev/sdc1 rw
5 3 8:4 / /a rw - ext4 /dev/sdd1 rw
6 5 8:5 / /a/b rw - ext4 /dev/sde1 rw
`))
	require.Equal(t, map[int]bool{1: true, 3: true, 4: true}, hidden)
}

func TestRecommend(t *testing.T) { // D-33
	fs := func(at string, m schema.Medium, free int64) schema.Filesystem {
		return schema.Filesystem{MountPoint: at, Medium: m, FreeBytes: free}
	}
	system := fs("/", schema.MediumNVMe, 900)
	system.System = true
	shared := fs("/mnt/lustre", schema.MediumShared, 9000)
	shared.Shared = true
	readonly := fs("/mnt/ro", schema.MediumNVMe, 900)
	readonly.ReadOnly = true
	for want, list := range map[string][]schema.Filesystem{
		"/mnt/nvme1": {system, shared, readonly, fs("/mnt/nvme0", schema.MediumNVMe, 10), fs("/mnt/nvme1", schema.MediumNVMe, 20),
			fs("/mnt/ssd", schema.MediumSSD, 500)},
		"/mnt/ssd": {fs("/mnt/vd", schema.MediumVirtual, 900), fs("/mnt/ssd", schema.MediumSSD, 5)},
		"/mnt/vd":  {fs("/mnt/md", schema.MediumRAID, 900), fs("/mnt/vd", schema.MediumVirtual, 5), fs("/mnt/q", "", 9000)},
		"/mnt/md":  {fs("/mnt/hdd", schema.MediumHDD, 900), fs("/mnt/md", schema.MediumRAID, 5)},
		"/a":       {fs("/b", schema.MediumSSD, 5), fs("/a", schema.MediumSSD, 5)},
		"":         {system, shared, readonly, fs("/mnt/dead", schema.MediumNVMe, -1), fs("/mnt/full", schema.MediumNVMe, 0)},
	} {
		recommend(list)
		got := ""
		for _, f := range list {
			if f.Recommended {
				got += f.MountPoint
			}
		}
		require.Equal(t, want, got)
	}
}

func TestKinds(t *testing.T) { // D-33
	for fstype, want := range map[string]fsKind{
		"nfs4": fsShared, "lustre": fsShared, "gpfs": fsShared, "wekafs": fsShared, "ceph": fsShared, "cifs": fsShared,
		"beegfs": fsShared, "virtiofs": fsShared, "ext4": fsLocal, "btrfs": fsLocal, "tmpfs": fsMemory, "overlay": fsSystem,
		"proc": fsPseudo, "cgroup2": fsPseudo, "autofs": fsPseudo, "vfat": fsPseudo, "never-heard-of": fsPseudo,
		"fuse.juicefs": fsShared, "fuse.unknown": fsPseudo,
	} {
		require.Equal(t, want, kindOf(fstype, "none"), fstype)
	}
	require.Equal(t, fsShared, kindOf("fuse.unknown", "server:/path"))
}

func FuzzMountTable(f *testing.F) {
	f.Add(gpuServer, "")
	f.Add(gpuServer, "/mnt")
	f.Add("1 1 0:1 / / rw - tmpfs x rw\n2 3 0:1 / /a rw - nfs x rw\n3 2 0:1 / /a/b rw - nfs x rw\n", "/a")
	f.Fuzz(func(t *testing.T, text, prefix string) {
		infos, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
		if err != nil || len(infos) > 200 {
			return
		}
		if prefix != "" && (schema.AbsolutePathProblem(prefix) != "" || schema.CleanPath(prefix) != prefix || prefix == "/") {
			return
		}
		entries := buildTable(infos, prefix)
		v := view{lab: prefix != "", shared: []string{"/mnt/a"}, hide: []string{"/work"}}
		seen := map[string]bool{}
		for _, c := range candidates(entries, v) {
			if c.host != "/" && (c.kind == fsPseudo || schema.Covers("/work", c.host) || schema.Covers("/proc", c.host)) {
				t.Fatalf("%s is no place for data", c.host)
			}
			if prefix == "" && seen[c.device()] {
				t.Fatalf("%s is reported twice", c.device())
			}
			if c.kind == fsShared && c.system {
				t.Fatal("shared is not the system disk")
			}
			seen[c.device()] = true
		}
		if e := covering(entries, "/x/y"); e != nil && !schema.Covers(e.host, "/x/y") {
			t.Fatal("does not cover")
		}
	})
}

func BenchmarkMountTable(b *testing.B) {
	var text strings.Builder
	text.WriteString(gpuServer)
	for i := range 2_000 { // a machine full of containers
		fmt.Fprintf(&text, "%d 28 0:%d / /var/lib/docker/overlay2/%d/merged rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\n",
			1000+i, 1000+i, i)
	}
	s := text.String()
	for b.Loop() {
		infos, err := mountinfo.GetMountsFromReader(strings.NewReader(s), nil)
		require.NoError(b, err)
		require.NotEmpty(b, candidates(buildTable(infos, ""), view{}))
	}
}
