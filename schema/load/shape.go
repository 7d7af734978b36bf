package load

import (
	"embed"
	"fmt"
	"io/fs"
	"math/big"
	"sync"

	"astraeus.io/astraeus/schema"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

//go:embed cue/*.cue
var schemaFiles embed.FS

// SchemaFS holds the CUE schema that files are validated by (G-1), for `cue vet`
// and for people.
func SchemaFS() fs.FS {
	sub, err := fs.Sub(schemaFiles, "cue")
	if err != nil {
		panic(err) // the directory is embedded
	}
	return sub
}

// SchemaHash identifies the schema and the checks of this build: equal files
// load to equal objects under equal hashes.
func SchemaHash() string { return schemaHash() }

// checksVersion grows when a check written in Go changes what loads.
const checksVersion = "3"

var schemaHash = sync.OnceValue(func() string { return schema.HashJSON([]string{checksVersion, string(schemaText())}) })

func schemaText() []byte {
	data, err := schemaFiles.ReadFile("cue/schema.cue")
	if err != nil {
		panic(err) // the file is embedded
	}
	return data
}

// shape is one definition of the CUE schema, compiled so that data is judged
// without CUE's evaluator and each problem is told in our own words. A test
// holds the verdicts of both together.
type shape struct {
	kind     shapeKind
	enum     []string
	min, max *big.Float // of numbers; nil is open
	elem     *shape     // of lists and maps
	nonEmpty bool       // of lists
	fields   map[string]*shapeField
	order    []string
}

type shapeField struct {
	shape    *shape
	required bool
}

type shapeKind uint8

const (
	textShape shapeKind = iota + 1
	wholeShape
	numberShape
	boolShape
	listShape
	mapShape
	structShape
)

// shapes are the shapes of the kinds.
var shapes = sync.OnceValue(func() map[schema.Kind]*shape {
	c, err := compileShapes(schemaText())
	if err != nil {
		panic(err) // the schema is embedded, and compiled by every test
	}
	out := map[schema.Kind]*shape{}
	for _, kind := range schema.Kinds {
		out[kind] = c.done["#"+string(kind)]
	}
	return out
})

// shapeCompiler knows the part of CUE that the schema is written in.
type shapeCompiler struct {
	defs map[string]ast.Expr
	done map[string]*shape
}

func compileShapes(src []byte) (*shapeCompiler, error) {
	f, err := parser.ParseFile("schema.cue", src)
	if err != nil {
		return nil, err
	}
	c := &shapeCompiler{defs: map[string]ast.Expr{}, done: map[string]*shape{}}
	for _, d := range f.Decls {
		if field, ok := d.(*ast.Field); ok {
			name, _, err := ast.LabelName(field.Label)
			if err != nil {
				return nil, err
			}
			c.defs[name] = field.Value
		}
	}
	for name := range c.defs {
		if _, err := c.def(name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *shapeCompiler) def(name string) (*shape, error) {
	if s := c.done[name]; s != nil {
		return s, nil
	}
	expr, ok := c.defs[name]
	if !ok {
		return nil, fmt.Errorf("schema.cue: no definition %s", name)
	}
	s := &shape{}
	c.done[name] = s
	compiled, err := c.expr(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	*s = *compiled
	return s, nil
}

func (c *shapeCompiler) expr(e ast.Expr) (*shape, error) {
	switch e := e.(type) {
	case *ast.Ident:
		switch e.Name {
		case "string":
			return &shape{kind: textShape}, nil
		case "bool":
			return &shape{kind: boolShape}, nil
		case "int":
			return &shape{kind: wholeShape}, nil
		case "number":
			return &shape{kind: numberShape}, nil
		}
		return c.def(e.Name)
	case *ast.BasicLit:
		text, err := literal.Unquote(e.Value)
		return &shape{kind: textShape, enum: []string{text}}, err
	case *ast.BinaryExpr:
		return c.binary(e)
	case *ast.ListLit:
		return c.list(e)
	case *ast.StructLit:
		return c.structure(e)
	}
	return nil, fmt.Errorf("%s: %T is not used in the schema", e.Pos(), e)
}

func (c *shapeCompiler) binary(e *ast.BinaryExpr) (*shape, error) {
	left, err := c.expr(e.X)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case token.OR:
		right, err := c.expr(e.Y)
		if err != nil {
			return nil, err
		}
		return &shape{kind: textShape, enum: append(append([]string(nil), left.enum...), right.enum...)}, nil
	case token.AND:
		bound, ok := e.Y.(*ast.UnaryExpr)
		if !ok {
			break
		}
		lit, ok := bound.X.(*ast.BasicLit)
		if !ok {
			break
		}
		limit, _, err := big.ParseFloat(lit.Value, 10, 80, big.ToNearestEven)
		if err != nil {
			return nil, err
		}
		limited := *left
		if bound.Op == token.GEQ {
			limited.min = limit
		} else {
			limited.max = limit
		}
		return &limited, nil
	}
	return nil, fmt.Errorf("%s: %s is not used in the schema", e.Pos(), e.Op)
}

func (c *shapeCompiler) list(e *ast.ListLit) (*shape, error) {
	s := &shape{kind: listShape, nonEmpty: len(e.Elts) > 1}
	last, ok := e.Elts[len(e.Elts)-1].(*ast.Ellipsis)
	if !ok {
		return nil, fmt.Errorf("%s: a list without ... is not used in the schema", e.Pos())
	}
	var err error
	s.elem, err = c.expr(last.Type)
	return s, err
}

func (c *shapeCompiler) structure(e *ast.StructLit) (*shape, error) {
	s := &shape{kind: structShape, fields: map[string]*shapeField{}}
	for _, d := range e.Elts {
		field, ok := d.(*ast.Field)
		if !ok {
			return nil, fmt.Errorf("%s: %T is not used in the schema", d.Pos(), d)
		}
		inner, err := c.expr(field.Value)
		if err != nil {
			return nil, err
		}
		if _, pattern := field.Label.(*ast.ListLit); pattern {
			return &shape{kind: mapShape, elem: inner}, nil
		}
		name, _, err := ast.LabelName(field.Label)
		if err != nil {
			return nil, err
		}
		s.fields[name] = &shapeField{shape: inner, required: field.Constraint == token.NOT}
		s.order = append(s.order, name)
	}
	return s, nil
}
