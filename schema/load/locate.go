package load

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	"astraeus.io/astraeus/schema"
)

// locator keeps the places of an object's fields in 24 bytes a field. Paths are
// shared between all objects.
type locator struct {
	files   []string
	entries []located // sorted by path
}

type located struct {
	path unique.Handle[string]
	line uint32
	col  uint16
	file uint16
}

func (l *locator) add(path string, pos schema.Pos) {
	file := slices.Index(l.files, pos.File)
	if file < 0 {
		file = len(l.files)
		l.files = append(l.files, pos.File)
	}
	l.entries = append(l.entries, located{
		path: unique.Make(path), line: uint32(pos.Line), col: uint16(min(pos.Col, 1<<16-1)), file: uint16(file),
	})
}

func (l *locator) sort() {
	slices.SortStableFunc(l.entries, func(a, b located) int { return cmp.Compare(a.path.Value(), b.path.Value()) })
	l.entries = slices.Clip(l.entries)
}

// locate is Object.Locate: the field's place or its nearest parent's.
func (l *locator) locate(field string) schema.Pos {
	for {
		i, ok := slices.BinarySearchFunc(l.entries, field, func(e located, f string) int { return cmp.Compare(e.path.Value(), f) })
		if ok {
			e := l.entries[i]
			return schema.Pos{File: l.files[e.file], Line: int(e.line), Col: int(e.col)}
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return schema.Pos{}
		}
		field = field[:cut]
	}
}
