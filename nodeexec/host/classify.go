package host

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"astraeus.io/astraeus/schema"
)

// fsKind is what a filesystem type means for data.
type fsKind int

const (
	fsLocal  fsKind = iota // on this machine's disks
	fsShared               // other machines see the same files
	fsMemory               // tmpfs
	fsSystem               // an overlay or the like: only as the machine's root
	fsPseudo               // holds no data of ours
)

var sharedTypes = set("nfs", "nfs4", "lustre", "lustre_tgt", "gpfs", "mmfs", "wekafs", "ceph", "cifs", "smb3", "smbfs",
	"beegfs", "afs", "glusterfs", "9p", "virtiofs", "ocfs2", "gfs2", "orangefs", "pvfs2", "panfs", "quobyte",
	"daos", "vast", "hammerspace", "dvs", "coda", "ncpfs", "stnfs", "scalefs", "vboxsf", "prl_fs", "vmhgfs")

var sharedFuse = set("sshfs", "s3fs", "gcsfuse", "juicefs", "glusterfs", "ceph", "ceph-fuse", "dfuse", "weka", "quobyte",
	"moosefs", "mfs", "lizardfs", "rclone", "blobfuse", "blobfuse2", "goofys", "geesefs", "alluxio-fuse",
	"seaweedfs", "curvefs", "cubefs", "beegfs", "mountpoint-s3", "vmhgfs-fuse", "davfs", "davfs2", "hdfs", "fuse_dfs")

var localTypes = set("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "reiser4",
	"nilfs2", "ntfs3", "fuseblk")

var systemTypes = set("overlay", "overlayfs", "aufs", "unionfs", "fuse.fuse-overlayfs", "squashfs", "erofs", "rootfs")

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// kindOf judges a mount by its type. A FUSE filesystem of an unknown kind is
// shared if its source names a server.
func kindOf(fstype, source string) fsKind {
	fstype = strings.ToLower(fstype)
	switch {
	case sharedTypes[fstype]:
		return fsShared
	case localTypes[fstype]:
		return fsLocal
	case systemTypes[fstype]:
		return fsSystem
	case fstype == "tmpfs" || fstype == "ramfs":
		return fsMemory
	case strings.HasPrefix(fstype, "fuse."):
		sub := strings.TrimPrefix(fstype, "fuse.")
		if sharedFuse[sub] || strings.Contains(source, "://") || strings.Contains(source, ":/") || strings.HasPrefix(source, "//") {
			return fsShared
		}
		return fsPseudo
	}
	return fsPseudo
}

// remote reports whether asking the filesystem may mean asking something that
// is not the kernel of this machine: a server, or a FUSE daemon.
func remote(m *mountinfo.Info) bool {
	t := strings.ToLower(m.FSType)
	return sharedTypes[t] || strings.HasPrefix(t, "fuse") || t == "autofs"
}

// neverData are places whose mounts are the system's own business.
var neverData = []string{"/proc", "/sys", "/dev", "/run", "/snap", "/var/lib/docker", "/var/lib/containerd",
	"/var/lib/kubelet", "/var/lib/containers"}

// systemPlaces are mount points whose filesystem belongs to the operating system.
func systemPlace(hostPath string) bool {
	return slices.Contains([]string{"/", "/usr", "/var", "/etc", "/opt", "/efi", "/nix", "/boot", "/tmp", "/var/tmp",
		"/var/log"}, hostPath) || schema.Covers("/boot", hostPath)
}

// view is what classification needs to know about the machine.
type view struct {
	lab    bool
	shared []string // host mount points that are shared whatever their type (lab)
	hide   []string // host paths below which the agent mounts
}

// candidates are the mounts to report, without numbers: the pure part of D-33.
// A real machine reports a filesystem once, however often it is bound; a lab's
// bind mounts are its disks and all of them are reported.
func candidates(entries []*mountEntry, v view) []*candidate {
	var found []*candidate
	rootDevice := ""
	for _, e := range entries {
		if e.host == "/" {
			rootDevice = e.device()
		}
	}
	for _, e := range entries {
		c := &candidate{mountEntry: e, kind: kindOf(e.FSType, e.Source)}
		isRoot := e.host == "/"
		if slices.Contains(v.shared, e.host) {
			c.kind = fsShared
		}
		switch {
		case c.kind == fsPseudo && !isRoot, c.kind == fsSystem && !isRoot, c.kind == fsMemory && !v.lab && !isRoot:
			continue
		case !isRoot && slices.ContainsFunc(slices.Concat(neverData, v.hide), func(p string) bool {
			return schema.Covers(p, e.host)
		}):
			continue
		}
		c.system = c.kind != fsShared && (systemPlace(e.host) && (!v.lab || isRoot) || e.device() == rootDevice && !v.lab)
		found = append(found, c)
	}
	if !v.lab {
		found = oncePerFilesystem(found)
	}
	slices.SortStableFunc(found, func(a, b *candidate) int { return cmp.Compare(a.host, b.host) })
	return found
}

// candidate is a mount that can hold data, or the machine's root.
type candidate struct {
	*mountEntry
	kind   fsKind
	system bool
}

// oncePerFilesystem keeps the mount that shows most of each filesystem.
func oncePerFilesystem(found []*candidate) []*candidate {
	better := func(a, b *candidate) bool {
		return cmp.Or(
			cmp.Compare(len(path.Clean(a.Root)), len(path.Clean(b.Root))),
			cmp.Compare(len(a.host), len(b.host)),
			cmp.Compare(a.host, b.host),
		) < 0
	}
	best := map[string]*candidate{}
	for _, c := range found {
		if old := best[c.device()]; old == nil || c.host == "/" || old.host != "/" && better(c, old) {
			best[c.device()] = c
		}
	}
	return slices.DeleteFunc(found, func(c *candidate) bool { return best[c.device()] != c })
}

var mediumOrder = []schema.Medium{schema.MediumNVMe, schema.MediumSSD, schema.MediumVirtual, schema.MediumRAID, schema.MediumHDD}

// recommend marks the best filesystem for a data location: local, writable, not
// the system's, the fastest medium, then the most free space (D-33). There may
// be none.
func recommend(list []schema.Filesystem) {
	rank := func(f *schema.Filesystem) int {
		if i := slices.Index(mediumOrder, f.Medium); i >= 0 {
			return i
		}
		return len(mediumOrder)
	}
	best := -1
	for i := range list {
		f := &list[i]
		if f.Shared || f.System || f.ReadOnly || f.FreeBytes <= 0 {
			continue
		}
		if best < 0 || cmp.Or(
			cmp.Compare(rank(f), rank(&list[best])),
			cmp.Compare(list[best].FreeBytes, f.FreeBytes),
			cmp.Compare(f.MountPoint, list[best].MountPoint),
		) < 0 {
			best = i
		}
	}
	if best >= 0 {
		list[best].Recommended = true
	}
}
