package planner

import "astraeus.io/astraeus/schema"

// DocumentVersion is the api_version of a plan document.
const DocumentVersion = "astraeus.io/plan/v1"

// PlanDocument is a plan as people and programs read it (conventions.md, "Plan
// document"): sorted, stable, without times in what is digested.
type PlanDocument struct {
	APIVersion  string              `json:"api_version"`
	Complete    bool                `json:"complete"`  // the commit is whole: no diagnostic is an error, nothing is held
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
	Observed map[string]string `json:"observed"` // digest by machine
	Accepted string            `json:"accepted"` // digest of the accepted objects concerned
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
	Holds   int `json:"holds"`
	Drift   int `json:"drift"`
}

// DocumentChange is one object that the commit creates, changes or removes.
type DocumentChange struct {
	Object schema.Key `json:"object"`
	Change string     `json:"change"` // "create", "change", "remove"
	schema.Pos
}

// DocumentPlacement is one worker's place.
type DocumentPlacement struct {
	Run     schema.Key `json:"run"`
	Worker  string     `json:"worker"`
	Machine string     `json:"machine"`
}

// Document is p as a plan document. in is what p was made from, schemaVersion
// the version of the CUE schema that loaded the files.
func Document(p schema.Plan, in Input, schemaVersion string) PlanDocument { return PlanDocument{} }

// Digest identifies the document's content.
func (d PlanDocument) Digest() string { return schema.HashJSON(d) }

// ParseDocument reads a saved plan document strictly: unknown fields and other
// versions are errors.
func ParseDocument(data []byte) (PlanDocument, error) { return PlanDocument{}, nil }

// DocumentSchema is the JSON schema of a plan document.
func DocumentSchema() []byte { return nil }
