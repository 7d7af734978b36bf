package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func key(kind schema.Kind, name string) schema.Key {
	return schema.Key{Kind: kind, Namespace: "ws-3f9c2a7d41be", Name: name}
}

func document() planner.PlanDocument {
	cache, imagenet, train := key(schema.KindDrive, "hf-cache"), key(schema.KindDrive, "imagenet"), key(schema.KindRun, "train")
	hold := schema.Hold{Object: imagenet, Code: schema.CodeDatavolumeInUse, Status: 409, Message: "drive imagenet is used by 2 live worker(s)"}
	hold.File, hold.Line = "orgs/acme/workspaces/research/drives/imagenet.cue", 3
	api, api0 := key(schema.KindReplicaGroup, "api"), key(schema.KindRun, "api-0")
	change := func(kind string, k schema.Key, file string) planner.DocumentChange {
		c := planner.DocumentChange{Object: k, Change: kind}
		if file != "" {
			c.Pos = schema.Pos{File: file, Line: 1, Col: 1}
		}
		return c
	}
	return planner.PlanDocument{
		APIVersion: planner.DocumentVersion, Applyable: true,
		Inputs:  planner.DocumentInputs{Commit: "3f9c2a7d41be00112233445566778899aabbccdd"},
		Summary: planner.DocumentSummary{Create: 4, Change: 1, Remove: 1, Place: 1, Steps: 5, Destroy: 1, Waits: 2, Holds: 1, Drift: 1},
		Changes: []planner.DocumentChange{
			change("create", train, "runs/train.cue"), withFields(change("change", imagenet, "drives/imagenet.cue")), change("remove", cache, ""),
			change("create", api, "replica_groups/api.cue"), {Object: api0, Change: "create", From: api},
			{Object: key(schema.KindRun, "gone-0"), Change: "remove", From: key(schema.KindReplicaGroup, "gone")},
			{Object: key(schema.KindEndpoint, "new"), Change: "create", Renamed: key(schema.KindEndpoint, "old")},
		},
		Placements: []planner.DocumentPlacement{{Run: train, Worker: "train-0", Machine: "gpu-02"}},
		Steps: []schema.Step{
			{ID: "1", Machine: "gpu-01", Action: schema.ActionDeleteCopy, Object: cache, Args: schema.StepArgs{Path: "/mnt/nvme0/astraeus/drives/ws-3f9c2a7d41be.hf-cache"}, Why: schema.Why{Message: "the drive was removed"}, Destructive: true},
			{ID: "2", Machine: "gpu-01", Action: schema.ActionExport, Object: imagenet, Args: schema.StepArgs{Path: "/mnt/x", To: "gpu-02"}, Why: schema.Why{Message: "gpu-02 mounts it from here"}},
			{ID: "3", Machine: "gpu-02", Action: schema.ActionMount, Object: imagenet, Args: schema.StepArgs{From: "gpu-01", Transport: schema.TransportTCP}, Why: schema.Why{Message: "train-0 uses it here"}, After: []string{"2"}},
			{ID: "4", Machine: "gpu-02", Action: schema.ActionStopWorker, Object: train, Args: schema.StepArgs{Worker: "train-1"}, Why: schema.Why{Message: "a newer version of the run replaces it"}},
			{ID: "5", Machine: "gpu-01", Action: schema.ActionStartWorker, Object: api0, Args: schema.StepArgs{Worker: "api-0-0"}, Why: schema.Why{Message: "placed here"}},
		},
		Waits: []schema.Wait{
			{Run: train, Worker: "train-0", Reasons: []schema.Reason{{Code: schema.ReasonGPUs, Count: 1, Args: schema.ReasonArgs{Need: 2}}}},
			{Run: api0, Worker: "api-0-0", Reasons: []schema.Reason{{Code: schema.ReasonCreatingCopy}}},
		},
		Holds: []schema.Hold{hold},
		Drift: []schema.Drift{{Machine: "gpu-03", Object: imagenet, Message: "its mount is gone"}},
	}
}

func withFields(c planner.DocumentChange) planner.DocumentChange {
	c.Fields = []planner.FieldChange{
		{Field: "spec.evictable", Old: "false", New: "true"}, {Field: "spec.fill.env.TOKEN", Hidden: true},
		{Field: "spec.size_hint_bytes", New: "5"}, {Field: "spec.transport", Old: `"TCP"`},
	}
	c.More = 1
	return c
}

func render(t *testing.T, format string, doc planner.PlanDocument, color bool) string {
	t.Helper()
	var b bytes.Buffer
	v, err := NewPlanOf(format, Out{&b, color}, PlanContext{Names: Names{"ws-3f9c2a7d41be": "acme/research"}})
	require.NoError(t, err)
	require.NoError(t, v.Plan(doc))
	return b.String()
}

// G-6: what the commit changes, what drifted and what waits are kept apart, what destroys comes first.
func TestPlanForms(t *testing.T) {
	golden(t, "plan.table", render(t, "table", document(), false))
	golden(t, "plan.color", render(t, "table", document(), true))
	golden(t, "plan.markdown", render(t, "markdown", document(), false))
	golden(t, "plan.json", render(t, "json", document(), false))
	golden(t, "plan-empty.table", render(t, "table", planner.PlanDocument{}, false))
	golden(t, "plan-empty.markdown", render(t, "markdown", planner.PlanDocument{}, false))
}

func TestColorRepeatsWhatSymbolsSay(t *testing.T) {
	plain := render(t, "table", document(), false)
	colored := render(t, "table", document(), true)
	for _, code := range []string{"31", "32", "33", "36", "1", "2", "0"} {
		colored = strings.ReplaceAll(colored, "\x1b["+code+"m", "")
	}
	require.Equal(t, plain, colored)
}

// A comment is cut off by its host at 65,536 bytes; what destroys must survive. // G-6
func TestMarkdownIsBounded(t *testing.T) {
	doc := document()
	long := strings.Repeat("|<b>*_`@everyone", 60)
	for range 3000 {
		doc.Steps = append(doc.Steps, doc.Steps[1:]...)
		if len(doc.Steps) > 20000 {
			break
		}
	}
	for range 500 {
		doc.Changes = append(doc.Changes, doc.Changes[0])
		doc.Drift = append(doc.Drift, schema.Drift{Machine: "gpu-01", Object: doc.Changes[0].Object, Message: long})
		doc.Waits = append(doc.Waits, schema.Wait{Run: doc.Changes[0].Object, Reasons: []schema.Reason{{Code: schema.ReasonForbidden, Count: 1, Args: schema.ReasonArgs{Text: long}}}})
		doc.Diagnostics = append(doc.Diagnostics, schema.Diagnostic{Message: long})
	}
	got := render(t, "markdown", doc, false)
	require.LessOrEqual(t, len(got), markdownLimit)
	require.True(t, utf8.ValidString(got))
	require.True(t, strings.HasPrefix(got, MarkdownMarker+"\n"))
	require.Equal(t, strings.Count(got, "<details>"), strings.Count(got, "</details>"))
	require.Contains(t, got, "DeleteCopy")
	require.Contains(t, got, "more: `astraeus plan` shows all")
	for _, title := range []string{"Waits (501)", "Steps (", "Diagnostics (500)"} {
		require.Contains(t, got, title)
	}
}

func TestMarkdownCellsAreEscaped(t *testing.T) {
	doc := planner.PlanDocument{Drift: []schema.Drift{{
		Machine: "a|b", Message: "<img src=x> **bold** _it_ `code` [x](https://evil) @team #1 ~~s~~ \\| \n| new row | ![i](j)\x1b[31m\u202e",
	}}}
	got := render(t, "markdown", doc, false)
	row := ""
	for line := range strings.Lines(got) {
		if strings.Contains(line, "img") {
			row = line
		}
	}
	require.NotContains(t, row, "<img")
	require.NotContains(t, row, "@team")
	require.NotContains(t, row, "https://")
	require.NotContains(t, row, "\x1b")
	require.NotContains(t, row, "\u202e")
	require.NotContains(t, strings.ReplaceAll(row, `\*`, ""), "*")
	// Four unescaped bars hold three cells.
	require.Equal(t, 4, strings.Count(strings.NewReplacer(`\\`, "", `\|`, "").Replace(row), "|"), row)
}

func FuzzMarkdown(f *testing.F) {
	f.Add("a|b", "<x>")
	f.Fuzz(func(t *testing.T, a, b string) {
		doc := planner.PlanDocument{Drift: []schema.Drift{{Machine: a, Message: b}}}
		got := render(t, "markdown", doc, false)
		require.LessOrEqual(t, len(got), markdownLimit)
		require.Equal(t, 10, strings.Count(got, "\n"), "no cell adds a line: %q", got)
	})
}

func diagnostics() []schema.Diagnostic {
	return []schema.Diagnostic{
		{
			Pos: schema.Pos{File: "orgs/acme/a,b.cue", Line: 4, Col: 2}, Severity: schema.SeverityError, Code: schema.CodeUnknownField, Status: 400,
			Field: "spec.evictabel", Message: "spec.evictabel: unknown field\x1b[2J", Hint: `did you mean "evictable"?`,
		},
		{Pos: schema.Pos{File: "cluster.cue"}, Severity: schema.SeverityWarning, Code: schema.CodeWarning, Status: 200, Message: "100% of\nit: a, b"},
		{Severity: schema.SeverityError, Code: schema.CodeUnreadable, Status: 400, Message: "no files"},
	}
}

// G-4
func TestDiagnosticForms(t *testing.T) {
	for _, format := range DiagnosticFormats {
		var b bytes.Buffer
		v, err := NewDiagnostics(format, "v1.2.3", Out{&b, false})
		require.NoError(t, err)
		require.NoError(t, v.Diagnostics(diagnostics()))
		golden(t, "diagnostics."+format, b.String())
		b.Reset()
		require.NoError(t, v.Diagnostics(nil))
		if format == "json" || format == "sarif" {
			require.True(t, json.Valid(b.Bytes()))
		} else {
			require.Empty(t, b.String())
		}
	}
	_, err := NewDiagnostics("xml", "", Out{})
	require.ErrorContains(t, err, `unknown output format "xml"`)
}

func TestListForms(t *testing.T) {
	l := Listing{
		Columns: []Column{{Name: "NAME"}, {Name: "STATE"}, {Name: "NOTE", Wide: true}, {Name: "WHERE"}},
		Rows: []Row{
			{Ref: "drive/ws.a", Cells: []string{"a", "Available", "überall\x07", "gpu-01"}},
			{Ref: "drive/ws.long-name", Cells: []string{"long-name", "", "x"}},
		},
		Value: map[string]any{"items": []any{map[string]any{"name": "a", "size_hint_bytes": 1}}},
		Empty: "nothing",
	}
	for _, format := range ReadFormats {
		var b bytes.Buffer
		v, err := NewList(format, Out{&b, false})
		require.NoError(t, err)
		require.NoError(t, v.List(l))
		golden(t, "list."+format, b.String())
		for line := range strings.Lines(b.String()) {
			require.Equal(t, strings.TrimRight(line, " \n")+"\n", line, "no blanks at the end of a line")
		}
	}
	var b bytes.Buffer
	require.NoError(t, humanList{out: Out{&b, false}}.List(Listing{Empty: "nothing"}))
	require.Equal(t, "nothing\n", b.String())
}

func TestProgressLines(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	p := Progress{Commit: "3f9c2a7d41be00", Done: 1, Total: 4, Filling: []Filling{{Drive: "model", Machine: "gpu-01", Bytes: 5e9, Want: 1e10}}, Waiting: 1}
	var out, lines bytes.Buffer
	v, err := NewApply("table", Out{&out, false}, Out{&lines, false}, false)
	require.NoError(t, err)
	for i := range 25 { // one a second
		p.At, p.Done = at.Add(time.Duration(i)*time.Second), i
		require.NoError(t, v.Progress(p))
	}
	require.Equal(t, 3, strings.Count(lines.String(), "\n"), "a line every ten seconds: %s", lines.String())
	require.Contains(t, lines.String(), "3f9c2a7d41be: 0 of 4 steps done, model on gpu-01 5.00 GB of 10.0 GB, 1 wait\n")
	p.At, p.Machines, p.Away = at.Add(time.Minute), 7, []string{"a", "b", "c", "d", "e", "f"}
	require.NoError(t, v.Progress(p))
	require.Contains(t, lines.String(), ", 1 of 7 machines connected; not a, b, c, d, e and 1 more\n")
	require.NoError(t, v.Applied(Applied{Commit: p.Commit, Converged: true, Steps: 4}))
	require.Equal(t, "ok: 3f9c2a7d41be applied, 4 steps\n", out.String())

	var live bytes.Buffer
	v, err = NewApply("json", Out{&out, false}, Out{&live, false}, true)
	require.NoError(t, err)
	out.Reset()
	for range 3 {
		require.NoError(t, v.Progress(p))
	}
	require.Equal(t, 1, strings.Count(live.String(), "\r"), "an unchanged line is not written again")
	require.NoError(t, v.Applied(Applied{Commit: "c"}))
	require.JSONEq(t, `{"commit":"c","converged":false,"steps":0,"holds":[],"waits":[]}`, out.String())
}

func TestUnknownFormats(t *testing.T) {
	for _, make := range []func(string) error{
		func(f string) error { _, err := NewPlan(f, Out{}); return err },
		func(f string) error { _, err := NewList(f, Out{}); return err },
		func(f string) error { _, err := NewDescribe(f, Out{}); return err },
		func(f string) error { _, err := NewValidate(f, Out{}); return err },
		func(f string) error { _, err := NewApply(f, Out{}, Out{}, false); return err },
	} {
		var format *FormatError
		require.ErrorAs(t, make("xml"), &format)
		require.NotEmpty(t, format.Known)
	}
}
