package view

import (
	"encoding/json"
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Diagnostics writes a commit's problems (G-4).
type Diagnostics interface {
	Diagnostics([]schema.Diagnostic) error
}

// DiagnosticFormats are the formats of NewDiagnostics.
var DiagnosticFormats = []string{"text", "json", "github", "sarif"}

// NewDiagnostics is the view of a format; version is the program's, for SARIF.
func NewDiagnostics(format, version string, out Out) (Diagnostics, error) {
	switch format {
	case "text":
		return textDiagnostics{out}, nil
	case "json":
		return jsonDiagnostics{out}, nil
	case "github":
		return githubDiagnostics{out}, nil
	case "sarif":
		return sarifDiagnostics{out, version}, nil
	}
	return nil, &FormatError{format, DiagnosticFormats}
}

type textDiagnostics struct{ out Out }

// mostDiagnostics is how many a person is shown at once.
const mostDiagnostics = 200

func (v textDiagnostics) Diagnostics(list []schema.Diagnostic) error {
	for i, d := range list {
		if i == mostDiagnostics {
			return v.out.printf("… and %s; --diagnostics json has all", Count(len(list)-i, "more diagnostic"))
		}
		where := Plain(d.Pos.String())
		if where == "" {
			where = "-"
		}
		c := red
		if d.Severity == schema.SeverityWarning {
			c = yellow
		}
		tag := v.out.paint(c, string(d.Severity)+"["+string(d.Code)+"]")
		if err := v.out.printf("%s: %s: %s", v.out.paint(bold, where), tag, Plain(d.Message)); err != nil {
			return err
		}
		if d.Hint != "" {
			if err := v.out.printf("  %s %s", v.out.paint(cyan, "hint:"), Plain(d.Hint)); err != nil {
				return err
			}
		}
	}
	return nil
}

type jsonDiagnostics struct{ out Out }

func (v jsonDiagnostics) Diagnostics(list []schema.Diagnostic) error {
	if list == nil {
		list = []schema.Diagnostic{}
	}
	return writeJSON(v.out, map[string]any{"diagnostics": list})
}

// githubDiagnostics writes workflow commands, which a pull request shows at the line.
type githubDiagnostics struct{ out Out }

var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (v githubDiagnostics) Diagnostics(list []schema.Diagnostic) error {
	for _, d := range list {
		var props []string
		add := func(name, value string) {
			if value != "" && value != "0" {
				props = append(props, name+"="+Plain(githubProperty.Replace(value)))
			}
		}
		add("file", d.File)
		add("line", strconv.Itoa(d.Line))
		add("col", strconv.Itoa(d.Col))
		add("title", string(d.Code))
		text := d.Message
		if d.Hint != "" {
			text += "\nhint: " + d.Hint
		}
		if err := v.out.printf("::%s %s::%s", d.Severity, strings.Join(props, ","), Plain(githubData.Replace(text))); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(o Out, value any) error {
	enc := json.NewEncoder(o)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
