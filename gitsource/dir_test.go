package gitsource

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func put(t testing.TB, dir, path, text string) {
	t.Helper()
	(&repo{t, dir}).write(path, text)
}

// age makes all files old enough for their hashes to be trusted by stat.
func age(t testing.TB, dir string) {
	t.Helper()
	// The status-change time cannot be set, so wait for the clock to move on by asking the filesystem.
	begun := time.Now()
	probe := filepath.Join(t.TempDir(), "probe")
	for time.Since(begun) < 25*time.Millisecond {
		require.NoError(t, os.WriteFile(probe, nil, 0o600))
	}
}

// weird makes every kind of entry a directory can hold; the problems it must give are returned.
func weird(t testing.TB, dir string) map[string]Code {
	put(t, dir, "ok.cue", "x: 1\n")
	put(t, dir, "sub/deep/ok.yaml", "a: 1\n")
	put(t, dir, ".hidden", "h")
	put(t, dir, ".git/config", "never served")
	put(t, dir, "nested/.git/HEAD", "ref: refs/heads/main\n")
	put(t, dir, "nested/file", "x")
	put(t, dir, "sub/evil\nname", "x")
	put(t, dir, `back\slash`, "x")
	put(t, dir, "bad\xff", "x")
	put(t, dir, "twin/A", "x")
	put(t, dir, "twin/a", "x")
	put(t, dir, "caf\u00e9", "x")
	put(t, dir, "cafe\u0301", "x")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("sub", filepath.Join(dir, "linkdir")))
	return map[string]Code{
		"link": CodeSymlink, "linkdir": CodeSymlink, "nested": CodeSubmodule, `sub/evil\nname`: CodeUnsafeName,
		`back\\slash`: CodeUnsafeName, `bad\xff`: CodeUnsafeName, "twin/A": CodeCaseTwin, "twin/a": CodeCaseTwin,
		"caf\u00e9": CodeUnicodeTwin, "cafe\u0301": CodeUnicodeTwin,
	}
}

// G-1, G-5: the files of a directory, with the rules of a repository.
func TestDirSnapshot(t *testing.T) {
	dir := t.TempDir()
	want := weird(t, dir)
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	require.NoError(t, err)
	defer l.Close()
	want["sock"] = CodeSpecialFile
	snap, err := DirSnapshot(dir)
	require.NoError(t, err)
	require.NoError(t, fstest.TestFS(snap.FS(), "ok.cue", "sub/deep/ok.yaml", ".hidden"))
	require.Equal(t, 3, snap.Files)
	require.Equal(t, want, codes(snap.Problems))
	h, ok := snap.FS().(HashFS).Hash("ok.cue")
	require.True(t, ok)
	r := &repo{t, dir}
	require.Equal(t, r.git("hash-object", "ok.cue"), h)
	for _, path := range []string{"link", ".git/config", "nested/file", "linkdir/deep/ok.yaml"} {
		_, err := fs.ReadFile(snap.FS(), path)
		require.ErrorIs(t, err, fs.ErrNotExist, path)
	}
}

func TestDirGone(t *testing.T) { // G-5
	dir := filepath.Join(t.TempDir(), "d")
	put(t, dir, "a", "1")
	d := NewDir(dir, 0)
	_, err := d.Snapshot(testCtx(t))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	snap, err := d.Snapshot(testCtx(t))
	require.Nil(t, snap)
	require.ErrorIs(t, err, ErrUnavailable)
	put(t, dir, "a", "1")
	_, err = d.Snapshot(testCtx(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = d.Snapshot(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// A link that takes the place of a file or directory after it was listed is not followed.
func TestDirSwappedForLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "secret", "secret")
	put(t, dir, "sub/secret", "fine")
	put(t, dir, "file", "fine")
	snap, err := DirSnapshot(dir)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sub")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "sub")))
	require.NoError(t, os.Remove(filepath.Join(dir, "file")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "file")))
	for _, path := range []string{"sub/secret", "file"} {
		_, err := fs.ReadFile(snap.FS(), path)
		require.Error(t, err)
		_, ok := snap.FS().(HashFS).Hash(path)
		require.False(t, ok)
	}
}

// Hash and content of one snapshot always belong together.
func TestDirFileChanges(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "one")
	d := NewDir(dir, 100)
	snap, err := d.Snapshot(testCtx(t))
	require.NoError(t, err)
	first, _ := snap.FS().(HashFS).Hash("a")
	put(t, dir, "a", "two") // same size, maybe the same timestamp
	_, err = fs.ReadFile(snap.FS(), "a")
	require.ErrorContains(t, err, "changed while it was read")
	next, err := d.Snapshot(testCtx(t))
	require.NoError(t, err)
	second, ok := next.FS().(HashFS).Hash("a")
	require.True(t, ok)
	require.NotEqual(t, first, second)
	data, err := fs.ReadFile(next.FS(), "a")
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	changed, err := Changed(snap, next)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, changed)

	put(t, dir, "big", strings.Repeat("x", 101))
	next, err = d.Snapshot(testCtx(t))
	require.NoError(t, err)
	_, err = fs.ReadFile(next.FS(), "big")
	require.ErrorIs(t, err, ErrTooLarge)
	_, ok = next.FS().(HashFS).Hash("big")
	require.True(t, ok)
}

// what is recorded is what lies there, and Source reads it with the same problems.
func TestRecorder(t *testing.T) {
	dir, bare := t.TempDir(), filepath.Join(t.TempDir(), "lab.git")
	want := weird(t, dir)
	put(t, dir, "big", strings.Repeat("b", 3<<20))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "empty/dir"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh"), 0o755))
	ctx := testCtx(t)
	rec, err := OpenRecorder(ctx, bare)
	require.NoError(t, err)
	defer rec.Close()
	src := openTest(t, Options{URL: bare})
	_, err = src.Fetch(ctx)
	require.ErrorIs(t, err, ErrEmptyRepository)

	one, changed, err := rec.Record(ctx, dir, "first")
	require.NoError(t, err)
	require.True(t, changed)
	snap := fetch(t, src)
	require.Equal(t, one, snap.Commit)
	require.Equal(t, want, codes(snap.Problems))
	lies, err := DirSnapshot(dir)
	require.NoError(t, err)
	diff, err := Changed(snap, lies)
	require.NoError(t, err)
	require.Empty(t, diff)
	info, err := fs.Stat(snap.FS(), "run")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o555), info.Mode())
	_, err = fs.ReadFile(snap.FS(), "big")
	require.ErrorIs(t, err, ErrTooLarge)
	git := &repo{t, bare}
	git.git("fsck", "--no-dangling")
	require.Equal(t, "/etc/passwd", git.git("cat-file", "-p", "main:link"))

	again, changed, err := rec.Record(ctx, dir, "nothing")
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, one, again)

	put(t, dir, "ok.cue", "x: 2\n")
	two, changed, err := rec.Record(ctx, dir, "second")
	require.NoError(t, err)
	require.True(t, changed)
	next := fetch(t, src)
	require.Equal(t, two, next.Commit)
	require.Equal(t, []string{one}, next.Parents)
	diff, err = Changed(snap, next)
	require.NoError(t, err)
	require.Equal(t, []string{"ok.cue"}, diff)

	_, err = OpenRecorder(ctx, bare)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, rec.Close())
	_, _, err = rec.Record(ctx, dir, "closed")
	require.ErrorIs(t, err, ErrClosed)

	// A new process goes on where the last one stopped, and clears what it left.
	for _, left := range []string{".tmp-1", "objects/tmp_obj_1"} {
		require.NoError(t, os.WriteFile(filepath.Join(bare, left), []byte("x"), 0o600))
	}
	rec, err = OpenRecorder(ctx, bare)
	require.NoError(t, err)
	same, changed, err := rec.Record(ctx, dir, "restart")
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, two, same)
	require.NoError(t, rec.Close())
	require.Empty(t, glob(t, bare+"/.tmp-*"))
	require.Empty(t, glob(t, bare+"/objects/tmp_*"))
}

// G-5: what cannot be recorded is no commit.
func TestRecorderRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	ctx := testCtx(t)
	rec, err := OpenRecorder(ctx, t.TempDir())
	require.NoError(t, err)
	defer rec.Close()
	_, _, err = rec.Record(ctx, dir, "ok")
	require.NoError(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	require.NoError(t, err)
	_, changed, err := rec.Record(ctx, dir, "socket")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, `"sock"`)
	require.False(t, changed)
	require.NoError(t, l.Close())
	_, changed, err = rec.Record(ctx, dir, "ok again")
	require.NoError(t, err)
	require.False(t, changed)
	_, _, err = rec.Record(ctx, filepath.Join(dir, "nothing"), "gone")
	require.ErrorIs(t, err, ErrUnavailable)
}

// Same size and same timestamp as when it was hashed: the change is still seen.
func TestRecorderRacyChange(t *testing.T) {
	dir := t.TempDir()
	ctx := testCtx(t)
	rec, err := OpenRecorder(ctx, t.TempDir())
	require.NoError(t, err)
	defer rec.Close()
	for i := range 50 {
		put(t, dir, "a", fmt.Sprintf("%03d", i))
		_, changed, err := rec.Record(ctx, dir, "x")
		require.NoError(t, err)
		require.True(t, changed, i)
	}
}

func TestKeptHashes(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	age(t, dir)
	d := NewDir(dir, 0)
	one, err := d.Snapshot(testCtx(t))
	require.NoError(t, err)
	_, ok := one.FS().(HashFS).Hash("a")
	require.True(t, ok)
	two, err := d.Snapshot(testCtx(t))
	require.NoError(t, err)
	require.Same(t, one.fsys.root.find("a").lies, two.fsys.root.find("a").lies)
	require.True(t, statKey{mtime: 5}.racy(time.Unix(0, 6)))
	require.True(t, statKey{mtime: int64(time.Second)}.racy(time.Unix(2, 0)))
	require.False(t, statKey{mtime: int64(time.Second)}.racy(time.Unix(4, 0)))
}
