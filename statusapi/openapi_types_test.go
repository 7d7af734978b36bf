package statusapi

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// node is a part of a JSON document.
type node map[string]any

// describer makes JSON schemas of Go types: fields as encoding/json writes them,
// words of enums and sentences from the source.
type describer struct {
	docs    map[string]string   // "statusapi.Drive", "statusapi.Drive.UsedBy"
	words   map[string][]string // of string types with constants
	schemas node
}

// described are the packages whose types stand in answers, by name.
var described = map[string]string{"statusapi": ".", "schema": "../schema", "planner": "../planner"}

func newDescriber(t *testing.T) *describer {
	t.Helper()
	d := &describer{docs: map[string]string{}, words: map[string][]string{}, schemas: node{}}
	for name, dir := range described {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				if gen, ok := decl.(*ast.GenDecl); ok {
					d.read(name, gen)
				}
			}
		}
	}
	return d
}

func (d *describer) read(pkg string, gen *ast.GenDecl) {
	for _, spec := range gen.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			name := pkg + "." + spec.Name.Name
			d.docs[name] = sentence(spec.Name.Name, firstText(spec.Doc, gen.Doc))
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					d.docs[name+"."+n.Name] = sentence("", firstText(f.Doc, f.Comment))
				}
			}
		case *ast.ValueSpec:
			d.readWords(pkg, spec)
		}
	}
}

// readWords notes `Name Type = "word"` and `Name = Type("word")`.
func (d *describer) readWords(pkg string, spec *ast.ValueSpec) {
	for _, value := range spec.Values {
		typ := spec.Type
		if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
			typ, value = call.Fun, call.Args[0]
		}
		name, ok := typ.(*ast.Ident)
		text, isText := value.(*ast.BasicLit)
		if ok && isText && text.Kind == token.STRING {
			full := pkg + "." + name.Name
			d.words[full] = append(d.words[full], strings.Trim(text.Value, `"`))
		}
	}
}

func firstText(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if g != nil {
			return strings.TrimSpace(g.Text())
		}
	}
	return ""
}

// sentence is a comment as a description: one paragraph, without the name that it begins with.
func sentence(name, text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	for _, verb := range []string{" is ", " are "} {
		if name != "" && strings.HasPrefix(text, name+verb) {
			text = strings.TrimPrefix(text, name+verb)
		}
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	keyType      = reflect.TypeFor[schema.Key]()
	durationType = reflect.TypeFor[schema.Duration]()
	waitType     = reflect.TypeFor[schema.Wait]()
	reasonType   = reflect.TypeFor[schema.Reason]()
	specType     = reflect.TypeFor[schema.Spec]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// of is the schema of a type, a reference for structs and words.
func (d *describer) of(t reflect.Type) node {
	switch t {
	case timeType:
		return node{"type": "string", "format": "date-time"}
	case keyType:
		return node{"type": "string", "description": "kind/name or kind/namespace.name"}
	case durationType:
		return node{"type": "string", "description": "A duration, like 5m or 30s."}
	case specType, rawType:
		return node{}
	case reasonType:
		return d.reference(t, d.reason)
	case waitType:
		return d.reference(t, d.wait)
	}
	switch t.Kind() {
	case reflect.String:
		if t.PkgPath() == "" {
			return node{"type": "string"}
		}
		return d.reference(t, d.word)
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return node{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return node{"type": "number"}
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Slice:
		return node{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return node{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Struct:
		return d.reference(t, d.structure)
	}
	panic(fmt.Sprintf("no schema for %s", t))
}

func goName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// nameOf is a type's name among the schemas: List[statusapi.Drive] is DriveList,
// and what two packages call alike has its package's name before it.
func (d *describer) nameOf(t reflect.Type) string {
	if inner, ok := strings.CutPrefix(t.Name(), "List["); ok {
		return strings.TrimSuffix(inner[strings.LastIndexByte(inner, '.')+1:], "]") + "List"
	}
	pkg := path.Base(t.PkgPath())
	for _, other := range []string{"statusapi", "schema"} {
		if pkg == other {
			break
		}
		if _, taken := d.docs[other+"."+t.Name()]; taken {
			return strings.ToUpper(pkg[:1]) + pkg[1:] + t.Name()
		}
	}
	return t.Name()
}

func (d *describer) reference(t reflect.Type, describe func(reflect.Type) node) node {
	name := d.nameOf(t)
	if d.schemas[name] == nil {
		d.schemas[name] = node{} // for types that hold themselves
		d.schemas[name] = describe(t)
	}
	return node{"$ref": "#/components/schemas/" + name}
}

func (d *describer) word(t reflect.Type) node {
	out := node{"type": "string"}
	if doc := d.docs[goName(t)]; doc != "" {
		out["description"] = doc
	}
	if words := d.words[goName(t)]; len(words) > 0 {
		words = append(slices.Clone(words), moreWords[goName(t)]...)
		slices.Sort(words)
		out["enum"] = slices.Compact(words)
	}
	return out
}

// moreWords are words that are no constants of their type.
var moreWords = map[string][]string{
	"planner.DriveState": {stateHeld}, "planner.RunPhase": {stateHeld},
	"schema.WhyCode":   {""}, // of a step that is done
	"schema.Transport": {""}, // of a mount that failed before one was chosen
}

func (d *describer) reason(reflect.Type) node {
	return node{
		"type": "object", "description": d.docs["schema.Reason"], "required": []string{"code", "message"},
		"properties": node{
			"code": d.of(reflect.TypeFor[schema.ReasonCode]()), "message": node{"type": "string"}, "machine": node{"type": "string"},
			"machines": node{"type": "array", "items": node{"type": "string"}}, "count": node{"type": "integer", "format": "int64"},
			"args": d.of(reflect.TypeFor[schema.ReasonArgs]()),
		},
	}
}

func (d *describer) wait(reflect.Type) node {
	return node{
		"type": "object", "description": d.docs["schema.Wait"], "required": []string{"reasons", "run", "summary"},
		"properties": node{
			"run": d.of(keyType), "worker": node{"type": "string"}, "summary": node{"type": "string"},
			"reasons": orNull(node{"type": "array", "items": d.of(reasonType)}),
		},
	}
}

func (d *describer) structure(t reflect.Type) node {
	properties, required := node{}, []string{}
	d.fields(t, properties, &required)
	out := node{"type": "object", "properties": properties}
	if doc := d.docs[goName(t)]; doc != "" {
		out["description"] = doc
	}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	return out
}

func (d *describer) fields(t reflect.Type, properties node, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			d.fields(f.Type, properties, required)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name := tag
		if name == "" {
			name = f.Name
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		s := d.of(f.Type)
		if !optional {
			*required = append(*required, name)
			if nullable(t, f) {
				s = orNull(s)
			}
		}
		properties[name] = explained(s, d.docs[goName(t)+"."+f.Name])
	}
}

// nullable: pointers that are always written may be null, and so may lists of other
// packages. Lists of this package's bodies are never null unless they say so.
func nullable(t reflect.Type, f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer:
		return true
	case reflect.Slice, reflect.Map:
		return path.Base(t.PkgPath()) != "statusapi" || f.Tag.Get("nullable") == "true"
	}
	return false
}

func orNull(s node) node {
	if s["$ref"] != nil {
		return node{"oneOf": []any{s, node{"type": "null"}}}
	}
	s["type"] = []any{s["type"], "null"}
	return s
}

// explained adds what a field's comment says; beside a reference it counts in 3.1.
func explained(s node, doc string) node {
	if doc != "" {
		s["description"] = doc
	}
	return s
}
