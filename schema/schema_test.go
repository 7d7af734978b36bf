package schema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// D-58
func TestSizesHaveThreeSignificantDecimalDigits(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 9994: "9.99 kB", 9996: "10.0 kB", 99949: "99.9 kB", 99951: "100 kB",
		999499: "999 kB", 999500: "1.00 MB", 107374182400: "107 GB", 40_000_000_000: "40.0 GB",
		450_000_000_000: "450 GB", 500_000_000_000: "500 GB", 1<<63 - 1: "9.22 EB", -2048: "-2.05 kB",
	} {
		require.Equal(t, want, schema.Size(bytes), "%d", bytes)
	}
}

// kinds.md: the namespace of a workspace; N-1: ws- and 12 hex digits.
func TestNamespaceIsDerived(t *testing.T) {
	ns := schema.Namespace("example", "acme", "research")
	require.Regexp(t, `^ws-[0-9a-f]{12}$`, ns)
	require.NotEqual(t, ns, schema.Namespace("example", "acme", "serving"))
	require.NotEqual(t, schema.Namespace("a", "b/c", "d"), schema.Namespace("a", "b", "c"))
}

// D-8, N-9, V-2
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, bad := range []string{"", "a.b", "A", "-a", "a-", "ä", "a_b", "a b", long} {
		require.NotEmpty(t, schema.NameProblem(bad), "%q", bad)
	}
	for _, bad := range []string{"", "-a", "a-", "a.b", "a b", "ü", long} {
		require.NotEmpty(t, schema.DNSNameProblem(bad), "%q", bad)
	}
	for _, bad := range []string{"", " a", "a ", "a/b", "a\x00b", "\xff", strings.Repeat("ü", 129)} {
		require.NotEmpty(t, schema.VolumeNameProblem(bad), "%q", bad)
	}
	require.Empty(t, schema.NameProblem("hf-cache-2"))
	require.Empty(t, schema.DNSNameProblem("Train_2"))
	require.Empty(t, schema.VolumeNameProblem(strings.Repeat("ü", 128)))
	// N-2
	require.Equal(t, "train-0", schema.WorkerName("train", "", 0))
	require.Equal(t, "train-ps-3", schema.WorkerName("train", "ps", 3))
}

// D-20: whole segments.
func TestCoversByWholeSegments(t *testing.T) {
	require.True(t, schema.Covers("/mnt/data", "/mnt/data/x"))
	require.True(t, schema.Covers("/mnt/data/", "/mnt/data"))
	require.True(t, schema.Covers("/", "/x"))
	require.False(t, schema.Covers("/mnt/data", "/mnt/database"))
	require.False(t, schema.Covers("/mnt/data", "/mnt"))
	require.True(t, schema.Overlaps("/mnt", "/mnt/data"))
}

// V-4: denied prefixes match by plain prefix, after cleaning; refused characters.
func TestVolumePathPolicy(t *testing.T) {
	for _, ok := range []string{"/data/x", "/mnt/nfs/", "/opt/a b", "/workspace/ü", "/data//x"} {
		require.Empty(t, schema.VolumePathProblem(ok, nil, nil), ok)
	}
	for _, bad := range []string{
		"", "data/x", "/etc", "/etc-data", "/data/../etc/x", "/rootless", "/home/x", "/database", "/data/a:b", "/data/a;b",
		"/data/a|b", "/data/$x", "/data/a'b", "/data/a\"b", "/data/a`b", "/data/a\\b", "/data/a*", "/data/a\nb",
		"/data/" + strings.Repeat("x", 1024), "/mnt/../usr/x", "//etc/x",
	} {
		require.NotEmpty(t, schema.VolumePathProblem(bad, nil, nil), bad)
	}
	require.Empty(t, schema.VolumePathProblem("/srv/x", []string{"/srv"}, nil))
	require.NotEmpty(t, schema.VolumePathProblem("/etc/x", []string{"/etc"}, nil), "denied wins over allowed")
	require.NotEmpty(t, schema.ContainerPathProblem("/"))
	require.NotEmpty(t, schema.ContainerPathProblem("/x/.."))
}

func TestKeysRoundTrip(t *testing.T) {
	for _, text := range []string{"drive/ws-0123456789ab.imagenet", "machine/gpu-01", "grant/acme.research",
		"workspace/acme.research", "volume/ws-0123456789ab.Qwen models.v2", "cluster/example", "replica_group/ws-0.api"} {
		key, err := schema.ParseKey(text)
		require.NoError(t, err)
		require.Equal(t, text, key.String())
	}
	for _, bad := range []string{"drive/imagenet", "thing/x", "drive", "drive/", "drive/.x", "run/ws-0."} {
		_, err := schema.ParseKey(bad)
		require.Error(t, err, bad)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("drive/ws-0123456789ab.imagenet")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := schema.ParseKey(text)
		if err != nil {
			return
		}
		again, err := schema.ParseKey(key.String())
		require.NoError(t, err)
		require.Equal(t, key, again)
	})
}

// normalising twice changes nothing, and defaults spelled out are equal to defaults left out.
func TestNormalizeIsIdempotent(t *testing.T) {
	short := &schema.Object{Key: schema.Key{Kind: schema.KindDrive, Namespace: "ws-0", Name: "d"},
		Spec: &schema.DriveSpec{Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced}}}}
	long := &schema.Object{Key: short.Key, Spec: &schema.DriveSpec{Transport: "Auto", NFS: schema.NFSOptions{Squash: "root"},
		Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced, Mode: schema.ReadOnly}}}}
	short.Rehash()
	long.Rehash()
	require.Equal(t, short.Hash, long.Hash)
	before := short.Hash
	short.Rehash()
	require.Equal(t, before, short.Hash)
}

func TestObjectsRoundTripAsJSON(t *testing.T) {
	for _, kind := range schema.Kinds {
		object := &schema.Object{Key: schema.Key{Kind: kind, Name: "x"}, Metadata: schema.Metadata{Name: "x"}, Spec: schema.NewSpec(kind)}
		if kind != schema.KindCluster && kind != schema.KindOrg && kind != schema.KindMachine {
			object.Key.Namespace = "ns"
		}
		object.Rehash()
		data, err := json.Marshal(object)
		require.NoError(t, err)
		back := &schema.Object{}
		require.NoError(t, json.Unmarshal(data, back))
		require.Equal(t, object, back, kind)
	}
}

// X-9, conventions.md: nil is unknown and is left out, empty is none and is kept.
func TestUnknownIsNotAbsent(t *testing.T) {
	data, err := json.Marshal(schema.MachineReport{Name: "gpu-01", Copies: []schema.Copy{}})
	require.NoError(t, err)
	require.Contains(t, string(data), `"copies":[]`)
	require.NotContains(t, string(data), "filesystems")
	var back schema.MachineReport
	require.NoError(t, json.Unmarshal(data, &back))
	require.Nil(t, back.Filesystems)
	require.NotNil(t, back.Copies)
}

// The documents' exact sentences: D-30, D-50..D-57, D-80, D-42, D-40, X-13, X-14, X-17.
func TestSentences(t *testing.T) {
	at := func(code schema.ReasonCode, machine string, args schema.ReasonArgs) string {
		return schema.Reason{Code: code, Machine: machine, Args: args}.Message()
	}
	args := schema.ReasonArgs{Drive: "imagenet", Machine: "gpu-01", Site: "eu-west"}
	for want, got := range map[string]string{
		"Choose where to keep data on gpu-01":       at(schema.ReasonNoDataLocation, "gpu-01", schema.ReasonArgs{}),
		"Choose where to keep data on the machines": schema.Reason{Code: schema.ReasonNoDataLocation, Count: 3, Machines: []string{"a", "b", "c"}}.Message(),
		"drive hf-cache needs 107 GB at this machine's data location, 40.0 GB free": at(schema.ReasonNoRoom, "m",
			schema.ReasonArgs{Drive: "hf-cache", Need: 107374182400, Have: 40_000_000_000}),
		"drive hf-cache needs 107 GB; this machine's data location holds 450 GB of its 500 GB limit": at(schema.ReasonOverLimit, "m",
			schema.ReasonArgs{Drive: "hf-cache", Need: 107374182400, Have: 450_000_000_000, Limit: 500_000_000_000}),
		"drive imagenet: source 0 is local to machine gpu-01 and its transport is Local": at(schema.ReasonLocalElsewhere, "gpu-02", args),
		"drive imagenet: source 0 is not usable from machine gpu-07":                     at(schema.ReasonNotEligible, "gpu-07", args),
		"drive lustre-ckpt: /lustre/checkpoints is not on a shared filesystem mounted here": at(schema.ReasonSharedNotMounted, "m",
			schema.ReasonArgs{Drive: "lustre-ckpt", Path: "/lustre/checkpoints"}),
		"drive imagenet is on gpu-01, in another site (eu-west)": at(schema.ReasonOtherSite, "m", args),
		"drive imagenet does not exist":                          at(schema.ReasonNoDrive, "", args),
		"drive x is held back: no grant":                         at(schema.ReasonNoDrive, "", schema.ReasonArgs{Drive: "x", Text: "no grant"}),
		"drive x: its file cannot be used (a/x.cue:5:9)":         at(schema.ReasonNoDrive, "", schema.ReasonArgs{Drive: "x", Path: "a/x.cue:5:9"}),
		"machine gpu-01 has not connected yet":                   at(schema.ReasonNotConnected, "gpu-01", schema.ReasonArgs{}),
		"4 machines have not connected yet (a, b, c, …)":         schema.Reason{Code: schema.ReasonNotConnected, Count: 4, Machines: []string{"a", "b", "c", "d"}}.Message(),
		"needs 4 CPU cores, 1.5 free, and 2 GPUs, 0 free":        at(schema.ReasonCPU, "m", schema.ReasonArgs{Cores: 4, Free: 1.5, GPUs: 2}),
		"restarts after 10s (attempt 2): command not found: /x":  at(schema.ReasonBackoff, "", schema.ReasonArgs{Text: "10s", Need: 2, Why: "command not found: /x"}),
		"waiting for imagenet to be mounted from gpu-01 (Exported)": at(schema.ReasonMounting, "gpu-02",
			schema.ReasonArgs{Drive: "imagenet", Machine: "gpu-01", State: "Exported"}),
		"Waiting for drive X to be filled on M":                           at(schema.ReasonFilling, "M", schema.ReasonArgs{Drive: "X"}),
		"Invalid task: data volume imagenet: mount_path must be absolute": at(schema.ReasonNoMountPath, "", args),
		"lost on gpu-01; may still be writing lustre-ckpt":                at(schema.ReasonLost, "", schema.ReasonArgs{Machine: "gpu-01", Drive: "lustre-ckpt"}),
		"machine gpu-01 has no container engine":                          at(schema.ReasonNoEngine, "gpu-01", schema.ReasonArgs{}),
		"data location /mnt/nvme0/astraeus is not mounted on gpu-01":      at(schema.ReasonNotMounted, "gpu-01", schema.ReasonArgs{Path: "/mnt/nvme0/astraeus"}),
		"evicted: the disk it is on is nearly full":                       schema.WhyMessage(schema.WhyDiskNearlyFull, ""),
		"evicted: the machine's data location is over its limit":          schema.WhyMessage(schema.WhyOverLimit, ""),
		"drive imagenet: source 0 is on machine gpu-01 which is Down":     at(schema.ReasonSourceAway, "", args),
	} {
		require.Equal(t, want, got)
	}
}

// grouped by code and arguments, a count, at most ten names.
func TestReasonsAreGrouped(t *testing.T) {
	var list []schema.Reason
	for i := range 30 {
		list = append(list, schema.Reason{Code: schema.ReasonNoDataLocation, Machine: schema.WorkerName("gpu", "", i)})
	}
	list = append(list, schema.Reason{Code: schema.ReasonCPU, Machine: "gpu-x", Args: schema.ReasonArgs{Cores: 4, Free: 1.5}})
	grouped := schema.GroupReasons(list)
	require.Len(t, grouped, 2)
	require.Equal(t, 30, grouped[0].Count)
	require.Len(t, grouped[0].Machines, schema.MaxNamedMachines)
	require.Equal(t, "30 machines: Choose where to keep data on the machines; gpu-x: needs 4 CPU cores, 1.5 free", schema.Summarize(grouped, 0))
	require.Equal(t, "30 machines: Choose where to keep data on the machines; and 1 more reasons", schema.Summarize(grouped, 1))
	slices.Reverse(list)
	reversed := schema.GroupReasons(list)
	require.Equal(t, grouped[1], reversed[1])
	data, err := json.Marshal(grouped)
	require.NoError(t, err)
	var back []schema.Reason
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, grouped, back)
}

// every reason of a summary begins with its machines, or none does.
func TestASummaryNamesMachinesForAllOrNone(t *testing.T) {
	on := func(code schema.ReasonCode, machine string, args schema.ReasonArgs) schema.Reason {
		return schema.Reason{Code: code, Machine: machine, Machines: []string{machine}, Count: 1, Args: args}
	}
	gpus, taken := on(schema.ReasonGPUs, "gpu-02", schema.ReasonArgs{Need: 2}), on(schema.ReasonTaken, "gpu-03", schema.ReasonArgs{})
	away := on(schema.ReasonNotConnected, "gpu-01", schema.ReasonArgs{})
	location := on(schema.ReasonNoDataLocation, "gpu-04", schema.ReasonArgs{})
	mounting := on(schema.ReasonMounting, "gpu-02", schema.ReasonArgs{Drive: "d", Machine: "gpu-01", State: "Pending"})
	failed := on(schema.ReasonStepFailed, "gpu-01", schema.ReasonArgs{State: "Export of d", Text: "no"})
	for want, list := range map[string][]schema.Reason{
		"needs 2 GPUs, 0 free": {gpus},
		"gpu-02: needs 2 GPUs, 0 free; gpu-03: another worker of this run is there":                                       {gpus, taken},
		"machine gpu-01 has not connected yet; gpu-02: needs 2 GPUs, 0 free; gpu-04: Choose where to keep data on gpu-04": {away, gpus, location},
		"machine gpu-01 has not connected yet; Choose where to keep data on gpu-04":                                       {away, location},
		"waiting for d to be mounted from gpu-01 (Pending); Export of d on gpu-01: no":                                    {mounting, failed},
	} {
		require.Equal(t, want, schema.Summarize(list, schema.MostInSummary))
	}
}

func TestDiagnosticsSortAndDropRepeats(t *testing.T) {
	one := schema.Diagnostic{Pos: schema.Pos{File: "a.cue", Line: 2, Col: 1}, Severity: schema.SeverityError, Code: schema.CodeInvalid, Message: "m"}
	two := one
	two.Line = 1
	require.Equal(t, []schema.Diagnostic{two, one}, schema.SortDiagnostics([]schema.Diagnostic{one, two, one}))
	require.Equal(t, "a.cue:2:1: error[INVALID]: m", one.String())
}
