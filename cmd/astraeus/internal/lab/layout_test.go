package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func objects(list ...*schema.Object) map[schema.Key]*schema.Object {
	out := map[schema.Key]*schema.Object{}
	for _, o := range list {
		o.Org = "acme"
		o.Rehash()
		out[o.Key] = o
	}
	return out
}

func machineAt(name, location string) *schema.Object {
	spec := &schema.MachineSpec{Address: "192.0.2.1"}
	if location != "" {
		spec.DataLocation = &schema.DataLocationSpec{Path: location}
	}
	return &schema.Object{Key: schema.Key{Kind: schema.KindMachine, Name: name}, Spec: spec}
}

func driveAt(name string, scope schema.NodeScope, path string) *schema.Object {
	return &schema.Object{Key: schema.Key{Kind: schema.KindDrive, Namespace: "ws-0", Name: name},
		Spec: &schema.DriveSpec{Sources: []schema.DriveSource{{NodeScope: scope, Path: path}}}}
}

// the lab stands in for the operator who mounted disks and shared filesystems.
func TestRoomIsFurnishedForWhatIsDeclared(t *testing.T) {
	conf := planRoom(objects(machineAt("gpu-02", "/mnt/nvme0/astraeus"), machineAt("gpu-01", "/var/lib/astraeus"),
		driveAt("ckpt", schema.ScopeShared, "/lustre/checkpoints"), driveAt("own", schema.ScopeOneMachine, "/mnt/datasets/x"),
		&schema.Object{Key: schema.Key{Kind: schema.KindHostPathGrant, Namespace: "acme", Name: "g"},
			Spec: &schema.HostPathGrantSpec{Paths: []string{"/mnt/datasets", "/lustre"}}}), roomConf{})
	require.Equal(t, []machineConf{
		{Name: "gpu-01", Address: "192.0.2.1", Shared: []string{"/lustre"}, Dirs: []string{"/lustre", "/mnt/datasets"}},
		{Name: "gpu-02", Address: "192.0.2.1", Shared: []string{"/lustre"}, Dirs: []string{"/lustre", "/mnt/datasets"}, Disks: []string{"/mnt/nvme0"}},
	}, conf.Machines)
}

func TestASharedMountCoversNothingElse(t *testing.T) {
	// /mnt also holds a data location: only the source's own path is the shared filesystem.
	require.Equal(t, []string{"/mnt/lustre"}, sharedMounts(objects(machineAt("gpu-01", "/mnt/nvme0/astraeus"),
		driveAt("a", schema.ScopeShared, "/mnt/lustre"), driveAt("b", schema.ScopeShared, "/mnt/lustre/inner"))))
	require.Empty(t, diskOf("/astraeus"))
	require.Empty(t, diskOf("/var/lib/astraeus"))
}

// A disk stays when the data location moves, and hides nothing that is in use. D-32
func TestDisksStayAndHideNothing(t *testing.T) {
	disks := func(before roomConf, list ...*schema.Object) (roomConf, []string) {
		conf := planRoom(objects(list...), before)
		return conf, conf.disks("gpu-01")
	}
	first, at := disks(roomConf{}, machineAt("gpu-01", "/mnt/nvme0/astraeus"))
	require.Equal(t, []string{"/mnt/nvme0"}, at)
	second, at := disks(first, machineAt("gpu-01", "/mnt/nvme1/astraeus"))
	require.Equal(t, []string{"/mnt/nvme0", "/mnt/nvme1"}, at)
	_, at = disks(second, machineAt("gpu-01", "/mnt/nvme1/other"))
	require.Equal(t, []string{"/mnt/nvme0", "/mnt/nvme1"}, at)
	_, at = disks(second, machineAt("gpu-01", "/mnt/astraeus"))
	require.Equal(t, []string{"/mnt/nvme0", "/mnt/nvme1", "/mnt/astraeus"}, at)
	_, at = disks(roomConf{}, machineAt("gpu-01", "/mnt/astraeus"), driveAt("own", schema.ScopeOneMachine, "/mnt/datasets/x"))
	require.Equal(t, []string{"/mnt/astraeus"}, at)
	_, at = disks(roomConf{}, machineAt("gpu-01", "/lustre/ckpt/x"), driveAt("ckpt", schema.ScopeShared, "/lustre/ckpt"))
	require.Empty(t, at, "no disk inside a shared filesystem")
}

// an agent's state is not in the default data folder, nor its work root.
func TestAgentStateIsNoDataFolder(t *testing.T) {
	require.Equal(t, "/var/lib/astraeus-agent", stateDir)
	for _, own := range []string{stateDir, workRoot} {
		require.False(t, schema.Overlaps(own, "/var/lib/astraeus"))
	}
}
