package host

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// medium is the kind of disk under a mount, from sysfs alone; "" if unknown.
func (h *Host) medium(m *mountinfo.Info) schema.Medium {
	device := (&mountEntry{Info: m}).device()
	if m.Major == 0 {
		var st unix.Stat_t
		if !strings.HasPrefix(m.Source, "/dev/") || unix.Stat(m.Source, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
			return ""
		}
		device = (&mountEntry{Info: &mountinfo.Info{
			Major: int(unix.Major(st.Rdev)), Minor: int(unix.Minor(st.Rdev)),
		}}).device()
	}
	dir, err := filepath.EvalSymlinks(path.Join(h.sys.sys, "dev/block", device))
	if err != nil {
		return ""
	}
	return h.mediumOf(dir, 0)
}

// mediumOf judges one block device's directory in sysfs. Partitions are judged
// by their disk, mapped devices by the slowest device below them.
func (h *Host) mediumOf(dir string, depth int) schema.Medium {
	if exists(path.Join(dir, "partition")) {
		dir = path.Dir(dir)
	}
	name := path.Base(dir)
	switch {
	case readWord(path.Join(dir, "md/level")) != "":
		return schema.MediumRAID
	case exists(path.Join(dir, "dm")) && depth < 8:
		return h.slowestBelow(dir, depth)
	case strings.HasPrefix(name, "nvme"):
		return schema.MediumNVMe
	case virtualDisk(name, readWord(path.Join(dir, "device/vendor")), readWord(path.Join(dir, "device/model"))):
		return schema.MediumVirtual
	case hardwareRAID(readWord(path.Join(dir, "device/vendor")), readWord(path.Join(dir, "device/model"))):
		return schema.MediumRAID
	}
	switch readWord(path.Join(dir, "queue/rotational")) {
	case "0":
		return schema.MediumSSD
	case "1":
		return schema.MediumHDD
	}
	return ""
}

func (h *Host) slowestBelow(dir string, depth int) schema.Medium {
	links, _ := filepath.Glob(path.Join(dir, "slaves/*"))
	var slowest schema.Medium
	for _, link := range links {
		real, err := filepath.EvalSymlinks(link)
		if err != nil {
			continue
		}
		m := h.mediumOf(real, depth+1)
		if slowest == "" || slices.Index(mediumOrder, m) > slices.Index(mediumOrder, slowest) {
			slowest = m
		}
	}
	return slowest
}

// virtualDisk: a hypervisor's disks say "rotational" whatever is behind them,
// and a loop device is a file.
func virtualDisk(name, vendor, model string) bool {
	for _, prefix := range []string{"vd", "xvd", "loop", "zram", "ram", "pmem", "nbd", "ublk"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return true
		}
	}
	text := strings.ToLower(vendor + " " + model)
	for _, word := range []string{"qemu", "vmware", "virtual disk", "vbox", "virtio", "google persistentdisk", "msft virtual"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

func hardwareRAID(vendor, model string) bool {
	text := strings.ToLower(vendor + " " + model)
	for _, word := range []string{"perc", "megaraid", "logical volume", "smart array", "avago mr", "lsi mr", "broadcom mr",
		"raid"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

func readWord(p string) string {
	raw, err := os.ReadFile(p)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
