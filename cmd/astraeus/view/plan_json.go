package view

import (
	"encoding/json"

	"astraeus.io/astraeus/planner"
)

type jsonPlan struct {
	out     Out
	origins Origins
}

// jsonInputs are a document's inputs and where they came from. The planner knows
// nothing of that, and a plan's digest must not depend on it.
type jsonInputs struct {
	planner.DocumentInputs
	Origins
}

// Plan implements Plan.
func (v jsonPlan) Plan(doc planner.PlanDocument) error {
	return writeJSON(v.out, struct {
		APIVersion string     `json:"api_version"`
		Inputs     jsonInputs `json:"inputs"`
		planner.PlanDocument
	}{doc.APIVersion, jsonInputs{doc.Inputs, v.origins}, doc})
}

// PlanSchema is the JSON schema of the json form.
func PlanSchema() ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(planner.DocumentSchema(), &document); err != nil {
		return nil, err
	}
	properties, _ := document["properties"].(map[string]any)
	inputs, _ := properties["inputs"].(map[string]any)
	if fields, ok := inputs["properties"].(map[string]any); ok {
		fields["in_force_from"] = map[string]any{"type": "string", "description": "Where what is in force came from."}
		fields["observed_from"] = map[string]any{"type": "string", "description": "Where the machines' reports came from."}
	}
	return json.MarshalIndent(document, "", "  ")
}
