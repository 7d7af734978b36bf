package nodeexec

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func (r *rig) runWith(bind schema.BindTarget) {
	r.assign(func(a *schema.Assignment) {
		a.Workers = []schema.WorkerTarget{workerTarget(r.blob(schema.TaskTemplate{Command: "true"}), bind)}
		a.Steps = []schema.Step{step(schema.ActionStartWorker, train, workerArgs)}
	})
	synctest.Wait()
}

func TestPathsAreCheckedAgainOnTheMachine(t *testing.T) { // D-3, D-21, V-1, V-4, X-16
	cases := []struct {
		name    string
		bind    schema.BindTarget
		allowed []string
		code    string
	}{
		{"granted", schema.BindTarget{UID: "u", From: schema.BindDir, Path: "/data/set", Grant: "/data"}, nil, ""},
		{"not granted", schema.BindTarget{UID: "u", From: schema.BindDir, Path: "/data/set", Grant: "/mnt"}, nil, CodeForbidden},
		{"missing", schema.BindTarget{UID: "u", From: schema.BindDir, Path: "/data/none", Grant: "/data"}, nil, CodeMissing},
		{"data location", schema.BindTarget{UID: "u", From: schema.BindDir, Path: "/mnt/nvme", Grant: "/mnt"}, nil, CodeForbidden},
		{"work root", schema.BindTarget{UID: "u", From: schema.BindDir, Path: "/work/exports", Grant: "/"}, nil, CodeForbidden},
		{"volume", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/disk", Grant: "/mnt"}, nil, ""},
		{"volume that nothing lets through", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/disk"}, nil, CodeForbidden},
		{"volume the machine does not allow", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/disk", Grant: "/mnt"}, []string{"/data/"}, CodeForbidden},
		{"volume the machine allows", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/disk", Grant: "/mnt"}, []string{"/data/", "/mnt/disk"}, ""},
		{"volume outside its grant", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/disk", Grant: "/mnt/other"}, []string{"/mnt"}, CodeForbidden},
		{"volume that the cluster denies", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/secret", Grant: "/mnt"}, nil, CodeForbidden},
		{"a link to what the cluster denies", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/link", Grant: "/mnt"}, nil, CodeForbidden},
		{"denied wins over a grant", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/etc/x", Grant: "/etc"}, nil, CodeForbidden},
		{"a link to what is denied", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/data/link", Grant: "/"}, nil, CodeForbidden},
		{"volume missing", schema.BindTarget{UID: "vol-1", From: schema.BindVolume, Path: "/mnt/none", Grant: "/mnt"}, nil, CodeMissing},
		{"claim not mounted", schema.BindTarget{UID: "u", Drive: imagenet, From: schema.BindClaim}, nil, CodeNotMounted},
		{"no copy", schema.BindTarget{UID: "u", From: schema.BindCopy}, nil, CodeMissing},
		{"unknown kind", schema.BindTarget{UID: "u", From: "ceph"}, nil, CodeInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.w.links = map[string]string{"/data/link": "/etc/secret", "/mnt/link": "/mnt/secret"}
				r.w.state.Dirs["/data/link"], r.w.state.Dirs["/mnt/link"], r.w.state.Dirs["/mnt/secret"] = "fs-root", "fs-root", "fs-root"
				r.start()
				defer r.stop()
				r.base.AllowedVolumePrefixes, r.base.DeniedVolumePrefixes = c.allowed, []string{"/mnt/secret"}
				c.bind.Target = "/x"
				r.runWith(c.bind)
				if c.code == "" {
					require.Equal(t, 1, r.w.count("Start train-0"))
					return
				}
				require.Zero(t, r.w.count("Start train-0"))
				require.Equal(t, c.code, r.failure(schema.ActionStartWorker).Code)
				require.Empty(t, r.a.uses.all(), "nothing runs, so nothing is used")
			})
		})
	}
}

func TestDirectoriesAreMadeOnlyWhenAskedFor(t *testing.T) { // D-3, D-5
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			a.Dirs = []schema.DirTarget{{Drive: imagenet, UID: "u-a", Path: "/data/a", Grant: "/data", Create: true},
				{Drive: imagenet, UID: "u-b", Path: "/data/b", Grant: "/data"}}
			a.Steps = []schema.Step{step(schema.ActionCreateDir, imagenet, schema.StepArgs{UID: "u-a"}),
				step(schema.ActionCreateDir, imagenet, schema.StepArgs{UID: "u-b"})}
		})
		synctest.Wait()
		require.Equal(t, []string{"MakeDir /data/a"}, r.w.log())
		f := r.failure(schema.ActionCreateDir)
		require.Equal(t, CodeMissing, f.Code)
		require.Equal(t, "/data/b does not exist on gpu-01, and the drive does not say permissions.create", f.Message)
		require.Equal(t, []schema.PathState{{UID: "u-a", Path: "/data/a", Exists: true, FSID: "fs-root"},
			{UID: "u-b", Path: "/data/b"}}, r.report().Paths)
	})
}

func TestDiskThatIsNotMountedIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.runWith(schema.BindTarget{UID: "u", From: schema.BindDir, Path: "/data/set", Grant: "/data", Target: "/x"})
		require.Equal(t, 1, r.w.count("Start train-0"))
		r.w.set(func(s *worldState) { s.Dirs["/data/set"] = "fs-root" }) // the disk is gone, its directory is not
		r.assign(func(a *schema.Assignment) {
			a.Exports = []schema.ExportTarget{{Drive: imagenet, UID: "u", Path: "/data/set", Grant: "/data", Client: "gpu-03",
				Addresses: []string{"192.0.2.3"}, Mode: schema.ReadOnly}}
			a.Steps = []schema.Step{step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u", To: "gpu-03"})}
		})
		synctest.Wait()
		require.Equal(t, CodeNotMounted, r.failure(schema.ActionExport).Code)
		require.Empty(t, r.w.state.Exports)
	})
}

// A drive that nobody uses may be given another path, on another filesystem; it
// is not taken for a disk that is missing.
func TestAnotherPathMayBeOnAnotherDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		for _, path := range []string{"/data/set", "/mnt/disk"} {
			r.assign(func(a *schema.Assignment) {
				a.Exports = []schema.ExportTarget{{Drive: imagenet, UID: "u", Path: path, Grant: "/", Client: "gpu-03",
					Addresses: []string{"192.0.2.3"}, Mode: schema.ReadOnly}}
				a.Steps = []schema.Step{step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u", To: "gpu-03"})}
			})
			synctest.Wait()
			require.Nil(t, r.failure(schema.ActionExport))
			require.Equal(t, path, r.w.state.Exports[0].Path)
		}
	})
}

func TestMeasuring(t *testing.T) { // D-91
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.w.hang["Measure /data/set"] = true
		r.w.state.Copies["u-cache"] = &schema.Copy{Drive: cache.Scoped(), UID: "u-cache", State: schema.CopyPresent,
			Folder: "/mnt/nvme/astraeus/drives/x", Bytes: -1}
		r.start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			r.upSteps(a)
			a.Measure = []schema.MeasureTarget{{Drive: cache, UID: "u-cache"},
				{Drive: imagenet, UID: "u-set", Path: "/data/set", Grant: "/data"},
				{Drive: imagenet, UID: "u-disk", Path: "/mnt/disk", Grant: "/mnt/disk"}}
		})
		after(10 * time.Second)
		first := r.report().Measurements
		require.Len(t, first, 2, "the one that hangs delays no other")
		require.Equal(t, schema.Measurement{Drive: cache.Scoped(), UID: "u-cache", Bytes: 42, Files: 3, FreeBytes: 100,
			FreeInodes: 7, Answers: 1, At: first[0].At}, first[0])
		require.Equal(t, int64(42), r.report().Copies[0].Bytes)
		require.Equal(t, 1, r.w.count("Start train-0"))

		after(measureWithin + 10*time.Second)
		hung := r.report().Measurements[2]
		require.Equal(t, "u-set", hung.UID)
		require.Zero(t, hung.Answers)
		after(2 * time.Minute)
		require.True(t, r.report().Measurements[0].At.After(first[0].At), "five minutes are over")
		require.Equal(t, hung, r.report().Measurements[2], "left alone")

		r.assign(func(a *schema.Assignment) { a.Measure = nil })
		after(10 * time.Second)
		require.Empty(t, r.report().Measurements)
	})
}

// A directory that was looked at before it was made is not said for five minutes
// to be one that does not answer.
func TestMadeDirectoryIsMeasuredAtOnce(t *testing.T) { // D-91
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(func(a *schema.Assignment) {
			a.Measure = []schema.MeasureTarget{{Drive: imagenet, UID: "u-a", Path: "/data/a", Grant: "/data"}}
		})
		after(10 * time.Second)
		require.Zero(t, r.report().Measurements[0].Answers)
		r.assign(func(a *schema.Assignment) {
			a.Dirs = []schema.DirTarget{{Drive: imagenet, UID: "u-a", Path: "/data/a", Grant: "/data", Create: true}}
			a.Steps = []schema.Step{step(schema.ActionCreateDir, imagenet, schema.StepArgs{UID: "u-a"})}
		})
		after(10 * time.Second)
		require.Equal(t, 1, r.report().Measurements[0].Answers)
	})
}

func TestUseIsNotedHourlyAndAtTheEnd(t *testing.T) { // D-70
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).start()
		defer r.stop()
		r.assign(r.upSteps)
		after(3*time.Hour + time.Minute)
		require.Equal(t, 4, r.w.count("MarkUsed u-cache"))
		after(10 * time.Minute)
		r.w.set(func(s *worldState) { s.Workers[trainID()].Status.Ended = time.Now() })
		r.w.end(trainID(), 0)
		synctest.Wait()
		require.Equal(t, 5, r.w.count("MarkUsed u-cache"))
		after(2 * time.Hour)
		require.Equal(t, 5, r.w.count("MarkUsed u-cache"))
	})
}
