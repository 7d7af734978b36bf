package statusapi

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

func names(list List[Drive]) (out []string) {
	for _, d := range list.Items {
		out = append(out, d.Metadata.Namespace+"."+d.Metadata.Name)
	}
	return out
}

// D-92
func TestDrives(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	want := []string{"ws-research.cache", "ws-research.imagenet", "ws-research.refused", "ws-serving.imagenet"}
	require.Equal(t, want, names(body[List[Drive]](t, h, "/v1/drives")))
	require.Equal(t, want, names(body[List[Drive]](t, h, "/v1/datavolumes")))
	require.Equal(t, want[:3], names(body[List[Drive]](t, h, long+"/drives")))

	requireProblem(t, ask(t, h, http.MethodGet, "/v1/drives/imagenet"), http.StatusConflict, codeAmbiguous)
	require.Equal(t, "serving", body[Drive](t, h, "/v1/drives/ws-serving.imagenet").Metadata.Workspace)
	require.Equal(t, "research", body[Drive](t, h, long+"/drives/imagenet").Metadata.Workspace)

	// The fields of the documents are always there.
	raw := body[map[string]json.RawMessage](t, h, "/v1/drives/cache")
	for _, field := range []string{"metadata", "spec", "status", "used_by", "claims", "copies"} {
		require.Contains(t, raw, field)
		require.NotEqual(t, "null", string(raw[field]), field)
	}
}

// What is held back is shown, although nothing of it is in force. // G-9
func TestHeldDrive(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	d := body[Drive](t, h, "/v1/drives/refused")
	require.Equal(t, "Held", string(d.Status.State))
	require.Equal(t, schema.CodeHostAccessForbidden, d.Refused.Code)
	require.Equal(t, 403, d.Refused.Status)
}

// D-33
func TestMachines(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	m := body[Machine](t, h, "/v1/machines/gpu-01")
	require.Equal(t, "/mnt/nvme0/astraeus", m.Recommended)
	require.Equal(t, schema.MachineUp, m.State)
	require.Len(t, m.Disks, 2)
	require.Len(t, m.Copies, 2)
	require.True(t, m.Location.Mounted)

	local := body[Machine](t, h, long+"/machines/gpu-01")
	require.Len(t, local.Copies, 1, "another workspace's copies are not shown")
	require.Equal(t, "cache", local.Copies[0].Drive)
}

func TestRecommendedOnRoot(t *testing.T) {
	require.Equal(t, "/var/lib/astraeus", recommended([]schema.Filesystem{{MountPoint: "/", Recommended: true}}))
	require.Empty(t, recommended([]schema.Filesystem{{MountPoint: "/"}}))
}

// The documents' field names of a volume. // V-10
func TestVolume(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	w := ask(t, h, http.MethodGet, "/v1/volumes/vol-3f9c2a1b8e4d6071")
	var raw struct {
		Volume               map[string]any   `json:"volume"`
		References           []map[string]any `json:"references"`
		InUse                *bool            `json:"in_use"`
		ActiveReferenceCount *int             `json:"active_reference_count"`
		HiddenReferenceCount *int             `json:"hidden_reference_count"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &raw))
	require.Equal(t, "vol-3f9c2a1b8e4d6071", raw.Volume["id"])
	require.Equal(t, "my models", raw.Volume["name"])
	require.EqualValues(t, 200, raw.Volume["capacity_gb"])
	require.Len(t, raw.References, 1)
	for _, field := range []string{"task_id", "task_name", "task_status", "user_id", "group_id", "active"} {
		require.Contains(t, raw.References[0], field)
	}
	require.Equal(t, "train", raw.References[0]["task_name"])
	require.True(t, *raw.InUse)
	require.Equal(t, 1, *raw.ActiveReferenceCount)
	require.Equal(t, 0, *raw.HiddenReferenceCount)
}

func TestEvents(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	require.Len(t, body[List[schema.Event]](t, h, "/v1/events").Items, 3)
	require.Len(t, body[List[schema.Event]](t, h, long+"/events").Items, 2)
	one := body[List[schema.Event]](t, h, "/v1/events?object=drive/ws-serving.imagenet")
	require.Len(t, one.Items, 1)
	first := body[List[schema.Event]](t, h, "/v1/events?limit=2")
	require.NotEmpty(t, first.Continue)
	rest := body[List[schema.Event]](t, h, "/v1/events?limit=2&continue="+first.Continue)
	require.Len(t, rest.Items, 1)
	require.Equal(t, "Removed", rest.Items[0].Type)
}

func TestPlan(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	p := body[Plan](t, h, "/v1/plan")
	require.Equal(t, "c0ffee", p.Commit)
	require.Len(t, p.Pending, 1)
	require.Len(t, p.Waits, 1)
	require.Len(t, p.Holds, 1)
	other := body[Plan](t, h, "/api/v1/orgs/acme/workspaces/serving/clusters/lab/api/plan")
	require.Empty(t, other.Pending)
	require.Empty(t, other.Waits)
	require.Empty(t, other.Holds)
}

// What /v1/accepted says is enough to plan from. // G-6
func TestAcceptedRoundTrip(t *testing.T) {
	view := cluster()
	run := schema.Key{Kind: schema.KindRun, Namespace: nsResearch, Name: "train"}
	view.Input.Placed = map[schema.Key]schema.Placement{run: {Run: run, RunUID: "uid-train", Generation: 1, Workers: []schema.PlacedWorker{{Name: "train-0", Machine: "gpu-01"}}}}
	view.Input.Accepted.Tombstones = map[string]*schema.Tombstone{"t1": {UID: "t1", Key: key(nsResearch, "old")}}
	h := serve(t, fixed{view: view})
	accepted, placed := body[Accepted](t, h, "/v1/accepted").State()
	require.Equal(t, schema.HashJSON(view.Input.Accepted), schema.HashJSON(accepted))
	require.Equal(t, schema.HashJSON(view.Input.Placed), schema.HashJSON(placed))

	observed := body[schema.Observed](t, h, "/v1/observed")
	require.Equal(t, view.Input.Observed.Machines, observed.Machines)
	require.Equal(t, []schema.PlacementRecord{{Run: "ws-research.train", Worker: "train-0", Machine: "gpu-01", RunUID: "uid-train", Generation: 1}}, observed.Placements)
}

func TestStatus(t *testing.T) {
	s := body[Status](t, serve(t, fixed{view: cluster()}), "/v1/status")
	require.Equal(t, "lab", s.Cluster)
	require.True(t, s.Ready)
	require.Equal(t, map[string]int{"Up": 1}, s.Machines)
	require.Equal(t, 4, s.Objects["drive"])
}

// D-90: state with its reason, where the data is, what it takes, and who uses it.
func TestDriveStatus(t *testing.T) {
	one, zero := 1, 0
	view := cluster()
	run := object(schema.KindRun, nsResearch, "reader", &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{
		Image: "x", DatavolumeRefs: []schema.DatavolumeRef{{Name: "imagenet"}},
	}})
	for k, o := range accept(run) {
		view.Input.Accepted.Objects[k] = o
	}
	view.Input.Placed = map[schema.Key]schema.Placement{run.Key: {
		Run: run.Key, RunUID: "uid-reader", Generation: 1, Spec: run.Spec.(*schema.RunSpec), Org: "acme", Workspace: "research",
		Workers: []schema.PlacedWorker{{Name: "reader-0", Machine: "gpu-01", Since: noon}},
	}}
	machine := view.Input.Observed.Machines[0]
	machine.Measurements = []schema.Measurement{{Drive: nsResearch + ".imagenet", UID: "uid-imagenet", Bytes: 150e9, Files: 1281167, Answers: one, At: noon}}

	view.Plan = planner.Plan(view.Input)
	d := body[Drive](t, serve(t, fixed{view: view}), long+"/drives/imagenet")
	require.Equal(t, "Available", string(d.Status.State))
	require.Equal(t, []string{"gpu-01"}, d.Status.Where)
	require.EqualValues(t, 150e9, *d.Status.UsedBytes)
	require.EqualValues(t, 1281167, *d.Status.Files)
	require.Equal(t, one, *d.Status.Answers)
	require.Equal(t, 1, d.Status.Workers)
	require.Equal(t, "reader", d.UsedBy[0].Run)
	require.Equal(t, "reader-0", d.UsedBy[0].Worker)

	machine.State, machine.Measurements[0].Answers = schema.MachineDown, zero
	d = body[Drive](t, serve(t, fixed{view: view}), long+"/drives/imagenet")
	require.Equal(t, "Unreachable", string(d.Status.State))
	require.Equal(t, "source 0 is on machine gpu-01 which is Down", d.Status.Message)

	c := body[Drive](t, serve(t, fixed{view: view}), long+"/drives/cache")
	require.Len(t, c.Copies, 1)
	require.Equal(t, "gpu-01", c.Copies[0].Machine)
	require.EqualValues(t, 7, c.Copies[0].Bytes)
}

// D-91: numbers are as old as the oldest measurement that they sum up.
func TestDriveSaysWhenItWasMeasured(t *testing.T) {
	view := cluster()
	view.Input.Observed.Machines[0].Measurements = []schema.Measurement{
		{Drive: nsResearch + ".cache", Bytes: 7, Files: 1, Answers: 1, At: noon},
		{Drive: nsResearch + ".cache", Source: 1, Bytes: 7, Files: 1, Answers: 1, At: noon.Add(-time.Hour)},
	}
	h := serve(t, fixed{view: view})
	cache := body[Drive](t, h, "/v1/drives/"+nsResearch+".cache")
	require.NotNil(t, cache.Status.UsedBytes)
	require.True(t, noon.Add(-time.Hour).Equal(*cache.Status.MeasuredAt))
	require.Nil(t, body[Drive](t, h, "/v1/drives/"+nsResearch+".imagenet").Status.MeasuredAt)
}
