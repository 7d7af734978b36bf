package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const approveText = "kind: \"Cluster\"\nmetadata: name: \"lab\"\nspec: sync: \"approve\"\n"

func headOf(t *testing.T, repo string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", repo, "rev-parse", "HEAD").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// X-25, G-7: with serve running in approve mode a commit waits until approve, or
// apply, lets it through over the link's socket; it outlives the controller.
func TestApprove(t *testing.T) {
	repo, state := repositoryOf(t, map[string]string{"cluster.cue": approveText, "orgs/acme/org.cue": orgText}), stateDirOf(t)
	code, _, errs := finish(t, "approve", "0123456", "--state", state)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "no controller listens at")
	code, _, errs = finish(t, "approve", "--state", state)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "give one commit")

	s := serve(t, "--repo", repo, "--state", state)
	s.ready(t)
	machines := func() string {
		_, out, _ := finish(t, "get", "machines", "-o", "name", "--server", s.url)
		return out
	}
	write(t, repo, "orgs/acme/machines/gpu-01.cue", machineText)
	commitAll(t, repo)
	first := headOf(t, repo)
	code, _, errs = finish(t, "sync", "--state", state)
	require.Equal(t, 0, code, errs)
	code, _, errs = finish(t, "approve", "0123456", "--state", state)
	require.Equal(t, 1, code)
	require.Contains(t, errs, `the controller: commit "0123456" does not wait for approval`)
	require.Empty(t, machines())
	require.Eventually(t, func() bool {
		code, _, errs = finish(t, "approve", first[:8], "--state", state)
		return code == 0
	}, 20*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return machines() == "machine/gpu-01\n" }, 20*time.Second, 5*time.Millisecond)

	// apply does the same for the checked-out commit.
	write(t, repo, "orgs/acme/machines/gpu-02.cue", strings.Replace(machineText, "gpu-01", "gpu-02", 1))
	commitAll(t, repo)
	require.Eventually(t, func() bool {
		code, _, errs = finish(t, "apply", "--repo", repo, "--state", state)
		return code == 0
	}, 20*time.Second, 5*time.Millisecond, "%s", errs)
	require.Eventually(t, func() bool { return machines() == "machine/gpu-01\nmachine/gpu-02\n" }, 20*time.Second, 5*time.Millisecond)
	// G-11: who approved what, who wrote what, and what became of the commit.
	code, out, errs := finish(t, "history", "cluster/lab", "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Regexp(t, `Approved +- +`+first[:12]+` .*commit `+first+` was approved; by \w+`, out)
	code, out, errs = finish(t, "history", "machine/gpu-01", "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Regexp(t, `Accepted +1 +`+first[:12]+` .*unverified author ada <ada@example.org>: change`, out)
	code, out, errs = finish(t, "explain", "machine/gpu-01", "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, first+"; unverified author ada <ada@example.org>; change")
	code, out, errs = finish(t, "explain", first, "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Regexp(t, `(?m)^State: +ok$`, out)
	require.Regexp(t, `(?m)^ok +machine +gpu-01 +orgs/acme/machines/gpu-01.cue`, out)
	code, out, errs = finish(t, "wait", "machine/gpu-01", "--for", "Accepted", "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Equal(t, "machine/gpu-01 is Accepted\n", out)

	// Of several commits that come at once, each object is told by the one that touched it.
	write(t, repo, "orgs/acme/machines/gpu-03.cue", strings.Replace(machineText, "gpu-01", "gpu-03", 1))
	commitAll(t, repo)
	third := headOf(t, repo)
	git(t, repo, "-c", "user.name=eve", "commit", "-q", "--allow-empty", "-m", "something else")
	require.Eventually(t, func() bool {
		code, _, errs = finish(t, "approve", headOf(t, repo), "--state", state)
		return code == 0
	}, 20*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return strings.HasSuffix(machines(), "machine/gpu-03\n") }, 20*time.Second, 5*time.Millisecond)
	code, out, errs = finish(t, "history", "machine/gpu-03", "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Regexp(t, `Accepted +1 +`+third[:12]+` .*unverified author ada <ada@example.org>: change`, out)

	code, log := s.stop(t, syscall.SIGTERM)
	require.Equal(t, 0, code, log)
	require.Contains(t, log, "a commit was approved")
}
