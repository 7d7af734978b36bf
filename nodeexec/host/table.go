package host

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"astraeus.io/astraeus/schema"
)

// mountEntry is a line of mountinfo with its host path. In a lab the mount that
// holds the root itself is the entry "/".
type mountEntry struct {
	*mountinfo.Info
	host   string // host path of the mount point
	fsRoot string // what of the filesystem is at host
}

func (e *mountEntry) device() string { return fmt.Sprintf("%d:%d", e.Major, e.Minor) }

// place is a directory by filesystem and path in it, so that two bind mounts of
// one directory are the same place.
type place struct{ device, path string }

func (a place) overlaps(b place) bool {
	return a.path != "" && b.path != "" && a.device == b.device && schema.Overlaps(a.path, b.path)
}

// buildTable keeps what a path can reach below prefix, in the kernel's order.
func buildTable(infos []*mountinfo.Info, prefix string) []*mountEntry {
	hidden := hiddenMounts(infos)
	var entries []*mountEntry
	var cover *mountEntry
	for _, m := range infos {
		if hidden[m.ID] || !path.IsAbs(m.Mountpoint) {
			continue
		}
		e := &mountEntry{Info: m, host: m.Mountpoint, fsRoot: m.Root}
		if prefix == "" {
			entries = append(entries, e)
			continue
		}
		if rest, ok := strings.CutPrefix(m.Mountpoint, prefix+"/"); ok {
			e.host = "/" + rest
			entries = append(entries, e)
		} else if schema.Covers(m.Mountpoint, prefix) &&
			(cover == nil || len(m.Mountpoint) >= len(cover.Mountpoint)) {
			cover = e
		}
	}
	if cover != nil {
		rel := strings.TrimPrefix(prefix, strings.TrimSuffix(cover.Mountpoint, "/"))
		cover.host, cover.fsRoot = "/", path.Join(cover.Root, rel)
		entries = slices.Insert(entries, 0, cover)
	}
	return entries
}

// hiddenMounts are the ids of mounts that no path reaches, because something
// was mounted over them or over a directory above them.
func hiddenMounts(infos []*mountinfo.Info) map[int]bool {
	b := burials{
		at:   make(map[spot]int, len(infos)),
		byID: make(map[int]*mountinfo.Info, len(infos)),
		memo: make(map[int]bool, len(infos)),
	}
	for _, m := range infos {
		b.at[spot{m.Parent, m.Mountpoint}] = m.ID
		b.byID[m.ID] = m
	}
	hidden := make(map[int]bool)
	for _, m := range infos {
		top, covered := b.at[spot{m.ID, m.Mountpoint}]
		if covered && top != m.ID || b.buried(m) {
			hidden[m.ID] = true
		}
	}
	return hidden
}

// spot is a directory of one mount.
type spot struct {
	parent int
	path   string
}

type burials struct {
	at   map[spot]int
	byID map[int]*mountinfo.Info
	memo map[int]bool
}

// buried reports whether something is mounted on the way to m: on the root of
// the mount below it, or on a directory in between.
func (b burials) buried(m *mountinfo.Info) bool {
	if known, ok := b.memo[m.ID]; ok {
		return known
	}
	b.memo[m.ID] = false // a table that goes in circles ends here
	answer := false
	for p := m.Mountpoint; p != "/" && p != "."; {
		p = path.Dir(p)
		if other, ok := b.at[spot{m.Parent, p}]; ok && other != m.ID && other != m.Parent {
			answer = true
			break
		}
	}
	if parent := b.byID[m.Parent]; !answer && parent != nil && parent != m {
		answer = b.buried(parent)
	}
	b.memo[m.ID] = answer
	return answer
}

func entryByID(entries []*mountEntry, id int) *mountEntry {
	for _, e := range entries {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// covering is the mount with the longest mount point above a host path.
func covering(entries []*mountEntry, hostPath string) *mountEntry {
	var best *mountEntry
	for _, e := range entries {
		if schema.Covers(e.host, hostPath) && (best == nil || len(e.host) >= len(best.host)) {
			best = e
		}
	}
	return best
}
