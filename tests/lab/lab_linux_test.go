package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// The README's first command, as an ordinary user: from files to directories,
// mounts and workers that saw their drives, also over a claim.
// G-1, D-2, D-3, D-4, D-5, D-41, D-80, N-8
func TestOnce(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	code, stdout, stderr := run(t, at, "lab", "--once", "--repo", repo, "--dir", "lab")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	for _, want := range []string{
		"29 to create, 0 to change, 0 to remove",
		"evaluate-0 | evaluate: wrote its result on gpu-02",
		"Mount  drive acme/research/imagenet  from gpu-01 over Lab",
		"prepare-0 | prepare: wrote 8 samples on gpu-01",
		"train-coordinator-0 | train: both trainers read the same dataset:",
		"train-trainer-0 | train: rank 1 of 3 on gpu-01 read /data, wrote its cache, scratch and checkpoint",
		"train-trainer-1 | train: rank 2 of 3 on gpu-02 read /data, wrote its cache, scratch and checkpoint",
		"browse-1 | browse: browse-1 shows 8 samples on gpu-02",
		"lookup-0 | lookup: samples has 2 addresses",
		"import-0 | import: ",
		"Reached: ",
	} {
		require.Contains(t, stdout, want)
	}
	require.Regexp(t, `imagenet\s+0\s+gpu-01\s+gpu-02\s+Bound\s+Lab\s+ReadOnly`, stdout)

	// The bytes are where each kind of drive keeps them.
	root := func(machine, path string) string { return filepath.Join(at, "lab/machines", machine, "root", path) }
	require.FileExists(t, root("gpu-01", "/mnt/datasets/imagenet/CKSUM"))
	require.NoFileExists(t, root("gpu-01", "/mnt/datasets/imagenet/written"))
	require.FileExists(t, filepath.Join(at, "lab/shared/lustre/research/checkpoints/train/DONE"))
	require.FileExists(t, root("gpu-02", "/scratch/astraeus/spill-2"))
	require.FileExists(t, root("gpu-02", "/opt/model-cache/weights"))
	require.FileExists(t, filepath.Join(at, "lab/shared/data/results/evaluate"))
	for _, machine := range []string{"gpu-01", "gpu-02"} {
		copyOf := filepath.Join(at, "lab/machines", machine, "disks/mnt/nvme0/astraeus/drives/ws-6bc9e04463e6.hf-cache")
		require.FileExists(t, filepath.Join(copyOf, "weights"))
		require.FileExists(t, filepath.Join(filepath.Dir(copyOf), ".astraeus/ws-6bc9e04463e6.hf-cache.json"))
	}
	r := &running{t: t, dir: filepath.Join(at, "lab")}
	r.noLeftovers()

	// A second lab on the same directory knows what is done: ended runs stay ended.
	code, stdout, stderr = run(t, at, "lab", "--once", "--repo", repo, "--dir", "lab")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "0 to create, 0 to change, 0 to remove")
	require.NotContains(t, stdout, "prepare-0  (placed here)")

	var observed schema.Observed
	data, err := os.ReadFile(filepath.Join(at, "lab/observed.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &observed))
	require.Len(t, observed.Machines, 4)
}

// A second plan says that nothing is to be done: exit 0 (G-6, X-37). The reading
// commands see what is there (D-90, D-92).
func TestPlanAgainIsEmpty(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	r := start(t, at, repo)
	r.settled()
	code, stdout, stderr := run(t, at, "plan", "--repo", repo, "--server", r.address, "--detailed-exitcode")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stdout, "no changes")

	code, stdout, stderr = run(t, at, "get", "drives", "--server", r.address)
	require.Equal(t, 0, code, stderr)
	require.Regexp(t, `acme/research\s+imagenet\s+Available\s+gpu-01`, stdout)
	code, stdout, stderr = run(t, at, "describe", "run/browse", "--server", r.address, "-o", "json")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, `"Running"`)
	code, stdout, stderr = run(t, at, "status", "--server", r.address)
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
}

const oneShot = `kind: "Run"
metadata: {name: %q, owner: "grace"}
spec: task_template: {
	command: "/bin/sh"
	args: ["-ec", %q]
	requested_resources: {cpu_cores: 1, memory_bytes: 1048576}
	datavolume_refs: [{name: %q}]
}
`

// The lab follows edits: what is added runs, what is invalid is held alone, a
// drive in use stays, and a removed one loses its copies and nothing else.
// G-4, G-5, G-8, G-9, D-9, D-60, D-61, X-3, X-10
func TestFollowsEdits(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	r := start(t, at, repo)
	r.settled()
	workspace := filepath.Join(repo, "orgs/acme/workspaces/research")
	drive, run1 := filepath.Join(workspace, "drives/notes.cue"), filepath.Join(workspace, "runs/write.cue")
	write(t, drive, `kind: "Drive"
metadata: name: "notes"
spec: sources: [{node_scope: "placed", path: "", mount_path: "/notes", mode: "ReadWrite"}]
`)
	write(t, run1, fmt.Sprintf(oneShot, "write", "echo hello > /notes/hello; while :; do sleep 1; done", "notes"))
	r.until("the new run is running", func() bool { return r.phase("write") == "Running" })
	machine := r.runs()["write"].Status.Workers[0].Machine
	copyOf := filepath.Join(r.dir, "machines", machine, "disks/mnt/nvme0/astraeus/drives/ws-6bc9e04463e6.notes")
	r.until("its file is in the copy", func() bool { _, err := os.Stat(filepath.Join(copyOf, "hello")); return err == nil })

	// An invalid file holds itself back and freezes deletions; others still come in.
	broken := filepath.Join(workspace, "runs/broken.cue")
	write(t, broken, "kind: \"Run\"\nmetadata: name: \"broken\"\nspec: task_templat: {}\n")
	r.until("the problem is told with its place", func() bool {
		return strings.Contains(r.text(), "runs/broken.cue:3:7") && strings.Contains(r.text(), "task_template")
	})
	require.NoError(t, os.Remove(drive))
	require.NoError(t, os.Remove(run1))
	other := filepath.Join(workspace, "runs/other.cue")
	write(t, other, fmt.Sprintf(oneShot, "other", "echo other > /scratch/other", "scratch"))
	r.until("another new run gets through", func() bool { return r.phase("other") == "Succeeded" })
	require.Equal(t, "Running", r.phase("write"), "nothing is deleted while a file of the workspace is invalid")

	// Whole again, with the drive's file gone and its user still declared: in use.
	write(t, run1, fmt.Sprintf(oneShot, "write", "echo hello > /notes/hello; while :; do sleep 1; done", "notes"))
	require.NoError(t, os.Remove(broken))
	r.until("the deletion is held", func() bool {
		var plan struct{ Holds []schema.Hold }
		if !r.get("/v1/plan", &plan) {
			return false
		}
		for _, hold := range plan.Holds {
			if hold.Message == "drive notes is used by 1 live worker(s)" && hold.Code == schema.CodeDatavolumeInUse {
				return true
			}
		}
		return false
	})
	require.FileExists(t, filepath.Join(copyOf, "hello"))

	// Without its user the drive goes, and its copy; no other drive is touched.
	require.NoError(t, os.Remove(run1))
	r.until("the copy is gone", func() bool { _, err := os.Stat(copyOf); return os.IsNotExist(err) })
	require.FileExists(t, r.host("gpu-01", "/mnt/datasets/imagenet/CKSUM"))
	require.FileExists(t, filepath.Join(r.dir, "shared/lustre/research/checkpoints/train/DONE"))
	require.FileExists(t, r.host(r.runs()["other"].Status.Workers[0].Machine, "/scratch/astraeus/other"))
	hfCache := filepath.Join(r.dir, "machines/gpu-02/disks/mnt/nvme0/astraeus/drives/ws-6bc9e04463e6.hf-cache/weights")
	require.FileExists(t, hfCache)
}

// An agent that is killed is started again, adopts its workers and goes on.
// G-8
func TestKilledAgentAdoptsItsWorkers(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	r := start(t, at, repo)
	r.settled()
	workers := func() (list []string) {
		for _, args := range processes(t, r.dir) {
			if strings.Contains(args, "worker-shim") {
				list = append(list, args)
			}
		}
		return sorted(list)
	}
	before := r.runs()["browse"].Status.Attempt
	shims := workers()
	require.NotEmpty(t, shims)
	agent := r.agent("gpu-02")
	require.NotZero(t, agent)
	require.NoError(t, syscall.Kill(agent, syscall.SIGKILL))
	r.until("another agent is there", func() bool { now := r.agent("gpu-02"); return now != 0 && now != agent })
	// It works: a new run for this machine starts.
	write(t, filepath.Join(repo, "orgs/acme/workspaces/research/drives/second.cue"), `kind: "Drive"
metadata: name: "second"
spec: {
	sources: [{node: "gpu-02", path: "/mnt/datasets/second", mount_path: "/second", mode: "ReadWrite"}]
	transport: "Local"
	permissions: create: true
}
`)
	write(t, filepath.Join(repo, "orgs/acme/workspaces/research/runs/after.cue"), fmt.Sprintf(oneShot, "after", "echo x > /second/x", "second"))
	r.until("a run starts on it", func() bool { return r.phase("after") == "Succeeded" })
	require.FileExists(t, r.host("gpu-02", "/mnt/datasets/second/x"))
	require.Equal(t, before, r.runs()["browse"].Status.Attempt, "its workers went on")
	require.Equal(t, shims, workers())
}

// What a person sees who has no right to namespaces, before anything starts.
func TestForbiddenNamespacesAreExplained(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	// The limit is set in a user namespace of its own: the machine keeps its own.
	script := "echo 0 > /proc/sys/user/max_user_namespaces && exec " + program + " lab --once --repo " + repo + " --dir lab"
	cmd := ordinary(exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "sh", "-c", script))
	cmd.Dir = at
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "needs a user, mount and network namespace")
	require.Contains(t, string(out), "sysctl user.max_user_namespaces")
	require.NoDirExists(t, filepath.Join(at, "lab"))
}

// What cannot work is said before anything starts: exit 1, nothing made.
func TestLabRefusals(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	code, _, stderr := run(t, at, "lab", "--once", "--repo", "nothing-here", "--dir", "lab")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "is not a directory")
	code, _, stderr = run(t, at, "lab", "--once", "--repo", repo, "--dir", filepath.Join(repo, "lab"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "give --dir elsewhere")
	require.NoError(t, os.Symlink(repo, filepath.Join(at, "link"))) // leads there too
	code, _, stderr = run(t, at, "lab", "--once", "--repo", repo, "--dir", "link/lab")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "give --dir elsewhere")
	r := start(t, at, repo)
	code, _, stderr = run(t, at, "lab", "--once", "--repo", repo, "--dir", r.dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "another lab is using this directory")
}

// A run that cannot be placed keeps --once waiting, which says why and exits 6.
func TestTimeoutSaysWhatIsMissing(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	write(t, filepath.Join(repo, "orgs/acme/workspaces/research/runs/late.cue"),
		fmt.Sprintf(oneShot, "late", "until [ -f /scratch/never ]; do sleep 1; done", "scratch"))
	code, stdout, stderr := run(t, at, "lab", "--once", "--timeout", "8s", "--repo", repo, "--dir", "lab")
	require.Equal(t, 6, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stderr, "not reached in time")
}

// Inside a repository the lab keeps out of it, says where it is, and is found by
// the commands that are given there. X-38
func TestLabInItsRepository(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	r := startIn(t, repo, at, "lab")
	require.Contains(t, r.dir, filepath.Join(at, ".local/state/astraeus/labs/repo-"))
	r.settled()
	code, stdout, stderr := runIn(t, filepath.Join(repo, "orgs"), at, "get", "drives")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "imagenet")
	code, stdout, stderr = runIn(t, repo, at, "plan", "--detailed-exitcode")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stderr, "in force: commit ")
	require.Contains(t, stderr, r.dir+"/address")
	code, stdout, stderr = runIn(t, at, at, "plan", "--repo", repo, "--detailed-exitcode")
	require.Equal(t, 0, code, "%s\n%s", stdout, stderr)
	require.NoDirExists(t, filepath.Join(repo, ".lab"))
}
