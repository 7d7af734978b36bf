package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// asCommit makes a directory a git repository of one commit.
func asCommit(t testing.TB, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=ada", "-c", "user.email=ada@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	give(t, dir)
}

// A plan without a cluster, from a commit and what a lab saved of its machines,
// knows what runs, what has ended and where: for the same commit there is nothing
// to do. G-6, X-1, X-12
func TestPlanFromASavedState(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	asCommit(t, repo)
	code, stdout, stderr := run(t, at, "lab", "--once", "--repo", repo, "--dir", "lab")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	offline := []string{"plan", "--repo", repo, "--base", "HEAD", "--observed", "lab/observed.json", "--detailed-exitcode"}
	code, stdout, stderr = run(t, at, offline...)
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "no changes")
	code, stdout, stderr = run(t, at, append(offline, "--ref", "HEAD")...)
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)

	// What is taken away is stopped, and nothing else; what has ended stays ended.
	require.NoError(t, os.Remove(filepath.Join(repo, "orgs/acme/workspaces/research/runs/browse.cue")))
	require.NoError(t, os.Remove(filepath.Join(repo, "orgs/acme/workspaces/research/runs/prepare.cue")))
	code, stdout, stderr = run(t, at, offline...)
	require.Equal(t, 2, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "0 to create, 0 to change, 2 to remove")
	require.Regexp(t, `gpu-01  StopWorker .*browse-0`, stdout)
	require.Regexp(t, `gpu-02  StopWorker .*browse-1`, stdout)
	require.NotContains(t, stdout, "StartWorker")
	require.NotRegexp(t, `StopWorker .*(prepare|train|api)`, stdout)
}
