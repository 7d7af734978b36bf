package gitsource

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const benchFiles = 10_000

// benchRepo has 10,000 files in 50 workspaces.
func benchRepo(b testing.TB) *repo {
	r := newRepo(b)
	fill(b, r.dir)
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "all")
	return r
}

func fill(b testing.TB, dir string) {
	for i := range benchFiles {
		put(b, dir, benchPath(i), fmt.Sprintf("kind: \"Drive\"\nmetadata: name: \"d%d\"\n", i))
	}
}

func benchPath(i int) string {
	return fmt.Sprintf("orgs/o%d/workspaces/w%d/drives/d%d.cue", i%5, i%50, i)
}

func BenchmarkLocalFetchOneChange(b *testing.B) {
	r := benchRepo(b)
	s := r.open(Options{})
	fetch(b, s)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		r.commit(benchPath(i%benchFiles), fmt.Sprint(i, time.Now()))
		b.StartTimer()
		fetch(b, s)
	}
}

func BenchmarkLocalFetchOneChangeFlat(b *testing.B) { // all files in one directory: the worst tree
	r := newRepo(b)
	for i := range benchFiles {
		put(b, r.dir, fmt.Sprintf("drives/d%d.cue", i), fmt.Sprint(i))
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "all")
	s := r.open(Options{})
	fetch(b, s)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		r.commit(fmt.Sprintf("drives/d%d.cue", i%benchFiles), fmt.Sprint(i, time.Now()))
		b.StartTimer()
		fetch(b, s)
	}
}

func BenchmarkLocalFetchCold(b *testing.B) {
	r := benchRepo(b)
	for b.Loop() {
		s, err := Open(testCtx(b), Options{URL: r.dir})
		require.NoError(b, err)
		fetch(b, s)
		require.NoError(b, s.Close())
	}
}

func BenchmarkHTTPFetchOneChange(b *testing.B) {
	r := benchRepo(b)
	srv := serve(b, r)
	go func() {
		for range srv.seen { //nolint:revive // nobody counts here
		}
	}()
	b.Cleanup(func() { close(srv.seen) })
	s := openTest(b, Options{URL: srv.url("")})
	fetch(b, s)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		r.commit(benchPath(i%benchFiles), fmt.Sprint(i, time.Now()))
		b.StartTimer()
		fetch(b, s)
	}
}

func benchSnapshots(b *testing.B) (*Snapshot, *Snapshot) {
	r := benchRepo(b)
	s := r.open(Options{})
	one := fetch(b, s)
	r.commit(benchPath(77), "changed")
	return one, fetch(b, s)
}

func BenchmarkList(b *testing.B) {
	_, snap := benchSnapshots(b)
	for b.Loop() {
		n := 0
		err := fs.WalkDir(snap.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		})
		if err != nil || n != benchFiles {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkChanged(b *testing.B) {
	one, two := benchSnapshots(b)
	for b.Loop() {
		if got, err := Changed(one, two); err != nil || len(got) != 1 {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkReadAll(b *testing.B) {
	_, snap := benchSnapshots(b)
	for b.Loop() {
		for i := range benchFiles {
			if _, err := fs.ReadFile(snap.FS(), benchPath(i)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRecordFirst(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir)
	for b.Loop() {
		rec, err := OpenRecorder(testCtx(b), b.TempDir())
		require.NoError(b, err)
		_, _, err = rec.Record(testCtx(b), dir, "all")
		require.NoError(b, err)
		require.NoError(b, rec.Close())
	}
}

func benchRecord(b *testing.B, path func(int) string) {
	dir := b.TempDir()
	for i := range benchFiles {
		put(b, dir, path(i), fmt.Sprint(i))
	}
	rec, err := OpenRecorder(testCtx(b), filepath.Join(b.TempDir(), "r"))
	require.NoError(b, err)
	defer rec.Close()
	for range 2 { // the first hashes are of files too new to be trusted
		age(b, dir)
		_, _, err = rec.Record(testCtx(b), dir, "all")
		require.NoError(b, err)
	}
	for i := 0; b.Loop(); i++ {
		put(b, dir, path(i%benchFiles), fmt.Sprint(i, time.Now()))
		_, changed, err := rec.Record(testCtx(b), dir, "one")
		if err != nil || !changed {
			b.Fatal(changed, err)
		}
	}
}

func BenchmarkRecordOneChange(b *testing.B) { benchRecord(b, benchPath) }

func BenchmarkRecordOneChangeFlat(b *testing.B) {
	benchRecord(b, func(i int) string { return fmt.Sprintf("d%d.cue", i) })
}
