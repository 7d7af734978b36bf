package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What workers write may lie on the way to what the lab makes: no link is
// followed. D-21, X-16
func TestNoLinkIsFollowed(t *testing.T) {
	outside, shared, root := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, makeIn(root, "/scratch/a/b"))
	require.DirExists(t, filepath.Join(root, "scratch/a/b"))
	for _, in := range []string{shared, root} {
		require.NoError(t, makeIn(in, "/lustre"))
		require.NoError(t, os.Symlink(outside, filepath.Join(in, "lustre/out")))
		require.NoError(t, os.Symlink("../scratch", filepath.Join(in, "lustre/in")))
	}
	for _, path := range []string{"/lustre/out", "/lustre/out/made", "/lustre/in", "/lustre/in/made"} {
		require.Error(t, makeIn(root, path), path)
		require.Error(t, bind(shared, root, path), path)
	}
	require.NoError(t, makeIn(root, "/lustre/../../x"))
	require.DirExists(t, filepath.Join(root, "x"))
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}
