package gitsource

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// G-1, G-5
func TestFetchLocal(t *testing.T) {
	r := newRepo(t)
	first := r.commit("orgs/acme/org.cue", "kind: \"Org\"\n")
	r.write("cluster.cue", "x")
	r.write("bin/run", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "bin/run"), 0o755))
	second := r.commit("a.yaml", "a: 1\n")

	s := r.open(Options{})
	snap := fetch(t, s)
	require.Equal(t, second, snap.Commit)
	require.Equal(t, []string{first}, snap.Parents)
	require.Equal(t, "refs/heads/main", snap.Ref)
	require.Equal(t, "change a.yaml", snap.Subject)
	require.Equal(t, "Ada", snap.Author.Name)
	require.Equal(t, r.git("rev-parse", "HEAD^{tree}"), snap.Tree)
	require.Equal(t, 4, snap.Files)
	require.Empty(t, snap.Problems)
	require.NoError(t, fstest.TestFS(snap.FS(), "orgs/acme/org.cue", "cluster.cue", "bin/run", "a.yaml"))

	data, err := fs.ReadFile(snap.FS(), "a.yaml")
	require.NoError(t, err)
	require.Equal(t, "a: 1\n", string(data))
	h, ok := snap.FS().(HashFS).Hash("a.yaml")
	require.True(t, ok)
	require.Equal(t, r.git("rev-parse", "HEAD:a.yaml"), h)
	info, err := fs.Stat(snap.FS(), "bin/run")
	require.NoError(t, err)
	require.EqualValues(t, 10, info.Size())
	require.Equal(t, fs.FileMode(0o555), info.Mode())

	require.Same(t, snap, fetch(t, s), "an unmoved commit is the same snapshot")
	third := r.commit("a.yaml", "a: 2\n")
	next := fetch(t, s)
	require.Equal(t, third, next.Commit)
	changed, err := Changed(snap, next)
	require.NoError(t, err)
	require.Equal(t, []string{"a.yaml"}, changed)
	data, err = fs.ReadFile(snap.FS(), "a.yaml")
	require.NoError(t, err)
	require.Equal(t, "a: 1\n", string(data), "an older snapshot stays what it was")
}

// G-5: packed refs and packed objects, also when another program packs behind our back.
func TestFetchAfterGC(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	s := r.open(Options{})
	old := fetch(t, s)
	r.commit("b", "2")
	r.git("gc", "-q", "--prune=now")
	r.git("pack-refs", "--all")
	snap := fetch(t, s)
	for _, one := range []*Snapshot{old, snap} {
		data, err := fs.ReadFile(one.FS(), "a")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	}
	info, err := fs.Stat(snap.FS(), "b")
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Size())
}

func TestNotARepository(t *testing.T) { // G-5
	for name, dir := range map[string]string{"empty directory": t.TempDir(), "nothing": filepath.Join(t.TempDir(), "x")} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(testCtx(t), Options{URL: dir})
			require.ErrorIs(t, err, ErrNotRepository)
		})
	}
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Open(testCtx(t), Options{URL: file})
	require.ErrorIs(t, err, ErrNotRepository)
}

func TestEmptyRepository(t *testing.T) { // G-5
	r := newRepo(t)
	for _, ref := range []string{"", "main"} {
		s := r.open(Options{Ref: ref})
		snap, err := s.Fetch(testCtx(t))
		require.Nil(t, snap)
		require.ErrorIs(t, err, ErrEmptyRepository)
	}
	s := r.open(Options{})
	_, err := s.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrEmptyRepository)
	r.commit("a", "1")
	require.Equal(t, 1, fetch(t, s).Files, "the failure is not remembered")
}

func TestBranchVanishes(t *testing.T) { // G-5
	r := newRepo(t)
	r.commit("a", "1")
	r.git("branch", "prod")
	s := r.open(Options{Ref: "prod"})
	snap := fetch(t, s)
	require.Equal(t, "refs/heads/prod", snap.Ref)
	r.git("branch", "-D", "prod")
	got, err := s.Fetch(testCtx(t))
	require.Nil(t, got)
	require.ErrorIs(t, err, ErrRefNotFound)
	r.git("branch", "prod")
	require.Same(t, snap, fetch(t, s))
}

func TestCheckedOutBranchAndDetached(t *testing.T) {
	r := newRepo(t)
	one := r.commit("a", "1")
	s := r.open(Options{})
	fetch(t, s)
	r.git("checkout", "-q", "-b", "feature/x")
	require.Equal(t, "refs/heads/feature/x", fetch(t, s).Ref)
	r.git("checkout", "-q", "--detach")
	snap := fetch(t, s)
	require.Equal(t, "HEAD", snap.Ref)
	require.Equal(t, one, snap.Commit)
}

func TestLayouts(t *testing.T) { // linked worktree, bare, borrowed objects, file URL
	r := newRepo(t)
	r.commit("a", "1")
	dir := t.TempDir()
	linked, bare, shared := filepath.Join(dir, "wt"), filepath.Join(dir, "bare.git"), filepath.Join(dir, "shared")
	r.git("worktree", "add", "-q", "-b", "wt", linked)
	r.git("clone", "-q", "--bare", r.dir, bare)
	r.git("clone", "-q", "--shared", r.dir, shared)
	for _, url := range []string{linked, bare, shared, "file://" + r.dir} {
		s := openTest(t, Options{URL: url})
		snap := fetch(t, s)
		data, err := fs.ReadFile(snap.FS(), "a")
		require.NoError(t, err, url)
		require.Equal(t, "1", string(data))
		_, err = fs.Stat(snap.FS(), "a")
		require.NoError(t, err, url)
	}
	s := openTest(t, Options{URL: linked})
	require.Equal(t, "refs/heads/wt", fetch(t, s).Ref)
	(&repo{t, linked}).commit("a", "2")
	require.Equal(t, "change a", fetch(t, s).Subject)
}

func TestUnsupportedFormat(t *testing.T) {
	r := &repo{t, t.TempDir()}
	r.git("init", "-q", "--object-format=sha256")
	_, err := Open(testCtx(t), Options{URL: r.dir})
	require.ErrorIs(t, err, ErrUnsupported)
}

// G-5: an outage is an error, and heals by itself.
func TestPathRemovedAndRestored(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	s := r.open(Options{})
	snap := fetch(t, s)
	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(r.dir, away))
	for _, mk := range []bool{false, true} { // gone, then an empty mount point
		if mk {
			require.NoError(t, os.Mkdir(r.dir, 0o755))
		}
		got, err := s.Fetch(testCtx(t))
		require.Nil(t, got)
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, ErrNotRepository)
	}
	require.NoError(t, os.Remove(r.dir))
	require.NoError(t, os.Rename(away, r.dir))
	require.Same(t, snap, fetch(t, s))
}

func TestAt(t *testing.T) { // G-6
	r := newRepo(t)
	one := r.commit("a", "1")
	r.git("tag", "-a", "v1", "-m", "first")
	two := r.commit("a", "2")
	r.git("checkout", "-q", "-b", "side", one)
	side := r.commit("b", "3")
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	s := r.open(Options{})
	for rev, want := range map[string]string{
		"HEAD": r.git("rev-parse", "HEAD"), "HEAD~1": two, "HEAD^": two, "HEAD^2": side, "HEAD~2": one, "main~1^": one, "v1": one,
		"refs/heads/side": side, "side": side, two: two, two[:8]: two, "@^2~1": one, "v1^{}": one, "v1^{commit}": one, "HEAD^0": r.git("rev-parse", "HEAD"),
	} {
		snap, err := s.At(testCtx(t), rev)
		require.NoError(t, err, rev)
		require.Equal(t, want, snap.Commit, rev)
	}
	for _, rev := range []string{
		"", "nope", "HEAD~9", "HEAD^3", "HEAD^{tree}", "HEAD~x", "../../etc/passwd", "a..b", "0123456789012345678901234567890123456789",
		"HEAD@{1}", "-n", r.git("rev-parse", "HEAD^{tree}"), "deadbeef", "HEAD\x00",
	} {
		_, err := s.At(testCtx(t), rev)
		require.ErrorIs(t, err, ErrRefNotFound, rev)
	}
}

// G-5: a rewritten history is told from a fast-forward, and a forgotten commit from an error.
func TestIsAncestor(t *testing.T) {
	r := newRepo(t)
	one := r.commit("a", "1")
	two := r.commit("a", "2")
	s := r.open(Options{})
	fetch(t, s)
	ctx := testCtx(t)
	check := func(old, tip string, want bool) {
		t.Helper()
		got, err := s.IsAncestor(ctx, old, tip)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	check(one, two, true)
	check(two, two, true)
	check(two, one, false)
	r.git("reset", "-q", "--hard", one)
	forced := r.commit("a", "rewritten")
	require.Equal(t, forced, fetch(t, s).Commit)
	check(two, forced, false)
	check(one, forced, true)
	r.git("reflog", "expire", "--expire=now", "--all")
	r.git("gc", "-q", "--prune=now")
	check(two, forced, false) // pruned
	_, err := s.IsAncestor(ctx, one, two)
	require.ErrorIs(t, err, ErrRefNotFound)

	shallow := filepath.Join(t.TempDir(), "s")
	r.git("clone", "-q", "--depth=1", "file://"+r.dir, shallow)
	c := openTest(t, Options{URL: shallow})
	fetch(t, c)
	got, err := c.IsAncestor(ctx, one, forced)
	require.NoError(t, err)
	require.False(t, got)
	hist, err := c.History(ctx, "a", 0)
	require.NoError(t, err)
	require.Len(t, hist, 1)
}

func TestHistory(t *testing.T) { // G-11
	r := newRepo(t)
	r.commit("x/a", "1")
	r.commit("x/b", "1")
	two := r.commit("x/a", "2")
	r.git("checkout", "-q", "-b", "side")
	r.commit("x/c", "1")
	side := r.commit("x/a", "3")
	r.git("checkout", "-q", "main")
	r.commit("y", "1")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	require.NoError(t, os.Remove(filepath.Join(r.dir, "x/a")))
	gone := r.commit("y", "2")
	s := r.open(Options{})
	hist, err := s.History(testCtx(t), "x/a", 0)
	require.NoError(t, err)
	var got []string
	for _, c := range hist {
		got = append(got, c.Commit)
	}
	require.Equal(t, []string{gone, side, two, r.git("rev-parse", two+"~2")}, got)
	hist, err = s.History(testCtx(t), "x/a", 2)
	require.NoError(t, err)
	require.Len(t, hist, 2)
	require.Equal(t, "Ada", hist[0].Author.Name)
	hist, err = s.History(testCtx(t), "never", 0)
	require.NoError(t, err)
	require.Empty(t, hist)
}

func TestChangedKinds(t *testing.T) { // G-5, G-6
	r := newRepo(t)
	r.write("keep/a", "1")
	r.write("keep/b", "1")
	r.write("d/x", "1")
	r.commit("f", "1")
	s := r.open(Options{})
	a := fetch(t, s)
	r.write("keep/b", "2")
	r.git("rm", "-q", "-r", "d")
	require.NoError(t, os.Remove(filepath.Join(r.dir, "f")))
	require.NoError(t, os.Symlink("keep", filepath.Join(r.dir, "f")))
	r.commit("d", "now a file")
	b := fetch(t, s)
	got, err := Changed(a, b)
	require.NoError(t, err)
	require.Equal(t, []string{"d", "d/x", "f", "keep/b"}, got)
	back, err := Changed(b, a)
	require.NoError(t, err)
	require.Equal(t, got, back)
	all, err := Changed(nil, a)
	require.NoError(t, err)
	require.Equal(t, []string{"d/x", "f", "keep/a", "keep/b"}, all)
	d, err := DirSnapshot(r.dir)
	require.NoError(t, err)
	same, err := Changed(b, d)
	require.NoError(t, err)
	require.Empty(t, same, "the working tree equals its commit")
}

func TestClosedAndCancelled(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	s, err := Open(testCtx(t), Options{URL: r.dir})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.At(ctx, "HEAD")
	require.True(t, errors.Is(err, context.Canceled), err)
	snap := fetch(t, s)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.At(testCtx(t), "HEAD")
	require.ErrorIs(t, err, ErrClosed)
	_, err = fs.ReadFile(snap.FS(), "a")
	require.Error(t, err)
}
