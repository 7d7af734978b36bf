package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// edit replaces one text in a file of the repository by another.
func edit(t testing.TB, file, old, text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	write(t, file, strings.Replace(string(data), old, text, 1))
}

// held waits for a hold and gives its message.
func (r *running) held(kind schema.Kind, name string) (message string) {
	r.t.Helper()
	r.until("the change of "+name+" is held", func() bool {
		var plan struct{ Holds []schema.Hold }
		if !r.get("/v1/plan", &plan) {
			return false
		}
		for _, hold := range plan.Holds {
			if hold.Object.Kind == kind && hold.Object.Name == name {
				message = hold.Message
				return true
			}
		}
		return false
	})
	return message
}

// A machine that is still in use stays when its file is gone, and one whose
// address changes keeps its workers. G-9, X-12, X-28
func TestMachineStaysWithItsWorkers(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	r := start(t, at, repo)
	r.settled()
	machines := filepath.Join(repo, "orgs/acme/machines")
	agent, before := r.agent("gpu-01"), r.runs()

	require.NoError(t, os.Remove(filepath.Join(machines, "gpu-01.cue")))
	require.Contains(t, r.held(schema.KindMachine, "gpu-01"), "machine gpu-01 still has")
	edit(t, filepath.Join(machines, "gpu-02.cue"), "192.0.2.12", "192.0.2.112")
	r.until("gpu-02 is up with its new address", func() bool {
		var page struct {
			Items []struct {
				Metadata struct{ Name string }
				State    schema.MachineState
				Address  string
			}
		}
		if !r.get("/v1/machines", &page) {
			return false
		}
		for _, m := range page.Items {
			if m.Metadata.Name == "gpu-02" {
				return m.Address == "192.0.2.112" && m.State == schema.MachineUp
			}
		}
		return false
	})
	require.Equal(t, agent, r.agent("gpu-01"), "it goes on as long as it is not let go")
	after := r.runs()
	for _, name := range []string{"browse", "api-0", "api-1"} {
		require.Equal(t, before[name].Status.Attempt, after[name].Status.Attempt, name)
		require.Equal(t, "Running", after[name].Status.Phase, name)
	}

	// One that nobody uses goes.
	require.NoError(t, os.Remove(filepath.Join(machines, "gpu-04.cue")))
	r.until("the machine is down", func() bool { return r.agent("gpu-04") == 0 })
}

// The disk of a former data location is there after a restart too: its copies
// are still used there. D-32
func TestFormerDataLocationSurvivesARestart(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	t.Run("before", func(t *testing.T) {
		r := start(t, at, repo)
		r.settled()
		edit(t, filepath.Join(repo, "orgs/acme/machines/gpu-01.cue"), "/mnt/nvme0/astraeus", "/mnt/nvme1/astraeus")
		r.until("the new disk is there", func() bool {
			_, err := os.Stat(filepath.Join(r.dir, "machines/gpu-01/disks/mnt/nvme1"))
			return err == nil
		})
	})
	r := start(t, at, repo)
	r.settled()
	require.NoDirExists(t, filepath.Join(r.dir, "machines/gpu-01/disks/mnt/nvme1/astraeus/drives/ws-834e0c3f1f0b.models"))
}

// A link that a worker makes where the lab makes directories for a grant leads
// nowhere, and keeps no machine from coming up. X-16, D-21
func TestWorkersLinkKeepsNoMachineDown(t *testing.T) {
	needsNamespaces(t)
	at := home(t)
	repo := example(t, at)
	outside := filepath.Join(at, "outside")
	require.NoError(t, os.Mkdir(outside, 0o755))
	give(t, outside)
	acme := filepath.Join(repo, "orgs/acme")
	write(t, filepath.Join(acme, "workspaces/research/runs/link.cue"),
		fmt.Sprintf(oneShot, "link", "ln -sfn "+outside+" /checkpoints/out", "lustre-ckpt"))
	t.Run("before", func(t *testing.T) {
		r := start(t, at, repo)
		r.settled()
		r.until("the link is there", func() bool { return r.phase("link") == "Succeeded" })
		write(t, filepath.Join(acme, "grants/out.cue"), `kind: "HostPathGrant"
metadata: name: "out"
spec: {workspace: "research", paths: ["/lustre/research/checkpoints/out/made"]}
`)
		r.until("the lab says that it cannot make it", func() bool {
			log, _ := os.ReadFile(filepath.Join(r.dir, "room.log"))
			return strings.Contains(string(log), "checkpoints/out: not a directory")
		})
	})
	r := start(t, at, repo)
	r.settled()
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}
