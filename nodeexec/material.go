package nodeexec

import (
	"reflect"
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

const (
	sizeStep     = 1 << 30   // D-70: 1 GiB …
	sizePercent  = 1         // … or 1 % of the filesystem
	lastUsedStep = time.Hour // D-70
)

// material reports whether next says something that last does not, beyond
// sizes that moved a little and times of use (D-70). Measurements alone wait
// for the next heartbeat.
func material(last, next *schema.MachineReport) bool {
	n := *next
	n.Sequence, n.Measurements, n.MountSeries = last.Sequence, last.Measurements, last.MountSeries
	n.Filesystems = steadyFilesystems(last.Filesystems, next.Filesystems)
	n.DataLocations = steadyLocations(last, next)
	n.Copies = steadyCopies(last, next)
	return !reflect.DeepEqual(*last, n)
}

// steady keeps the old size unless it moved by more than a step of the filesystem.
func steady(last, next *int64, total int64) {
	step := int64(sizeStep)
	if total > 0 {
		step = min(step, total*sizePercent/100)
	}
	if diff := *next - *last; diff <= step && -diff <= step && (*last < 0) == (*next < 0) {
		*next = *last
	}
}

func steadyFilesystems(last, next []schema.Filesystem) []schema.Filesystem {
	next = slices.Clone(next)
	for i := range next {
		n := &next[i]
		j := slices.IndexFunc(last, func(l schema.Filesystem) bool { return l.MountPoint == n.MountPoint && l.ID == n.ID })
		if j < 0 {
			continue
		}
		l := last[j]
		steady(&l.FreeBytes, &n.FreeBytes, n.TotalBytes)
		steady(&l.UsedBytes, &n.UsedBytes, n.TotalBytes)
		// Inodes count like bytes: 1 % of what was free.
		if diff := n.FreeInodes - l.FreeInodes; diff <= l.FreeInodes/100 && -diff <= l.FreeInodes/100 {
			n.FreeInodes = l.FreeInodes
		}
	}
	return next
}

// totalAt is the size of the filesystem with that id, 0 when unknown.
func totalAt(r *schema.MachineReport, fsID string) int64 {
	for _, f := range r.Filesystems {
		if f.ID == fsID && fsID != "" {
			return f.TotalBytes
		}
	}
	return 0
}

func steadyLocations(last, next *schema.MachineReport) []schema.DataLocationState {
	list := slices.Clone(next.DataLocations)
	for i := range list {
		n := &list[i]
		j := slices.IndexFunc(last.DataLocations, func(l schema.DataLocationState) bool { return l.Path == n.Path })
		if j < 0 {
			continue
		}
		l := last.DataLocations[j]
		steady(&l.FreeBytes, &n.FreeBytes, totalAt(next, n.FSID))
		steady(&l.UsedBytes, &n.UsedBytes, totalAt(next, n.FSID))
	}
	return list
}

func steadyCopies(last, next *schema.MachineReport) []schema.Copy {
	list := slices.Clone(next.Copies)
	for i := range list {
		n := &list[i]
		j := slices.IndexFunc(last.Copies, func(l schema.Copy) bool { return l.UID == n.UID && l.Folder == n.Folder })
		if j < 0 {
			continue
		}
		l := last.Copies[j]
		total := totalAt(next, n.FSID)
		steady(&l.Bytes, &n.Bytes, total)
		if n.Bytes == l.Bytes {
			n.Files = l.Files
		}
		if l.LastUsed != nil && n.LastUsed != nil && n.LastUsed.Sub(*l.LastUsed) < lastUsedStep {
			n.LastUsed = l.LastUsed
		}
	}
	return list
}
