package planner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// documentOf is the plan document of a change from one set of files to another.
func documentOf(t *testing.T, from, to string) map[string]DocumentChange {
	s := newSim(observe(t, twoMachines).Machines...)
	s.desired = declare(t, "c1", frame+"---\n"+from)
	require.True(t, s.converge())
	s.desired = declare(t, "c2", frame+"---\n"+to)
	in := s.input()
	changes := map[string]DocumentChange{}
	for _, c := range Document(Plan(in), in, "1").Changes {
		changes[strings.ReplaceAll(c.Object.String(), testNS, "$ns")] = c
	}
	return changes
}

const secretRun = `
kind: Run
metadata: {name: train}
spec: {task_template: {command: sh, args: ["<b>"], env: {TOKEN: old-secret, SAME: x, "a.b": z}, config_files: [{path: /c, content: old-secret}]}}
`

// a change says what changes, bounded, and no secret.
func TestAChangeSaysWhatChanges(t *testing.T) {
	to := strings.NewReplacer("old-secret", "new-secret", "SAME: x", "ADDED: new-secret", "<b>", strings.Repeat("<&é", 40), "/c,", "/d,").Replace(secretRun)
	c := documentOf(t, secretRun, to)["run/$ns.train"]
	require.Equal(t, []FieldChange{
		{Field: "spec.task_template.args[0]", Old: `"<b>"`, New: `"` + string([]rune(strings.Repeat("<&é", 40))[:58]) + "…"},
		{Field: "spec.task_template.config_files[0].content", Hidden: true},
		{Field: "spec.task_template.config_files[0].path", Old: `"/c"`, New: `"/d"`},
		{Field: "spec.task_template.env.ADDED", Hidden: true},
		{Field: "spec.task_template.env.SAME", Hidden: true},
		{Field: "spec.task_template.env.TOKEN", Hidden: true},
	}, c.Fields)
	require.Zero(t, c.More)
}

func TestAChangeOfManyFieldsIsCut(t *testing.T) {
	drive := func(paths ...string) string {
		return "kind: HostPathGrant\nmetadata: {name: more}\nspec: {workspace: research, paths: [" + strings.Join(paths, ", ") + "]}\n"
	}
	var many []string
	for i := range 14 {
		many = append(many, "/mnt/"+strings.Repeat("x", i+1))
	}
	c := documentOf(t, drive("/mnt/a"), drive(many...))["grant/acme.more"]
	require.Len(t, c.Fields, MaxChangedFields)
	require.Equal(t, 4, c.More)
	require.Equal(t, FieldChange{Field: "spec.paths[9]", New: `"/mnt/xxxxxxxxxx"`}, c.Fields[9], "by number, not by text")
}

// X-1, N-2: an object under another name is removed and created, and the plan
// says so; members of a group say whose they are; a removal says where it stood.
func TestAChangeSaysWhereItComesFrom(t *testing.T) {
	const group = "---\nkind: ReplicaGroup\nmetadata: {name: api}\nspec: {replicas: 2, port: 80, task_template: {command: sh}}\n"
	drive := func(name, path string) string {
		return "kind: Drive\nmetadata: {name: " + name + "}\nspec: {sources: [{node_scope: shared, path: /lustre/" + path + "}]}\n"
	}
	changes := documentOf(t, drive("old", "x")+"---\n"+drive("other", "y"), drive("new", "x")+"---\n"+drive("fresh", "z")+group)
	require.Equal(t, schema.Key{Kind: schema.KindDrive, Namespace: testNS, Name: "old"}, changes["drive/$ns.new"].Renamed)
	require.Equal(t, "remove", changes["drive/$ns.old"].Change)
	require.Equal(t, "drive/old.yaml:1:1", changes["drive/$ns.old"].Pos.String())
	require.Zero(t, changes["drive/$ns.fresh"].Renamed)
	require.Equal(t, schema.Key{Kind: schema.KindReplicaGroup, Namespace: testNS, Name: "api"}, changes["run/$ns.api-1"].From)
	require.Zero(t, changes["replica_group/$ns.api"].From)
}
