package load

import (
	"context"
	"io/fs"
	"os"
	"testing"

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
	l := New(Options{})
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
