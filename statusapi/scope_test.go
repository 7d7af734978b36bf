package statusapi

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi/token"
)

// Everything of a tenant has its mark in its names, so that an answer shows whose
// things it speaks of.
const (
	markAnn     = "annsown"     // a member's runs and volumes
	markBen     = "bensown"     // another member's
	markServing = "servingown"  // another workspace of the org
	markOther   = "otherorgown" // another org
)

// tenants is a cluster of two orgs: acme with two workspaces, one of them with
// members, and other with one.
func tenants() *View {
	in := planner.Input{Now: noon, Accepted: schema.Accepted{ClusterUID: "u1", Epoch: 1, Head: "c0ffee", NotWhole: map[string]schema.Pos{
		"other/hidden" + markOther: {File: "orgs/other/workspaces/hidden" + markOther + "/bad.cue", Line: 3},
	}}}
	members := []schema.Member{{User: "ann", Role: schema.RoleMember}, {User: "ben", Role: schema.RoleMember}, {User: "vic", Role: schema.RoleViewer}}
	accepted := accept(
		object(schema.KindCluster, "", "lab", &schema.ClusterSpec{}),
		object(schema.KindOrg, "", "acme", &schema.OrgSpec{Admins: []string{"root"}}),
		object(schema.KindOrg, "", "other", &schema.OrgSpec{}),
		object(schema.KindWorkspace, "acme", "research", &schema.WorkspaceSpec{Namespace: nsResearch, Members: members}),
		object(schema.KindWorkspace, "acme", "serving", &schema.WorkspaceSpec{Namespace: nsServing}),
		object(schema.KindWorkspace, "other", "hidden"+markOther, &schema.WorkspaceSpec{Namespace: "ws-" + markOther}),
		object(schema.KindHostPathGrant, "acme", "grant-"+markServing, &schema.HostPathGrantSpec{Workspace: "serving", Paths: []string{"/data/" + markServing}}),
		object(schema.KindMachine, "", "gpu-01", &schema.MachineSpec{DataLocation: &schema.DataLocationSpec{Path: "/mnt/nvme0/astraeus"}}),
		inOrg("other", object(schema.KindMachine, "", "gpu-"+markOther, &schema.MachineSpec{})),
	)
	tenant := func(org, workspace, ns, mark, owner string) {
		for _, o := range belongings(org, workspace, ns, mark, owner) {
			a := &schema.AcceptedObject{UID: "uid-" + ns + o.Key.Name, Generation: 1, Created: noon, Commit: "c0ffee", Object: o}
			if o.Key.Kind == schema.KindVolume {
				a.Refused = &schema.Refusal{Commit: "bad", Candidate: o, Hold: schema.Hold{Object: o.Key, Code: schema.CodeVolumeInUse, Status: 409,
					Message: "volume " + o.Key.Name + " is used by run/run-" + mark + ", and the id is taken by volume/ws-" + markOther + ".vol-" + markOther}}
			}
			accepted[o.Key] = a
		}
	}
	tenant("acme", "research", nsResearch, markAnn, "ann")
	tenant("acme", "research", nsResearch, markBen, "ben")
	tenant("acme", "serving", nsServing, markServing, "sam")
	tenant("other", "hidden"+markOther, "ws-"+markOther, markOther, "eve")
	common := belongings("acme", "research", nsResearch, "common", "")[0] // the drive
	common.Rehash()
	accepted[common.Key] = &schema.AcceptedObject{UID: "uid-common", Generation: 1, Object: common}
	// Ann's and Ben's runs use the workspace's drive and Ann's volume.
	for _, mark := range []string{markAnn, markBen} {
		spec := accepted[schema.Key{Kind: schema.KindRun, Namespace: nsResearch, Name: "run-" + mark}].Object.Spec.(*schema.RunSpec)
		spec.TaskTemplate.DatavolumeRefs = []schema.DatavolumeRef{{Name: common.Key.Name, MountPath: "/c"}}
		spec.TaskTemplate.Volumes = append(spec.TaskTemplate.Volumes, schema.VolumeMount{Name: "vol-" + markAnn, ContainerPath: "/v"})
	}
	in.Accepted.Objects, in.Placed = accepted, map[schema.Key]schema.Placement{}
	view := &View{Commit: "c0ffee", Log: tenantLog{}}
	for key, a := range accepted {
		view.Events = append(view.Events, schema.Event{At: noon, Object: key, Type: "Accepted", Message: key.String() + " was accepted"})
		if spec, ok := a.Object.Spec.(*schema.RunSpec); ok {
			in.Placed[key] = schema.Placement{Run: key, RunUID: a.UID, Generation: 1, Spec: spec, Org: a.Object.Org, Workspace: a.Object.Workspace,
				Workers: []schema.PlacedWorker{{Name: key.Name + "-0", Machine: machineOf(a.Object.Org), Address: "10.240.3.7"}}}
			view.Plan.Waits = append(view.Plan.Waits, schema.Wait{Run: key, Worker: key.Name + "-0", Reasons: []schema.Reason{{
				Code: schema.ReasonForbidden, Args: schema.ReasonArgs{Text: "volume/ws-" + markOther + ".vol-" + markOther + " is in the way"},
			}}})
		}
		if a.Refused != nil {
			view.Plan.Holds = append(view.Plan.Holds, a.Refused.Hold)
		}
	}
	in.Accepted.Tombstones = map[string]*schema.Tombstone{
		"gone": {UID: "gone", Key: key(nsServing, "gone-"+markServing), Org: "acme", Workspace: "serving"},
	}
	in.Observed = schema.Observed{At: noon, Machines: []*schema.MachineReport{tenantReport("gpu-01", markAnn, markBen, markServing), tenantReport("gpu-"+markOther, markOther)}}
	plan := planner.Plan(in)
	view.Input, view.Plan.Steps, view.Plan.Targets = in, plan.Steps, plan.Targets
	view.Diagnostics = []schema.Diagnostic{
		{Pos: schema.Pos{File: "orgs/other/workspaces/hidden" + markOther + "/bad.cue", Line: 3}, Severity: schema.SeverityError, Code: schema.CodeSyntax, Message: "bad"},
		{Pos: schema.Pos{File: "cluster.cue"}, Severity: schema.SeverityError, Code: schema.CodeSyntax, Message: "about " + markOther},
	}
	view.NotReady = []string{"the repository of " + markOther + " cannot be fetched"}
	return view
}

func machineOf(org string) string {
	if org == "other" {
		return "gpu-" + markOther
	}
	return "gpu-01"
}

func inOrg(org string, o *schema.Object) *schema.Object {
	o.Org = org
	return o
}

// belongings are a drive, a volume, a run, an endpoint and a deletion.
func belongings(org, workspace, ns, mark, owner string) []*schema.Object {
	drive := object(schema.KindDrive, ns, "drive-"+mark, placedDrive())
	if owner == "ann" || owner == "ben" {
		drive = object(schema.KindDrive, ns, "drive-of-"+owner, placedDrive()) // seen by all of the workspace
	}
	volume := object(schema.KindVolume, ns, "vol-"+mark, &schema.VolumeSpec{HostPath: "/data/" + mark, Shared: true})
	volume.Metadata.ID = fmt.Sprintf("vol-%016x", len(mark)*1000+int(mark[0]))
	run := object(schema.KindRun, ns, "run-"+mark, &schema.RunSpec{TaskTemplate: &schema.TaskTemplate{Image: "x"}})
	// An endpoint names the run behind it to all who may use it.
	endpoint := object(schema.KindEndpoint, ns, "api-"+mark, &schema.EndpointSpec{Run: run.Key.Name, Port: 80})
	if owner == "ann" || owner == "ben" {
		endpoint = object(schema.KindEndpoint, ns, "api-of-"+owner, &schema.EndpointSpec{Run: "service-of-" + owner, Port: 80})
	}
	deletion := object(schema.KindDeletion, ns, "del-"+mark, &schema.DeletionSpec{Volume: "x-" + mark, Force: false})
	list := []*schema.Object{drive, volume, run, endpoint, deletion}
	for _, o := range list {
		o.Org, o.Workspace, o.Metadata.Owner = org, workspace, owner
		o.Origin.File = "orgs/" + org + "/workspaces/" + workspace + "/" + o.Key.Name + ".cue"
		o.Rehash()
	}
	return list
}

func tenantReport(name string, marks ...string) *schema.MachineReport {
	r := report()
	r.Name, r.Copies, r.Problems = name, nil, []string{"stray copy of " + strings.Join(marks, ", ")}
	for _, mark := range marks {
		ns := map[string]string{markAnn: nsResearch, markBen: nsResearch, markServing: nsServing, markOther: "ws-" + markOther}[mark]
		drive, run := ns+".drive-"+mark, ns+".run-"+mark
		if ns == nsResearch {
			drive = ns + ".drive-common"
		}
		r.Copies = append(r.Copies, schema.Copy{Drive: drive, Folder: "/mnt/nvme0/astraeus/drives/" + drive, Bytes: 1})
		r.Workers = append(r.Workers, schema.Worker{Run: run, Name: "run-" + mark + "-0", State: schema.WorkerRunning})
		r.Mounts = append(r.Mounts, schema.Mount{Drive: drive, From: "gpu-02", State: schema.MountFailed})
		r.Measurements = append(r.Measurements, schema.Measurement{Drive: drive, Answers: 1, At: noon})
		r.MountSeries = append(r.MountSeries, schema.MountSeries{Drive: drive})
		key, _ := schema.ParseKey("run/" + run)
		r.Failures = append(r.Failures, schema.Failure{Object: key, Action: schema.ActionStartWorker, Message: "no image " + mark})
	}
	return r
}

// tenantLog has one record an object, and a commit that touched them all.
type tenantLog struct{ logBook }

// scopedHandler is a handler for tokens of one bearer each, by name.
func scopedHandler(t *testing.T, source Source) (*Handler, map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.json")
	bearers := map[string]token.Entry{
		"ann":      {Role: token.Member, Org: "acme", Workspaces: []string{"research"}, User: "ann"},
		"vic":      {Role: token.Viewer, Org: "acme", Workspaces: []string{"research"}, User: "vic"},
		"pipeline": {Role: token.Editor, Org: "acme", Workspaces: []string{"research"}},
		"both":     {Role: token.Viewer, Org: "acme", Workspaces: []string{"research", "serving"}},
		"sam":      {Role: token.Member, Org: "acme", Workspaces: []string{"serving"}, User: "sam"},
		"root":     {Role: token.OrgAdmin, Org: "acme", User: "root"},
		"nobody":   {Role: token.Admin, Org: "acme", Workspaces: []string{"research"}, User: "stranger"},
		"reader":   {Role: token.ClusterReader},
	}
	secrets := map[string]string{}
	require.NoError(t, token.Update(file, func(list []token.Entry) ([]token.Entry, error) {
		for name, e := range bearers {
			secret, entry, err := token.New(e)
			if err != nil {
				return nil, err
			}
			secrets[name] = secret.Reveal()
			list = append(list, entry)
		}
		return list, nil
	}))
	tokens, err := token.Open(file)
	require.NoError(t, err)
	h := NewHandler(Options{Source: source, Tokens: tokens})
	t.Cleanup(h.Close)
	return h, secrets
}

// everyQuestion asks for every list, and for every name that there is in every route.
func everyQuestion(view *View) (paths []string) {
	names := map[string]bool{}
	for key, o := range view.Input.Accepted.Objects {
		names[key.Name], names[key.Scoped()] = true, true
		if id := o.Object.Metadata.ID; id != "" {
			names[id] = true
		}
		if key.Kind == schema.KindRun {
			names[key.Name+"-0"] = true
		}
		word := key.Kind.Word()
		for _, tail := range []string{"", "/history"} {
			paths = append(paths, "/objects/"+word+"/"+key.Scoped()+tail, "/objects/"+word+"/"+key.Name+tail)
		}
		paths = append(paths, "/explain/"+word+"/"+key.Scoped(), "/explain/"+word+"/"+key.Name, "/events?object="+word+"/"+key.Name)
	}
	for _, s := range view.Plan.Steps {
		paths = append(paths, "/explain/"+s.ID)
	}
	for i := range operations {
		op := &operations[i]
		switch {
		case !strings.Contains(op.pattern, "{"):
			paths = append(paths, "/"+op.pattern)
		case strings.HasSuffix(op.pattern, "/{name}"):
			for name := range names {
				paths = append(paths, "/"+strings.TrimSuffix(op.pattern, "{name}")+name)
			}
		}
	}
	for name := range names {
		paths = append(paths, "/explain/"+name)
	}
	paths = append(paths, "/commits/"+commitC0ffee)
	slices.Sort(paths)
	return slices.Compact(slices.DeleteFunc(paths, func(p string) bool { return strings.HasPrefix(p, "/objects/{") }))
}

// R-1, V-10: in no route does an answer name what its caller may not see.
func TestNoAnswerNamesWhatIsHidden(t *testing.T) {
	view := tenants()
	h, secrets := scopedHandler(t, fixed{view: view})
	prefixes := []string{"/v1", "/api/v1/orgs/acme/workspaces/research/clusters/lab/api", "/api/v1/orgs/acme/workspaces/serving/clusters/lab/api",
		"/api/v1/orgs/other/workspaces/hidden" + markOther + "/clusters/lab/api"}
	hidden := map[string][]string{
		"ann": {markBen, markServing, markOther}, "vic": {markServing, markOther}, "pipeline": {markServing, markOther}, "both": {markOther},
		"sam": {markAnn, markBen, markOther}, "root": {markOther}, "nobody": {markAnn, markBen, markServing, markOther},
	}
	visible := map[string][]string{
		"ann": {markAnn}, "vic": {markAnn, markBen}, "pipeline": {markAnn, markBen}, "both": {markAnn, markBen, markServing},
		"sam": {markServing}, "root": {markAnn, markBen, markServing}, "nobody": {}, "reader": {markAnn, markBen, markServing, markOther},
	}
	questions := everyQuestion(view)
	require.Greater(t, len(questions), 200)
	for bearer, secret := range secrets {
		seen := map[string]bool{}
		for _, prefix := range prefixes {
			for _, q := range questions {
				w := ask(t, h, http.MethodGet, prefix+q, "Authorization", "Bearer "+secret)
				require.Contains(t, []int{200, 400, 404, 409}, w.Code, "%s %s: %s", bearer, prefix+q, w.Body)
				body := w.Body.String()
				for _, mark := range hidden[bearer] {
					// A path that names it may be repeated in a refusal.
					if w.Code == http.StatusOK || !strings.Contains(prefix+q, mark) {
						if i := strings.Index(body, mark); i >= 0 {
							t.Fatalf("%s asks for %s and reads …%s…", bearer, prefix+q, body[max(0, i-200):min(len(body), i+60)])
						}
					}
				}
				for _, mark := range visible[bearer] {
					seen[mark] = seen[mark] || w.Code == http.StatusOK && strings.Contains(body, mark)
				}
			}
		}
		for _, mark := range visible[bearer] {
			require.True(t, seen[mark], "%s never sees %s", bearer, mark)
		}
	}
}

// A thing that is hidden and one that does not exist get the same answer. // R-1, V-6
func TestHiddenIsNotFound(t *testing.T) {
	h, secrets := scopedHandler(t, fixed{view: tenants()})
	for _, word := range []string{"drives", "datavolumes", "runs", "volumes", "endpoints", "machines", "mounts", "objects/run", "objects/volume", "explain/run"} {
		hidden := ask(t, h, http.MethodGet, "/v1/"+word+"/ws-"+markOther+".run-"+markOther, "Authorization", "Bearer "+secrets["vic"])
		absent := ask(t, h, http.MethodGet, "/v1/"+word+"/ws-nothing.run-nothing", "Authorization", "Bearer "+secrets["vic"])
		requireProblem(t, hidden, http.StatusNotFound, codeNotFound)
		require.Equal(t, absent.Body.String(), hidden.Body.String(), word)
	}
	w := ask(t, h, http.MethodGet, "/v1/volumes/vol-"+markBen, "Authorization", "Bearer "+secrets["ann"])
	require.Equal(t, "volume not found", requireProblem(t, w, http.StatusNotFound, codeNotFound).Detail)
	for _, path := range []string{
		"/api/v1/orgs/other/workspaces/hidden" + markOther + "/clusters/lab/api/drives", "/api/v1/orgs/nothing/workspaces/x/clusters/lab/api/drives",
		"/api/v1/orgs/acme/workspaces/research/clusters/wrong/api/drives", "/api/v1/orgs/acme/workspaces/serving/clusters/lab/api/drives",
	} {
		w := ask(t, h, http.MethodGet, path, "Authorization", "Bearer "+secrets["vic"])
		require.Equal(t, "workspace not found", requireProblem(t, w, http.StatusNotFound, codeNotFound).Detail, path)
	}
	requireProblem(t, ask(t, h, http.MethodGet, "/metrics", "Authorization", "Bearer "+secrets["root"]), http.StatusNotFound, codeNotFound)
}

// V-10: a member reads its own references, and how many there are beside; D-92: of
// a drive likewise.
func TestHiddenReferences(t *testing.T) {
	h, secrets := scopedHandler(t, fixed{view: tenants()})
	as := func(bearer string) []string { return []string{"Authorization", "Bearer " + secrets[bearer]} }
	v := bodyAs[VolumeDetail](t, h, "/v1/volumes/vol-"+markAnn, as("ann")...)
	require.Len(t, v.References, 1)
	require.Equal(t, "ann", v.References[0].UserID)
	require.Equal(t, noon, *v.References[0].CreatedAt)
	require.Equal(t, []any{true, 2, 1}, []any{v.InUse, v.ActiveReferenceCount, v.HiddenReferenceCount})
	require.Equal(t, "volume vol-annsown is used by run/run-annsown, and the id is taken by another volume", v.Refused.Message)
	all := bodyAs[VolumeDetail](t, h, "/v1/volumes/vol-"+markAnn, as("vic")...)
	require.Len(t, all.References, 2)
	require.Equal(t, []any{true, 2, 0}, []any{all.InUse, all.ActiveReferenceCount, all.HiddenReferenceCount})
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/volumes/vol-"+markAnn, as("sam")...), http.StatusNotFound, codeNotFound)

	d := bodyAs[Drive](t, h, "/v1/drives/drive-common", as("ann")...)
	require.Equal(t, []int{1, 1, 2}, []int{len(d.UsedBy), d.HiddenReferenceCount, d.Status.Workers})
	d = bodyAs[Drive](t, h, long+"/drives/drive-common", as("vic")...)
	require.Equal(t, []int{2, 0, 2}, []int{len(d.UsedBy), d.HiddenReferenceCount, d.Status.Workers})

	runs := bodyAs[List[Run]](t, h, "/v1/runs", as("ann")...)
	require.Len(t, runs.Items, 1)
}

// what is needed for a plan is uncut for a cluster reader, and cut with a word
// about it for others.
func TestAcceptedIsCut(t *testing.T) {
	view := tenants()
	h, secrets := scopedHandler(t, fixed{view: view})
	full := bodyAs[Accepted](t, h, "/v1/accepted", "Authorization", "Bearer "+secrets["reader"])
	require.True(t, full.Complete)
	require.Len(t, full.Objects, len(view.Input.Accepted.Objects))
	cut := bodyAs[Accepted](t, h, "/v1/accepted", "Authorization", "Bearer "+secrets["pipeline"])
	require.False(t, cut.Complete)
	var kinds []string
	for _, o := range cut.Objects {
		kinds = append(kinds, o.Object.Key.Kind.Word())
	}
	for _, kind := range []string{"cluster", "org", "workspace", "machine", "drive", "run"} {
		require.Contains(t, kinds, kind)
	}
	seen := bodyAs[schema.Observed](t, h, "/v1/observed", "Authorization", "Bearer "+secrets["pipeline"])
	require.Len(t, seen.Machines, 1)
	require.Len(t, seen.Machines[0].Filesystems, 2, "disks are the machine's")
}

// Nobody without a token learns anything, not even what there is. // V-10
func TestWithoutToken(t *testing.T) {
	h, secrets := scopedHandler(t, fixed{view: tenants()})
	good := secrets["reader"]
	for name, header := range map[string][]string{
		"none": nil, "empty": {"Authorization", ""}, "no scheme": {"Authorization", good}, "another scheme": {"Authorization", "Basic " + good},
		"two": {"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, "no token": {"Authorization", "Bearer "},
		"forged": {"Authorization", "Bearer " + good[:len(good)-1] + "0"}, "its id alone": {"Authorization", "Bearer " + good[:17]},
		"upper case": {"Authorization", "Bearer " + strings.ToUpper(good)}, "more behind it": {"Authorization", "Bearer " + good + "00"},
		"unknown": {"Authorization", "Bearer astr_000000000000_" + strings.Repeat("0", 64)}, "a null": {"Authorization", "Bearer " + good + "\x00"},
		"oversized": {"Authorization", "Bearer " + strings.Repeat("a", 12<<10)}, "list": {"Authorization", "Bearer " + good + ", Bearer " + good},
	} {
		if name == "forged" && good[len(good)-1] == '0' {
			header[1] = header[1][:len(header[1])-1] + "1"
		}
		for _, path := range append(everyPath(), "/v1/nothing", "/", "/metrics", "/v1/drives/../x") {
			if path == "/healthz" || path == "/readyz" {
				continue
			}
			w := ask(t, h, http.MethodGet, path, header...)
			p := requireProblem(t, w, http.StatusUnauthorized, codeUnauthorized)
			require.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer", name)
			require.NotContains(t, p.Detail, good[:17])
		}
	}
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/healthz").Code)
	// A probe learns whether, and only who sees all learns why not.
	w := ask(t, h, http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), markOther)
	require.NotContains(t, ask(t, h, http.MethodGet, "/readyz", "Authorization", "Bearer "+secrets["root"]).Body.String(), markOther)
	require.Contains(t, ask(t, h, http.MethodGet, "/readyz", "Authorization", "Bearer "+good).Body.String(), markOther)
	// With tokens any host name will do: a page on another one has none.
	r := newRequest(http.MethodGet, "/v1/status", "Authorization", "Bearer "+good)
	r.Host = "status.example.org"
	require.Equal(t, http.StatusOK, serveTo(h, r).Code)
}

// A token that expires, or that is taken out of the file, is refused at once. // R-1
func TestExpiredAndRevoked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	now := noon
	var entry token.Entry
	add := func(e token.Entry) string {
		secret, made, err := token.New(e)
		require.NoError(t, err)
		require.NoError(t, token.Update(file, func(list []token.Entry) ([]token.Entry, error) { return append(list, made), nil }))
		entry = made
		return "Bearer " + secret.Reveal()
	}
	brief := add(token.Entry{Role: token.ClusterReader, Expires: noon.Add(time.Hour)})
	tokens, err := token.Open(file)
	require.NoError(t, err)
	h := NewHandler(Options{Source: fixed{view: tenants()}, Tokens: tokens, Now: func() time.Time { return now }})
	t.Cleanup(h.Close)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/v1/status", "Authorization", brief).Code)
	now = noon.Add(time.Hour)
	p := requireProblem(t, ask(t, h, http.MethodGet, "/v1/status", "Authorization", brief), http.StatusUnauthorized, codeUnauthorized)
	require.Equal(t, "the token has expired", p.Detail)

	later := add(token.Entry{Role: token.ClusterReader})
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/v1/status", "Authorization", later).Code, "the file is read again")
	require.NoError(t, token.Update(file, func(list []token.Entry) ([]token.Entry, error) {
		return slices.DeleteFunc(list, func(e token.Entry) bool { return e.ID == entry.ID }), nil
	}))
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/status", "Authorization", later), http.StatusUnauthorized, codeUnauthorized)
}
