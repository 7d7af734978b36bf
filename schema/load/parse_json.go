package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"astraeus.io/astraeus/schema"
)

// jsonReader reads one JSON value with the place of everything in it. It goes
// by tokens, so that depth is bounded and a repeated key is seen.
type jsonReader struct {
	file  string
	src   []byte
	dec   *json.Decoder
	lines lineIndex
	depth int
}

// readJSON reads the one value of a JSON file.
func readJSON(file string, src []byte) ([]*node, error) {
	r := &jsonReader{file: file, src: src, lines: indexLines(src)}
	r.dec = json.NewDecoder(bytes.NewReader(src))
	r.dec.UseNumber()
	n, err := r.value()
	if err != nil {
		return nil, r.wrap(err)
	}
	at := r.next()
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return []*node{n}, &fault{Pos: r.lines.pos(file, at), Code: schema.CodeSyntax, Text: sayJSONTail}
	}
	return []*node{n}, nil
}

func (r *jsonReader) wrap(err error) error {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	at := int(r.dec.InputOffset())
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset > 0 {
		at = int(syntax.Offset) - 1
	}
	text := "not valid JSON: " + err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, text = len(r.src), sayJSONEnd
	}
	return &fault{Pos: r.lines.pos(r.file, at), Code: schema.CodeSyntax, Text: text}
}

// next is the offset at which the next token starts.
func (r *jsonReader) next() int {
	at := int(r.dec.InputOffset())
	for at < len(r.src) && bytes.IndexByte([]byte(" \t\r\n,:"), r.src[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) value() (*node, error) {
	n := &node{Pos: r.lines.pos(r.file, r.next())}
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		return n, r.composite(n, t)
	case bool:
		n.Kind, n.Text = boolNode, "false"
		if t {
			n.Text = "true"
		}
	case json.Number:
		n.Kind, n.Text = numberKind(t.String()), t.String()
		if n.Text == "-0" && n.Kind == intNode {
			n.Text = "0"
		}
	case string:
		n.Kind, n.Text = stringNode, t
	}
	return n, nil
}

func (r *jsonReader) composite(n *node, open json.Delim) error {
	if r.depth++; r.depth > maxDepth {
		return &fault{Pos: n.Pos, Code: schema.CodeUnreadable, Text: sayDepth}
	}
	defer func() { r.depth-- }()
	n.Kind = listNode
	if open == '{' {
		n.Kind = structNode
	}
	var seen map[string]bool
	for r.dec.More() {
		if n.Kind == listNode {
			item, err := r.value()
			if err != nil {
				return err
			}
			n.Items = append(n.Items, item)
			continue
		}
		at := r.lines.pos(r.file, r.next())
		key, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if seen == nil {
			seen = map[string]bool{}
		}
		if seen[name] {
			return &fault{Pos: at, Code: schema.CodeSyntax, Text: sayTwice(name)}
		}
		seen[name] = true
		val, err := r.value()
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, nodeField{Name: name, Pos: at, Value: val})
	}
	_, err := r.dec.Token()
	return err
}

// numberKind tells whole numbers by their spelling, as CUE does: 8.0 is none.
func numberKind(text string) nodeKind {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && !(i == 0 && c == '-') {
			return floatNode
		}
	}
	return intNode
}

// lineIndex holds the offsets at which lines start.
type lineIndex []int

func indexLines(src []byte) lineIndex {
	starts := make(lineIndex, 1, 16)
	for i, c := range src {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// pos is the place of an offset; columns count bytes from 1, as CUE's do.
func (l lineIndex) pos(file string, offset int) schema.Pos {
	lo, hi := 0, len(l)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; l[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return schema.Pos{File: file, Line: lo + 1, Col: offset - l[lo] + 1}
}
