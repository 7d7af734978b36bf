package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// disksOf is a machine with these disks. links says what a path leads to.
type disksOf struct {
	disks     []schema.Filesystem
	links     map[string]schema.Filesystem
	addresses []string
}

func (d disksOf) Filesystems(context.Context) ([]schema.Filesystem, error) { return d.disks, nil }
func (d disksOf) Addresses(context.Context) ([]string, error)              { return d.addresses, nil }

func (d disksOf) FilesystemOf(_ context.Context, path string) (schema.Filesystem, error) {
	if fs, ok := d.links[path]; ok {
		return fs, nil
	}
	return *diskOf(d.disks, path), nil
}

const oddMount = `/mnt/a "b" \(c) <d>`

var someDisks = disksOf{
	addresses: []string{"192.0.2.1"},
	disks: []schema.Filesystem{
		{MountPoint: "/", Type: "ext4", Medium: schema.MediumSSD, System: true, TotalBytes: 100e9, FreeBytes: 50e9},
		{MountPoint: "/lustre", Type: "lustre", Medium: schema.MediumShared, Shared: true, TotalBytes: 1e15, FreeBytes: 1e14},
		{MountPoint: "/mnt/nvme0", Type: "ext4", Medium: schema.MediumNVMe, TotalBytes: 1e12, FreeBytes: 9e11, Recommended: true},
		{MountPoint: oddMount, Type: "xfs", Medium: schema.MediumHDD, TotalBytes: 1e12, FreeBytes: 9e11},
		{MountPoint: "/mnt/dead", Type: "xfs", Medium: schema.MediumHDD, TotalBytes: -1, FreeBytes: -1},
	},
	links: map[string]schema.Filesystem{
		"/mnt/nvme0/link": {MountPoint: "/lustre", Type: "lustre", Shared: true},
		"/mnt/nvme0/ro":   {MountPoint: "/mnt/nvme0", Type: "ext4", ReadOnly: true},
		"/proc/x":         {MountPoint: "/proc", Type: "proc"},
	},
}

// initOn runs machine init; answers are what a person types, "" for nobody there.
func initOn(t *testing.T, d disksOf, answers string, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := &environment{stdin: strings.NewReader(answers), stdout: &stdout, stderr: &stderr, terminal: func(io.Writer) bool { return false }}
	command := machineInitCommand(env)
	command.Action = func(c *cli.Context) error {
		return machineInit{env: env, machine: d, hostname: "GPU-01.example.org", ask: answers != ""}.run(c)
	}
	app := &cli.App{Name: "astraeus", Commands: []*cli.Command{command}, ExitErrHandler: func(*cli.Context, error) {}}
	err = app.RunContext(t.Context(), append([]string{"astraeus", "init"}, args...))
	return stdout.String(), stderr.String(), err
}

// loaded is a machine's file as the repository reads it.
func loaded(t *testing.T, text string) *schema.MachineSpec {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"cluster.cue": clusterTextOf, "orgs/acme/org.cue": orgTextOf, "orgs/acme/machines/gpu-01.cue": text} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	loader := load.New(load.Options{})
	defer loader.Close()
	desired, err := loader.Load(t.Context(), os.DirFS(dir), load.Commit{})
	require.NoError(t, err)
	require.Empty(t, desired.Diagnostics, text)
	return desired.Objects[schema.Key{Kind: schema.KindMachine, Name: "gpu-01"}].Spec.(*schema.MachineSpec)
}

const (
	clusterTextOf = "kind: \"Cluster\"\nmetadata: name: \"lab\"\n"
	orgTextOf     = "kind: \"Org\"\nmetadata: name: \"acme\"\n"
)

// D-33: a machine's disks in plain words, one recommended; flags where nobody can
// be asked; and a file that the repository takes, whatever the disks are called.
func TestMachineInit(t *testing.T) {
	out, errs, err := initOn(t, someDisks, "")
	require.NoError(t, err)
	require.Contains(t, errs, "no data location was chosen")
	for _, words := range []string{"NVMe SSD, recommended", "SSD, the system disk", "shared, not for a data location", "hard disk, does not answer"} {
		require.Contains(t, errs, words)
	}
	spec := loaded(t, out)
	require.Nil(t, spec.DataLocation)
	require.Equal(t, "192.0.2.1", spec.Address)

	out, _, err = initOn(t, someDisks, "", "--data-dir", "/mnt/nvme0/astraeus/", "--max-space", "500G", "--engine", "process")
	require.NoError(t, err)
	require.Equal(t, "kind: \"Machine\"\nmetadata: name: \"gpu-01\"\nspec: {\n\taddress: \"192.0.2.1\"\n\tdata_location: {\n"+
		"\t\tpath:      \"/mnt/nvme0/astraeus\"\n\t\tmax_bytes: 500000000000\n\t}\n\tengine: \"process\"\n}\n", out)
	require.Equal(t, &schema.DataLocationSpec{Path: "/mnt/nvme0/astraeus", MaxBytes: 500e9}, loaded(t, out).DataLocation)

	out, _, err = initOn(t, someDisks, "", "--data-dir", oddMount+"/x")
	require.NoError(t, err)
	require.Equal(t, oddMount+"/x", loaded(t, out).DataLocation.Path)

	out, errs, err = initOn(t, someDisks, "", "--no-data-dir")
	require.NoError(t, err)
	require.NotContains(t, errs, "no data location was chosen")
	require.Nil(t, loaded(t, out).DataLocation)
}

// D-31: the rules, word for word.
func TestMachineInitRules(t *testing.T) {
	_, errs, err := initOn(t, someDisks, "", "--data-dir", "/var/lib/astraeus")
	require.NoError(t, err)
	require.Contains(t, errs, "warning: this is the system disk: drive copies share its space with the operating system")
	const own = "a data location must be on this machine's own disk — to use shared storage, make a shared drive instead"
	two := someDisks
	two.addresses = []string{"192.0.2.1", "198.51.100.1"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--data-dir", "/lustre/x"}, own},
		{[]string{"--data-dir", "/mnt/nvme0/link"}, own},
		{[]string{"--data-dir", "/mnt/nvme0/ro"}, "read-only"},
		{[]string{"--data-dir", "/proc/x"}, "is on no filesystem that machine gpu-01 reported"},
		{[]string{"--data-dir", "relative"}, "the path must be absolute"},
		{[]string{"--data-dir", "/mnt/nvme0/../../lustre"}, `".."`},
		{[]string{"--data-dir", "/mnt/\x00"}, "control character"},
		{[]string{"--data-dir", "/var/lib/astraeus-agent/x"}, "overlaps the agent's own directory"},
		{[]string{"--data-dir", "/x", "--no-data-dir"}, "contradict"},
		{[]string{"--no-data-dir", "--max-space", "5G"}, "wants none"},
		{[]string{"--max-space", "5G"}, "--max-space needs --data-dir"},
		{[]string{"--data-dir", "/mnt/nvme0/a", "--max-space", "much"}, "is no size"},
		{[]string{"--name", "gpu.01"}, "cannot contain a dot"},
		{[]string{"--engine", "docker"}, "want containerd or process"},
		{[]string{"--address", "203.0.113.1"}, "does not have the address"},
	} {
		out, _, err := initOn(t, two, "", c.args...)
		require.ErrorContains(t, err, c.want, "%v", c.args)
		require.Empty(t, out)
	}
	empty := disksOf{}
	_, _, err = initOn(t, empty, "", "--data-dir", "/data")
	require.ErrorContains(t, err, "/data is on no filesystem that machine gpu-01 reported")
}

// D-33: in a terminal it asks, until an answer can be used.
func TestMachineInitAsks(t *testing.T) {
	for answers, want := range map[string]*schema.DataLocationSpec{
		"\n\n":                        {Path: "/mnt/nvme0/astraeus"},
		"3\n500G\n":                   {Path: "/mnt/nvme0/astraeus", MaxBytes: 500e9},
		"1\n\n":                       {Path: "/var/lib/astraeus"},
		"none\n":                      nil,
		"2\n\n/mnt/nvme0/x\n1T\n":     {Path: "/mnt/nvme0/x", MaxBytes: 1e12},
		"9\n\n/mnt/nvme0/x\nlots\n\n": {Path: "/mnt/nvme0/astraeus"},
	} {
		out, errs, err := initOn(t, someDisks, answers)
		require.NoError(t, err, "%q: %s", answers, errs)
		require.Equal(t, want, loaded(t, out).DataLocation, "%q", answers)
	}
	out, _, err := initOn(t, someDisks, "/lustre\n\n")
	require.ErrorContains(t, err, "nothing was chosen and nothing written")
	require.Empty(t, out)
	// Nothing is recommended: Enter chooses nothing.
	out, _, err = initOn(t, disksOf{disks: someDisks.disks[:2]}, "\n")
	require.NoError(t, err)
	require.Nil(t, loaded(t, out).DataLocation)
}

// D-33: a file that is there is not written over without --force.
func TestMachineInitFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gpu-01.cue")
	_, _, err := initOn(t, someDisks, "", "--no-data-dir", "--out", file)
	require.NoError(t, err)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	_, _, err = initOn(t, someDisks, "", "--data-dir", "/mnt/nvme0/a", "--out", file)
	require.ErrorContains(t, err, "is there already; --force writes over it")
	same, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, before, same)
	_, _, err = initOn(t, someDisks, "", "--data-dir", "/mnt/nvme0/a", "--out", file, "--force")
	require.NoError(t, err)
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(after), "/mnt/nvme0/a")
	_, _, err = initOn(t, someDisks, "", "--no-data-dir", "--out", filepath.Join(file, "x"))
	require.Error(t, err)
}
