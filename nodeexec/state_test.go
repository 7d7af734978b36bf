package nodeexec

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

func TestOneAgentAStateDirectory(t *testing.T) {
	r := newRig(t)
	a, err := New(r.cfg)
	require.NoError(t, err)
	_, err = New(r.cfg)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, a.Close())
	a, err = New(r.cfg)
	require.NoError(t, err)
	require.NoError(t, a.Close())
}

func TestDamagedStateIsAnErrorAndIsKept(t *testing.T) { // X-7, style.md
	for name, body := range map[string]string{
		"corrupt":       `{"version":1,"data":{`,
		"newer":         `{"version":2,"data":{"anything":true}}`,
		"unknown field": `{"version":1,"data":[{"surprise":1}]}`,
		"empty":         ``,
	} {
		for _, file := range []string{clusterFile, assignmentFile, failuresFile, usesFile, placesFile, evictionsFile} {
			t.Run(name+" "+file, func(t *testing.T) {
				r := newRig(t)
				path := filepath.Join(r.cfg.StateDir, file)
				require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
				_, err := New(r.cfg)
				require.ErrorIs(t, err, ErrState)
				require.ErrorContains(t, err, file)
				kept, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, body, string(kept))
				require.NoError(t, os.Remove(path)) // the lock was given back
				a, err := New(r.cfg)
				require.NoError(t, err)
				require.NoError(t, a.Close())
			})
		}
	}
}

func TestFilesOfVersionOneAreRead(t *testing.T) { // style.md: a corpus of old files
	r := newRig(t)
	require.NoError(t, os.CopyFS(r.cfg.StateDir, os.DirFS("testdata/state-v1")))
	a, err := New(r.cfg)
	require.NoError(t, err)
	defer a.Close()
	require.Equal(t, "cluster-1", a.clusterUID())
	require.Equal(t, int64(3), a.target.Load().Revision)
	require.Len(t, a.failures.reported(), 1)
	require.Len(t, a.uses.all(), 1)
	require.Equal(t, "fs-data", a.places.expected(dirObject("u-set", 0)))
	require.Equal(t, map[string]bool{"fs-data": true}, a.evicted.goesOn())
	require.Len(t, a.evicted.lately(), 1)
}

func TestOlderAndForeignAssignmentsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.assign(func(a *schema.Assignment) { a.Revision, a.Epoch = 10, 2 })
		for _, old := range []schema.Assignment{{Epoch: 2, Revision: 9}, {Epoch: 1, Revision: 99}} {
			older := r.base
			older.Epoch, older.Revision, older.DataLocations = old.Epoch, old.Revision, nil
			r.send(older)
			require.Equal(t, int64(10), r.a.target.Load().Revision)
		}
		for _, change := range []func(*schema.Assignment){
			func(a *schema.Assignment) { a.ClusterUID = "cluster-2" },
			func(a *schema.Assignment) { a.ClusterUID = "" },
			func(a *schema.Assignment) { a.Machine = "gpu-02" },
			func(a *schema.Assignment) { a.Version = 2 },
		} {
			foreign := r.base
			foreign.Revision = 11
			change(&foreign)
			require.Error(t, r.a.take(&schema.Down{Assignment: &foreign}))
		}
		r.stop()

		r.start() // what was pinned stays pinned
		require.Equal(t, int64(10), r.a.target.Load().Revision)
		foreign := r.base
		foreign.Revision, foreign.ClusterUID = 11, "cluster-2"
		require.ErrorIs(t, r.a.take(&schema.Down{Assignment: &foreign}), errForeign)
		r.assign(func(a *schema.Assignment) { a.Revision, a.Epoch = 1, 3 }) // a new epoch
		require.Equal(t, int64(3), r.a.target.Load().Epoch)
		r.stop()
	})
}

func TestBlobsAreVerified(t *testing.T) {
	r := newRig(t)
	a, err := New(r.cfg)
	require.NoError(t, err)
	defer a.Close()
	require.ErrorContains(t, a.take(&schema.Down{Blobs: map[string][]byte{"0123": []byte("x")}}), "does not have that hash")
	require.Error(t, a.take(&schema.Down{Blobs: map[string][]byte{"../../evil": []byte("x")}}))
	hash := r.blob("hello")
	require.NoError(t, a.take(&schema.Down{Blobs: r.blobs}))
	require.Equal(t, []string{hash}, a.blobs.keep(map[string]bool{hash: true}))
	path := filepath.Join(r.cfg.StateDir, blobsDir, hash)
	require.NoError(t, os.WriteFile(path, []byte("rot"), 0o600))
	a.blobs.mem = map[string][]byte{}
	require.Empty(t, a.blobs.keep(map[string]bool{hash: true})) // so that it is sent again
	require.NoFileExists(t, path)
}

func TestMissingTemplateWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		hash := r.blob(schema.TaskTemplate{Command: "true"})
		blobs := r.blobs
		r.blobs = nil
		r.assign(func(a *schema.Assignment) {
			a.Workers = []schema.WorkerTarget{workerTarget(hash)}
			a.Steps = []schema.Step{step(schema.ActionStartWorker, train, workerArgs)}
		})
		synctest.Wait()
		require.Equal(t, CodeNoBlob, r.failure(schema.ActionStartWorker).Code)
		require.NoError(t, r.a.take(&schema.Down{Blobs: blobs}))
		after(2 * time.Second)
		require.Equal(t, 1, r.w.count("Start train-0"))
	})
}

// TestAwayFromTheController: after a reboot without a controller a machine
// restores what it exports and mounts and starts no worker.
func TestAwayFromTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.w.state.Copies["u-gone"] = &schema.Copy{Drive: ns + ".gone", UID: "u-gone", State: schema.CopyPresent}
		r.w.fail["CreateCopy u-cache"] = os.ErrPermission
		r.w.fail["DeleteCopy u-gone"] = os.ErrPermission
		r.start()
		r.assign(func(a *schema.Assignment) {
			r.upSteps(a)
			a.Drives = map[string]string{ns: r.blob(schema.DriveList{Namespace: ns})}
			a.Exports = []schema.ExportTarget{{Drive: imagenet, UID: "u-set", Path: "/data/set", Grant: "/data", Client: "gpu-03",
				Addresses: []string{"192.0.2.3"}, Mode: schema.ReadOnly}}
			a.Mounts = []schema.MountTarget{{Drive: imagenet, UID: "u-net", From: "gpu-02", Mode: schema.ReadOnly}}
			a.Steps = append(a.Steps, step(schema.ActionDeleteCopy, named("gone"), schema.StepArgs{UID: "u-gone"}))
		})
		synctest.Wait()
		require.Empty(t, r.w.log())
		r.stop()

		r.w.fail = map[string]error{}
		r.start()
		after(10 * time.Minute)
		require.ElementsMatch(t, []string{"Export u-set gpu-03", "Mount u-net"}, r.w.log())

		r.send(r.base) // the controller is back and says the same
		synctest.Wait()
		require.Equal(t, 1, r.w.count("Start train-0"))
		require.Equal(t, 1, r.w.count("DeleteCopy u-gone"))
		r.stop()
	})
}

func TestAdoptsRunningWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		r.assign(r.upSteps)
		synctest.Wait()
		r.stop()
		for _, file := range []string{assignmentFile, usesFile, failuresFile} { // no memory at all
			_ = os.Remove(filepath.Join(r.cfg.StateDir, file))
		}
		r.start()
		synctest.Wait()
		w := r.report().Workers
		require.Len(t, w, 1)
		require.Equal(t, "train-0", w[0].Name)
		require.Equal(t, []schema.Use{{UID: "u-cache", Mode: schema.ReadWrite}}, w[0].Uses)
		r.assign(r.upSteps)
		synctest.Wait()
		require.Equal(t, 1, r.w.count("Start train-0"))
		r.stop()
	})
}

// A machine whose stream stays open for months does not collect what assignments
// named once.
func TestContentThatNothingNamesGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		for i := range 5 {
			r.assign(func(a *schema.Assignment) {
				r.blobs = map[string][]byte{}
				a.Drives = map[string]string{ns: r.blob(schema.DriveList{Namespace: ns, Drives: []schema.ListedDrive{{UID: fmt.Sprint(i)}}})}
			})
			synctest.Wait()
			require.NotNil(t, r.a.driveList(r.a.target.Load(), ns))
		}
		kept, err := os.ReadDir(filepath.Join(r.cfg.StateDir, blobsDir))
		require.NoError(t, err)
		require.Len(t, kept, 2, "the newest and the one before, which a pass may be at")
		require.Len(t, r.a.blobs.mem, 2)
	})
}

// An engine's reboot is what the controller takes for one: X-12.
func TestRebootIsReportedAsOne(t *testing.T) {
	state, reason := stateOf(runtime.Status{State: runtime.Exited, Reason: runtime.ReasonRebooted})
	require.Equal(t, schema.WorkerFailed, state)
	require.Equal(t, schema.RebootedReason, reason)
}
