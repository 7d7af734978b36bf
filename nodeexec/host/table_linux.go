package host

import (
	"fmt"
	"path"
	"strings"

	"github.com/moby/sys/mountinfo"

	"astraeus.io/astraeus/schema"
)

// table reads the mount table: only text, nothing is touched (kubernetes#100178).
func (h *Host) table() ([]*mountEntry, error) {
	infos, err := h.rawTable()
	if err != nil {
		return nil, err
	}
	return buildTable(infos, h.prefix), nil
}

func (h *Host) rawTable() ([]*mountinfo.Info, error) {
	r, err := h.sys.mountinfo()
	if err != nil {
		return nil, fmt.Errorf("mount table: %w", err)
	}
	defer r.Close()
	infos, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("mount table: %w", err)
	}
	return infos, nil
}

// placeOf says where on its filesystem the directory of a descriptor is.
func (h *Host) placeOf(fd int, entries []*mountEntry) (place, *mountEntry, error) {
	id, err := mountID(fd)
	if err != nil {
		return place{}, nil, err
	}
	real, err := fdPath(fd)
	if err != nil {
		return place{}, nil, err
	}
	e := entryByID(entries, id)
	if e == nil || !schema.Covers(e.Mountpoint, real) {
		return place{}, e, nil
	}
	rel := strings.TrimPrefix(real, strings.TrimSuffix(e.Mountpoint, "/"))
	return place{e.device(), path.Join(e.Root, rel)}, e, nil
}
