package view

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// Column of a listing. A wide one is shown by -o wide only.
type Column struct {
	Name string
	Wide bool
}

// Row of a listing. Ref is what -o name prints and other commands take.
type Row struct {
	Ref       string
	Workspace string // "acme/research"; "" for what is in none
	Cells     []string
}

// Listing is objects as rows, and Value as programs read them.
type Listing struct {
	Columns []Column
	Rows    []Row
	Value   any
	Empty   string // what a person reads when there are no rows
}

// List writes a listing.
type List interface {
	List(Listing) error
}

// ReadFormats are the formats of the reading commands.
var ReadFormats = []string{"table", "wide", "json", "yaml", "name"}

// NewList is the view of a format.
func NewList(format string, out Out) (List, error) {
	switch format {
	case "table":
		return humanList{out: out}, nil
	case "wide":
		return humanList{out: out, wide: true}, nil
	case "name":
		return nameList{out}, nil
	case "json", "yaml":
		return valueView{out, format}, nil
	}
	return nil, &FormatError{format, ReadFormats}
}

type humanList struct {
	out  Out
	wide bool
}

func (v humanList) List(l Listing) error {
	if len(l.Rows) == 0 && l.Empty != "" {
		return v.out.printf("%s", l.Empty)
	}
	var header []string
	var keep []int
	for i, c := range l.Columns {
		if !c.Wide || v.wide {
			header, keep = append(header, c.Name), append(keep, i)
		}
	}
	rows := make([][]string, len(l.Rows))
	for i, row := range l.Rows {
		for _, k := range keep {
			cell := ""
			if k < len(row.Cells) {
				cell = row.Cells[k]
			}
			rows[i] = append(rows[i], cell)
		}
	}
	return writeTable(v.out, header, rows)
}

type nameList struct{ out Out }

func (v nameList) List(l Listing) error {
	for _, row := range l.Rows {
		if err := v.out.printf("%s", Plain(row.Ref)); err != nil {
			return err
		}
	}
	return nil
}

// valueView writes the value itself; it serves listings and details alike.
type valueView struct {
	out    Out
	format string
}

func (v valueView) List(l Listing) error    { return v.value(l.Value) }
func (v valueView) Describe(d Detail) error { return v.value(d.Value) }

func (v valueView) value(value any) error {
	if v.format == "json" {
		return writeJSON(v.out, value)
	}
	// By way of JSON, so that both formats have the same field names.
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if data, err = yaml.JSONToYAML(data); err != nil {
		return err
	}
	_, err = v.out.Write(data)
	return err
}
