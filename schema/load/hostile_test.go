package load

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"astraeus.io/astraeus/schema"
	"github.com/stretchr/testify/require"
)

const lab = "orgs/acme/workspaces/lab/"

// withFrame adds the frame files to files below the workspace lab.
func withFrame(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range frameFiles {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range files {
		fsys[lab+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

const fineDrive = "kind: \"Drive\"\nmetadata: name: \"fine\"\nspec: sources: [{node_scope: \"placed\", path: \"\"}]\n"

// codes are the codes of the diagnostics of one file.
func codes(d *schema.Desired, file string) (list []schema.Code) {
	for _, diag := range d.Diagnostics {
		if diag.File == lab+file {
			list = append(list, diag.Code)
		}
	}
	return list
}

// refusingFS must not be asked for the content of one file.
type refusingFS struct {
	fstest.MapFS
	t    *testing.T
	file string
}

func (f refusingFS) Open(name string) (fs.File, error) {
	if name == f.file {
		f.t.Error("a file that is too large was opened")
	}
	return f.MapFS.Open(name)
}

// sizedEntry says that a file is larger than it is.
type sizedEntry struct {
	fs.DirEntry
	size int64
}

func (e sizedEntry) Info() (fs.FileInfo, error) {
	info, err := e.DirEntry.Info()
	return sizedInfo{info, e.size}, err
}

type sizedInfo struct {
	fs.FileInfo
	size int64
}

func (i sizedInfo) Size() int64 { return i.size }

func (f refusingFS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := f.MapFS.ReadDir(name)
	for i, e := range list {
		if name+"/"+e.Name() == f.file {
			list[i] = sizedEntry{e, 50 << 20}
		}
	}
	return list, err
}

// A file of 50 MB is refused without being read, and others load. G-5
func TestTooLarge(t *testing.T) {
	fsys := withFrame(map[string]string{"drives/big.cue": "", "drives/fine.cue": fineDrive})
	d := loadFS(t, refusingFS{fsys, t, lab + "drives/big.cue"})
	require.Equal(t, []schema.Code{schema.CodeUnreadable}, codes(d, "drives/big.cue"))
	require.Contains(t, d.Diagnostics[0].Message, "52.4 MB")
	require.Contains(t, d.NotWhole, "acme/lab")
	require.Len(t, d.Objects, 5)
}

// Text that takes a parser or evaluator too far: each is refused by itself, in
// time, and the object beside it loads. G-5
func TestHostileText(t *testing.T) {
	nested := func(open, closed string, n int) string { return strings.Repeat(open, n) + strings.Repeat(closed, n) }
	files := map[string]string{
		"deep.json":      nested("[", "]", 200_000),
		"depth.json":     `{"kind": "Drive", "a": ` + nested("[", "]", 100) + "}",
		"deep.yaml":      "a: " + nested("[", "]", 200_000),
		"indent.yaml":    strings.Repeat("- ", 20_000),
		"deep.cue":       "a: " + nested("[", "]", 200_000),
		"depth.cue":      "a: " + nested("{b: ", "}", 100),
		"chain.cue":      strings.Repeat("a: ", 100_000) + "1",
		"minus.cue":      "a: " + strings.Repeat("-", 200_000) + "1",
		"for.cue":        strings.Repeat("for x in y ", 60_000) + "{}",
		"quotes.cue":     "a: " + strings.Repeat(`"`, 300_000),
		"plus.cue":       "a: 1" + strings.Repeat("+1", 200_000),
		"fields.cue":     manyFields(100_000),
		"recursive.cue":  "#A: {n: int, x: #A & {n: 1}}\nkind: \"Drive\"\nx: #A",
		"disjoint.cue":   "#D: " + strings.Repeat("({a: 1} | {b: 1} | {c: 1}) & ", 40) + "{...}\nkind: \"Drive\"\nx: #D",
		"memory.cue":     "import \"strings\"\nkind: \"Drive\"\nx: strings.Repeat(\"x\", 1000000000)\ny: x + x + x",
		"large.cue":      "import \"strings\"\nkind: \"Drive\"\nx: strings.Repeat(\"x\", 30000000)",
		"fields.yaml":    strings.ReplaceAll(manyFields(40_000), ":", ": "),
		"surrogate.json": `{"kind": "\ud800", "metadata": {"name": "x"}}`,
	}
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			l := New(Options{EvalTimeout: 300 * time.Millisecond})
			defer l.Close()
			start := time.Now()
			d, err := l.Load(context.Background(), withFrame(map[string]string{"drives/" + name: text, "runs/fine.cue": fineDrive}), Commit{})
			require.NoError(t, err)
			require.NotEmpty(t, codes(d, "drives/"+name))
			require.Len(t, d.Objects, 5, "the others load")
			require.Contains(t, d.NotWhole, "acme/lab")
			require.Less(t, time.Since(start), 20*time.Second)
		})
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d:1\n", i)
	}
	return b.String()
}

const endless = `kind: "Drive"
metadata: name: "endless"
_l: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
_x: [for a in _l for b in _l for c in _l for d in _l for e in _l for f in _l for g in _l for h in _l for i in _l {a}]
spec: sources: [{node_scope: "placed", path: "\(len(_x))"}]
`

// A child that was killed is replaced: what is evaluated after it is right.
func TestChildIsReplaced(t *testing.T) {
	l := New(Options{EvalTimeout: time.Second})
	defer l.Close()
	files := map[string]string{"drives/a.cue": endless}
	for i := range 3 {
		files[fmt.Sprintf("drives/z%d.cue", i)] = fmt.Sprintf("kind: \"Drive\"\nmetadata: name: \"z\\(%d)\"\nspec: sources: [{node_scope: \"placed\", path: \"\"}]\n", i)
	}
	d, err := l.Load(context.Background(), withFrame(files), Commit{})
	require.NoError(t, err)
	require.Len(t, d.Diagnostics, 1)
	require.Equal(t, "evaluation did not end within 1s", d.Diagnostics[0].Message)
	require.Len(t, d.Objects, 4+3)
}

// Without a child the deadline holds, too.
func TestInProcess(t *testing.T) {
	w := &worker{timeout: time.Minute}
	computing := job{Eval: true, Files: []source{{Name: "a.cue", Text: "a: 1 + 1"}}}
	a, err := w.do(context.Background(), computing)
	require.NoError(t, err)
	require.Equal(t, "2", a.Tree.field("a").Text)

	w.timeout = time.Nanosecond
	slow := strings.Replace(endless, " for e in _l for f in _l for g in _l for h in _l for i in _l", "", 1)
	a, err = w.do(context.Background(), job{Eval: true, Files: []source{{Name: "a.cue", Text: slow}}})
	require.NoError(t, err)
	require.Equal(t, schema.CodeUnreadable, a.Faults[0].Code)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.timeout = time.Minute
	_, err = w.do(ctx, job{Eval: true, Files: []source{{Name: "a.cue", Text: slow}}})
	require.ErrorIs(t, err, context.Canceled)
}

// An unreadable top or a cancelled context is an error, never an empty tree. G-5
func TestErrorIsNotEmpty(t *testing.T) {
	l := New(Options{})
	defer l.Close()
	_, err := l.Load(context.Background(), brokenFS{withFrame(nil), "."}, Commit{})
	require.ErrorIs(t, err, errBroken)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = l.Load(ctx, withFrame(nil), Commit{})
	require.ErrorIs(t, err, context.Canceled)

	d, err := l.Load(context.Background(), brokenFS{withFrame(map[string]string{"drives/a.cue": fineDrive}), lab + "drives"}, Commit{})
	require.NoError(t, err)
	require.Contains(t, d.NotWhole, "acme/lab", "a directory that cannot be listed is not an empty one")
	require.Equal(t, schema.CodeUnreadable, d.Diagnostics[0].Code)
}

var errBroken = errors.New("input/output error")

// brokenFS cannot list one directory.
type brokenFS struct {
	fstest.MapFS
	dir string
}

func (b brokenFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == b.dir {
		return nil, errBroken
	}
	return b.MapFS.ReadDir(name)
}

// problemFS knows of entries that it does not serve.
type problemFS struct{ fstest.MapFS }

func (problemFS) Problems(yield func(path, code, message string)) {
	yield(lab+"drives/link.cue", "SYMLINK", "a symbolic link is not followed")
	yield("orgs/beta", "SUBMODULE", "another repository inside this one")
}

// What the tree's source does not serve freezes its scope. G-5
func TestProblemFS(t *testing.T) {
	d := loadFS(t, problemFS{withFrame(nil)})
	require.Len(t, d.Diagnostics, 2)
	require.Equal(t, "a symbolic link is not followed (SYMLINK)", d.Diagnostics[0].Message)
	require.Contains(t, d.NotWhole, "acme/lab")
	require.Contains(t, d.NotWhole, "beta")
}

// Caps of X-35: an object, and the config files of a template.
func TestObjectSize(t *testing.T) {
	run := func(size int) string {
		return `{"kind": "Run", "metadata": {"name": "r"}, "spec": {"task_template": {"config_files": [{"path": "/a", "content": "` +
			strings.Repeat("x", size) + `"}]}}}`
	}
	d := loadFS(t, withFrame(map[string]string{"runs/r.json": run(256<<10 - 2)}))
	require.Empty(t, d.Diagnostics)
	d = loadFS(t, withFrame(map[string]string{"runs/r.json": run(256<<10 - 1)}))
	require.Equal(t, "spec.task_template.config_files", d.Diagnostics[0].Field)
	big := strings.Replace(run(0), `"name": "r"`, `"name": "r", "annotations": {"a": "`+strings.Repeat("x", 512<<10)+`"}`, 1)
	d = loadFS(t, withFrame(map[string]string{"runs/r.json": big}))
	require.Len(t, d.Diagnostics, 1)
	require.Contains(t, d.Diagnostics[0].Message, "an object has at most 512 KB")
}

// FuzzLoad: whatever a file holds, loading ends without a panic, keeps the frame
// and says something when it makes no object.
func FuzzLoad(f *testing.F) {
	_, files := corpus(f)
	for name, text := range files {
		for i, ext := range []string{".cue", ".yaml", ".json"} {
			if strings.HasSuffix(name, ext) {
				f.Add(i, []byte(text))
			}
		}
	}
	l := New(Options{EvalTimeout: time.Second})
	f.Cleanup(l.Close)
	f.Fuzz(func(t *testing.T, format int, data []byte) {
		name := "drives/x" + []string{".cue", ".yaml", ".json"}[uint(format)%3]
		d, err := l.Load(context.Background(), withFrame(map[string]string{name: string(data)}), Commit{})
		require.NoError(t, err)
		if len(d.Objects) == 4 && !strings.Contains(string(data), "package") {
			require.NotEmpty(t, d.Diagnostics, "a file without objects is a problem")
		}
		for key, o := range d.Objects {
			require.Equal(t, key, o.Key)
			require.NotContains(t, d.Invalid, key)
		}
		if schema.HasErrors(d.Diagnostics) {
			require.NotEmpty(t, d.NotWhole)
		}
	})
}
