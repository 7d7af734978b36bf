package view

import (
	"strings"
	"unicode/utf8"
)

// Field is one line of a detail. A wide one is shown by -o wide only.
type Field struct {
	Name, Value string
	Wide        bool
}

// Table is one table of a detail.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Detail is one object at length.
type Detail struct {
	Ref    string
	Fields []Field
	Tables []Table
	Value  any
}

// Describe writes a detail.
type Describe interface {
	Describe(Detail) error
}

// NewDescribe is the view of a format.
func NewDescribe(format string, out Out) (Describe, error) {
	switch format {
	case "table", "wide":
		return humanDescribe{out, format == "wide"}, nil
	case "name":
		return nameDescribe{out}, nil
	case "json", "yaml":
		return valueView{out, format}, nil
	}
	return nil, &FormatError{format, ReadFormats}
}

type humanDescribe struct {
	out  Out
	wide bool
}

// Describe writes fields and then tables. Empty ones are left out.
func (v humanDescribe) Describe(d Detail) error {
	width := 0
	for _, f := range d.Fields {
		if v.shows(f) {
			width = max(width, utf8.RuneCountInString(f.Name))
		}
	}
	for _, f := range d.Fields {
		if !v.shows(f) {
			continue
		}
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(f.Name))
		if err := v.out.printf("%s %s%s", v.out.paint(bold, f.Name+":"), pad, Plain(f.Value)); err != nil {
			return err
		}
	}
	for _, t := range d.Tables {
		if len(t.Rows) == 0 {
			continue
		}
		if err := v.out.printf("\n%s", v.out.paint(bold, t.Title)); err != nil {
			return err
		}
		if err := writeTable(v.out, t.Header, t.Rows); err != nil {
			return err
		}
	}
	return nil
}

func (v humanDescribe) shows(f Field) bool { return f.Value != "" && (v.wide || !f.Wide) }

type nameDescribe struct{ out Out }

func (v nameDescribe) Describe(d Detail) error { return v.out.printf("%s", Plain(d.Ref)) }
