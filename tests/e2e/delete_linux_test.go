package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	nfslab "astraeus.io/astraeus/nodeexec/nfs/lab"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/schema"
)

// everyKind declares a drive of every kind, a volume, and a run over two machines
// that uses them all.
func everyKind() map[string]string {
	files := frame("gpu-01", "gpu-02")
	delete(files, workspace+"drives/all.cue")
	for name, spec := range map[string]string{
		"imagenet": `sources: [{node: "gpu-01", path: "/mnt/datasets/imagenet", mount_path: "/imagenet"}]`,
		"ckpt":     `sources: [{node_scope: "shared", node: "gpu-01", path: "/lustre/research", mount_path: "/ckpt", mode: "ReadWrite"}]`,
		"scratch":  `sources: [{node_scope: "local-any", path: "/scratch/s", mount_path: "/scratch", mode: "ReadWrite"}]`,
		"model":    `sources: [{node_scope: "placed", mount_path: "/cache", mode: "ReadWrite"}]`,
		"other":    `sources: [{node_scope: "placed", mount_path: "/other", mode: "ReadWrite"}]`,
	} {
		files[workspace+"drives/"+name+".cue"] = `kind: "Drive", metadata: name: "` + name + `", spec: {` + spec + `}`
	}
	files[workspace+"drives/spare.cue"] = placed("spare", true)
	files[workspace+"volumes/v.cue"] = `kind: "Volume", metadata: {name: "v", id: "vol-3f9c2a1b8e4d6071"}, spec: {host_path: "/data/volume", shared: true}`
	files[workspace+"runs/train.cue"] = `kind: "Run", metadata: name: "train"
spec: {restart_policy: "Never", task_template: {command: "sh", requested_resources: {machines: 2, cpu_cores: 12}
	args: ["-c", "cat /imagenet/canary /ckpt/canary /scratch/canary /volume/canary && echo weights >/cache/data && echo canary >/other/canary && exec sleep 100000"]
	datavolume_refs: [{name: "imagenet"}, {name: "ckpt"}, {name: "scratch"}, {name: "model"}, {name: "other"}]
	volumes: [{name: "v", container_path: "/volume"}]}}`
	files[workspace+"runs/spare.cue"] = job("use-spare", "spare", "head -c 5000000 /dev/zero >/cache/data")
	return files
}

// plant puts canaries wherever a machine keeps what is not a copy of ours.
func (m *machine) plant() (canaries []string) {
	m.t.Helper()
	for _, path := range []string{"/mnt/datasets/imagenet/canary", "/scratch/s/canary", "/data/volume/canary", nvme + "/canary",
		"/mnt/old/astraeus/drives/" + namespace + ".model/canary", // a data location without a marker
	} {
		write(m.t, m.at(path), "canary")
		canaries = append(canaries, m.at(path))
	}
	return append(canaries, m.at("/lustre/research/canary"))
}

// plantBeside puts canaries beside the copies and into the drive's own copy, in
// every way in which deleting could lead out of it.
func (m *machine) plantBeside() (canaries []string) {
	t := m.t
	t.Helper()
	drives := location + "/drives/"
	for _, path := range []string{location + "/canary", drives + "stranger/canary", drives + "ws-000000000000.model/canary",
		drives + ".astraeus/canary", drives + ".astraeus/trash/stranger-1/canary"} {
		write(t, m.at(path), "canary")
		canaries = append(canaries, m.at(path))
	}
	in := m.copyDir("model")
	for link, to := range map[string]string{"imagenet": "/mnt/datasets/imagenet", "root": "/", "real": m.at("/scratch/s"), "up": "../stranger"} {
		require.NoError(t, os.Symlink(to, in+"/"+link))
	}
	require.NoError(t, os.Link(m.at(location+"/canary"), in+"/hardlink"))
	require.NoError(t, os.MkdirAll(in+"/deep/er", 0o755))
	require.NoError(t, os.Mkdir(in+"/inside", 0o755))
	require.NoError(t, unix.Mount("tmpfs", in+"/inside", "tmpfs", 0, "size=1m"))
	write(t, in+"/inside/canary", "canary")
	t.Cleanup(func() {
		for _, path := range m.insides() {
			_ = unix.Unmount(filepath.Dir(path), unix.MNT_DETACH)
		}
	})
	return append(canaries, m.copyDir("other")+"/canary")
}

// insides are the canaries of the filesystem mounted inside the deleted copy.
func (m *machine) insides() []string {
	list, err := filepath.Glob(m.at(location + "/drives/.astraeus/trash/*/inside/canary"))
	require.NoError(m.t, err)
	return list
}

// D-9, D-60, D-61, X-2, X-3, X-27: a Deletion by force stops the workers, removes
// the drive's copies on every machine, and nothing else: neither does eviction,
// which what is stuck in the trash does not hold up (D-71).
func TestDeletion(t *testing.T) {
	c := newCluster(t)
	c.open()
	machines := []*machine{c.newMachine("gpu-01", 64), c.newMachine("gpu-02", 64)}
	peers := map[string]nfslab.Peer{}
	var canaries []string
	for i, m := range machines {
		peers[addresses[m.name]] = nfslab.Peer{Machine: m.name, Root: m.root, WorkRoot: workRoot}
		from, flags, fstype := "tmpfs", uintptr(0), "tmpfs"
		if i > 0 {
			from, flags, fstype = machines[0].at("/lustre"), unix.MS_BIND, ""
		}
		require.NoError(t, unix.Mount(from, m.at("/lustre"), fstype, flags, ""))
		t.Cleanup(func() { _ = unix.Unmount(m.at("/lustre"), unix.MNT_DETACH) })
		write(t, m.at("/lustre/research/canary"), "canary")
		canaries = append(canaries, m.plant()...)
	}
	require.NoError(t, nfslab.WritePeers(c.peers, peers))

	commit := c.declare(everyKind())
	c.settled(commit, "gpu-01", "gpu-02")
	c.until("workers on both have written", func(s reconciler.Status) bool {
		return len(machines[0].has("model"))+len(machines[1].has("model")) == 2 && len(machines[0].has("spare"))+len(machines[1].has("spare")) == 1
	})
	for _, m := range machines {
		canaries = append(canaries, m.plantBeside()...)
	}
	check := func() {
		t.Helper()
		for _, path := range canaries {
			require.FileExists(t, path)
		}
		for _, m := range machines {
			require.Len(t, m.insides(), 1, "on %s", m.name)
		}
	}

	commit = c.declare(map[string]string{workspace + "drives/model.cue": "",
		workspace + "deletions/model.cue": `kind: "Deletion", metadata: name: "model", spec: {drive: "model", force: true}`})
	c.until("deleted everywhere", func(s reconciler.Status) bool {
		return s.Head == commit && !c.holds("gpu-01", "model") && !c.holds("gpu-02", "model")
	})
	for _, m := range machines {
		require.NoDirExists(t, m.copyDir("model"))
		require.Empty(t, m.live())
	}
	check()
	wait := c.until("the run waits", func(s reconciler.Status) bool { return len(s.Plan.Waits) > 0 }).Plan.Waits[0]
	require.Equal(t, "drive model does not exist", wait.Summary())
	for _, name := range []string{"gpu-01", "gpu-02"} {
		c.until("it is told", func(reconciler.Status) bool {
			return slices.Contains(c.events("model"), "Copy removed from "+name+": the drive was deleted on purpose")
		})
	}

	at := slices.IndexFunc(machines, func(m *machine) bool { return len(m.has("spare")) == 1 })
	c.until("it is there and unused", func(reconciler.Status) bool {
		return c.holds(machines[at].name, "spare") && len(machines[at].live()) == 0
	})
	leave(t, machines[at].at(nvme), 8)
	c.until("evicted", func(reconciler.Status) bool { return !c.holds(machines[at].name, "spare") })
	require.Empty(t, machines[at].has("spare"))
	check()
}

// holds reports whether a machine reports a present copy of a drive, or cannot tell.
func (c *cluster) holds(machine, drive string) bool {
	r := c.report(machine)
	return r == nil || r.Copies == nil || slices.ContainsFunc(r.Copies, func(x schema.Copy) bool {
		return x.Drive == namespace+"."+drive && x.State != schema.CopyTrash
	})
}

// live are the workers that have not ended.
func (m *machine) live() (names []string) {
	for _, w := range m.c.report(m.name).Workers {
		if !w.State.Ended() {
			names = append(names, w.Name)
		}
	}
	return names
}
