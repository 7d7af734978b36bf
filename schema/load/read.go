package load

import (
	"math"
	"math/big"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"astraeus.io/astraeus/schema"
)

// declared is one object of a file, before its namespace is known. It depends
// on the file's path and content alone, so it is kept between loads.
type declared struct {
	kind schema.Kind
	file string // that declares it, and whose place judges it
	// place and scope are the file's.
	place filePlace
	scope string
	pos   schema.Pos
	meta  schema.Metadata
	spec  schema.Spec // partly filled when ok is false
	ok    bool
	// misplaced: its place may not declare this kind, so it cannot get in the way
	// of one that may.
	misplaced bool
	loc       *locator
	// problems are this object's, without its key.
	problems []schema.Diagnostic
	// object is the finished object under its last key.
	object *schema.Object
}

// reader judges one object by its kind's shape and fills in the Go values.
type reader struct {
	d *declared
	// wrong holds the fields that could not be read: what is said about them
	// afterwards would only repeat it.
	wrong []string
}

var durationType = reflect.TypeFor[schema.Duration]()

// readObject reads and judges an object whose kind is known.
func readObject(n *node, kind schema.Kind, file string) *declared {
	d := &declared{kind: kind, file: file, pos: n.Pos, spec: schema.NewSpec(kind), loc: &locator{}}
	d.place, d.scope = placeOf(file), scopeOfDir(path.Dir(file))
	r := &reader{d: d}
	r.readShape(n)
	d.loc.sort()
	r.checkMetadata()
	r.checkPlace()
	r.checkSpec()
	if size := n.bytes(); size > maxObjectBytes {
		r.add(schema.CodeUnreadable, "", d.pos, sayObjectSize(size), "")
	}
	d.ok = !slices.ContainsFunc(d.problems, func(p schema.Diagnostic) bool { return p.Severity == schema.SeverityError })
	return d
}

// readShape judges everything that the CUE schema says.
func (r *reader) readShape(n *node) {
	sh := shapes()[r.d.kind]
	r.d.loc.add("", n.Pos)
	for i := range n.Fields {
		f := &n.Fields[i]
		switch inner := sh.fields[f.Name]; f.Name {
		case "kind":
			r.d.loc.add("kind", f.Value.Pos)
		case "metadata":
			r.read(f.Value, inner.shape, reflect.ValueOf(&r.d.meta).Elem(), "metadata")
		case "spec":
			r.read(f.Value, inner.shape, reflect.ValueOf(r.d.spec).Elem(), "spec")
		default:
			r.unknown(f, f.Name, sh)
		}
	}
	r.required(n, sh, "", "kind")
}

// add records a problem at a place.
func (r *reader) add(code schema.Code, field string, pos schema.Pos, text, hint string) {
	if pos.File == "" {
		pos = r.d.pos
	}
	severity := schema.SeverityError
	if code.Status() == schema.CodeWarning.Status() {
		severity = schema.SeverityWarning
	}
	r.d.problems = append(r.d.problems, schema.Diagnostic{
		Pos: pos, Severity: severity, Field: field, Code: code, Status: code.Status(), Message: text, Hint: hint,
	})
}

// shapeProblem records that a field's value cannot be read.
func (r *reader) shapeProblem(n *node, path, text string) {
	r.wrong = append(r.wrong, path)
	r.add(schema.CodeInvalid, path, n.Pos, path+": "+text, "")
}

func (r *reader) read(n *node, sh *shape, v reflect.Value, path string) {
	r.d.loc.add(path, n.Pos)
	if n.Kind == badNode {
		r.wrong = append(r.wrong, path)
		if n.Text != "" {
			r.add(schema.CodeInvalid, path, n.Pos, path+": "+n.Text, "")
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	switch sh.kind {
	case structShape:
		r.readStruct(n, sh, v, path)
	case listShape:
		r.readList(n, sh, v, path)
	case mapShape:
		r.readMap(n, v, path)
	case textShape:
		r.readText(n, sh, v, path)
	case boolShape:
		if n.Kind != boolNode {
			r.shapeProblem(n, path, sayWant("true or false", n))
			return
		}
		v.SetBool(n.Text == "true")
	case wholeShape, numberShape:
		r.readNumber(n, sh, v, path)
	}
}

func (r *reader) readStruct(n *node, sh *shape, v reflect.Value, path string) {
	if n.Kind != structNode {
		r.shapeProblem(n, path, sayWant("a group of fields", n))
		return
	}
	index := fieldIndex(v.Type())
	for i := range n.Fields {
		f := &n.Fields[i]
		inner := sh.fields[f.Name]
		if inner == nil {
			r.unknown(f, path+"."+f.Name, sh)
			continue
		}
		r.read(f.Value, inner.shape, v.Field(index[f.Name]), path+"."+f.Name)
	}
	r.required(n, sh, path+".", "")
}

func (r *reader) required(n *node, sh *shape, prefix, except string) {
	for _, name := range sh.order {
		if sh.fields[name].required && name != except && !n.has(name) {
			r.wrong = append(r.wrong, prefix+name)
			r.add(schema.CodeInvalid, prefix+name, n.Pos, prefix+name+": "+sayRequired, "")
		}
	}
}

func (r *reader) unknown(f *nodeField, path string, sh *shape) {
	near := nearest(f.Name, sh.order)
	if f.Name == "tenant_id" {
		r.add(schema.CodeForbiddenPlace, path, f.Pos, path+": "+sayTenant, "")
		return
	}
	r.add(schema.CodeUnknownField, path, f.Pos, path+": "+sayUnknownField(near), sayKnownFields(sh.order))
}

func (r *reader) readList(n *node, sh *shape, v reflect.Value, path string) {
	if n.Kind != listNode {
		r.shapeProblem(n, path, sayWant("a list", n))
		return
	}
	if sh.nonEmpty && len(n.Items) == 0 {
		r.shapeProblem(n, path, sayEmptyList)
	}
	list := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		r.read(item, sh.elem, list.Index(i), path+"["+strconv.Itoa(i)+"]")
	}
	if len(n.Items) > 0 {
		v.Set(list)
	}
}

func (r *reader) readMap(n *node, v reflect.Value, path string) {
	if n.Kind != structNode {
		r.shapeProblem(n, path, sayWant("a group of fields", n))
		return
	}
	if len(n.Fields) == 0 {
		return
	}
	m := make(map[string]string, len(n.Fields))
	for _, f := range n.Fields {
		at := path + "." + f.Name
		r.d.loc.add(at, f.Value.Pos)
		switch f.Value.Kind {
		case stringNode:
			m[f.Name] = f.Value.Text
		case badNode:
			r.wrong = append(r.wrong, at)
			r.add(schema.CodeInvalid, at, f.Value.Pos, at+": "+f.Value.Text, "")
		default:
			r.shapeProblem(f.Value, at, sayWant("text", f.Value))
		}
	}
	v.Set(reflect.ValueOf(m))
}

func (r *reader) readText(n *node, sh *shape, v reflect.Value, path string) {
	if n.Kind != stringNode {
		r.shapeProblem(n, path, sayWant(sayWantText(sh.enum), n))
		return
	}
	if sh.enum != nil && !slices.Contains(sh.enum, n.Text) {
		r.shapeProblem(n, path, sayEnum(n.Text, sh.enum))
		return
	}
	if v.Type() == durationType {
		var d schema.Duration
		if err := d.UnmarshalText([]byte(n.Text)); err != nil || d <= 0 {
			r.shapeProblem(n, path, sayDuration(n.Text))
			return
		}
		v.SetInt(int64(d))
		return
	}
	v.SetString(n.Text)
}

func (r *reader) readNumber(n *node, sh *shape, v reflect.Value, path string) {
	if n.Kind != intNode && (n.Kind != floatNode || sh.kind == wholeShape) {
		want := "a number"
		if sh.kind == wholeShape {
			want = "a whole number"
		}
		r.shapeProblem(n, path, sayWant(want, n))
		return
	}
	num, ok := parseNumber(n.Text)
	if !ok || sh.min != nil && num.Cmp(sh.min) < 0 || sh.max != nil && num.Cmp(sh.max) > 0 {
		r.shapeProblem(n, path, sayRange(sh.min, sh.max))
		return
	}
	if sh.kind == wholeShape {
		whole, _ := num.Int64()
		v.SetInt(whole)
		return
	}
	f, _ := num.Float64()
	v.SetFloat(f)
}

// parseNumber takes what fits a field; longer texts are out of every range.
func parseNumber(text string) (*big.Float, bool) {
	if len(text) > 400 {
		return nil, false
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(f, 0) {
		return nil, false // keeps a giant exponent from being worked out
	}
	num, _, err := big.ParseFloat(text, 10, 80, big.ToNearestEven)
	return num, err == nil
}

var fieldIndexes sync.Map // reflect.Type -> map[string]int

// fieldIndex maps the JSON names of a struct to its fields.
func fieldIndex(t reflect.Type) map[string]int {
	if m, ok := fieldIndexes.Load(t); ok {
		return m.(map[string]int)
	}
	m := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		m[name] = i
	}
	fieldIndexes.Store(t, m)
	return m
}

// bytes is about the size of a value as JSON.
func (n *node) bytes() int {
	size := len(n.Text) + 4
	for _, f := range n.Fields {
		size += len(f.Name) + 4 + f.Value.bytes()
	}
	for _, item := range n.Items {
		size += item.bytes()
	}
	return size
}
