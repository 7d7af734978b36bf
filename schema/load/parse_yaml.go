package load

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
	"go.yaml.in/yaml/v3"
)

// maxYAMLNodes bounds what aliases may expand to, for the whole file.
const maxYAMLNodes = 200_000

type yamlReader struct {
	file  string
	nodes int
	depth int
}

// readYAML reads the documents of a YAML file. Empty documents are left out.
func readYAML(file string, src []byte) (docs []*node, err error) {
	defer func() {
		// The library reports some malformed input by panicking.
		if p := recover(); p != nil {
			err = &fault{Pos: schema.Pos{File: file, Line: 1, Col: 1}, Code: schema.CodeSyntax, Text: fmt.Sprintf("not valid YAML: %v", p)}
		}
	}()
	r := &yamlReader{file: file}
	dec := yaml.NewDecoder(strings.NewReader(string(src)))
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return docs, r.syntax(err)
		}
		if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
			continue
		}
		root := doc.Content[0]
		if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
			continue
		}
		n, err := r.value(root)
		if err != nil {
			return docs, err
		}
		docs = append(docs, n)
	}
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

func (r *yamlReader) syntax(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	pos := schema.Pos{File: r.file, Line: 1, Col: 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		pos.Line, _ = strconv.Atoi(m[1])
		pos.Col = 0
		text = strings.TrimPrefix(text, m[0]+": ")
	}
	return &fault{Pos: pos, Code: schema.CodeSyntax, Text: "not valid YAML: " + text}
}

func (r *yamlReader) pos(y *yaml.Node) schema.Pos {
	return schema.Pos{File: r.file, Line: y.Line, Col: y.Column}
}

func (r *yamlReader) fault(y *yaml.Node, text string) error {
	return &fault{Pos: r.pos(y), Code: schema.CodeSyntax, Text: text}
}

func (r *yamlReader) value(y *yaml.Node) (*node, error) {
	if r.nodes++; r.nodes > maxYAMLNodes {
		return nil, &fault{Pos: r.pos(y), Code: schema.CodeUnreadable, Text: sayYAMLBomb}
	}
	if r.depth++; r.depth > maxDepth {
		return nil, &fault{Pos: r.pos(y), Code: schema.CodeUnreadable, Text: sayDepth}
	}
	defer func() { r.depth-- }()
	switch y.Kind {
	case yaml.AliasNode:
		return r.value(y.Alias)
	case yaml.SequenceNode:
		n := &node{Kind: listNode, Pos: r.pos(y)}
		for _, c := range y.Content {
			item, err := r.value(c)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
		return n, nil
	case yaml.MappingNode:
		return r.mapping(y)
	case yaml.ScalarNode:
		return r.scalar(y)
	}
	return nil, r.fault(y, "not valid YAML")
}

func (r *yamlReader) mapping(y *yaml.Node) (*node, error) {
	n := &node{Kind: structNode, Pos: r.pos(y)}
	seen := make(map[string]bool, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return nil, r.fault(y.Content[i], sayYAMLKey)
		}
		if key.ShortTag() == "!!merge" {
			return nil, r.fault(y.Content[i], sayYAMLMerge)
		}
		if seen[key.Value] {
			return nil, r.fault(y.Content[i], sayTwice(key.Value))
		}
		seen[key.Value] = true
		val, err := r.value(y.Content[i+1])
		if err != nil {
			return nil, err
		}
		n.Fields = append(n.Fields, nodeField{Name: key.Value, Pos: r.pos(y.Content[i]), Value: val})
	}
	return n, nil
}

func (r *yamlReader) scalar(y *yaml.Node) (*node, error) {
	n := &node{Pos: r.pos(y), Text: y.Value}
	switch tag := y.ShortTag(); tag {
	case "!!null":
		n.Kind, n.Text = nullNode, ""
	case "!!bool":
		var b bool
		if err := y.Decode(&b); err != nil {
			return nil, r.fault(y, "not valid YAML: "+err.Error())
		}
		n.Kind, n.Text = boolNode, strconv.FormatBool(b)
	case "!!int":
		n.Kind = intNode
		var v any
		if err := y.Decode(&v); err != nil {
			return nil, r.fault(y, "not valid YAML: "+err.Error())
		}
		n.Text = fmt.Sprint(v)
		if f, ok := v.(float64); ok {
			n.Text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	case "!!float":
		var f float64
		if err := y.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, r.fault(y, sayYAMLFloat)
		}
		n.Kind, n.Text = floatNode, strconv.FormatFloat(f, 'g', -1, 64)
	case "!!str", "!!timestamp":
		n.Kind = stringNode
	case "!!binary":
		n.Kind = bytesNode
	default:
		return nil, r.fault(y, fmt.Sprintf("the YAML tag %s is not used here", tag))
	}
	return n, nil
}
