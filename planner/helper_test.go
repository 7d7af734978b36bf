package planner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"astraeus.io/astraeus/schema"
)

const (
	testCluster = "example"
	testOrg     = "acme"
	testSpace   = "research"
)

// testNS is the namespace of the workspace that tests declare objects in.
var testNS = schema.Namespace(testCluster, testOrg, testSpace)

var testNow = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// declare makes a Desired of YAML documents. A document's place comes from its
// metadata: `org` and `workspace` default to the test's.
func declare(t testing.TB, commit, text string) *schema.Desired {
	d := &schema.Desired{Commit: commit, Objects: map[schema.Key]*schema.Object{}, Invalid: map[schema.Key]schema.Pos{}, NotWhole: map[string]schema.Pos{}}
	for i, doc := range strings.Split("\n"+text, "\n---") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		o := parseObject(t, doc, i)
		d.Objects[o.Key] = o
	}
	return d
}

func parseObject(t testing.TB, doc string, index int) *schema.Object {
	var raw struct {
		Kind      schema.Kind     `json:"kind"`
		Org       string          `json:"org"`
		Workspace string          `json:"workspace"`
		Metadata  schema.Metadata `json:"metadata"`
		Spec      json.RawMessage `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(doc), &raw), doc)
	spec := schema.NewSpec(raw.Kind)
	require.NotNil(t, spec, "kind %q in %s", raw.Kind, doc)
	if len(raw.Spec) > 0 {
		require.NoError(t, json.Unmarshal(raw.Spec, spec), doc)
	}
	return makeObject(raw.Kind, cmp.Or(raw.Org, testOrg), cmp.Or(raw.Workspace, testSpace), raw.Metadata, spec)
}

func makeObject(kind schema.Kind, org, workspace string, meta schema.Metadata, spec schema.Spec) *schema.Object {
	o := &schema.Object{Metadata: meta, Spec: spec, Key: schema.Key{Kind: kind, Name: meta.Name}}
	switch {
	case kind == schema.KindCluster:
	case kind == schema.KindOrg:
		o.Org = meta.Name
	case kind == schema.KindMachine:
		o.Org = org
	case kind == schema.KindWorkspace:
		o.Org, o.Workspace, o.Key.Namespace = org, meta.Name, org
	case kind == schema.KindHostPathGrant:
		o.Org, o.Key.Namespace = org, org
	default:
		o.Org, o.Workspace, o.Key.Namespace = org, workspace, schema.Namespace(testCluster, org, workspace)
	}
	o.Origin = schema.Pos{File: fmt.Sprintf("%s/%s.yaml", kind.Word(), meta.Name), Line: 1, Col: 1}
	o.Rehash()
	return o
}

// observe makes an observed state of YAML; "ns." stands for the test's namespace.
func observe(t testing.TB, text string) schema.Observed {
	var o schema.Observed
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "$ns", testNS)), &o), text)
	return o
}

// planText is a plan as people read it in a golden file, without hashes.
func planText(p schema.Plan) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, a := range p.Decisions.Accept {
		verb := "create"
		if a.Previous != nil {
			verb = fmt.Sprintf("change to generation %d", a.Object.Generation)
		}
		line("accept %s: %s", a.Object.Object.Key, verb)
	}
	for _, r := range p.Decisions.Remove {
		line("remove %s", r.Key)
	}
	for _, h := range p.Holds {
		line("hold %s: %d %s: %s (%s %s)", h.Object, h.Status, h.Code, h.Message, h.Pos, h.Field)
		if h.Pending {
			line("  pending")
		}
		if h.Hint != "" {
			line("  hint: %s", h.Hint)
		}
	}
	for _, n := range p.Notes {
		line("note %s: %s", n.Object, n.Message)
	}
	for _, t := range p.Decisions.Bury {
		line("tombstone %s", t.Key)
	}
	for range p.Decisions.Exhume {
		line("tombstone gone")
	}
	for _, pl := range p.Decisions.Place {
		placementText(&b, pl)
	}
	for _, key := range p.Decisions.Unplace {
		line("unplace %s", key)
	}
	checksText(&b, p)
	stepsText(&b, p)
	for _, w := range p.Waits {
		line("wait %s %s: %s", w.Run, cmp.Or(w.Worker, "(run)"), w.Summary())
		for _, r := range w.Reasons {
			line("  %s %v x%d: %s", r.Code, r.Machines, r.Count, r.Message())
		}
	}
	for _, d := range p.Drift {
		line("drift %s %s: %s", d.Machine, d.Object, d.Message)
	}
	return strings.ReplaceAll(b.String(), testNS, "$ns")
}

func placementText(b *strings.Builder, pl schema.Placement) {
	fmt.Fprintf(b, "place %s generation %d attempt %d %s\n", pl.Run, pl.Generation, pl.Attempt, pl.Outcome)
	for _, w := range pl.Workers {
		fmt.Fprintf(b, "  %s rank %d on %s gpus %v", w.Name, w.Rank, w.Machine, w.GPUs)
		if w.Outcome != nil {
			fmt.Fprintf(b, " %s", w.Outcome.State)
		}
		b.WriteString("\n")
	}
}

func checksText(b *strings.Builder, p schema.Plan) {
	for _, name := range sortedStrings(p.Targets) {
		for _, c := range p.Targets[name].Checks {
			fmt.Fprintf(b, "check on %s: %s %s at %s:%d%s every %s timeout %s failures %d\n", name, c.Endpoint, c.Worker, c.Address, c.Port, c.HTTPPath,
				c.Every, c.Timeout, c.Failures)
		}
	}
}

func stepsText(b *strings.Builder, p schema.Plan) {
	short := map[string]string{}
	for i, s := range p.Steps {
		short[s.ID] = fmt.Sprintf("#%d", i+1)
	}
	for i, s := range p.Steps {
		released := slices.ContainsFunc(p.Targets[s.Machine].Steps, func(r schema.Step) bool { return r.ID == s.ID })
		fmt.Fprintf(b, "step #%d %s on %s: %s", i+1, s.Action, s.Machine, s.Object)
		a := s.Args
		for _, part := range []struct{ name, value string }{{"worker", a.Worker}, {"path", a.Path}, {"from", a.From}, {"to", a.To},
			{"client", a.Client}, {"server", a.Server}, {"mode", string(a.Mode)}, {"transport", string(a.Transport)}} {
			if part.value != "" {
				fmt.Fprintf(b, " %s=%s", part.name, part.value)
			}
		}
		for _, id := range s.After {
			fmt.Fprintf(b, " after %s", short[id])
		}
		if !released {
			b.WriteString(" (withheld)")
		}
		fmt.Fprintf(b, " | %s\n", s.Why.Message)
	}
}
