package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// --once ends with 0 only when all is as declared: a run that failed for good and
// one that no machine can take are said in the last line, with why. X-37
func TestOnceSaysWhatIsNotReached(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	runs := filepath.Join(repo, "orgs/acme/workspaces/research/runs")
	write(t, filepath.Join(runs, "fails.cue"), `kind: "Run"
metadata: {name: "fails", owner: "grace"}
spec: {
	restart_policy: "Never"
	task_template: {
		command: "/bin/sh"
		args: ["-ec", "echo about to fail; exit 3"]
		requested_resources: {cpu_cores: 1, memory_bytes: 1048576}
	}
}
`)
	write(t, filepath.Join(runs, "large.cue"), `kind: "Run"
metadata: {name: "large", owner: "grace"}
spec: task_template: {command: "/bin/true", requested_resources: {cpu_cores: 1, gpu_requests: count: 99}}
`)
	code, stdout, stderr := run(t, at, "lab", "--once", "--repo", repo, "--dir", "lab")
	require.Equal(t, 5, code, "%s\n%s", stdout, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	last := lines[len(lines)-1]
	require.Contains(t, last, "Not reached: run acme/research/fails has failed: fails-0 ended with exit code 3")
	require.Contains(t, last, "waits: run acme/research/large: ")
	require.Contains(t, stdout, "fails-0 | about to fail")
	require.Regexp(t, `  … run acme/research/large: .*GPUs`, stderr)
	require.Equal(t, 1, strings.Count(stdout, "\nWorkers\n"))
	require.NotContains(t, stderr, "waiting to start", "steps that are being done are no news")
}

// What a lab that follows its files shows: each thing once, in the order in which
// it happened, and when a file that was invalid is mended. X-38, G-4
func TestFollowingShowsEachThingOnce(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	r := start(t, at, repo)
	r.until("the tables are shown", func() bool { return strings.Contains(r.stdout.String(), "\nReached: ") })
	out, text := r.stdout.String(), r.text()
	require.Equal(t, 1, strings.Count(out, "\nWorkers\n"), out)
	require.Equal(t, 1, strings.Count(out, "prepare-0 | prepare: wrote 8 samples on gpu-01"), out)
	require.NotContains(t, text, "20 of 20 steps")
	running, ended := strings.Index(text, "prepare-0 is Running"), strings.Index(text, "run prepare has succeeded")
	if running < 0 {
		running = strings.Index(text, "prepare-0 ran on")
	}
	require.True(t, 0 < running && running < ended, text)

	runs := filepath.Join(repo, "orgs/acme/workspaces/research/runs")
	broken := filepath.Join(runs, "broken.cue")
	write(t, broken, "kind: \"Run\"\nmetadata: name: \"broken\"\nspec: task_templat: {}\n")
	r.until("the last line says that the files have errors", func() bool {
		return strings.Contains(r.stdout.String(), "Not reached: 1 file has errors: orgs/acme/workspaces/research/runs/broken.cue.")
	})
	require.NoError(t, os.Remove(broken))
	r.until("it is mended", func() bool { return strings.Contains(r.text(), "the files have no errors any more") })
	require.Equal(t, 1, strings.Count(r.stdout.String(), "\nWorkers\n"), "the tables say the same: "+r.stdout.String())
	r.until("it is reached again", func() bool { return strings.Count(r.stdout.String(), "\nReached: nothing was to be done.") == 1 })

	code, stdout, stderr := run(t, at, "logs", "--dir", r.dir, "acme/research/train")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "train-trainer-1 | train: rank 2 of 3 on gpu-02")
	code, stdout, stderr = run(t, at, "logs", "--dir", r.dir, "prepare-0")
	require.Equal(t, 0, code, stderr)
	require.Equal(t, "prepare: wrote 8 samples on gpu-01\n", stdout)
	code, _, stderr = run(t, at, "logs", "--dir", r.dir, "nobody")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no run or worker \"nobody\" has a place")

	// A new machine comes up; it is not said to be away first.
	write(t, filepath.Join(repo, "orgs/acme/machines/gpu-09.cue"), fmt.Sprintf("kind: %q\nmetadata: name: %q\nspec: {address: %q, engine: %q}\n",
		"Machine", "gpu-09", "192.0.2.19", "process"))
	r.until("the new machine is up", func() bool { return strings.Contains(r.text(), "machine gpu-09 is Up") })
	require.NotContains(t, r.text(), "machine gpu-09 is Down")
}
