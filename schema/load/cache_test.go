package load

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"astraeus.io/astraeus/schema"
	"github.com/stretchr/testify/require"
)

// countingFS knows hashes and counts what is opened.
type countingFS struct {
	cachedFS
	opened map[string]int
}

func newCountingFS(files map[string]string) countingFS {
	return countingFS{newCachedFS(withFrame(files)), map[string]int{}}
}

func (c countingFS) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.cachedFS.Open(name)
}

func (c countingFS) edit(name, text string) {
	clear(c.opened)
	c.change(name, text)
}

// Loading again reads what changed only, and shares every other object.
func TestReload(t *testing.T) {
	const other = "kind: \"Drive\"\nmetadata: name: \"other\"\nspec: sources: [{node_scope: \"placed\", path: \"%s\"}]\n"
	fsys := newCountingFS(map[string]string{"drives/fine.cue": fineDrive, "drives/other.cue": other})
	l := New(Options{EvalTimeout: 30 * time.Second, Parallel: 1})
	defer l.Close()
	before, err := l.Load(context.Background(), fsys, Commit{ID: "a", Time: time.Unix(1, 0)})
	require.NoError(t, err)
	require.Equal(t, "a", before.Commit)

	fsys.edit(lab+"drives/other.cue", "kind: \"Drive\"\nmetadata: name: \"other\"\nspec: sources: [{node_scope: \"placed\", path: \"new\"}]\n")
	after, err := l.Load(context.Background(), fsys, Commit{ID: "b"})
	require.NoError(t, err)
	delete(fsys.opened, "cue.mod/module.cue")
	require.Equal(t, map[string]int{lab + "drives/other.cue": 1}, fsys.opened)
	changed := 0
	for key, o := range after.Objects {
		if before.Objects[key] != o {
			changed++
			require.NotEqual(t, before.Objects[key].Hash, o.Hash)
		}
	}
	require.Equal(t, 1, changed)
}

// A renamed cluster moves every namespace; the specs stay what they were.
func TestReloadMovesNamespaces(t *testing.T) {
	fsys := newCountingFS(map[string]string{"drives/fine.cue": fineDrive})
	l := New(Options{EvalTimeout: 30 * time.Second})
	defer l.Close()
	before, err := l.Load(context.Background(), fsys, Commit{})
	require.NoError(t, err)
	fsys.edit("cluster.cue", "kind: \"Cluster\"\nmetadata: name: \"renamed\"\n")
	after, err := l.Load(context.Background(), fsys, Commit{})
	require.NoError(t, err)
	old := schema.Key{Kind: schema.KindDrive, Namespace: schema.Namespace("test", "acme", "lab"), Name: "fine"}
	now := schema.Key{Kind: schema.KindDrive, Namespace: schema.Namespace("renamed", "acme", "lab"), Name: "fine"}
	require.Contains(t, before.Objects, old)
	require.NotContains(t, after.Objects, old)
	require.Equal(t, before.Objects[old].Hash, after.Objects[now].Hash)
	require.Equal(t, old, before.Objects[old].Key, "an object is never changed after loading")
}

// A package is evaluated again when one of its imports changed, and only then.
func TestReloadPackage(t *testing.T) {
	files := map[string]string{"drives/uses.cue": `import "astraeus.io/repo/lib/base"

kind: "Drive"
metadata: name: base.name
spec: sources: [{node_scope: "placed", path: ""}]
`}
	fsys := newCountingFS(files)
	fsys.MapFS["lib/base/base.cue"] = &fstest.MapFile{}
	fsys.cachedFS = newCachedFS(fsys.MapFS)
	fsys.edit("lib/base/base.cue", "package base\n\nname: \"one\"\n")
	l := New(Options{EvalTimeout: 30 * time.Second})
	defer l.Close()
	name := func() string {
		d, err := l.Load(context.Background(), fsys, Commit{})
		require.NoError(t, err)
		require.Empty(t, d.Diagnostics)
		for key := range d.Objects {
			if key.Kind == schema.KindDrive {
				return key.Name
			}
		}
		return ""
	}
	require.Equal(t, "one", name())
	clear(fsys.opened)
	require.Equal(t, "one", name())
	delete(fsys.opened, "cue.mod/module.cue")
	require.Empty(t, fsys.opened)
	fsys.edit("lib/base/base.cue", "package base\n\nname: \"two\"\n")
	require.Equal(t, "two", name())
}

// Places of fields, and the nearest parent's for one that is not there. G-4
func TestLocate(t *testing.T) {
	d := loadFS(t, withFrame(map[string]string{"drives/fine.cue": fineDrive}))
	for key, o := range d.Objects {
		if key.Kind != schema.KindDrive {
			continue
		}
		require.Equal(t, schema.Pos{File: lab + "drives/fine.cue", Line: 1, Col: 1}, o.Origin)
		require.Equal(t, "3:46", at(o, "spec.sources[0].path")[len(lab+"drives/fine.cue:"):][:4])
		require.Equal(t, at(o, "spec.sources[0]"), at(o, "spec.sources[0].mount_path"))
		require.Equal(t, at(o, "spec"), at(o, "spec.fill.template.image"))
		require.Equal(t, o.Origin.String(), at(o, "nothing"))
	}
}

func at(o *schema.Object, field string) string { return o.At(field).String() }

// Ten thousand objects stay far below the memory that is theirs.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 10,000 files")
	}
	l := New(Options{EvalTimeout: 30 * time.Second})
	defer l.Close()
	fsys := newCachedFS(bigRepo(10_000))
	peak := peakHeap(func() {
		d, err := l.Load(context.Background(), fsys, Commit{})
		require.NoError(t, err)
		require.Empty(t, d.Diagnostics)
	})
	require.Less(t, peak, uint64(150<<20))
}

// The nearest known name of a misspelt one.
func TestNearest(t *testing.T) {
	known := []string{"evictable", "sources", "size_hint_bytes", "fill", "transport"}
	for given, want := range map[string]string{
		"evictabel": "evictable", "souces": "sources", "source": "sources", "size_hint": "", "fil": "fill", "tranpsort": "transport", "x": "", "zzzz": "",
	} {
		require.Equal(t, want, nearest(given, known), given)
	}
}

// Formatting is canonical for CUE, and leaves JSON and YAML alone.
func TestFormat(t *testing.T) {
	out, err := Format("a.cue", []byte("kind:   \"Drive\"\nspec:{a:1}\n"))
	require.NoError(t, err)
	require.Equal(t, "kind: \"Drive\"\nspec: {a: 1}\n", string(out))
	again, err := Format("a.cue", out)
	require.NoError(t, err)
	require.Equal(t, out, again)
	for name, text := range map[string]string{"a.json": `{"a":   1}`, "a.yaml": "a:   1 # why\n", "a.txt": "x"} {
		out, err := Format(name, []byte(text))
		require.NoError(t, err)
		require.Equal(t, text, string(out))
	}
	for name, text := range map[string]string{"a.cue": "a: {", "a.json": "{", "a.yaml": "a: [", "b.cue": "a: \"\x00\""} {
		_, err := Format(name, []byte(text))
		require.ErrorContains(t, err, name)
	}
}

// The hash of the schema is stable within a build and not empty.
func TestSchemaHash(t *testing.T) {
	require.Len(t, SchemaHash(), 32)
	data, err := fs.ReadFile(SchemaFS(), "schema.cue")
	require.NoError(t, err)
	require.NotEmpty(t, data)
}
