package statusapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a Source of one view.
type fixed struct {
	view *View
	err  error
}

func (f fixed) View(context.Context) (*View, error) { return f.view, f.err }
func (fixed) Changed() <-chan struct{}              { return nil }

// serve is a handler that ends with the test.
func serve(t testing.TB, source Source) *Handler {
	t.Helper()
	h := NewHandler(Options{Source: source})
	t.Cleanup(h.Close)
	return h
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func object(kind schema.Kind, ns, name string, spec schema.Spec) *schema.Object {
	o := &schema.Object{
		Key: schema.Key{Kind: kind, Namespace: ns, Name: name}, Metadata: schema.Metadata{Name: name}, Spec: spec,
		Org: "acme", Origin: schema.Pos{File: "orgs/acme/" + name + ".cue", Line: 1, Col: 1},
	}
	if kind.InWorkspace() {
		o.Workspace = "research"
	}
	o.Rehash()
	return o
}

func accept(objects ...*schema.Object) map[schema.Key]*schema.AcceptedObject {
	out := map[schema.Key]*schema.AcceptedObject{}
	for i, o := range objects {
		out[o.Key] = &schema.AcceptedObject{UID: "uid-" + o.Key.Name, Generation: 1, Seq: int64(i), Commit: "c0ffee", Object: o}
	}
	return out
}

const (
	nsResearch = "ws-research"
	nsServing  = "ws-serving"
)

// cluster has two workspaces of one org with a drive of one name in both, a
// machine, a volume and a run that mounts it.
func cluster() *View {
	volume := object(schema.KindVolume, nsResearch, "my models", &schema.VolumeSpec{HostPath: "/data/models", Shared: true, CapacityGB: 200})
	volume.Metadata.ID = "vol-3f9c2a1b8e4d6071"
	run := object(schema.KindRun, nsResearch, "train", &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{
		Image: "x", Volumes: []schema.VolumeMount{{VolumeID: volume.Metadata.ID, ContainerPath: "/models"}},
	}})
	run.Metadata.Owner = "ada"
	serving := object(schema.KindDrive, nsServing, "imagenet", placedDrive())
	serving.Workspace = "serving"
	held := object(schema.KindDrive, nsResearch, "refused", placedDrive())
	accepted := accept(
		object(schema.KindCluster, "", "lab", &schema.ClusterSpec{}),
		object(schema.KindOrg, "", "acme", &schema.OrgSpec{}),
		object(schema.KindWorkspace, "acme", "research", &schema.WorkspaceSpec{Namespace: nsResearch}),
		object(schema.KindWorkspace, "acme", "serving", &schema.WorkspaceSpec{Namespace: nsServing}),
		object(schema.KindMachine, "", "gpu-01", &schema.MachineSpec{DataLocation: &schema.DataLocationSpec{Path: "/mnt/nvme0/astraeus"}}),
		object(schema.KindDrive, nsResearch, "imagenet", &schema.DriveSpec{Sources: []schema.DriveSource{{Node: "gpu-01", Path: "/mnt/imagenet", MountPath: "/data"}}}),
		object(schema.KindDrive, nsResearch, "cache", placedDrive()),
		serving, volume, run,
	)
	accepted[held.Key] = &schema.AcceptedObject{Refused: &schema.Refusal{Commit: "c0ffee", Candidate: held, Hold: schema.Hold{
		Object: held.Key, Code: schema.CodeHostAccessForbidden, Status: 403, Message: "no",
	}}}
	return &View{
		Input: planner.Input{
			Accepted: schema.Accepted{ClusterUID: "u1", Epoch: 1, Head: "c0ffee", Objects: accepted},
			Observed: schema.Observed{At: noon, Machines: []*schema.MachineReport{report()}},
			Now:      noon,
		},
		Plan: schema.Plan{
			Steps: []*schema.Step{{ID: "step-1", Machine: "gpu-01", Action: schema.ActionCreateCopy, Object: key(nsResearch, "cache")}},
			Waits: []schema.Wait{{Run: run.Key, Reasons: []schema.Reason{{Code: schema.ReasonNoDataLocation, Machine: "gpu-01"}}}},
			Holds: []schema.Hold{{Object: held.Key, Code: schema.CodeHostAccessForbidden, Status: 403, Message: "no"}},
		},
		Commit: "c0ffee",
		Log:    logBook{},
		Events: []schema.Event{
			{At: noon, Object: key(nsResearch, "cache"), Type: "Accepted", Message: "created"},
			{At: noon, Object: key(nsServing, "imagenet"), Type: "Accepted", Message: "created"},
			{At: noon.Add(time.Second), Object: key(nsResearch, "cache"), Type: "Removed", Message: "Copy removed from gpu-01"},
		},
	}
}

const commitC0ffee = "c0ffee0000000000000000000000000000000000"

// logBook is an audit log of one drive and one commit.
type logBook struct{}

func (logBook) History(_ context.Context, object schema.Key) ([]schema.Record, error) {
	if object != key(nsResearch, "cache") {
		return nil, nil
	}
	info := schema.NewCommitInfo("c0ffee", "ada <ada@example.org>", "first", noon)
	return []schema.Record{
		{At: noon, Object: object, Type: schema.RecordAccepted, Generation: 1, Commit: info},
		{At: noon.Add(time.Hour), Object: object, Type: schema.RecordEvicted, Machine: "gpu-01", Message: "Copy removed from gpu-01: evicted: …"},
	}, nil
}

func (logBook) CommitStatus(_ context.Context, commit string) (*schema.CommitStatus, error) {
	if commit != commitC0ffee {
		return nil, nil
	}
	s := (schema.CommitStatus{}).Merge(schema.CommitStatus{Commit: schema.CommitInfo{ID: commit}, Objects: []schema.CommitObject{
		{Object: key(nsResearch, "cache"), State: schema.CommitOK}, {Object: key(nsResearch, "refused"), State: schema.CommitHeld, Code: schema.CodeHostAccessForbidden},
	}})
	return &s, nil
}

func placedDrive() *schema.DriveSpec {
	return &schema.DriveSpec{Sources: []schema.DriveSource{{NodeScope: schema.ScopePlaced, MountPath: "/cache", Mode: schema.ReadWrite}}, Evictable: true}
}

func key(ns, name string) schema.Key {
	return schema.Key{Kind: schema.KindDrive, Namespace: ns, Name: name}
}

func report() *schema.MachineReport {
	return &schema.MachineReport{
		Name: "gpu-01", State: schema.MachineUp, Address: "192.0.2.1", Resources: &schema.Resources{CPUCores: 64, MemoryBytes: 1 << 36, GPUs: 8},
		Filesystems: []schema.Filesystem{
			{MountPoint: "/", Medium: schema.MediumSSD, System: true, TotalBytes: 100e9, FreeBytes: 50e9},
			{MountPoint: "/mnt/nvme0", Medium: schema.MediumNVMe, TotalBytes: 1e12, FreeBytes: 9e11, Recommended: true},
		},
		DataLocations: []schema.DataLocationState{{Path: "/mnt/nvme0/astraeus", Present: true, Mounted: true, UsedBytes: 7, FreeBytes: 9e11}},
		Copies: []schema.Copy{
			{Drive: nsResearch + ".cache", Folder: "/mnt/nvme0/astraeus/drives/" + nsResearch + ".cache", Bytes: 7, Files: 1},
			{Drive: nsServing + ".imagenet", Folder: "/mnt/nvme0/astraeus/drives/" + nsServing + ".imagenet"},
		},
	}
}

func newRequest(method, path string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	r.Host = "127.0.0.1"
	return r
}

func serveTo(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ask asks and checks that the answer is as openapi.json says.
func ask(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := newRequest(method, path, header...)
	w := serveTo(h, r)
	requireDescribed(t, r, w)
	return w
}

// body asks and decodes a 200.
func body[T any](t *testing.T, h http.Handler, path string) T {
	t.Helper()
	return bodyAs[T](t, h, path)
}

// bodyAs is body with headers.
func bodyAs[T any](t *testing.T, h http.Handler, path string, header ...string) T {
	t.Helper()
	w := ask(t, h, http.MethodGet, path, header...)
	require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	var out T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out
}

func requireProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code string) Problem {
	t.Helper()
	require.Equal(t, status, w.Code, "%s", w.Body)
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var p Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, status, p.Status)
	require.Equal(t, code, p.Code)
	return p
}
