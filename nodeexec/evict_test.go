package nodeexec

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// shelf is a rig with a disk of 100 bytes, of which free are free, and copies of
// 4 bytes d0, d1, …, the first used longest ago; all are evictable.
func shelf(t *testing.T, free int64, copies int) *rig {
	r := newRig(t)
	r.w.disk = schema.Filesystem{MountPoint: "/mnt/nvme", ID: "fs-nvme", TotalBytes: 100, FreeBytes: free, UsedBytes: 100 - free}
	r.w.sizes = map[string]int64{}
	list := schema.DriveList{Namespace: ns, Drives: []schema.ListedDrive{}}
	for i := range copies {
		uid, drive := fmt.Sprintf("u%d", i), named(fmt.Sprintf("d%d", i))
		used := time.Now().Add(time.Duration(i-copies) * time.Hour)
		r.w.sizes[uid] = 4
		r.w.state.Copies[uid] = &schema.Copy{Drive: drive.Scoped(), UID: uid, State: schema.CopyPresent, FSID: "fs-nvme",
			Folder: "/mnt/nvme/astraeus/drives/" + drive.Scoped(), Bytes: -1, Files: -1, LastUsed: &used}
		list.Drives = append(list.Drives, schema.ListedDrive{Name: drive.Name, UID: uid, Evictable: true})
		r.base.Measure = append(r.base.Measure, schema.MeasureTarget{Drive: drive, UID: uid})
	}
	r.base.Drives = map[string]string{ns: r.blob(list)}
	r.base.Eviction = schema.EvictionPolicy{StartPercent: 10, StopPercent: 15}
	return r
}

// evict asks for all of them.
func (r *rig) evictAll(a *schema.Assignment) {
	for i := range r.w.sizes {
		a.Steps = append(a.Steps, step(schema.ActionEvictCopy, named("d"+i[1:]), schema.StepArgs{UID: i}))
		a.Steps[len(a.Steps)-1].Why.Code = schema.WhyDiskNearlyFull
	}
}

// evicted are the drives that went, in order.
func (r *rig) evicted() (uids []string) {
	for _, l := range r.w.log() {
		if uid, ok := strings.CutPrefix(l, "DeleteCopy "); ok {
			uids = append(uids, uid)
		}
	}
	return uids
}

// D-71, X-18: of what it is told to evict, a machine evicts what its own numbers
// say, one after the other, until the stop mark.
func TestEvictionStopsAtTheStopMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shelf(t, 9, 4)
		var going, most atomic.Int32
		r.w.onEffect = func(name string) {
			if strings.HasPrefix(name, "DeleteCopy ") {
				most.Store(max(most.Load(), going.Add(1)))
				time.Sleep(time.Second) // of the bubble's clock
				going.Add(-1)
			}
		}
		r.start()
		defer r.stop()
		r.assign(r.evictAll)
		after(time.Minute)
		require.Equal(t, []string{"u0", "u1"}, r.evicted())
		require.Equal(t, int32(1), most.Load(), "one copy at a time")
		require.Equal(t, int64(17), r.w.disk.FreeBytes)
		require.Equal(t, CodeRefused, r.failure(schema.ActionEvictCopy).Code, "the others stay")
		require.Contains(t, r.failure(schema.ActionEvictCopy).Message, "by this machine's own numbers")
		report := r.report()
		require.False(t, report.Filesystems[1].Evicting)
		require.Equal(t, []string{"u0", "u1"}, []string{report.Evicted[0].UID, report.Evicted[1].UID})
		require.Equal(t, schema.WhyDiskNearlyFull, report.Evicted[0].Why)

		r.assign(func(a *schema.Assignment) { a.Steps = nil })
		after(time.Hour)
		require.Len(t, r.evicted(), 2, "in touch with the controller it evicts by the plan alone")
		require.Empty(t, r.report().Failures)
	})
}

// in touch with the controller nothing goes without a step.
func TestNoEvictionWithoutAStepWhileConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shelf(t, 1, 3).start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) { a.DataLocations[0].MaxBytes = 11 })
		after(time.Minute)
		require.Empty(t, r.evicted())
		require.True(t, r.report().DataLocations[0].OverLimit)
		require.True(t, r.report().Filesystems[1].Evicting, "crossing the mark is reported")
	})
}

// D-71, X-18: away from the control plane the machine evicts by itself, stops at
// the stop mark, goes on after a restart where it was, and tells when it is back.
func TestEvictionWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shelf(t, 50, 4).start()
		r.assign(func(*schema.Assignment) {})
		after(10 * time.Second) // measured
		r.a.online.Store(false)
		r.w.set(func(*worldState) {
			r.w.disk.FreeBytes, r.w.disk.UsedBytes = 9, 91
			r.w.fail["DeleteCopy u1"] = errors.New("killed")
			r.w.onEffect = func(name string) {
				if name == "DeleteCopy u1" {
					r.cancel() // between the first and the second
				}
			}
		})
		after(time.Minute)
		require.NoError(t, <-r.done)
		require.Equal(t, []string{"u0"}, r.evicted())

		r.w.onEffect = nil
		r.w.setFail(map[string]error{})
		r.start() // 13 % are free: by the start mark alone nothing would go
		after(time.Minute)
		require.Equal(t, []string{"u0", "u1"}, r.evicted())
		r.w.set(func(*worldState) { r.w.disk.FreeBytes, r.w.disk.UsedBytes = 14, 86 })
		after(time.Hour)
		require.Len(t, r.evicted(), 2)
		r.stop()
		r.start() // that the stop mark was reached is not forgotten either
		after(time.Minute)
		require.Len(t, r.evicted(), 2)

		r.assign(func(*schema.Assignment) {}) // back
		after(10 * time.Second)
		require.Len(t, r.report().Evicted, 2)
		after(25 * time.Hour)
		require.Empty(t, r.report().Evicted, "it was told long ago")
		r.stop()
	})
}

// X-18, D-9: whoever may use a copy keeps it, and so does whatever is not known.
func TestWhatIsNotEvicted(t *testing.T) {
	running := func(f func(*localWorker)) func(*rig) {
		return func(r *rig) {
			l := localWorker{label: label{Worker: workerLabel(&schema.WorkerTarget{Run: train, RunUID: "r", Name: "train-0",
				Mounts: []schema.BindTarget{{UID: "u0", From: schema.BindCopy}}}).Worker}}
			f(&l)
			r.w.fail["Stop w-1"] = errors.New("it does not end")
			r.w.state.Workers["w-1"] = &fakeWorker{Status: runtime.Status{ID: "w-1", Labels: l.label.labels(), State: l.state}}
		}
	}
	for name, set := range map[string]func(*rig){
		"a running worker": running(func(w *localWorker) { w.state = runtime.Running }),
		"a stuck worker":   running(func(w *localWorker) { w.state = runtime.Stuck }),
		"a running fill": running(func(w *localWorker) {
			w.state, w.label = runtime.Running, label{Fill: &fillLabel{UID: "u0", Generation: 1}}
		}),
		"the target": func(r *rig) {
			r.base.Copies = []schema.CopyTarget{{Drive: named("d0"), UID: "u0", Location: "/mnt/nvme/astraeus"}}
		},
		"an assigned one": func(r *rig) {
			r.base.Workers = []schema.WorkerTarget{workerTarget("none", schema.BindTarget{UID: "u0", From: schema.BindCopy})}
		},
		"a list not here": func(r *rig) { r.base.Drives = nil },
		"not evictable": func(r *rig) {
			r.base.Drives[ns] = r.blob(schema.DriveList{Namespace: ns, Drives: []schema.ListedDrive{{Name: "d0", UID: "u0"}}})
		},
		"another's uid": func(r *rig) {
			r.base.Drives[ns] = r.blob(schema.DriveList{Namespace: ns, Drives: []schema.ListedDrive{{Name: "d0", UID: "u", Evictable: true}}})
		},
		"workers unknown":   func(r *rig) { r.w.incomplete = true },
		"mounts unknown":    func(r *rig) { r.w.fail["Mounts"] = errors.New("no") },
		"numbers unknown":   func(r *rig) { r.w.fail["Filesystems"] = errors.New("no") },
		"a location hidden": func(r *rig) { r.w.state.Copies["u0"].State = schema.CopyUnknown },
		"a copy just made": func(r *rig) {
			now := time.Now()
			r.w.state.Copies["u0"].LastUsed, r.w.state.Copies["u0"].Created = nil, &now
		},
	} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s away=%t", name, away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := shelf(t, 1, 1)
					set(r)
					r.start()
					defer r.stop()
					r.assign(r.evictAll)
					r.a.online.Store(!away)
					r.a.wake()
					after(5 * time.Minute)
					require.Empty(t, r.evicted())
				})
			})
		}
	}
}

// a worker that is being prepared has recorded its use before the copy is
// looked at; the step, due already, is judged again under the copy's lock.
func TestUseThatComesInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shelf(t, 1, 1)
		r.start()
		defer r.stop()
		require.NoError(t, r.a.uses.put("w-new", []schema.Use{{UID: "u0"}}, time.Now()))
		require.NoError(t, r.a.take(&schema.Down{Blobs: r.blobs}))
		r.a.pinned.Store(&r.base.ClusterUID)
		target := r.base
		r.a.target.Store(&target)
		r.a.online.Store(true)
		_, err := r.a.judgeAgain(t.Context(), step(schema.ActionEvictCopy, named("d0"), schema.StepArgs{UID: "u0"}))
		require.ErrorContains(t, err, "used by 1 live worker(s)")
	})
}

// D-71: one copy that cannot be removed keeps no other from going, and is tried
// again with backoff: never a hot loop.
func TestACopyThatDoesNotGo(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := shelf(t, 9, 4)
			r.w.fail["DeleteCopy u0"] = errors.New("it is a mount point")
			r.start()
			defer r.stop()
			r.assign(r.evictAll)
			after(5 * time.Second)
			r.a.online.Store(!away)
			after(10 * time.Minute)
			require.Equal(t, []string{"u1", "u2"}, r.evicted())
			require.Less(t, r.w.tried("DeleteCopy u0"), 12)
		})
	}
}

// D-71: the limit, by sizes that are measured sooner where it is near.
func TestOverTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shelf(t, 50, 3)
		r.base.DataLocations[0].MaxBytes = 12
		r.start()
		defer r.stop()
		r.assign(r.evictAll)
		after(30 * time.Second)
		require.Empty(t, r.evicted())
		require.False(t, r.report().DataLocations[0].OverLimit)
		r.w.set(func(*worldState) { r.w.sizes["u2"] = 5 }) // a worker wrote into it
		after(nearEvery + 10*time.Second)
		require.Equal(t, []string{"u0"}, r.evicted())
		require.False(t, r.report().DataLocations[0].OverLimit)
	})
}

// the bytes of the trash count as free before they are, and only once.
func TestTrashSizes(t *testing.T) {
	trash := func(uid string) schema.Copy { return schema.Copy{UID: uid, State: schema.CopyTrash, Bytes: -1} }
	var sizes trashSizes
	now := time.Unix(1, 0)
	sizes.put("a", 7, now)
	list := []schema.Copy{trash("a"), trash("b"), {UID: "a", State: schema.CopyPresent, Bytes: -1}}
	sizes.fill(list)
	require.Equal(t, []int64{7, -1, -1}, []int64{list[0].Bytes, list[1].Bytes, list[2].Bytes})
	twice := []schema.Copy{trash("a"), trash("a")}
	sizes.fill(twice)
	require.Equal(t, int64(-1), twice[0].Bytes, "which of the two?")
	sizes.forget(nil, now) // seen, and gone
	sizes.put("b", 1, now)
	sizes.forget(nil, now.Add(time.Second)) // not seen yet
	list = []schema.Copy{trash("a"), trash("b")}
	sizes.fill(list)
	require.Equal(t, []int64{-1, 1}, []int64{list[0].Bytes, list[1].Bytes})
}
