package view

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// sarifDiagnostics writes a SARIF 2.1.0 log, which code scanning reads.
type sarifDiagnostics struct {
	out     Out
	version string
}

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID string `json:"id"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifMessage    `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

func (v sarifDiagnostics) Diagnostics(list []schema.Diagnostic) error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "astraeus", Version: v.version, InformationURI: "https://astraeus.io", Rules: []sarifRule{}}
	for _, d := range list {
		rule := sarifRule{string(d.Code)}
		if !slices.Contains(run.Tool.Driver.Rules, rule) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
		}
		run.Results = append(run.Results, sarifResultOf(d))
	}
	return writeJSON(v.out, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

func sarifResultOf(d schema.Diagnostic) sarifResult {
	text := d.Message
	if d.Hint != "" {
		text += "\n" + d.Hint
	}
	result := sarifResult{RuleID: string(d.Code), Level: string(d.Severity), Message: sarifMessage{text}}
	if d.File == "" {
		return result
	}
	var at sarifLocation
	at.PhysicalLocation.ArtifactLocation.URI = d.File
	if d.Line > 0 {
		at.PhysicalLocation.Region = &sarifRegion{d.Line, d.Col}
	}
	result.Locations = []sarifLocation{at}
	return result
}
