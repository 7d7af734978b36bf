package planner

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"astraeus.io/astraeus/schema"
)

var update = flag.Bool("update", false, "write the golden plans anew")

// scenario is what happens to a cluster after base.yaml has been carried out and
// before desired.yaml is planned.
type scenario struct {
	State    map[string]schema.MachineState `json:"state"`     // of machines
	Ends     map[string]int                 `json:"ends"`      // workers that end, with their exit codes
	Set      map[string]map[string]any      `json:"set"`       // parts of machines' reports
	Unset    map[string][]string            `json:"unset"`     // parts that are unknown now
	NotWhole map[string]string              `json:"not_whole"` // scope -> file
	Invalid  []schema.Key                   `json:"invalid"`
	Ticks    int                            `json:"ticks"` // of planning and acting before the plan that is shown
	Frame    *bool                          `json:"frame"` // false: desired.yaml stands alone
	Rewrite  bool                           `json:"rewritten"`
}

// TestGolden plans each testdata/*.txtar, named after the rule it shows.
//
//	base.yaml      what is declared first, and carried out (optional)
//	observed.yaml  what the machines report
//	then.yaml      what happens next (optional)
//	desired.yaml   what is declared then; absent: base.yaml again
//	must           lines that the plan has, word for word (interface)
//	plan           the plan
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	require.NoError(t, err)
	parts := map[string]string{}
	for _, f := range archive.Files {
		parts[f.Name] = string(f.Data)
	}
	var next scenario
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(parts["then.yaml"], "$ns", testNS)), &next))
	s := newSim(observe(t, parts["observed.yaml"]).Machines...)
	if base, has := parts["base.yaml"]; has {
		s.desired = declare(t, "c1", frame+"---\n"+base)
		require.True(t, s.converge(), "base.yaml does not converge:\n%s", planText(s.plan))
	}
	next.happen(t, s)
	text, has := parts["desired.yaml"]
	if !has {
		text = parts["base.yaml"]
	}
	if next.Frame == nil || *next.Frame {
		text = frame + "---\n" + text
	}
	s.desired = declare(t, "c2", text)
	for scope, path := range next.NotWhole {
		s.desired.NotWhole[scope] = schema.Pos{File: path, Line: 3, Col: 1}
	}
	for _, key := range next.Invalid {
		s.desired.Invalid[key] = schema.Pos{File: key.Name + ".yaml", Line: 1}
	}
	for range next.Ticks {
		s.tick()
	}
	require.Empty(t, s.problems)
	in := s.input()
	in.Rewritten = next.Rewrite
	got := planText(Plan(in))
	for line := range strings.Lines(parts["must"]) {
		require.Contains(t, got, strings.TrimSuffix(line, "\n"))
	}
	if *update {
		writeGolden(t, file, archive, got)
		return
	}
	require.Equal(t, parts["plan"], got)
}

func writeGolden(t *testing.T, file string, archive *txtar.Archive, got string) {
	var files []txtar.File
	for _, f := range archive.Files {
		if f.Name != "plan" {
			files = append(files, f)
		}
	}
	archive.Files = append(files, txtar.File{Name: "plan", Data: []byte(got)})
	require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
}

func (n *scenario) happen(t *testing.T, s *sim) {
	for name, state := range n.State {
		s.machines[name].State = state
	}
	for name, part := range n.Set {
		old, err := json.Marshal(s.machines[name])
		require.NoError(t, err)
		whole := map[string]any{}
		require.NoError(t, json.Unmarshal(old, &whole))
		maps.Copy(whole, part)
		data, err := json.Marshal(whole)
		require.NoError(t, err)
		s.machines[name] = &schema.MachineReport{}
		require.NoError(t, yaml.UnmarshalStrict(data, s.machines[name]))
	}
	for name, parts := range n.Unset {
		for _, part := range parts {
			switch m := s.machines[name]; part {
			case "workers":
				m.Workers = nil
			case "mounts":
				m.Mounts = nil
			case "exports":
				m.Exports = nil
			case "copies":
				m.Copies = nil
			case "filesystems":
				m.Filesystems = nil
			default:
				t.Fatalf("unset %s", part)
			}
		}
	}
	for _, m := range s.machines {
		for i := range m.Workers {
			w := &m.Workers[i]
			code, ends := n.Ends[w.Name]
			if !ends {
				continue
			}
			w.State, w.ExitCode, w.Ended = schema.WorkerSucceeded, &code, w.Started.Add(1000000000)
			if code != 0 {
				w.State, w.Reason = schema.WorkerFailed, "exited"
			}
		}
	}
}
