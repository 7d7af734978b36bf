package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// List implements the agent's Copies. It empties the trash.
func (c *Copies) List(_ context.Context, locations []schema.DataLocation) (host.CopyListing, error) {
	if err := c.m.o.Look("copies"); err != nil && !errors.Is(err, ErrIncomplete) {
		return host.CopyListing{}, err
	} else if err != nil {
		return host.CopyListing{Problems: []string{err.Error()}}, nil
	}
	defer c.m.lock()()
	if err := c.ours(); err != nil {
		return host.CopyListing{}, err
	}
	list := host.CopyListing{Copies: []schema.Copy{}, Locations: []schema.DataLocationState{}, Problems: []string{}, Complete: true}
	c.known = nil
	for _, loc := range locations {
		where := path.Clean(loc.Path)
		if slices.Contains(c.known, where) {
			continue
		}
		c.known = append(c.known, where)
		c.scan(&list, where, loc.Present)
	}
	slices.Sort(list.Problems)
	return list, nil
}

func (c *Copies) scan(list *host.CopyListing, where string, present bool) {
	state := schema.DataLocationState{Path: where, Present: present, UsedBytes: -1, FreeBytes: -1}
	l, err := c.at(where)
	switch {
	case errors.Is(err, errUnused):
		state.Mounted = true // nothing is expected there yet
		on := c.nearest(where)
		state.FreeBytes, state.FSID = on.disk.free(), on.disk.id
	case err != nil:
		c.hidden(list, &state, err)
	default:
		state.Mounted, state.FSID, state.FreeBytes = true, l.disk.id, l.disk.free()
		l.data.trash = slices.DeleteFunc(l.data.trash, func(n *node) bool { return n.remove() })
		if n := len(l.data.trash); n > 0 {
			list.Problems = append(list.Problems, fmt.Sprintf("%d entries of the trash have something mounted inside; they are left alone", n))
		}
		c.scanLocation(list, l, where)
	}
	list.Locations = append(list.Locations, state)
}

// nearest is the directory nearest to a path that does not exist.
func (c *Copies) nearest(where string) *node {
	for ; where != "/"; where = path.Dir(where) {
		if n := c.m.find(where); n != nil {
			return n
		}
	}
	return c.m.root
}

// hidden names the copies of a location that is not there, as far as they are remembered.
func (c *Copies) hidden(list *host.CopyListing, state *schema.DataLocationState, err error) {
	state.Message = "data location " + state.Path + " is not mounted: " + err.Error()
	list.Problems = append(list.Problems, state.Message)
	known := c.m.record[state.Path]
	if known == nil {
		return
	}
	state.FSID = known.fsid
	for _, uid := range slices.Sorted(maps.Keys(known.copies)) {
		list.Copies = append(list.Copies, schema.Copy{Drive: known.copies[uid], UID: uid, State: schema.CopyUnknown, FSID: known.fsid,
			Bytes: -1, Files: -1, Folder: path.Join(state.Path, drivesName, known.copies[uid])})
	}
}

func (c *Copies) scanLocation(list *host.CopyListing, l *node, where string) {
	names := map[string]bool{}
	for name := range l.children[drivesName].children {
		names[name] = true
	}
	for name := range l.data.sidecars {
		names[name] = true
	}
	copies := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		cp, problem := c.judge(l, where, name)
		if problem != "" {
			list.Problems = append(list.Problems, fmt.Sprintf("%q: %s; it is left alone", path.Join(where, drivesName, name), problem))
		}
		if cp != nil {
			list.Copies = append(list.Copies, *cp)
			copies[cp.UID] = name
		}
	}
	c.m.record[where].copies = copies
	slices.SortStableFunc(list.Copies, func(a, b schema.Copy) int { return cmp.Compare(a.Drive, b.Drive) })
}

// judge says whose a name in a data location is.
func (c *Copies) judge(l *node, where, name string) (cp *schema.Copy, problem string) {
	dir, err := copyDir(l, name)
	s := l.data.sidecars[name]
	switch {
	case s == nil:
		return nil, host.ErrNoSidecar.Error()
	case s.cluster != c.cluster:
		return nil, "its sidecar is of another cluster"
	case s.drive != name:
		return nil, "its sidecar is of the drive " + s.drive
	}
	created := s.created
	cp = &schema.Copy{Drive: name, UID: s.uid, State: schema.CopyPresent, Folder: path.Join(where, drivesName, name), FSID: l.disk.id,
		Bytes: -1, Files: -1, LastUsed: s.used, Created: &created, Filled: s.filled > 0, FilledGeneration: s.filled}
	switch {
	case err != nil:
		cp.State, problem = schema.CopyUnknown, err.Error()
	case dir == nil:
		cp.State, cp.Filled, cp.FilledGeneration = schema.CopyCreating, false, 0
	}
	return cp, problem
}

// Plant puts a copy of another cluster or drive, or a directory without a
// sidecar (cluster ""), in a data location, as an earlier life of the machine
// may have left it.
func (m *Machine) Plant(where, name, cluster, uid string) {
	defer m.lock()()
	l := m.makeAll(where)
	m.makeAll(path.Join(where, drivesName, name))
	if cluster == "" {
		return
	}
	if l.data == nil {
		l.data = &location{cluster: cluster, fsid: l.disk.id, sidecars: map[string]*sidecar{}}
	}
	l.data.sidecars[name] = &sidecar{cluster: cluster, drive: name, uid: uid, created: m.o.Now()}
}
