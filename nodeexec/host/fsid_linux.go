package host

import (
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// fsIocGetUUID is FS_IOC_GETFSUUID (Linux 6.9): a length and 16 bytes.
const fsIocGetUUID = 0x80111500

// fsID names the filesystem of a directory for longer than this boot: its UUID
// where it has one, "<type>:<source>" for what comes over the network (which is
// never asked), else what statfs calls it. e may be nil.
func (h *Host) fsID(fd int, e *mountEntry) string {
	if e != nil && remote(e.Info) {
		return e.FSType + ":" + e.Source
	}
	if id := uuidByIoctl(fd); id != "" {
		return id
	}
	if e != nil {
		if id := h.uuidOfDevice(e.Info); id != "" {
			return id
		}
	}
	return fallbackID(fd, e)
}

func fallbackID(fd int, e *mountEntry) string {
	var st unix.Statfs_t
	fstype, device := "fs", ""
	if e != nil {
		fstype, device = e.FSType, e.device()
	}
	if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err == nil {
		if a, b := uint32(st.Fsid.Val[0]), uint32(st.Fsid.Val[1]); a|b != 0 {
			return fmt.Sprintf("%s:%08x%08x", fstype, b, a)
		}
	}
	return fstype + ":" + device
}

func uuidByIoctl(fd int) string {
	r, err := openat2(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, beneath)
	if err != nil {
		return ""
	}
	defer unix.Close(r)
	var reply struct {
		length uint8
		uuid   [16]byte
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(r), fsIocGetUUID, uintptr(unsafe.Pointer(&reply)))
	if errno != 0 || reply.length != 16 || reply.uuid == [16]byte{} {
		return ""
	}
	return uuidText(reply.uuid[:])
}

func uuidText(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// uuidOfDevice is for kernels without the ioctl: udev's names, then the
// superblock itself. Both speak of the block device that is mounted.
func (h *Host) uuidOfDevice(m *mountinfo.Info) string {
	want := unix.Mkdev(uint32(m.Major), uint32(m.Minor))
	if m.Major == 0 { // btrfs and zfs have numbers of their own
		var st unix.Stat_t
		if !strings.HasPrefix(m.Source, "/dev/") || unix.Stat(m.Source, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
			return ""
		}
		want = st.Rdev
	}
	links, _ := filepath.Glob(path.Join(h.sys.dev, "disk/by-uuid/*"))
	for _, link := range links {
		var st unix.Stat_t
		if unix.Stat(link, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == want {
			return strings.ToLower(path.Base(link))
		}
	}
	return uuidOfSuperblock(m.Source, want)
}

func uuidOfSuperblock(device string, want uint64) string {
	if !strings.HasPrefix(device, "/dev/") {
		return ""
	}
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK || st.Rdev != want {
		return ""
	}
	block := make([]byte, 0x10100)
	n, _ := f.ReadAt(block, 0)
	return superblockUUID(block[:n])
}

// superblockUUID knows ext2-4, XFS and btrfs.
func superblockUUID(b []byte) string {
	at := -1
	switch {
	case len(b) >= 0x478 && binary.LittleEndian.Uint16(b[0x438:]) == 0xEF53:
		at = 0x468
	case len(b) >= 48 && string(b[:4]) == "XFSB":
		at = 32
	case len(b) >= 0x10048 && string(b[0x10040:0x10048]) == "_BHRfS_M":
		at = 0x10020
	}
	if at < 0 || [16]byte(b[at:at+16]) == [16]byte{} {
		return ""
	}
	return uuidText(b[at : at+16])
}
