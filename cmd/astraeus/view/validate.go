package view

import (
	"astraeus.io/astraeus/schema"
)

// Validation is what validate found.
type Validation struct {
	Valid       bool                `json:"valid"`
	Commit      string              `json:"commit,omitempty"`
	Objects     int                 `json:"objects"`
	Errors      int                 `json:"errors"`
	Warnings    int                 `json:"warnings"`
	Diagnostics []schema.Diagnostic `json:"diagnostics"`
}

// Validate writes the result of validate; the diagnostics have their own view.
type Validate interface {
	Validate(Validation) error
}

// NewValidate is the view of a format: table or json.
func NewValidate(format string, out Out) (Validate, error) {
	switch format {
	case "table":
		return humanValidate{out}, nil
	case "json":
		return jsonValidate{out}, nil
	}
	return nil, &FormatError{format, []string{"table", "json"}}
}

type humanValidate struct{ out Out }

func (v humanValidate) Validate(r Validation) error {
	mark := v.out.paint(green, "ok")
	if !r.Valid {
		mark = v.out.paint(red, "invalid")
	}
	text := mark + ": " + Count(r.Objects, "object")
	if r.Errors > 0 {
		text += ", " + Count(r.Errors, "error")
	}
	if r.Warnings > 0 {
		text += ", " + Count(r.Warnings, "warning")
	}
	return v.out.printf("%s", text)
}

type jsonValidate struct{ out Out }

func (v jsonValidate) Validate(r Validation) error {
	if r.Diagnostics == nil {
		r.Diagnostics = []schema.Diagnostic{}
	}
	return writeJSON(v.out, r)
}
