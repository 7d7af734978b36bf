package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

func orgOf(name string) string { return strings.ReplaceAll(orgText, "acme", name) }

// G-7, X-39: a saved plan is applied once, while it fits; planning again is empty.
func TestSavedPlan(t *testing.T) {
	repo, state := repositoryOf(t, map[string]string{"cluster.cue": approveText, "orgs/acme/org.cue": orgText}), stateDirOf(t)
	file := filepath.Join(t.TempDir(), "plan.json")
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := finish(t, args...)
		require.Equal(t, want, code, "%v: %s%s", args, out, errs)
		return out + errs
	}
	// Offline, before there is a cluster.
	run(0, "plan", "--repo", repo, "--ref", "main", "--out", file)
	require.Contains(t, run(0, "apply", file, "--repo", repo, "--state", state), "applied")
	require.Contains(t, run(4, "apply", file, "--repo", repo, "--state", state), "was applied already at 20")

	// Against the cluster that was made: nothing to do, and then the next commit's plan.
	s := serve(t, "--repo", repo, "--state", state)
	s.ready(t)
	run(0, "plan", "--repo", repo, "--ref", "main", "--server", s.url, "--detailed-exitcode")
	write(t, repo, "orgs/other/org.cue", orgOf("other"))
	commitAll(t, repo)
	planned := headOf(t, repo)
	run(2, "plan", "--repo", repo, "--ref", "main", "--server", s.url, "--detailed-exitcode", "--out", file)
	require.Contains(t, run(1, "apply", file, "--repo", repo, "--state", state), "another controller uses")
	code, log := s.stop(t, syscall.SIGTERM)
	require.Equal(t, 0, code, log)

	// Another cluster of the same name is not the one that was planned for.
	other := stateDirOf(t)
	run(0, "apply", "--repo", repo, "--ref", "main~1", "--state", other)
	require.Contains(t, run(1, "apply", file, "--repo", repo, "--state", other), "another cluster of that name")
	require.Contains(t, run(1, "apply", file, "--repo", repo, "--state", stateDirOf(t), "--cluster", "prod"), "made for cluster lab, this is prod")

	// It applies exactly its commit, though the branch is ahead.
	write(t, repo, "orgs/third/org.cue", orgOf("third"))
	commitAll(t, repo)
	require.Contains(t, run(0, "apply", file, "--repo", repo, "--state", state), planned[:12])
	run(4, "apply", file, "--repo", repo, "--state", state)

	// Stale: what it creates is there by now.
	run(0, "plan", "--repo", repo, "--base", "main~1", "--ref", "main", "--out", file)
	write(t, repo, "README", "more")
	commitAll(t, repo)
	run(0, "apply", "--repo", repo, "--state", state)
	require.Contains(t, run(4, "apply", file, "--repo", repo, "--state", state), "org/third is in force by now")
}

// G-7: files that are no plan that can be applied.
func TestSavedPlanHostile(t *testing.T) {
	repo, state := repositoryOf(t, map[string]string{"cluster.cue": clusterText, "orgs/acme/org.cue": orgText}), stateDirOf(t)
	file := filepath.Join(t.TempDir(), "plan.json")
	refused := func(want int, text string, args ...string) {
		t.Helper()
		code, out, errs := finish(t, append([]string{"apply", file, "--repo", repo, "--state", state}, args...)...)
		require.Equal(t, want, code, "%s%s", out, errs)
		require.Contains(t, errs, text)
	}
	code, _, errs := finish(t, "plan", "--repo", repo, "--ref", "main", "--out", file)
	require.Equal(t, 0, code, errs)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	put := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }

	refused(1, "leave --ref out", "--ref", "main")
	for text, want := range map[string]string{
		"":                  "is not a saved plan",
		"{}":                "its format is",
		`{"format": 1}`:     "is not a saved plan",
		"[]":                "is not a saved plan",
		string(good) + "{}": "something follows",
		strings.Replace(string(good), `"basis"`, `"bases"`, 1):                                       "unknown field",
		strings.Replace(string(good), headOf(t, repo), strings.Repeat("d", 40), 1):                   "was changed after it was saved",
		strings.Replace(string(good), `"complete": true`, `"complete": false`, 1):                    "was changed after it was saved",
		strings.Replace(string(good), `"cluster": "lab"`, `"cluster": "prod"`, 1):                    "was changed after it was saved",
		strings.Replace(string(good), savedPlanFormat, "astraeus.io/saved-plan/v9", 1):               "its format is",
		strings.Replace(string(good), `"document": {`, `"document": {"api_version": "x", `, 1):       "was changed after it was saved",
		resealed(t, good, func(s *savedPlan) { s.Document.Inputs.Commit = strings.Repeat("d", 40) }): "ddddddd",
		resealed(t, good, func(s *savedPlan) { s.Document.Inputs.Commit = "" }):                      "files as they lie",
		resealed(t, good, func(s *savedPlan) { s.Document.Complete = false }):                        "is not complete",
		resealed(t, good, func(s *savedPlan) { s.Document.APIVersion = "astraeus.io/plan/v9" }):      "api_version",
		resealed(t, good, func(s *savedPlan) { s.Cluster = "prod" }):                                 "made for cluster prod",
		resealed(t, good, func(s *savedPlan) { s.Basis.ClusterUID = "someone-elses" }):               "another cluster of that name",
	} {
		put(text)
		refused(1, want)
	}
	for want, change := range map[string]func(*savedPlan){
		"the schema that files are read by": func(s *savedPlan) { s.Document.Inputs.Schema = "0" },
		"the planner":                       func(s *savedPlan) { s.Document.Inputs.Planner = "0" },
		"machine gpu-09 has not reported":   func(s *savedPlan) { s.Basis.Machines = map[string]map[string]string{"gpu-09": {"copies": "x"}} },
		"drive/ws-1.x is not in force":      func(s *savedPlan) { s.Basis.Objects["drive/ws-1.x"] = map[string]string{"in force": "yes"} },
	} {
		put(resealed(t, good, change))
		refused(4, want)
	}

	// Nothing of all that was applied; the true plan still is.
	put(string(good))
	code, out, errs := finish(t, "apply", file, "--repo", repo, "--state", state)
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "applied")
	code, _, errs = finish(t, "apply", file, file)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "takes one saved plan")

	// What is held is not saved.
	write(t, repo, "orgs/acme/workspaces/lab/workspace.cue", "kind: \"Workspace\"\nmetadata: name: \"lab\"\n")
	write(t, repo, "orgs/acme/workspaces/lab/drives/home.cue",
		"kind: \"Drive\"\nmetadata: name: \"home\"\nspec: sources: [{node: \"gpu-01\", path: \"/home\", mount_path: \"/home\"}]\n")
	commitAll(t, repo)
	require.NoError(t, os.Remove(file))
	code, _, errs = finish(t, "plan", "--repo", repo, "--ref", "main", "--out", file)
	require.Equal(t, 1, code, errs)
	require.Contains(t, errs, "not saved: the plan is not complete")
	require.NoFileExists(t, file)
}

// resealed changes a saved plan and its checksum with it: what somebody does who
// means it, or a plan that was made elsewhere.
func resealed(t *testing.T, data []byte, change func(*savedPlan)) string {
	t.Helper()
	var s savedPlan
	require.NoError(t, json.Unmarshal(data, &s))
	change(&s)
	basis, err := json.Marshal(s.Basis)
	require.NoError(t, err)
	document, err := json.Marshal(s.Document)
	require.NoError(t, err)
	s.Checksum = checksum(s.Format, s.Digest, s.Cluster, basis, document)
	out, err := json.Marshal(s)
	require.NoError(t, err)
	return string(out)
}

// judged again under leadership, so that nothing comes between the look and the use.
func TestSavedPlanIsJudgedByTheLeader(t *testing.T) {
	s := &savedPlan{Digest: "d", Basis: planner.Basis{Objects: map[string]map[string]string{"org/acme": {"in force": "no"}}}}
	s.Document.Inputs = planner.DocumentInputs{Commit: "c1", Schema: load.SchemaHash(), Planner: planner.PlannerVersion}
	open := s.opening("lab", func(*store.State) (schema.Decisions, error) { return schema.Decisions{}, nil })
	state := &store.State{}
	d, err := open(state)
	require.NoError(t, err)
	require.Equal(t, "d", d.Used.Digest)
	again, err := open(state)
	require.NoError(t, err)
	require.Equal(t, d.Used.Nonce, again.Used.Nonce, "its own retry is no second use")
	org := schema.Key{Kind: schema.KindOrg, Name: "acme"}
	state.Accepted.Objects = map[schema.Key]*schema.AcceptedObject{org: {UID: "u", Generation: 1, Object: &schema.Object{Key: org, Spec: &schema.OrgSpec{}}}}
	_, err = open(state)
	require.ErrorContains(t, err, "org/acme is in force by now")
	require.Equal(t, exitStale, codeOf(t.Context(), err))
}

// What a person saw in the saved plan is not asked about again; anything else is.
func TestSavedPlanDeletions(t *testing.T) {
	step := schema.Step{Action: schema.ActionDeleteCopy, Machine: "gpu-01", Object: schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "x"}}
	s := &savedPlan{Document: planner.PlanDocument{Steps: []schema.Step{step}}}
	other := deletion{drive: schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "y"}, machine: "gpu-01"}
	require.Equal(t, []deletion{other}, s.unseen([]deletion{deletionOf(step), other}))
	var none *savedPlan
	require.Len(t, none.unseen([]deletion{other}), 1)
}
