package gitsource

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/require"
)

func codes(ps []Problem) map[string]Code {
	out := map[string]Code{}
	for _, p := range ps {
		out[p.Path] = p.Code
	}
	return out
}

// G-5: what is not followed or served is listed, the rest is served.
func TestUnsafeEntries(t *testing.T) {
	r := newRepo(t)
	b := r.object("blob", "x")
	sub := r.object("tree", string(encodeTree([]rawEntry{
		{modeFile, "ok", b}, {modeFile, "evil\nname", b}, {modeFile, `back\slash`, b},
	})))
	r.commitTree(
		rawEntry{modeFile, "ok.cue", b},
		rawEntry{modeDir, "sub", sub},
		rawEntry{modeLink, "link", b},
		rawEntry{modeGitlink, "module", b},
		rawEntry{modeDir, "..", sub},
		rawEntry{modeFile, ".", b},
		rawEntry{modeDir, ".git", sub},
		rawEntry{modeDir, ".GIT", sub},
		rawEntry{modeDir, "git~1", sub},
		rawEntry{modeDir, ".g\u200cit", sub},
		rawEntry{modeFile, ".git . ", b},
		rawEntry{modeFile, ".git::$INDEX_ALLOCATION", b},
		rawEntry{modeFile, "/etc/passwd", b},
		rawEntry{modeFile, "C:x", b},
		rawEntry{modeFile, "bad\xff", b},
		rawEntry{modeFile, "esc\x1b[2J", b},
		rawEntry{modeFile, "rtl\u202etxt", b},
		rawEntry{modeFile, strings.Repeat("n", 256), b},
		rawEntry{0o150644, "odd", b},
		rawEntry{0o100664, "group-writable", b},
		rawEntry{modeFile, "twin", b}, rawEntry{modeFile, "Twin", b},
		rawEntry{modeDir, "Dir", sub}, rawEntry{modeFile, "dir", b},
		rawEntry{modeFile, "caf\u00e9", b}, rawEntry{modeFile, "cafe\u0301", b},
		rawEntry{modeFile, "stra\u00dfe", b}, rawEntry{modeFile, "STRASSE", b},
		rawEntry{modeFile, "same", b}, rawEntry{modeFile, "same", b},
		rawEntry{modeFile, "linked", b}, rawEntry{modeLink, "LINKED", b},
		rawEntry{modeFile, "\u00e9t\u00e9", b},
	)
	snap := fetch(t, r.open(Options{}))
	require.NoError(t, fstest.TestFS(snap.FS(), "ok.cue", "sub/ok", "group-writable", "\u00e9t\u00e9"))
	require.Equal(t, 4, snap.Files)
	require.Equal(t, snap.Problems, snap.FS().(HashFS).Problems())
	require.Equal(t, map[string]Code{
		"link": CodeSymlink, "module": CodeSubmodule, "odd": CodeBadMode,
		"..": CodeUnsafeName, ".": CodeUnsafeName, ".git": CodeUnsafeName, ".GIT": CodeUnsafeName, "git~1": CodeUnsafeName,
		`.g\u200cit`: CodeUnsafeName, ".git . ": CodeUnsafeName, ".git::$INDEX_ALLOCATION": CodeUnsafeName,
		`\x2fetc\x2fpasswd`: CodeUnsafeName, "C:x": CodeUnsafeName, `bad\xff`: CodeUnsafeName, `esc\x1b[2J`: CodeUnsafeName,
		`rtl\u202etxt`: CodeUnsafeName, strings.Repeat("n", 256): CodeUnsafeName,
		"twin": CodeCaseTwin, "Twin": CodeCaseTwin, "Dir": CodeCaseTwin, "dir": CodeCaseTwin,
		"caf\u00e9": CodeUnicodeTwin, "cafe\u0301": CodeUnicodeTwin, "stra\u00dfe": CodeCaseTwin, "STRASSE": CodeCaseTwin,
		"same": CodeDuplicate, "linked": CodeCaseTwin, "LINKED": CodeSymlink,
		`sub/evil\nname`: CodeUnsafeName, `sub/back\\slash`: CodeUnsafeName,
	}, codes(snap.Problems))
	for _, p := range snap.Problems {
		require.NotEmpty(t, p.Message)
		_, err := fs.ReadDir(snap.FS(), p.Dir)
		require.NoError(t, err, "Dir is always servable")
	}
	for _, name := range []string{"link", "module", "..", ".git", "twin", "Twin", "Dir", "Dir/ok", "same", "sub/../ok.cue", "/ok.cue"} {
		_, err := fs.Stat(snap.FS(), name)
		require.Error(t, err, name)
	}
}

// A tree of trees of trees that lists one subtree again and again costs what its bytes cost, and is then refused.
func TestTreeBomb(t *testing.T) {
	r := newRepo(t)
	b := r.object("blob", "x")
	h, mode := b, uint32(modeFile)
	for range 12 {
		var es []rawEntry
		for i := range 50 {
			es = append(es, rawEntry{mode, fmt.Sprintf("e%d", i), h})
		}
		h, mode = r.object("tree", string(encodeTree(es))), modeDir
	}
	r.commitTree(rawEntry{modeDir, "bomb", h})
	_, err := r.open(Options{}).Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrTooMany)
}

func TestDeepTree(t *testing.T) {
	r := newRepo(t)
	b := r.object("blob", "x")
	h, mode := b, uint32(modeFile)
	for range maxDepth + 3 {
		h, mode = r.object("tree", string(encodeTree([]rawEntry{{mode, "d", h}, {modeFile, "f", b}}))), modeDir
	}
	r.commitTree(rawEntry{modeDir, "top", h}, rawEntry{modeFile, "ok", b})
	snap := fetch(t, r.open(Options{}))
	require.Len(t, snap.Problems, 1)
	require.Equal(t, CodeTooDeep, snap.Problems[0].Code)
	_, err := fs.ReadFile(snap.FS(), "ok")
	require.NoError(t, err)
	for range 4 * maxDepth {
		h = r.object("tree", string(encodeTree([]rawEntry{{modeDir, "d", h}})))
	}
	r.commitTree(rawEntry{modeDir, "top", h})
	_, err = r.open(Options{}).Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrTooMany)
}

// G-5: damage is an error, not a smaller tree.
func TestMissingAndForgedObjects(t *testing.T) {
	r := newRepo(t)
	b := r.object("blob", "x")
	r.commitTree(rawEntry{modeDir, "gone", plumbing.NewHash("1234567890123456789012345678901234567890")})
	_, err := r.open(Options{}).Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrCorrupt)
	r.commitTree(rawEntry{modeDir, "a-blob", b})
	_, err = r.open(Options{}).Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrCorrupt)

	forged := r.object("blob", "harmless")
	other := r.object("blob", "evil")
	objects := filepath.Join(r.dir, ".git", "objects")
	path := func(h plumbing.Hash) string { return filepath.Join(objects, h.String()[:2], h.String()[2:]) }
	require.NoError(t, os.Rename(path(other), path(forged)))
	r.commitTree(rawEntry{modeFile, "f", forged})
	snap := fetch(t, r.open(Options{}))
	_, err = fs.ReadFile(snap.FS(), "f")
	require.ErrorIs(t, err, ErrCorrupt)
}

// A file over the limit is listed with its size and refused without being read.
func TestBigFile(t *testing.T) {
	r := newRepo(t)
	const size = 50_000_000
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "big"), make([]byte, size), 0o644))
	r.commit("small", "1")
	for _, pack := range []bool{false, true} {
		if pack {
			r.git("gc", "-q")
		}
		snap := fetch(t, r.open(Options{}))
		info, err := fs.Stat(snap.FS(), "big")
		require.NoError(t, err)
		require.EqualValues(t, size, info.Size())
		before := allocated()
		_, err = fs.ReadFile(snap.FS(), "big")
		require.ErrorIs(t, err, ErrTooLarge)
		var large *TooLargeError
		require.ErrorAs(t, err, &large)
		require.Equal(t, TooLargeError{"big", size, DefaultMaxFileBytes}, *large)
		_, err = snap.FS().Open("big")
		require.ErrorIs(t, err, ErrTooLarge)
		require.Less(t, allocated()-before, uint64(5<<20), "nothing was inflated")
		_, err = fs.ReadFile(snap.FS(), "small")
		require.NoError(t, err)
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"a.cue", "..", ".git", ".GIT ", "git~1", "a/b", `a\b`, "a\x00", "\xff", "C:", ".g\u200dit", "\uff0egit"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		shown := printable(name)
		if !utf8.ValidString(shown) || strings.ContainsAny(shown, "/\x00\n\x1b") {
			t.Fatalf("%q is shown as %q", name, shown)
		}
		if nameProblem(name) != "" {
			return
		}
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "/\\\x00\n\r\x1b") ||
			strings.EqualFold(strings.TrimRight(name, ". "), ".git") || strings.EqualFold(name, "git~1") {
			t.Fatalf("%q is served", name)
		}
		if foldKey(name) != foldKey(strings.ToUpper(name)) && utf8.RuneCountInString(name) == len(name) {
			t.Fatalf("%q has another key in upper case", name)
		}
	})
}

func FuzzTree(f *testing.F) {
	f.Add(encodeTree([]rawEntry{{modeFile, "a", plumbing.ZeroHash}, {modeDir, "b", plumbing.ZeroHash}}))
	f.Add([]byte("100644 x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := &node{}
		if parseTree(data, func(e rawEntry) { n.entries = append(n.entries, &entry{name: e.name}) }) != nil {
			return
		}
		total := len(n.entries)
		n.seal()
		if len(n.entries)+len(n.bad) != total {
			t.Fatal("an entry was lost")
		}
		for i, e := range n.entries {
			if i > 0 && n.entries[i-1].name >= e.name {
				t.Fatal("not sorted or twice")
			}
		}
	})
}
