package load

import (
	"astraeus.io/astraeus/schema"
)

// nodeKind is what a value of a file is.
type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	intNode
	floatNode
	stringNode
	bytesNode
	listNode
	structNode
	// badNode is a value that an evaluation could not give; Text is why.
	badNode
)

// node is one value of a file with its place: what every format is read into,
// so that one set of checks and words judges them all. It is also what the
// evaluating child answers with.
type node struct {
	Kind   nodeKind    `json:"k"`
	Pos    schema.Pos  `json:"p,omitzero"`
	Text   string      `json:"t,omitempty"` // of a scalar: its text, decimal for a number
	Fields []nodeField `json:"f,omitempty"`
	Items  []*node     `json:"i,omitempty"`
}

type nodeField struct {
	Name  string     `json:"n"`
	Pos   schema.Pos `json:"p,omitzero"`
	Value *node      `json:"v"`
}

// field is the value of a field, nil when there is none.
func (n *node) field(name string) *node {
	if n == nil || n.Kind != structNode {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// text is the string at a path of fields, "" when there is none.
func (n *node) text(path ...string) string {
	for _, name := range path {
		n = n.field(name)
	}
	if n == nil || n.Kind != stringNode {
		return ""
	}
	return n.Text
}

func (n *node) has(name string) bool { return n.field(name) != nil }

// fault is a problem of a file's text or evaluation, before any object is known.
type fault struct {
	Pos  schema.Pos  `json:"pos"`
	Code schema.Code `json:"code"`
	Text string      `json:"text"`
}

func (f *fault) Error() string { return f.Pos.String() + ": " + f.Text }
