package load

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What a loader says after any series of edits is what a new one says of the same
// tree, whatever the order of directories and the number of readers. G-4
func TestReloadIsLoad(t *testing.T) {
	_, corpusFiles := corpus(t)
	var names []string
	for name, text := range corpusFiles {
		if !strings.Contains(text, "for a in _l") && len(text) < 4000 && !strings.ContainsAny(name, "\n\r") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	l := New(Options{EvalTimeout: 30 * time.Second, Parallel: 1})
	defer l.Close()
	fresh := New(Options{EvalTimeout: 30 * time.Second, Parallel: 4})
	defer fresh.Close()
	fsys := fstest.MapFS{}
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			name := rapid.SampledFrom(names).Draw(t, "file")
			_, file, ok := strings.Cut(name, ".txtar/")
			if !ok {
				_, file, _ = strings.Cut(name, "examples/repo/")
			}
			if rapid.Bool().Draw(t, "elsewhere") {
				file = path.Join(lab+"runs", path.Base(file))
			}
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				delete(fsys, file)
				continue
			}
			fsys[file] = &fstest.MapFile{Data: []byte(corpusFiles[name])}
		}
		cached, err := l.Load(context.Background(), fsys, Commit{})
		require.NoError(t, err)
		clear(fresh.files)
		clear(fresh.units)
		cold, err := fresh.Load(context.Background(), shuffledFS{fsys}, Commit{})
		require.NoError(t, err)
		require.Equal(t, describe(cold), describe(cached))
		for key := range cached.Objects {
			require.NotContains(t, cached.Invalid, key)
		}
	})
}
