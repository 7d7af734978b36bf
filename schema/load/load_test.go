package load

import (
	"context"
	"io/fs"
	"os"
	"testing"
	"time"

	"astraeus.io/astraeus/schema"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	MaybeChild()
	goleak.VerifyTestMain(m)
}

func loadFS(t testing.TB, fsys fs.FS) *schema.Desired {
	t.Helper()
	// A busy machine must not make a short evaluation look endless.
	return loadWith(t, fsys, Options{EvalTimeout: 30 * time.Second})
}

func loadWith(t testing.TB, fsys fs.FS, opt Options) *schema.Desired {
	t.Helper()
	l := New(opt)
	defer l.Close()
	d, err := l.Load(context.Background(), fsys, Commit{})
	require.NoError(t, err)
	return d
}

// The example repository loads without a word. G-1
func TestExamples(t *testing.T) {
	repo := os.DirFS("../../examples/repo")
	files := 0
	require.NoError(t, fs.WalkDir(repo, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && isFile(name) {
			files++
		}
		return err
	}))
	d := loadFS(t, repo)
	require.Empty(t, d.Diagnostics)
	require.Len(t, d.Objects, files, "one object a file")
	require.Empty(t, d.NotWhole)
}
