package planner

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"astraeus.io/astraeus/schema"
)

// DocumentVersion is the api_version of a plan document.
const DocumentVersion = "astraeus.io/plan/v1"

// PlannerVersion changes when the same input may give another plan, so that a
// saved plan of an older planner is stale.
const PlannerVersion = "2"

// PlanDocument is a plan as people and programs read it (conventions.md, "Plan
// document"): sorted, stable, without times in what is digested.
type PlanDocument struct {
	APIVersion  string              `json:"api_version"`
	Complete    bool                `json:"complete"`  // the commit is whole and nothing is held
	Applyable   bool                `json:"applyable"` // there is something to do and nothing forbids it
	Inputs      DocumentInputs      `json:"inputs"`
	Summary     DocumentSummary     `json:"summary"`
	Changes     []DocumentChange    `json:"changes"` // what the commit changes, by object
	Placements  []DocumentPlacement `json:"placements"`
	Steps       []schema.Step       `json:"steps"`
	Waits       []schema.Wait       `json:"waits"`
	Holds       []schema.Hold       `json:"holds"`
	Drift       []schema.Drift      `json:"drift"`
	Diagnostics []schema.Diagnostic `json:"diagnostics"`
}

// DocumentInputs name what the plan was made from.
type DocumentInputs struct {
	Commit   string            `json:"commit"`
	Schema   string            `json:"schema"`
	Planner  string            `json:"planner"`
	Observed map[string]string `json:"observed"` // digest by machine, of those that the plan touches
	Accepted string            `json:"accepted"` // digest of the accepted objects that the plan touches
}

// DocumentSummary counts.
type DocumentSummary struct {
	Create  int `json:"create"`
	Change  int `json:"change"`
	Remove  int `json:"remove"`
	Place   int `json:"place"`
	Steps   int `json:"steps"`
	Destroy int `json:"destroy"` // destructive steps
	Waits   int `json:"waits"`
	Holds   int `json:"holds"` // without those that clear by themselves
	Drift   int `json:"drift"`
}

// DocumentPlacement is one worker's place.
type DocumentPlacement struct {
	Run     schema.Key `json:"run"`
	Worker  string     `json:"worker"`
	Machine string     `json:"machine"`
}

// Document is p as a plan document. in is what p was made from, schemaVersion
// the version of the CUE schema that loaded the files.
func Document(p schema.Plan, in Input, schemaVersion string) PlanDocument {
	d := PlanDocument{
		APIVersion: DocumentVersion,
		Inputs:     DocumentInputs{Commit: p.Commit, Schema: schemaVersion, Planner: PlannerVersion, Observed: map[string]string{}},
		Changes:    documentChanges(p, in), Placements: documentPlacements(p),
		Steps: stepsOf(p), Waits: notNil(p.Waits), Holds: notNil(p.Holds), Drift: notNil(p.Drift),
		Diagnostics: notNil(p.Notes),
	}
	if in.Desired != nil {
		d.Diagnostics = schema.SortDiagnostics(slices.Concat(in.Desired.Diagnostics, p.Notes))
		d.Diagnostics = notNil(d.Diagnostics)
	}
	d.digestInputs(p, in)
	d.count()
	d.Complete = schema.HeldBack(d.Holds) == 0 && !schema.HasErrors(d.Diagnostics) && (in.Desired == nil || len(in.Desired.NotWhole) == 0)
	d.Applyable = !in.Rewritten && len(d.Changes)+len(d.Placements)+len(d.Steps) > 0
	return d
}

func stepsOf(p schema.Plan) []schema.Step {
	list := make([]schema.Step, 0, len(p.Steps))
	for _, st := range p.Steps {
		list = append(list, *st)
	}
	return list
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return slices.Clone(list)
}

func documentPlacements(p schema.Plan) []DocumentPlacement {
	list := []DocumentPlacement{}
	for _, pl := range p.Decisions.Place {
		for _, w := range pl.Workers {
			if w.Outcome == nil {
				list = append(list, DocumentPlacement{pl.Run, w.Name, w.Machine})
			}
		}
	}
	slices.SortFunc(list, func(a, b DocumentPlacement) int {
		if c := schema.CompareKeys(a.Run, b.Run); c != 0 {
			return c
		}
		return compareStrings(a.Worker, b.Worker)
	})
	return list
}

// digestInputs covers what the plan depends on in the objects and machines it
// touches, never free bytes, measurements or last use.
func (d *PlanDocument) digestInputs(p schema.Plan, in Input) {
	touched := map[string]bool{}
	for _, s := range d.Steps {
		touched[s.Machine] = true
	}
	for _, pl := range d.Placements {
		touched[pl.Machine] = true
	}
	for name, r := range newest(in.Observed.Machines) {
		if touched[name] {
			d.Inputs.Observed[name] = digestReport(r)
		}
	}
	type version struct {
		Key        schema.Key
		UID        string
		Generation int64
	}
	var versions []version
	for _, c := range d.Changes {
		if a := in.Accepted.Objects[c.Object]; inForce(a) {
			versions = append(versions, version{c.Object, a.UID, a.Generation})
		}
	}
	for _, pl := range p.Decisions.Place {
		if a := in.Accepted.Objects[pl.Run]; inForce(a) {
			versions = append(versions, version{pl.Run, a.UID, a.Generation})
		}
	}
	slices.SortFunc(versions, func(a, b version) int { return schema.CompareKeys(a.Key, b.Key) })
	d.Inputs.Accepted = schema.HashJSON(versions)
}

func digestReport(r *schema.MachineReport) string {
	c := *r
	c.Sequence, c.Applied, c.Epoch, c.Incarnation = 0, 0, 0, ""
	c.Measurements, c.MountSeries, c.Problems, c.Failures = nil, nil, nil, nil
	c.Filesystems = slices.Clone(r.Filesystems)
	for i := range c.Filesystems {
		fs := &c.Filesystems[i]
		fs.FreeBytes, fs.UsedBytes, fs.FreeInodes, fs.Recommended = 0, 0, 0, false
	}
	c.DataLocations = slices.Clone(r.DataLocations)
	for i := range c.DataLocations {
		c.DataLocations[i].FreeBytes, c.DataLocations[i].UsedBytes = 0, 0
	}
	c.Copies = slices.Clone(r.Copies)
	for i := range c.Copies {
		c.Copies[i].LastUsed, c.Copies[i].Bytes, c.Copies[i].Files = nil, 0, 0
	}
	return schema.HashJSON(c)
}

func (d *PlanDocument) count() {
	s := DocumentSummary{Place: len(d.Placements), Steps: len(d.Steps), Waits: len(d.Waits), Holds: schema.HeldBack(d.Holds), Drift: len(d.Drift)}
	for _, c := range d.Changes {
		switch c.Change {
		case "create":
			s.Create++
		case "change":
			s.Change++
		default:
			s.Remove++
		}
	}
	for _, st := range d.Steps {
		if st.Destructive {
			s.Destroy++
		}
	}
	d.Summary = s
}

// Digest identifies what the document would do and what it was made from: not
// its waits, which speak of free bytes.
func (d PlanDocument) Digest() string {
	return schema.HashJSON(struct {
		Version    string
		Inputs     DocumentInputs
		Changes    []DocumentChange
		Placements []DocumentPlacement
		Steps      []schema.Step
		Holds      []schema.Hold
	}{d.APIVersion, d.Inputs, d.Changes, d.Placements, d.Steps, d.Holds})
}

// ParseDocument reads a saved plan document strictly: unknown fields and other
// versions are errors.
func ParseDocument(data []byte) (PlanDocument, error) {
	var d PlanDocument
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return PlanDocument{}, fmt.Errorf("plan document: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return PlanDocument{}, errors.New("plan document: something follows the document")
	}
	if d.APIVersion != DocumentVersion {
		return PlanDocument{}, fmt.Errorf("plan document: api_version %q: want %q", d.APIVersion, DocumentVersion)
	}
	return d, nil
}

//go:embed document.schema.json
var documentSchema []byte

// DocumentSchema is the JSON schema of a plan document.
func DocumentSchema() []byte { return slices.Clone(documentSchema) }
