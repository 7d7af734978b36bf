package nodeexec

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

var copyTarget = schema.CopyTarget{Drive: cache, UID: "u-cache", Location: "/mnt/nvme/astraeus"}

// upSteps is a copy and a worker that uses it, in an order that is not theirs.
func (r *rig) upSteps(a *schema.Assignment) {
	create := step(schema.ActionCreateCopy, cache, schema.StepArgs{UID: "u-cache"})
	start := step(schema.ActionStartWorker, train, workerArgs, create.ID, "a step of another machine")
	a.Copies = []schema.CopyTarget{copyTarget}
	a.Workers = []schema.WorkerTarget{workerTarget(r.blob(schema.TaskTemplate{Command: "true", Env: map[string]string{
		"RANK": "99", "MASTER_ADDR": "mine", "A": "b"}}), copyMount())}
	a.Steps = []schema.Step{start, create, create}
}

func TestPrerequisitesFirstEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(r.upSteps)
		synctest.Wait()
		require.Equal(t, []string{"CreateCopy u-cache", "Start train-0", "MarkUsed u-cache"}, r.w.log())

		r.assign(r.upSteps) // the same again, also as a newer revision
		after(time.Minute)
		require.Equal(t, 1, r.w.count("CreateCopy u-cache"))
		require.Equal(t, 1, r.w.count("Start train-0"))
		report := r.report()
		require.Equal(t, int64(2), report.Applied)
		require.Len(t, report.Workers, 1)
		require.Equal(t, schema.WorkerRunning, report.Workers[0].State)
		require.Equal(t, []schema.Use{{UID: "u-cache", Mode: schema.ReadWrite}}, report.Workers[0].Uses)
		require.Empty(t, report.Failures)
	})
}

func TestWorkerEnvironment(t *testing.T) { // N-8
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(r.upSteps)
		synctest.Wait()
		require.Equal(t, []string{"A=b", "ASTRAEUS_LEADER_ADDRESS=10.0.0.1", "ASTRAEUS_MACHINE=gpu-01",
			"ASTRAEUS_RUN=" + ns + ".train", "ASTRAEUS_WORKER=train-0", "MASTER_ADDR=mine", "RANK=0", "WORLD_SIZE=2"},
			r.w.state.Workers[trainID()].Env)
	})
}

func TestEndedWorkerIsKeptUntilItLeavesTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(r.upSteps)
		synctest.Wait()
		r.w.end(trainID(), 3)
		after(time.Minute)
		w := r.report().Workers[0]
		require.Equal(t, schema.WorkerFailed, w.State)
		require.Equal(t, 3, *w.ExitCode)
		require.Equal(t, 1, r.w.count("Start train-0"))

		r.assign(func(a *schema.Assignment) { a.Workers, a.Steps = nil, nil })
		synctest.Wait()
		require.Equal(t, 1, r.w.count("Remove "+trainID()))
		after(time.Minute)
		require.Empty(t, r.report().Workers)
		require.Empty(t, r.a.uses.all())
	})
}

func TestBackoffDoublesAndSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.w.fail["CreateCopy u-cache"] = errors.New("disk on fire")
		attempts := func() int { return r.w.tried("CreateCopy u-cache") }
		r.start()
		r.assign(r.upSteps)
		after(500 * time.Millisecond)
		require.Equal(t, 1, attempts())
		after(time.Second) // 1 s
		require.Equal(t, 2, attempts())
		after(2 * time.Second) // 2 s
		require.Equal(t, 3, attempts())
		after(3 * time.Second)
		require.Equal(t, 3, attempts()) // 4 s is not over
		f := r.report().Failures[0]
		require.Equal(t, schema.ActionCreateCopy, f.Action)
		require.Equal(t, "disk on fire", f.Message)
		require.Equal(t, 3, f.Attempts)
		r.stop()

		r.start()
		r.send(r.base)
		after(100 * time.Millisecond)
		require.Equal(t, 3, attempts(), "the backoff was forgotten")
		after(2 * time.Second)
		require.Equal(t, 4, attempts())

		r.w.setFail(map[string]error{})
		r.assign(func(a *schema.Assignment) { a.Copies[0].SizeHint = 1 }) // a changed target starts anew
		synctest.Wait()
		require.Equal(t, 1, r.w.count("Start train-0"))
		after(10 * time.Second)
		require.Empty(t, r.report().Failures)
		r.stop()
	})
}

func TestFailureBlocksNothingElse(t *testing.T) { // X-23, design.md
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.Parallel = 1
		r.w.hang["Mount u-net"] = true
		r.start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			r.upSteps(a)
			a.Mounts = []schema.MountTarget{{Drive: imagenet, UID: "u-net", From: "gpu-02", Mode: schema.ReadOnly}}
			a.Steps = append([]schema.Step{step(schema.ActionMount, imagenet, schema.StepArgs{UID: "u-net", From: "gpu-02"})}, a.Steps...)
		})
		after(deadlineOf(schema.ActionMount) + time.Second)
		require.Equal(t, 1, r.w.count("Start train-0"))
		require.Equal(t, CodeTimeout, r.failure(schema.ActionMount).Code)
	})
}

func TestEffectThatDoesNotShowBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			r.upSteps(a)
			a.Mounts = []schema.MountTarget{{Drive: imagenet, UID: "u-net", From: "gpu-03", Mode: schema.ReadOnly}}
			a.Steps = []schema.Step{step(schema.ActionMount, imagenet, schema.StepArgs{UID: "u-net"})}
			r.w.wrong = true // what is mounted is never what was wanted
		})
		after(20 * time.Second)
		require.Equal(t, CodeNotSeen, r.failure(schema.ActionMount).Code)
		require.Equal(t, 5, r.w.count("Mount u-net")) // at 0, 1, 3, 7 and 15 s
	})
}

func TestTidyingThatDoesNotHelpIsNotHot(t *testing.T) { // design.md: never a hot loop
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(r.upSteps)
		synctest.Wait()
		r.w.setFail(map[string]error{"Remove " + trainID(): errors.New("no")})
		r.w.end(trainID(), 0)
		r.assign(func(a *schema.Assignment) { a.Workers, a.Steps = nil, nil })
		after(5 * time.Minute)
		require.InDelta(t, 10, r.w.tried("Remove "+trainID()), 2)
	})
}

func TestStopThenUnbindThenDelete(t *testing.T) { // D-60, D-80, X-22
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(r.upSteps)
		synctest.Wait()
		stop := step(schema.ActionStopWorker, train, workerArgs)
		del := step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}, stop.ID)
		r.assign(func(a *schema.Assignment) {
			a.Workers, a.Copies = nil, nil
			a.Drives = map[string]string{ns: r.blob(schema.DriveList{Namespace: ns})}
			a.Steps = []schema.Step{del, stop}
		})
		synctest.Wait()
		log := r.w.log()
		require.Equal(t, []string{"Stop " + trainID()}, log[3:4])
		require.Equal(t, 1, r.w.count("DeleteCopy u-cache"))
		require.Empty(t, r.report().Copies)
	})
}

// A crash between moving a copy away and removing its record leaves the record:
// it goes too, so that another drive can have that name., D-61
func TestHalfDeletedCopyGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.w.state.Copies["u-cache"] = &schema.Copy{Drive: cache.Scoped(), UID: "u-cache", State: schema.CopyCreating}
		r.start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			a.Drives = map[string]string{ns: r.blob(schema.DriveList{Namespace: ns})}
			a.Steps = []schema.Step{step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"})}
		})
		synctest.Wait()
		require.Equal(t, []string{"DeleteCopy u-cache"}, r.w.log())
		require.Empty(t, r.report().Copies)
	})
}

func TestNothingDestructiveWithoutCompleteListings(t *testing.T) { // X-7, kubernetes#120150
	for name, blind := range map[string]func(*world){
		"engine": func(w *world) { w.incomplete = true },
		"mounts": func(w *world) { w.fail["Mounts"] = errors.New("no") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.w.state.Copies["u-cache"] = &schema.Copy{Drive: cache.Scoped(), UID: "u-cache", State: schema.CopyPresent}
				blind(r.w)
				r.start()
				defer r.stop()
				r.assign(func(a *schema.Assignment) {
					a.Drives = map[string]string{ns: r.blob(schema.DriveList{Namespace: ns})}
					a.Steps = []schema.Step{step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"})}
				})
				after(time.Minute)
				require.Empty(t, r.w.log())
				r.w.setFail(map[string]error{})
				r.w.set(func(*worldState) { r.w.incomplete = false })
				after(10 * time.Second)
				require.Equal(t, []string{"DeleteCopy u-cache"}, r.w.log())
			})
		})
	}
}

func TestUnknownPartsAreNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.w.fail["Exports"], r.w.incomplete = errors.New("no"), true
		r.start()
		defer r.stop()
		r.assign(func(*schema.Assignment) {})
		synctest.Wait()
		report := r.report()
		require.Nil(t, report.Exports)
		require.Nil(t, report.Workers)
		require.NotNil(t, report.Mounts)
		require.NotNil(t, report.Copies)
		require.False(t, report.Engine.Ready)
	})
}

func TestFill(t *testing.T) { // D-42
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		fill := step(schema.ActionFillCopy, cache, schema.StepArgs{UID: "u-cache", Generation: 1})
		r.assign(func(a *schema.Assignment) {
			r.upSteps(a)
			a.Copies = []schema.CopyTarget{copyTarget}
			a.Copies[0].FillGeneration, a.Copies[0].FillTemplate = 1, r.blob(schema.TaskTemplate{Command: "fetch"})
			a.Steps = append(a.Steps, fill)
			fill.After = []string{a.Steps[1].ID}
		})
		synctest.Wait()
		id := fillID("u-cache", 1)
		require.Equal(t, runtime.Running, r.w.state.Workers[id].Status.State)
		require.Zero(t, r.w.count("Start train-0"), "a worker started before the copy was filled")
		require.Empty(t, r.report().Workers, "a fill is not a worker of a run")

		r.w.end(id, 0) // exit 0 without the marker is a failure
		synctest.Wait()
		require.Equal(t, CodeFillFailed, r.failure(schema.ActionFillCopy).Code)
		after(1500 * time.Millisecond)
		require.Equal(t, 2, r.w.count("Start fill"))
		r.w.set(func(s *worldState) { s.Marked["u-cache"] = true })
		r.w.end(id, 0)
		synctest.Wait()
		require.Equal(t, 1, r.w.count("SetFilled u-cache"))
		require.Equal(t, 1, r.w.count("Start train-0"))
		require.Empty(t, r.a.failures.reported())
	})
}

// What a crash between writing the generation down and forgetting the fill left is
// forgotten later.
func TestEndedFillIsForgotten(t *testing.T) { // D-42, X-8
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := fillID("u-cache", 1)
		r.w.state.Copies["u-cache"] = &schema.Copy{Drive: cache.Scoped(), UID: "u-cache", State: schema.CopyPresent, Filled: true, FilledGeneration: 1}
		code := 0
		r.w.state.Workers[id] = &fakeWorker{Status: runtime.Status{ID: id, State: runtime.Exited, ExitCode: &code,
			Labels: label{Fill: &fillLabel{UID: "u-cache", Generation: 1}}.labels()}}
		r.start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			a.Copies = []schema.CopyTarget{copyTarget}
			a.Copies[0].FillGeneration, a.Copies[0].FillTemplate = 1, r.blob(schema.TaskTemplate{Command: "fetch"})
		})
		synctest.Wait()
		require.Equal(t, 1, r.w.count("Remove "+id))
	})
}

// An older generation of a worker that is being started is in no listing yet; the
// newer one waits for it all the same.
func TestStartWaitsForAnOlderStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.w.hang["Start train-0"] = true
		for generation := range int64(2) {
			w := workerTarget(r.blob(schema.TaskTemplate{Command: "true"}))
			w.Generation = generation + 1
			r.assign(func(a *schema.Assignment) {
				a.Workers = []schema.WorkerTarget{w}
				a.Steps = []schema.Step{step(schema.ActionStartWorker, train,
					schema.StepArgs{UID: w.RunUID, Worker: w.Name, Generation: w.Generation})}
			})
			synctest.Wait()
			require.Equal(t, 1, r.w.tried("Start train-0"))
		}
	})
}

// lookingEngine calls a hook after each listing was made.
type lookingEngine struct {
	fakeEngine
	looked func()
}

func (e lookingEngine) List(ctx context.Context) (runtime.Listing, error) {
	l, err := e.fakeEngine.List(ctx)
	e.looked()
	return l, err
}

// What an older assignment began and this look does not show yet must not be
// missing from a report that says that a newer one is worked by.
func TestAppliedOnceEverythingShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release, looked := make(chan struct{}), func() {}
		r.cfg.Engine = lookingEngine{fakeEngine{r.w}, func() { looked() }}
		r.w.onEffect = func(name string) {
			if name == "Start train-0" {
				<-release
			}
		}
		r.start()
		defer r.stop()
		r.assign(r.upSteps)
		synctest.Wait()
		looked = func() {
			looked = func() {
				if report := r.report(); report.Applied == 2 {
					require.Len(t, report.Workers, 1)
				}
			}
			close(release)
			synctest.Wait() // the start ends while this look goes on
		}
		r.assign(func(a *schema.Assignment) { a.Workers, a.Steps = nil, nil })
		after(time.Minute)
		require.Equal(t, int64(2), r.report().Applied)
		require.Len(t, r.report().Workers, 1)
	})
}

// A heartbeat brings the newest measurements and nothing else that moved a little.
func TestHeartbeatIsNoNews(t *testing.T) { // D-70, X-33
	r := newRig(t)
	a, err := New(r.cfg)
	require.NoError(t, err)
	defer a.Close()
	var say reporter
	look := func(free, measured int64) *schema.MachineReport {
		a.measured.last[measureKey{}] = schema.Measurement{Bytes: measured}
		seen := &view{facts: facts{filesystems: []schema.Filesystem{{ID: "fs", TotalBytes: 1 << 40, FreeBytes: free}}}}
		a.publish(&say, nil, seen, true)
		return a.out.take()
	}
	look(1<<39, 1)
	beat := look(1<<39-1, 2)
	require.Equal(t, int64(2), beat.Measurements[0].Bytes)
	require.Equal(t, int64(1<<39), beat.Filesystems[0].FreeBytes)
	require.Equal(t, int64(1<<38), look(1<<38, 3).Filesystems[0].FreeBytes)
}

func TestWorkerIsStartedWithWhatIsLocked(t *testing.T) {
	r := newRig(t)
	a, err := New(r.cfg)
	require.NoError(t, err)
	defer a.Close()
	r.upSteps(&r.base)
	judged := r.base
	r.base.Workers = []schema.WorkerTarget{workerTarget(r.base.Workers[0].Template,
		schema.BindTarget{Drive: cache, UID: "u-new", From: schema.BindCopy, Target: "/cache"})}
	a.target.Store(&r.base)
	start := r.base.Steps[0]
	require.ErrorIs(t, a.carryOut(t.Context(), start, locksOf(start, &judged)), errGone)
	require.Zero(t, r.w.tried("Start train-0"))
}
