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
	d := loadFS(t, os.DirFS("../../examples/repo"))
	require.Empty(t, d.Diagnostics)
	require.Len(t, d.Objects, 20)
	require.Empty(t, d.NotWhole)
}
