package nodeexec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// judged is a machine with one of everything, all as wanted.
func judged() *situation {
	exitZero := 0
	live := localWorker{id: trainID(), state: runtime.Running, label: workerLabel(&schema.WorkerTarget{
		Run: train, RunUID: "run-1", Generation: 1, Name: "train-0", Mounts: []schema.BindTarget{copyMount(),
			{Drive: imagenet, UID: "u-net", From: schema.BindClaim, Target: "/net", ReadOnly: true}}})}
	ended := localWorker{id: "w-old", state: runtime.Exited, label: live.label}
	ended.label.Worker.Attempt = 7
	ended.worker.ExitCode = &exitZero
	target := &schema.Assignment{Machine: "gpu-01", DataLocations: []schema.DataLocation{{Path: "/mnt/nvme/astraeus", Present: true}},
		Drives: map[string]string{ns: "list"}}
	return &situation{machine: "gpu-01", target: target, online: true, uses: map[string]useRecord{},
		place: func(object) string { return "" },
		list: func(n string) *schema.DriveList {
			return &schema.DriveList{Namespace: n, Drives: []schema.ListedDrive{{Name: "kept", UID: "u-kept"},
				{Name: "spare", UID: "u-spare", Evictable: true}, {Name: "gone", UID: "u-gone", Removed: true}}}
		},
		seen: &view{engineKnown: true, workers: []localWorker{live, ended}, copiesKnown: true,
			copies: host.CopyListing{Complete: true, Copies: []schema.Copy{
				{Drive: cache.Scoped(), UID: "u-cache", State: schema.CopyPresent},
				{Drive: ns + ".gone", UID: "u-gone", State: schema.CopyPresent},
				{Drive: ns + ".kept", UID: "u-kept", State: schema.CopyPresent}}},
			mounts: []schema.Mount{{UID: "u-net", From: "gpu-02", State: schema.MountBound, Mode: schema.ReadOnly, Transport: schema.TransportTCP, Server: "192.0.2.2"}},
			exports: []schema.Export{{UID: "u-exp", Path: "/data/set", Client: "192.0.2.3", Clients: []string{"192.0.2.3"},
				To: "gpu-03", Mode: schema.ReadOnly}}}}
}

var (
	exportItem = schema.ExportTarget{Drive: imagenet, UID: "u-exp", Path: "/data/set", Client: "gpu-03",
		Addresses: []string{"192.0.2.3"}, Mode: schema.ReadOnly}
	mountItem = schema.MountTarget{Drive: imagenet, UID: "u-net", From: "gpu-02", Addresses: []string{"192.0.2.2"},
		Transports: []schema.Transport{schema.TransportTCP}, Mode: schema.ReadOnly}
)

func named(name string) schema.Key {
	return schema.Key{Kind: schema.KindDrive, Namespace: ns, Name: name}
}

func TestRefusals(t *testing.T) { // D-60, D-61, D-80
	del := func(name string) schema.Step {
		return step(schema.ActionDeleteCopy, named(name), schema.StepArgs{UID: "u-" + name})
	}
	cases := []struct {
		name   string
		step   schema.Step
		change func(*situation)
		want   string
	}{
		{"delete what is gone from the list", del("gone"), nil, ""},
		{"delete what the list holds", del("kept"), nil, "the drive is in the complete list of its workspace"},
		{"delete without the list", del("gone"), func(s *situation) { s.list = func(string) *schema.DriveList { return nil } },
			"the complete list of the drives of " + ns + " is not here"},
		{"delete by another workspace's list", del("gone"), func(s *situation) {
			s.list = func(string) *schema.DriveList { return &schema.DriveList{Namespace: "ws-other"} }
		}, "the list of the drives of " + ns + " is another workspace's"},
		{"delete what the target keeps", del("gone"), func(s *situation) {
			s.target.Copies = []schema.CopyTarget{{UID: "u-gone"}}
		}, "the copy is in this machine's target"},
		{"delete under a live worker", step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}), nil,
			"drive hf-cache is used by 1 live worker(s)"},
		{"delete under a stuck worker", step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}),
			func(s *situation) { s.seen.workers[0].state = runtime.Stuck }, "drive hf-cache is used by 1 live worker(s)"},
		{"delete after the worker ended", step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}),
			func(s *situation) { s.seen.workers[0].state = runtime.Exited }, ""},
		{"delete under a worker that is being prepared", del("gone"), func(s *situation) {
			s.uses["w-new"] = useRecord{Uses: []schema.Use{{UID: "u-gone"}}}
		}, "drive gone is used by 1 live worker(s)"},
		{"delete under an assigned worker", del("gone"), func(s *situation) {
			w := workerTarget("", schema.BindTarget{UID: "u-gone", From: schema.BindCopy})
			w.Attempt = 3
			s.target.Workers = []schema.WorkerTarget{w}
		}, "drive gone is used by 1 live worker(s)"},
		{"delete under a running fill", del("gone"), func(s *situation) {
			s.seen.fills = []localWorker{{id: "f", state: runtime.Running, label: label{Fill: &fillLabel{UID: "u-gone"}}}}
		}, "drive gone is used by 1 live worker(s)"},
		{"delete a uid that is another drive's copy", step(schema.ActionDeleteCopy, named("other"), schema.StepArgs{UID: "u-gone"}),
			nil, "the copy with this uid is of " + ns + ".gone"},
		{"evict what is not evictable", step(schema.ActionEvictCopy, named("kept"), schema.StepArgs{UID: "u-kept"}), nil,
			"the drive is not evictable"},
		{"evict", step(schema.ActionEvictCopy, named("spare"), schema.StepArgs{UID: "u-spare"}), nil, ""},
		{"unmount under a live worker", step(schema.ActionUnmount, imagenet, schema.StepArgs{UID: "u-net"}), nil,
			"imagenet is used by 1 live worker(s) here"},
		{"unmount what the target keeps", step(schema.ActionUnmount, imagenet, schema.StepArgs{UID: "u-net"}),
			func(s *situation) { s.target.Mounts = []schema.MountTarget{mountItem} }, "the mount is in this machine's target"},
		{"unmount after the worker ended", step(schema.ActionUnmount, imagenet, schema.StepArgs{UID: "u-net"}),
			func(s *situation) { s.seen.workers[0].state = runtime.Exited }, ""},
		{"stop what the target keeps", step(schema.ActionStopWorker, train, workerArgs),
			func(s *situation) { s.target.Workers = []schema.WorkerTarget{workerTarget("")} }, "the worker is in this machine's target"},
		{"start what the target does not hold", step(schema.ActionStartWorker, train, workerArgs), nil,
			"the worker is not in this machine's target"},
		{"start beside an older attempt", step(schema.ActionStartWorker, train, schema.StepArgs{UID: "run-1", Worker: "train-0", Generation: 2}),
			func(s *situation) {
				w := workerTarget("")
				w.Generation = 2
				s.target.Workers = []schema.WorkerTarget{w}
			}, "generation 1 attempt 0 of this worker has not ended"},
		{"export to no claim's client", step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-09"}),
			func(s *situation) { s.target.Exports = []schema.ExportTarget{exportItem} },
			"gpu-09 is not the client of a claim of this drive here"},
		{"export to a stranger's address", step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-03", Client: "192.0.2.66"}),
			func(s *situation) { s.target.Exports = []schema.ExportTarget{exportItem} }, "192.0.2.66 is not an address of gpu-03"},
		{"export of another path", step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-03", Path: "/etc"}),
			func(s *situation) { s.target.Exports = []schema.ExportTarget{exportItem} }, "the claim's path is /data/set, not /etc"},
		{"unexport what the target keeps", step(schema.ActionUnexport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-03"}),
			func(s *situation) { s.target.Exports = []schema.ExportTarget{exportItem} }, "the export is in this machine's target"},
		{"unexport", step(schema.ActionUnexport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-03"}), nil, ""},
		{"unexport from nobody", step(schema.ActionUnexport, imagenet, schema.StepArgs{UID: "u-exp"}), nil, "the step names no client"},
		{"mount what is not wanted", step(schema.ActionMount, imagenet, schema.StepArgs{UID: "u-net"}), nil,
			"the mount is not in this machine's target"},
		{"create a copy outside the data locations", step(schema.ActionCreateCopy, cache, schema.StepArgs{UID: "u-cache"}),
			func(s *situation) {
				s.target.Copies = []schema.CopyTarget{{Drive: cache, UID: "u-cache", Location: "/tmp"}}
			},
			"/tmp is not a data location of this machine"},
		{"a name that leads elsewhere", step(schema.ActionUnexport, imagenet, schema.StepArgs{UID: "../../etc", To: "x"}), nil,
			`"../../etc" is not a name`},
		{"a mount by another drive's name", step(schema.ActionMount, cache, schema.StepArgs{UID: "u-net"}),
			func(s *situation) { s.target.Mounts = []schema.MountTarget{mountItem} }, "the mount is not in this machine's target"},
		{"another machine's step", schema.Step{Machine: "gpu-02", Action: schema.ActionMount}, nil, "the step is for gpu-02"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := judged()
			if c.change != nil {
				c.change(s)
			}
			require.Equal(t, c.want, s.refuse(c.step))
		})
	}
}

func TestDoneIsWhatTheMachineShows(t *testing.T) {
	hidden := func(s *situation) { s.seen.copies.Copies[0].State = schema.CopyUnknown }
	export := step(schema.ActionExport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-03"})
	mount := step(schema.ActionMount, imagenet, schema.StepArgs{UID: "u-net"})
	withExport := func(change func(*schema.ExportTarget)) func(*situation) {
		return func(s *situation) {
			item := exportItem
			change(&item)
			s.target.Exports = []schema.ExportTarget{item}
		}
	}
	withMount := func(change func(*schema.MountTarget)) func(*situation) {
		return func(s *situation) {
			item := mountItem
			change(&item)
			s.target.Mounts = []schema.MountTarget{item}
		}
	}
	cases := []struct {
		name   string
		step   schema.Step
		change func(*situation)
		want   triState
	}{
		{"export as wanted", export, withExport(func(*schema.ExportTarget) {}), yes},
		{"export wider", export, withExport(func(e *schema.ExportTarget) { e.Mode = schema.ReadWrite }), no},
		{"export to another address", export, withExport(func(e *schema.ExportTarget) { e.Addresses = []string{"192.0.2.4"} }), no},
		{"exports unknown", export, func(s *situation) { s.seen.exports = nil }, unknown},
		{"mount as wanted", mount, withMount(func(*schema.MountTarget) {}), yes},
		{"mount from elsewhere", mount, withMount(func(m *schema.MountTarget) { m.From = "gpu-05" }), no},
		{"mount with a transport that is not allowed", mount, withMount(func(m *schema.MountTarget) {
			m.Transports = []schema.Transport{schema.TransportRDMA}
		}), no},
		{"lab's transport is always allowed", mount, func(s *situation) {
			withMount(func(*schema.MountTarget) {})(s)
			s.seen.mounts[0].Transport = schema.TransportLab
		}, yes},
		{"hung is not bound", mount, func(s *situation) {
			withMount(func(*schema.MountTarget) {})(s)
			s.seen.mounts[0].State = schema.MountHung
		}, no},
		{"detached is unmounted", step(schema.ActionUnmount, imagenet, schema.StepArgs{UID: "u-net"}),
			func(s *situation) { s.seen.mounts[0].State = schema.MountDetached }, yes},
		{"started, any state", step(schema.ActionStartWorker, train, workerArgs), nil, yes},
		{"stop of a running one", step(schema.ActionStopWorker, train, workerArgs), nil, no},
		{"stop of a stuck one", step(schema.ActionStopWorker, train, workerArgs),
			func(s *situation) { s.seen.workers[0].state = runtime.Stuck }, no},
		{"stop of an absent one", step(schema.ActionStopWorker, train, schema.StepArgs{UID: "x"}), nil, yes},
		{"stop, listing incomplete", step(schema.ActionStopWorker, train, schema.StepArgs{UID: "x"}),
			func(s *situation) { s.seen.engineKnown = false }, unknown},
		{"copy there", step(schema.ActionCreateCopy, cache, schema.StepArgs{UID: "u-cache"}), nil, yes},
		{"copy's location not mounted: create", step(schema.ActionCreateCopy, cache, schema.StepArgs{UID: "u-cache"}), hidden, unknown},
		{"copy's location not mounted: delete", step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}), hidden, unknown},
		{"copy in the trash is deleted", step(schema.ActionDeleteCopy, cache, schema.StepArgs{UID: "u-cache"}),
			func(s *situation) { s.seen.copies.Copies[0].State = schema.CopyTrash }, yes},
		{"unexported", step(schema.ActionUnexport, imagenet, schema.StepArgs{UID: "u-exp", To: "gpu-09"}), nil, yes},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := judged()
			if c.change != nil {
				c.change(s)
			}
			require.Equal(t, c.want, s.done(c.step))
		})
	}
}

func TestMaterialChange(t *testing.T) { // D-70
	now := time.Unix(1e9, 0)
	used := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	base := func() *schema.MachineReport {
		return &schema.MachineReport{Filesystems: []schema.Filesystem{{MountPoint: "/", ID: "f", TotalBytes: 1000 << 30, FreeBytes: 500 << 30, FreeInodes: 1000}},
			Copies: []schema.Copy{{UID: "u", FSID: "f", Bytes: 10 << 30, LastUsed: used(0)}}, Workers: []schema.Worker{}}
	}
	cases := []struct {
		name   string
		change func(*schema.MachineReport)
		want   bool
	}{
		{"nothing", func(*schema.MachineReport) {}, false},
		{"sequence", func(r *schema.MachineReport) { r.Sequence = 9 }, false},
		{"free moved by 1 GiB", func(r *schema.MachineReport) { r.Filesystems[0].FreeBytes -= 1 << 30 }, false},
		{"free moved by more", func(r *schema.MachineReport) { r.Filesystems[0].FreeBytes -= 1<<30 + 1 }, true},
		{"1 % of a small one", func(r *schema.MachineReport) {
			r.Filesystems[0].TotalBytes, r.Filesystems[0].FreeBytes = 100<<20, 500<<30
		}, true},
		{"copy grew by 1 GiB", func(r *schema.MachineReport) { r.Copies[0].Bytes += 1 << 30 }, false},
		{"copy grew by more", func(r *schema.MachineReport) { r.Copies[0].Bytes += 2 << 30 }, true},
		{"copy measured first", func(r *schema.MachineReport) { r.Copies[0].Bytes = -1 }, true},
		{"used 59 minutes later", func(r *schema.MachineReport) { r.Copies[0].LastUsed = used(59 * time.Minute) }, false},
		{"used an hour later", func(r *schema.MachineReport) { r.Copies[0].LastUsed = used(time.Hour) }, true},
		{"copy gone", func(r *schema.MachineReport) { r.Copies = []schema.Copy{} }, true},
		{"workers unknown", func(r *schema.MachineReport) { r.Workers = nil }, true},
		{"measured", func(r *schema.MachineReport) { r.Measurements = []schema.Measurement{{Bytes: 1}} }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			next := base()
			c.change(next)
			require.Equal(t, c.want, material(base(), next))
		})
	}
}
