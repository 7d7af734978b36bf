package load

import (
	"bytes"
	"math/big"
	"strings"

	"astraeus.io/astraeus/schema"
	"cuelang.org/go/cue/literal"
)

// plainReader reads CUE that computes nothing: fields, structs, lists and
// literals. It takes linear time and little memory, which neither CUE's parser
// nor its evaluator promises for hostile text. Whatever it does not know makes
// it give up, and the file goes the long way (isolate.go); what it does read
// must be what CUE would have made of it (a test holds the two together).
type plainReader struct {
	file  string
	src   []byte
	at    int
	lines lineIndex
	depth int
	ok    bool
}

// plainFile is a CUE file as far as it is known without evaluating it.
type plainFile struct {
	pkg  string
	root *node
}

// readPlain returns nil when the file is not plain data. A fault is for data
// that no reader takes.
func readPlain(file string, src []byte) (*plainFile, error) {
	r := &plainReader{file: file, src: src, lines: indexLines(src), ok: true}
	pf := &plainFile{root: &node{Kind: structNode, Pos: schema.Pos{File: file, Line: 1, Col: 1}}}
	r.skip(true)
	if bytes.HasPrefix(r.src[r.at:], []byte("package ")) {
		r.at += len("package ")
		pf.pkg = r.ident()
		if pf.pkg == "" || !r.separator(0) {
			return nil, nil
		}
	}
	err := r.decls(pf.root, 0)
	if err != nil {
		return nil, err
	}
	if !r.ok || r.at < len(r.src) {
		return nil, nil
	}
	if len(pf.root.Fields) > 0 {
		pf.root.Pos = pf.root.Fields[0].Pos
	}
	return pf, nil
}

func (r *plainReader) pos() schema.Pos { return r.lines.pos(r.file, r.at) }

func (r *plainReader) giveUp() { r.ok = false }

func (r *plainReader) peek() byte {
	if r.at < len(r.src) {
		return r.src[r.at]
	}
	return 0
}

// skip passes blanks and comments, and line ends too when asked. It reports
// whether it passed a line end.
func (r *plainReader) skip(lineEnds bool) (line bool) {
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c == ' ' || c == '\t' || c == '\r':
			r.at++
		case c == '\n':
			if !lineEnds {
				return line
			}
			line = true
			r.at++
		case c == '/' && bytes.HasPrefix(r.src[r.at:], []byte("//")):
			for r.at < len(r.src) && r.src[r.at] != '\n' {
				r.at++
			}
		default:
			return line
		}
	}
	return line
}

// separator passes what stands between two members: a comma or a line end. It
// is also right before end ('}', ']' or 0 for the end of the file).
func (r *plainReader) separator(end byte) bool {
	line := r.skip(true)
	if r.at >= len(r.src) {
		return end == 0
	}
	switch c := r.src[r.at]; {
	case c == ',':
		if line {
			return false
		}
		r.at++
		r.skip(true)
		return true
	case c == end:
		return true
	}
	return line
}

func (r *plainReader) decls(into *node, end byte) error {
	r.skip(true)
	for r.ok && r.at < len(r.src) && r.src[r.at] != end {
		if err := r.decl(into); err != nil {
			return err
		}
		if r.ok && !r.separator(end) {
			r.giveUp()
		}
	}
	return nil
}

// decl reads one field; "a: b: 1" is read as "a: {b: 1}".
func (r *plainReader) decl(into *node) error {
	pos := r.pos()
	name, ok := r.label()
	if !ok {
		r.giveUp()
		return nil
	}
	val, err := r.value()
	if err != nil || !r.ok {
		return err
	}
	return r.add(into, nodeField{Name: name, Pos: pos, Value: val})
}

// add puts a field in; two structs under one name are one, as in CUE. Any other
// repetition is left to CUE to judge.
func (r *plainReader) add(into *node, f nodeField) error {
	if len(into.Fields) >= maxFields {
		return &fault{Pos: f.Pos, Code: schema.CodeUnreadable, Text: sayFields}
	}
	old := into.field(f.Name)
	if old == nil {
		into.Fields = append(into.Fields, f)
		return nil
	}
	if old.Kind != structNode || f.Value.Kind != structNode {
		r.giveUp()
		return nil
	}
	for _, inner := range f.Value.Fields {
		if err := r.add(old, inner); err != nil || !r.ok {
			return err
		}
	}
	return nil
}

var notLabels = map[string]bool{
	"package": true, "import": true, "for": true, "in": true, "if": true, "let": true, "func": true, "try": true,
	"else": true, "fallback": true, "otherwise": true, "true": true, "false": true, "null": true, "__no__": true,
}

// label reads a name and the colon after it.
func (r *plainReader) label() (name string, ok bool) {
	if r.peek() == '"' {
		var n node
		if !r.str(&n) {
			return "", false
		}
		name = n.Text
	} else if name = r.ident(); name == "" || notLabels[name] {
		return "", false
	}
	r.skip(false)
	if r.peek() != ':' {
		return "", false
	}
	r.at++
	return name, !bytes.HasPrefix(r.src[r.at:], []byte(":"))
}

func (r *plainReader) ident() string {
	start := r.at
	for r.at < len(r.src) {
		c := r.src[r.at]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (r.at == start || !(c >= '0' && c <= '9' || c == '_')) {
			break
		}
		r.at++
	}
	return string(r.src[start:r.at])
}

func (r *plainReader) value() (*node, error) {
	if r.depth++; r.depth > maxDepth {
		return nil, &fault{Pos: r.pos(), Code: schema.CodeUnreadable, Text: sayDepth}
	}
	defer func() { r.depth-- }()
	r.skip(true)
	n := &node{Pos: r.pos()}
	switch c := r.peek(); {
	case c == '{':
		r.at++
		n.Kind = structNode
		if err := r.decls(n, '}'); err != nil {
			return nil, err
		}
		r.expect('}')
		return n, nil
	case c == '[':
		r.at++
		n.Kind = listNode
		return n, r.list(n)
	case c >= '0' && c <= '9' || c == '-':
		r.number(n)
		return n, nil
	}
	// A label here starts a chain: "metadata: name: …".
	mark := r.at
	if _, chain := r.label(); chain {
		r.at = mark
		n.Kind = structNode
		return n, r.decl(n)
	}
	r.at = mark
	if r.peek() == '"' {
		if !r.str(n) {
			r.giveUp()
		}
		return n, nil
	}
	switch r.ident() {
	case "true":
		n.Kind, n.Text = boolNode, "true"
	case "false":
		n.Kind, n.Text = boolNode, "false"
	case "null":
		n.Kind = nullNode
	default:
		r.giveUp()
	}
	return n, nil
}

func (r *plainReader) expect(c byte) {
	if r.peek() != c {
		r.giveUp()
		return
	}
	r.at++
}

func (r *plainReader) list(n *node) error {
	r.skip(true)
	for r.ok && r.at < len(r.src) && r.src[r.at] != ']' {
		// A label would be a struct without braces, which a list does not take.
		mark := r.at
		if _, chain := r.label(); chain {
			r.giveUp()
			return nil
		}
		r.at = mark
		item, err := r.value()
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
		if r.ok && !r.separator(']') {
			r.giveUp()
		}
	}
	r.expect(']')
	return nil
}

// str reads a quoted string, of one or of several lines.
func (r *plainReader) str(n *node) bool {
	rest := r.src[r.at:]
	quote := []byte(`"`)
	if bytes.HasPrefix(rest, []byte(`"""`)) {
		quote = []byte(`"""`)
	}
	for i := len(quote); i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			if i++; i < len(rest) && rest[i] == '(' {
				return false
			}
		case rest[i] == '\r', rest[i] == '\n' && len(quote) == 1:
			return false
		case rest[i] == '"' && bytes.HasPrefix(rest[i:], quote):
			text, err := literal.Unquote(string(rest[:i+len(quote)]))
			if err != nil {
				return false
			}
			r.at += i + len(quote)
			n.Kind, n.Text = stringNode, text
			return true
		}
	}
	return false
}

var multipliers = map[string]int64{
	"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

// number reads a decimal number, perhaps with a size suffix (50Gi).
func (r *plainReader) number(n *node) {
	minus := r.peek() == '-'
	if minus {
		r.at++
	}
	start := r.at
	for r.at < len(r.src) && (r.src[r.at] == '.' || r.src[r.at] == '_' || alnum(r.src[r.at])) {
		r.at++
	}
	text := string(r.src[start:r.at])
	digits := strings.TrimRight(text, "KMGTPi")
	n.Kind = numberKind(digits)
	whole, fraction, point := strings.Cut(digits, ".")
	factor, suffix := multipliers[text[len(digits):]]
	switch {
	case whole == "" || len(whole) > 1 && whole[0] == '0' || numberKind(whole) != intNode, len(digits) > 40,
		point && (fraction == "" || numberKind(fraction) != intNode), point && digits != text,
		digits != text && !suffix, r.peek() == '+' || r.peek() == '-':
		r.giveUp()
		return
	}
	n.Text = digits
	if suffix {
		v, _ := new(big.Int).SetString(digits, 10)
		n.Text = v.Mul(v, big.NewInt(factor)).String()
	}
	if minus && n.Text != "0" {
		n.Text = "-" + n.Text
	}
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
