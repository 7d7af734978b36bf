package load

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"astraeus.io/astraeus/schema"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// frameFiles are in every golden case that does not bring its own.
var frameFiles = map[string]string{
	"cluster.cue":                              "kind: \"Cluster\"\nmetadata: name: \"test\"\n",
	"orgs/acme/org.cue":                        "kind: \"Org\"\nmetadata: name: \"acme\"\n",
	"orgs/acme/workspaces/lab/workspace.cue":   "kind: \"Workspace\"\nmetadata: name: \"lab\"\n",
	"orgs/acme/workspaces/other/workspace.cue": "kind: \"Workspace\"\nmetadata: name: \"other\"\n",
}

// A txtar case: files in, diagnostics and objects out. A comment with "bare" leaves
// the frame out, one with "deadline" takes the default deadline. "want" is rewritten by -update. In file contents,
// "\r", "\0" and a byte order mark are written <CR>, <NUL> and <BOM>.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			require.NoError(t, err)
			fsys, want := caseFiles(ar)
			if bytes.Contains(ar.Comment, []byte("deadline")) {
				got := describe(loadWith(t, fsys, Options{}))
				finish(t, file, ar, want, got)
				return
			}
			got := describe(loadFS(t, fsys))
			require.Equal(t, got, describe(loadFS(t, shuffledFS{fsys})), "the order of directories matters (G-4)")
			finish(t, file, ar, want, got)
		})
	}
}

// finish compares a case's result, or writes it down.
func finish(t *testing.T, file string, ar *txtar.Archive, want, got string) {
	t.Helper()
	if *update {
		ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
		ar.Files = append(ar.Files, txtar.File{Name: "want", Data: []byte(got)})
		require.NoError(t, os.WriteFile(file, txtar.Format(ar), 0o644))
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got (go test -update rewrites):\n%s", diff)
	}
}

func caseFiles(ar *txtar.Archive) (fstest.MapFS, string) {
	fsys := fstest.MapFS{}
	want := ""
	replace := strings.NewReplacer("<CR>", "\r", "<NUL>", "\x00", "<BOM>", "\xef\xbb\xbf", "<BAD>", "\xff", "<NL>", "\n", "<ACUTE>", "\u0301")
	for _, f := range ar.Files {
		name, data := replace.Replace(f.Name), replace.Replace(string(f.Data))
		switch {
		case f.Name == "want":
			want = string(f.Data)
			continue
		case strings.HasSuffix(name, "@symlink"):
			fsys[strings.TrimSuffix(name, "@symlink")] = &fstest.MapFile{Data: []byte(strings.TrimSpace(data)), Mode: fs.ModeSymlink}
			continue
		case strings.HasSuffix(name, "@fifo"):
			fsys[strings.TrimSuffix(name, "@fifo")] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
			continue
		}
		fsys[name] = &fstest.MapFile{Data: []byte(data)}
	}
	if !bytes.Contains(ar.Comment, []byte("bare")) {
		for name, data := range frameFiles {
			if fsys[name] == nil {
				fsys[name] = &fstest.MapFile{Data: []byte(data)}
			}
		}
	}
	return fsys, want
}

// describe is a Desired as text: diagnostics, objects, what is held back.
func describe(d *schema.Desired) string {
	var b strings.Builder
	for _, diag := range d.Diagnostics {
		fmt.Fprintf(&b, "%s", diag)
		fmt.Fprintf(&b, "\n    %d %s %s\n", diag.Status, orDash(diag.Object.String()), orDash(diag.Field))
		if diag.Hint != "" {
			fmt.Fprintf(&b, "    hint: %s\n", diag.Hint)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(d.Objects), schema.CompareKeys) {
		o := d.Objects[key]
		if f := frameFiles[o.Origin.File]; f != "" {
			continue
		}
		spec, _ := json.Marshal(o.Spec)
		fmt.Fprintf(&b, "object %s %s/%s at %s\n    %s\n", key, o.Org, o.Workspace, o.Origin, spec)
	}
	for _, key := range slices.SortedFunc(maps.Keys(d.Invalid), schema.CompareKeys) {
		fmt.Fprintf(&b, "invalid %s at %s\n", key, d.Invalid[key])
	}
	for _, scope := range slices.Sorted(maps.Keys(d.NotWhole)) {
		fmt.Fprintf(&b, "not whole %q: %s\n", scope, d.NotWhole[scope])
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shuffledFS lists directories backwards.
type shuffledFS struct{ fstest.MapFS }

func (s shuffledFS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := s.MapFS.ReadDir(name)
	slices.Reverse(list)
	return list, err
}
