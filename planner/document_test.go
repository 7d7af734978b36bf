package planner

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func sampleDocument(t testing.TB) (PlanDocument, Input) {
	s := newSim(observe(t, twoMachines).Machines...)
	s.desired = declare(t, "c1", twoObjects+trainRun)
	require.True(t, s.converge())
	s.desired = declare(t, "c2", strings.Replace(twoObjects, "mode: ReadWrite", "mode: ReadOnly", 1)+trainRun+`
---
kind: Drive
metadata: {name: home}
spec: {sources: [{node: gpu-01, path: /home}]}
---
kind: Run
metadata: {name: next}
spec: {task_template: {command: sh, datavolume_refs: [{name: absent}]}}
`)
	s.machines["gpu-02"].Mounts = []schema.Mount{}
	in := s.input()
	return Document(Plan(in), in, "1"), in
}

// The plan document of conventions.md, word for word.
func TestDocument(t *testing.T) {
	d, _ := sampleDocument(t)
	data, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	got := strings.ReplaceAll(string(data), testNS, "$ns") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("testdata/document.json", []byte(got), 0o644))
	}
	want, err := os.ReadFile("testdata/document.json")
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestDocumentRoundTripAndSchema(t *testing.T) {
	d, _ := sampleDocument(t)
	data, err := json.Marshal(d)
	require.NoError(t, err)
	back, err := ParseDocument(data)
	require.NoError(t, err)
	require.Equal(t, d.Digest(), back.Digest())
	var document any
	require.NoError(t, json.Unmarshal(data, &document))
	var whole map[string]any
	require.NoError(t, json.Unmarshal(DocumentSchema(), &whole))
	require.Empty(t, conform(whole, whole, document, "plan"))
	for _, bad := range []string{`{}`, `{"api_version":"astraeus.io/plan/v2"}`, `[]`, string(data) + "{}", strings.Replace(string(data), `"summary"`, `"sumary"`, 1)} {
		_, err := ParseDocument([]byte(bad))
		require.Error(t, err)
	}
}

// conform checks a value against the part of JSON Schema that the document's uses.
func conform(root, s map[string]any, v any, at string) (problems []string) {
	if ref, ok := s["$ref"].(string); ok {
		return conform(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), v, at)
	}
	if want, ok := s["const"]; ok && v != want {
		problems = append(problems, fmt.Sprintf("%s: %v, not %v", at, v, want))
	}
	if list, ok := s["enum"].([]any); ok && !strings.Contains(fmt.Sprint(list), fmt.Sprint(v)) {
		problems = append(problems, fmt.Sprintf("%s: %v is not one of %v", at, v, list))
	}
	kinds := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		kinds["object"] = true
		props, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, has := v[name.(string)]; !has {
				problems = append(problems, fmt.Sprintf("%s: no %s", at, name))
			}
		}
		for name, value := range v {
			part, known := props[name].(map[string]any)
			if known {
				problems = append(problems, conform(root, part, value, at+"."+name)...)
			} else if s["additionalProperties"] == false {
				problems = append(problems, fmt.Sprintf("%s: unknown %s", at, name))
			}
		}
	case []any:
		kinds["array"] = true
		for i, item := range v {
			problems = append(problems, conform(root, s["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		kinds["string"] = true
	case bool:
		kinds["boolean"] = true
	case float64:
		kinds["integer"] = v == float64(int64(v))
	}
	if want, ok := s["type"].(string); ok && !kinds[want] {
		problems = append(problems, fmt.Sprintf("%s: %T is no %s", at, v, want))
	}
	return problems
}

// the digest is the same whatever the free bytes, measurements, last use
// and the time; it changes with what the plan depends on.
func TestDigestCoversWhatThePlanDependsOn(t *testing.T) {
	d, in := sampleDocument(t)
	digest := func(change func(*schema.MachineReport)) string {
		again := in
		again.Observed.Machines = nil
		for _, m := range in.Observed.Machines {
			c := *m
			c.Filesystems = append([]schema.Filesystem{}, m.Filesystems...)
			c.Copies = append([]schema.Copy{}, m.Copies...)
			change(&c)
			again.Observed.Machines = append(again.Observed.Machines, &c)
		}
		again.Now = in.Now.Add(time.Hour)
		return Document(Plan(again), again, "1").Digest()
	}
	now := time.Now()
	require.Equal(t, d.Digest(), digest(func(m *schema.MachineReport) {
		m.Sequence, m.Measurements = 99, []schema.Measurement{{Bytes: 1}}
		for i := range m.Filesystems {
			m.Filesystems[i].FreeBytes++
		}
		for i := range m.Copies {
			m.Copies[i].LastUsed = &now
		}
	}))
	require.NotEqual(t, d.Digest(), digest(func(m *schema.MachineReport) { m.Address = "203.0.113.9" }))
}

// A saved plan is someone else's file.
func FuzzParseDocument(f *testing.F) {
	d, _ := sampleDocument(f)
	data, err := json.Marshal(d)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"api_version":"astraeus.io/plan/v1","steps":[{"object":"drive/x"}]}`))
	f.Add([]byte(`{"api_version":"astraeus.io/plan/v1","waits":[{"run":"run/a.b","reasons":[{"code":"NO_ROOM","args":{"need":-1}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseDocument(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(d)
		require.NoError(t, err)
		back, err := ParseDocument(again)
		require.NoError(t, err)
		require.Equal(t, d.Digest(), back.Digest())
	})
}

// D-31: in a first plan a machine that has not reported is no held machine: only
// its data location waits, and the plan says so.
func TestAMachineThatHasNotReportedIsNotHeld(t *testing.T) {
	s := newSim()
	s.desired = declare(t, "c1", frame+"---\nkind: Machine\nmetadata: {name: gpu-01}\nspec: {address: 192.0.2.1, data_location: {path: /nvme}}\n")
	in := s.input()
	d := Document(Plan(in), in, "1")
	require.True(t, d.Complete)
	require.Zero(t, d.Summary.Holds)
	require.Len(t, d.Holds, 1)
	require.True(t, d.Holds[0].Pending)
	require.Equal(t, "spec.data_location.path", d.Holds[0].Field)
	require.Equal(t, "machine gpu-01 has not reported its disks yet; wait until it is up, then choose again", d.Holds[0].Message)
	machine := Plan(in).Decisions.Accept[2].Object.Object
	require.Equal(t, "192.0.2.1", machine.Spec.(*schema.MachineSpec).Address)
	require.Nil(t, machine.Spec.(*schema.MachineSpec).DataLocation)
}
