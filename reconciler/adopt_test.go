package reconciler

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// epochs is a repository of two machines whose store may be lost.
type epochs struct {
	t     *testing.T
	repo  *repository
	dir   string // of the store
	mark  string
	store *store.Store
	c     *controller
}

func newEpochs(t *testing.T) *epochs {
	e := &epochs{t: t, repo: newRepository(t), dir: filepath.Join(t.TempDir(), "store"), mark: filepath.Join(t.TempDir(), "mark")}
	t.Cleanup(func() { e.close() })
	return e
}

func twoMachines() map[string]string {
	files := smallCluster()
	files["orgs/acme/machines/m2.cue"] = `kind: "Machine", metadata: name: "m2", spec: {engine: "process", address: "192.0.2.2"}`
	files[workspace+"runs/train.cue"] = `kind: "Run", metadata: name: "train"
spec: {restart_policy: "Never", task_template: {image: "x", command: "/bin/true", requested_resources: machines: 2}}`
	return files
}

// open starts a controller; the error is that of the store.
func (e *epochs) open(newEpoch bool) error {
	e.t.Helper()
	s, err := store.Open(e.t.Context(), store.Options{Cluster: "test", Dir: e.dir, NoSync: true, NewEpoch: newEpoch, MarkFile: e.mark})
	if err != nil {
		return err
	}
	e.store = s
	loader := load.New(load.Options{})
	e.t.Cleanup(loader.Close)
	e.c = run(e.t, s, newSource(), "one", func(c *Config) {
		c.Source, c.Plan, c.Coalesce = Git(e.repo.source), planner.Plan, 0
		c.Load = func(ctx context.Context, files fs.FS, commit string, at time.Time) (*schema.Desired, error) {
			return loader.Load(ctx, files, load.Commit{ID: commit, Time: at})
		}
	})
	return nil
}

func (e *epochs) close() {
	if e.c != nil {
		e.c.stop()
		require.NoError(e.t, e.store.Close())
		e.c = nil
	}
}

// connect brings a machine that remembers what it was assigned.
func (e *epochs) connect(name string, was *machine) *machine {
	e.t.Helper()
	e.c.until("leading", func(s Status) bool { return s.Leading })
	return e.c.connectAgain(name, reported, was)
}

func (e *epochs) settled(head string) Status {
	e.t.Helper()
	return e.c.until("settled", func(s Status) bool { yes, _ := s.Converged(false); return yes && s.Head == head })
}

// X-4, G-12: after the store was wiped it starts only with a new epoch; nothing is
// told to a machine before both have reported; then runs, drives and their places are
// the same as before, and the plan is empty.
func TestX4WipedStoreAdopts(t *testing.T) {
	e := newEpochs(t)
	head := e.repo.commit(twoMachines())
	require.NoError(t, e.open(false))
	m1, m2 := e.connect("m1", nil), e.connect("m2", nil)
	before := e.settled(head)
	old, err := e.store.Load(t.Context())
	require.NoError(t, err)
	e.close()
	<-m1.ended
	<-m2.ended

	require.NoError(t, os.RemoveAll(e.dir))
	require.ErrorIs(t, e.open(false), store.ErrOlder)
	require.ErrorContains(t, e.open(false), "start with --new-epoch")
	for i, lost := range []bool{false, true} { // with the mark of the controller, and without
		t.Run(fmt.Sprint("mark lost ", lost), func(t *testing.T) {
			require.NoError(t, os.RemoveAll(e.dir))
			if lost {
				require.NoError(t, os.Remove(e.mark))
			}
			require.NoError(t, e.open(true))
			m1 = e.connect("m1", m1)
			s := e.c.until("m1 was heard", func(s Status) bool {
				return s.Adopting != nil && s.Adopting.Reported == 1
			})
			require.Equal(t, []string{"machine m2 has not reported yet"}, s.Adopting.Waits)
			require.Equal(t, 2, s.Adopting.Machines)
			_, why := s.Converged(false)
			require.Contains(t, why, "waits before anything is stopped or deleted: machine m2 has not reported yet")
			require.Empty(t, m1.got, "nothing is published")
			m2 = e.connect("m2", m2)
			after := e.settled(head)
			require.Empty(t, after.Plan.Steps)
			require.Empty(t, after.Plan.Holds)
			for _, name := range []string{"m1", "m2"} {
				require.Equal(t, before.Plan.Targets[name].Workers, after.Plan.Targets[name].Workers)
			}
			now, err := e.store.Load(t.Context())
			require.NoError(t, err)
			require.Equal(t, old.Meta.ClusterUID, now.Meta.ClusterUID)
			require.Equal(t, old.Meta.Epoch+1+int64(i), now.Meta.Epoch, "later than all that machines have seen")
			require.False(t, now.Meta.Adopting)
			for key, a := range old.Accepted.Objects {
				if key.Kind == schema.KindRun || key.Kind == schema.KindDrive {
					require.Equal(t, a.UID, now.Accepted.Objects[key].UID, key)
					require.Equal(t, a.Generation, now.Accepted.Objects[key].Generation, key)
				}
			}
			given := <-m1.got
			require.Equal(t, now.Meta.Epoch, given.Epoch)
			records, err := e.store.History(t.Context(), schema.Key{Kind: schema.KindCluster, Name: "test"})
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(records, func(r schema.Record) bool { return r.Type == schema.RecordNewEpoch }))
			e.close()
			<-m1.ended
			<-m2.ended
		})
	}
	require.NoError(t, e.open(false), "the epoch has begun: it goes on without the flag")
	e.c.until("a pass", func(s Status) bool { return s.Head == head && s.Commit == head && s.Adopting == nil })
}

// an operator begins the epoch without a machine.
func TestX4OperatorBeginsTheEpoch(t *testing.T) {
	e := newEpochs(t)
	head := e.repo.commit(twoMachines())
	require.NoError(t, e.open(false))
	m1, m2 := e.connect("m1", nil), e.connect("m2", nil)
	e.settled(head)
	_, _, _, err := e.c.Epoch(t.Context(), true, "ada")
	require.ErrorIs(t, err, ErrNoAdoption)
	e.close()
	<-m1.ended
	<-m2.ended
	require.NoError(t, os.RemoveAll(e.dir))
	require.NoError(t, e.open(true))
	e.connect("m1", m1)
	e.c.until("m1 was heard", func(s Status) bool { return s.Adopting != nil && s.Adopting.Reported == 1 })
	epoch, machines, missing, err := e.c.Epoch(t.Context(), false, "ada")
	require.NoError(t, err)
	require.Equal(t, int64(2), epoch)
	require.Equal(t, 2, machines)
	require.Equal(t, []string{"machine m2 has not reported yet"}, missing)
	_, err = e.c.Approve(t.Context(), head, "ada")
	require.ErrorContains(t, err, "m2 has not reported yet")

	_, _, missing, err = e.c.Epoch(t.Context(), true, "ada")
	require.NoError(t, err)
	require.Equal(t, []string{"machine m2 has not reported yet"}, missing)
	// The gang is not whole without m2: it keeps its identity and starts anew.
	s := e.c.until("the epoch has begun", func(s Status) bool { return s.Adopting == nil && s.Head == head })
	require.Equal(t, schema.ActionStopWorker, s.Plan.Steps[0].Action)
	list, err := e.store.ListEvents(t.Context(), store.EventFilter{Object: schema.Key{Kind: schema.KindCluster, Name: "test"}})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(list, func(ev schema.Event) bool {
		return ev.Type == "NewEpoch" && ev.Message != "" && slices.Contains([]string{
			"epoch 2 begins with what 1 of 2 machines report: 2 objects and the places of 0 runs were taken over; ada said not to wait for the rest: " +
				"epoch 2 waits before anything is stopped or deleted: machine m2 has not reported yet"}, ev.Message)
	}), "%v", list)
}

// a store restored from an older state is noticed when a machine says that it
// has seen more, and never used again without a new epoch; with one, what came after
// it was saved is still there.
func TestX4RestoredStoreIsNoticed(t *testing.T) {
	e := newEpochs(t)
	files := twoMachines()
	train := files[workspace+"runs/train.cue"]
	delete(files, workspace+"runs/train.cue")
	head := e.repo.commit(files)
	require.NoError(t, e.open(false))
	m1, m2 := e.connect("m1", nil), e.connect("m2", nil)
	e.settled(head)
	e.close()
	<-m1.ended
	<-m2.ended
	saved := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, os.CopyFS(saved, os.DirFS(e.dir)))

	require.NoError(t, e.open(false))
	m1, m2 = e.connect("m1", m1), e.connect("m2", m2)
	head = e.repo.commit(map[string]string{workspace + "runs/train.cue": train})
	before := e.settled(head)
	e.close()
	<-m1.ended
	<-m2.ended
	restore := func() {
		require.NoError(t, os.RemoveAll(e.dir))
		require.NoError(t, os.CopyFS(e.dir, os.DirFS(saved)))
	}
	restore()
	require.ErrorContains(t, e.open(false), "it is at epoch 1, revision")
	require.ErrorIs(t, e.open(false), store.ErrOlder)

	require.NoError(t, os.Remove(e.mark)) // the controller's disk was restored too
	require.NoError(t, e.open(false))
	e.c.until("leading", func(s Status) bool { return s.Leading })
	turned := e.c.connectAgain("m1", reported, m1)
	<-turned.ended
	require.ErrorContains(t, turned.err, "store is older than what the machine has seen")
	require.ErrorContains(t, turned.err, "start the controller with --new-epoch")
	s := e.c.until("the controller gave up", func(s Status) bool { return s.StoreError != "" && !s.Leading })
	require.Contains(t, s.StoreError, "machine m1 has seen epoch 1")
	e.close()
	require.NoError(t, os.Remove(e.mark))
	require.ErrorIs(t, e.open(false), store.ErrOlder, "it is remembered in the store itself")

	require.NoError(t, e.open(true))
	e.connect("m1", m1)
	e.connect("m2", m2)
	after := e.settled(head)
	require.Empty(t, after.Plan.Steps)
	require.Equal(t, before.Plan.Targets["m1"].Workers, after.Plan.Targets["m1"].Workers)
	require.Equal(t, before.Plan.Targets["m2"].Workers, after.Plan.Targets["m2"].Workers)
}

// a new store that meets a machine of another cluster stops before anything
// is done, says what to do on both sides, and with a new epoch becomes that
// cluster's. A machine that nothing declares, or one that comes later, is only
// turned away.
func TestX4ForeignMachines(t *testing.T) {
	e := newEpochs(t)
	head := e.repo.commit(twoMachines())
	require.NoError(t, e.open(false))
	m1, m2 := e.connect("m1", nil), e.connect("m2", nil)
	before := e.settled(head)
	e.close()
	<-m1.ended
	<-m2.ended

	require.NoError(t, os.RemoveAll(e.dir))
	require.NoError(t, os.Remove(e.mark))
	require.NoError(t, e.open(false), "nothing is left that remembers")
	e.c.until("leading", func(s Status) bool { return s.Leading })
	stranger := *m2
	stray := e.c.connectAgain("m9", reported, &stranger)
	<-stray.ended
	require.ErrorContains(t, stray.err, "the machine belongs to cluster")
	e.c.until("it goes on", func(s Status) bool { return s.Leading && s.Head == head })
	turned := e.c.connectAgain("m1", reported, m1)
	<-turned.ended
	require.ErrorContains(t, turned.err, "start it with --new-epoch; if the machine is to change its cluster")
	s := e.c.until("the controller gave up", func(s Status) bool { return s.StoreError != "" && !s.Leading })
	require.Contains(t, s.StoreError, "it is new, and machine m1 belongs to cluster")
	e.close()
	require.ErrorIs(t, e.open(false), store.ErrOlder)
	require.NoError(t, e.open(true))
	e.connect("m1", m1)
	e.connect("m2", m2)
	after := e.settled(head)
	require.Equal(t, before.Plan.Targets["m1"].Workers, after.Plan.Targets["m1"].Workers)

	// In use it turns a machine away and goes on.
	foreign := *m2
	foreign.cluster = "another"
	m2.stop()
	<-m2.ended
	turned = e.c.connectAgain("m2", reported, &foreign)
	<-turned.ended
	require.ErrorContains(t, turned.err, "the machine belongs to cluster another")
	s = e.c.until("a pass", func(s Status) bool { return s.Pass.Number > after.Pass.Number+1 })
	require.True(t, s.Leading)
}

// machines of two clusters cannot both be this store's.
func TestX4DifferentClusters(t *testing.T) {
	e := newEpochs(t)
	e.repo.commit(twoMachines())
	require.NoError(t, e.open(true))
	e.connect("m1", &machine{cluster: "a"})
	e.connect("m2", &machine{cluster: "b"})
	e.c.until("both were heard", func(s Status) bool {
		return s.Adopting != nil && strings.HasPrefix(s.Adopting.Waits[0], "machines belong to different clusters (m1 to cluster a; m2 to cluster b)")
	})
	_, _, _, err := e.c.Epoch(t.Context(), true, "ada")
	require.ErrorContains(t, err, "it cannot begin yet: epoch 1 waits before anything is stopped or deleted: machines belong to different clusters")
}
