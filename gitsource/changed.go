package gitsource

import "slices"

// Changed lists the paths of files that were added, removed or have other content between two snapshots, and of
// entries whose problem came, went or changed; sorted. Equal subtrees of commits are skipped by hash. Directories as
// they lie are compared file by file. a may be nil: everything in b is new. Errors: a file of a directory that cannot
// be read.
func Changed(a, b *Snapshot) ([]string, error) {
	d := differ{}
	if a != nil {
		d.a = a.fsys.content
	} else {
		a = &Snapshot{fsys: &treeFS{root: &node{}}}
	}
	d.b = b.fsys.content
	if err := d.dirs("", a.fsys.root, b.fsys.root); err != nil {
		return nil, err
	}
	slices.Sort(d.out)
	return slices.Compact(d.out), nil
}

type differ struct {
	a, b content
	out  []string
}

// none stands for a directory that is not there.
var none = &node{}

func (d *differ) dirs(path string, a, b *node) error {
	if a == b || !a.hash.IsZero() && a.hash == b.hash {
		return nil
	}
	d.bad(path, a.bad, b.bad)
	i, j := 0, 0
	for i < len(a.entries) || j < len(b.entries) {
		var x, y *entry
		switch {
		case j == len(b.entries) || i < len(a.entries) && a.entries[i].name < b.entries[j].name:
			x = a.entries[i]
			i++
		case i == len(a.entries) || b.entries[j].name < a.entries[i].name:
			y = b.entries[j]
			j++
		default:
			x, y = a.entries[i], b.entries[j]
			i, j = i+1, j+1
		}
		if err := d.pair(path, x, y); err != nil {
			return err
		}
	}
	return nil
}

// pair compares what one name is on each side; nil is nothing.
func (d *differ) pair(dir string, x, y *entry) error {
	name := ""
	xd, yd := none, none
	if x != nil {
		name = x.name
		if x.dir != nil {
			xd = x.dir
		}
	}
	if y != nil {
		name = y.name
		if y.dir != nil {
			yd = y.dir
		}
	}
	path := joinPath(dir, name)
	xFile, yFile := x != nil && x.dir == nil, y != nil && y.dir == nil
	switch {
	case xFile && yFile:
		same, err := d.same(path, x, y)
		if err != nil || same {
			return err
		}
		d.out = append(d.out, path)
	case xFile || yFile:
		d.out = append(d.out, path)
	}
	if xd != none || yd != none {
		return d.dirs(path, xd, yd)
	}
	return nil
}

func (d *differ) same(path string, x, y *entry) (bool, error) {
	if x == y {
		return true, nil
	}
	if n, m := x.size.Load(), y.size.Load(); n >= 0 && m >= 0 && n != m {
		return false, nil
	}
	hx, ok1 := d.a.hash(path, x)
	hy, ok2 := d.b.hash(path, y)
	if !ok1 || !ok2 {
		return false, fail(ErrUnavailable, "%s cannot be read", path)
	}
	return hx == hy, nil
}

func (d *differ) bad(dir string, a, b []badEntry) {
	for _, x := range a {
		if !hasBad(b, x) {
			d.out = append(d.out, joinPath(dir, printable(x.name)))
		}
	}
	for _, y := range b {
		if !hasBad(a, y) {
			d.out = append(d.out, joinPath(dir, printable(y.name)))
		}
	}
}

// hasBad: a directory as it lies has no hashes for what it does not serve, so only two known ones can differ.
func hasBad(list []badEntry, want badEntry) bool {
	return slices.ContainsFunc(list, func(b badEntry) bool {
		return b.name == want.name && b.code == want.code &&
			(b.hash == want.hash || b.hash.IsZero() || want.hash.IsZero())
	})
}
