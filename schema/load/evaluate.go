package load

import (
	"fmt"
	"strings"

	"astraeus.io/astraeus/schema"
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// What runs behind the deadline: CUE's parser and evaluator, neither of which
// can be interrupted. The work comes with all its sources, so nothing here
// touches a disk or the network.

// source is one CUE file of a job.
type source struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Definitions says that only definitions, hidden fields and lets are taken.
	Definitions bool `json:"definitions,omitempty"`
}

// job asks for one file to be looked at (Imports nil, Eval false) or for a
// package to be evaluated.
type job struct {
	Eval    bool                `json:"eval,omitempty"`
	Files   []source            `json:"files"`
	Imports map[string][]source `json:"imports,omitempty"` // by import path
}

// answer of a job. Tree may be there beside faults: what could be read.
type answer struct {
	Package   string      `json:"package,omitempty"`
	Imports   []importRef `json:"imports,omitempty"`
	HasFields bool        `json:"has_fields,omitempty"` // regular ones
	Tree      *node       `json:"tree,omitempty"`
	Faults    []fault     `json:"faults,omitempty"`
	// gaveUp: it took too long or too much, which may be the machine's fault.
	gaveUp bool
}

type importRef struct {
	Path string     `json:"path"`
	Pos  schema.Pos `json:"pos"`
}

// evaluator keeps one CUE context for a bounded number of jobs.
type evaluator struct {
	ctx  *cue.Context
	used int
}

func (e *evaluator) do(j job) (a answer) {
	if len(j.Files) == 0 {
		return answer{} // only asked whether it is there
	}
	defer func() {
		if p := recover(); p != nil {
			a.Faults = append(a.Faults, fault{Pos: schema.Pos{File: j.Files[0].Name, Line: 1, Col: 1},
				Code: schema.CodeUnreadable, Text: fmt.Sprintf("evaluation failed: %v", p)})
		}
	}()
	if !j.Eval {
		return look(j.Files[0])
	}
	if e.used++; e.ctx == nil || e.used > maxContexts {
		e.ctx, e.used = cuecontext.New(), 1
	}
	return evaluate(e.ctx, j)
}

// look parses one file and reads as much of it as stands there literally.
func look(src source) answer {
	f, err := parser.ParseFile(src.Name, src.Text)
	a := answer{Faults: newPlacer(job{Files: []source{src}}).faults(err, schema.CodeSyntax)}
	a.Package = f.PackageName()
	for spec := range f.ImportSpecs() {
		path := strings.Trim(spec.Path.Value, `"`)
		a.Imports = append(a.Imports, importRef{Path: path, Pos: place(spec.Path.Pos())})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.Attribute:
			// It would let a file read others that are none of its business.
			if key, _ := d.Split(); key == "extern" {
				a.Faults = append(a.Faults, fault{Pos: place(d.Pos()), Code: schema.CodeInvalid, Text: sayExtern})
			}
		case *ast.Field:
			if isRegular(d) {
				a.HasFields = true
			}
		case *ast.EmbedDecl, *ast.Comprehension:
			a.HasFields = true
		}
	}
	a.Tree = literalStruct(f.Decls, place(f.Pos()), 0)
	return a
}

func isRegular(f *ast.Field) bool {
	id, ok := f.Label.(*ast.Ident)
	if !ok {
		return true
	}
	return !strings.HasPrefix(id.Name, "_") && !strings.HasPrefix(id.Name, "#")
}

// literalStruct keeps the literal fields of a struct, so that the kind and name
// of an object can be known although the file cannot be evaluated.
func literalStruct(decls []ast.Decl, pos schema.Pos, depth int) *node {
	n := &node{Kind: structNode, Pos: pos}
	if depth > 6 {
		return n
	}
	for _, d := range decls {
		if e, ok := d.(*ast.EmbedDecl); ok {
			n.Fields = append(n.Fields, literalValue(e.Expr, depth+1).Fields...)
			continue
		}
		f, ok := d.(*ast.Field)
		if !ok || !isRegular(f) || f.Value == nil {
			continue
		}
		name, _, err := ast.LabelName(f.Label)
		if err != nil || len(n.Fields) >= maxFields {
			continue
		}
		val := literalValue(f.Value, depth+1)
		if old := n.field(name); old != nil && old.Kind == structNode && val.Kind == structNode {
			old.Fields = append(old.Fields, val.Fields...)
			continue
		}
		n.Fields = append(n.Fields, nodeField{Name: name, Pos: place(f.Label.Pos()), Value: val})
	}
	return n
}

func literalValue(e ast.Expr, depth int) *node {
	pos := place(e.Pos())
	switch e := e.(type) {
	case *ast.StructLit:
		return literalStruct(e.Elts, pos, depth)
	case *ast.ListLit:
		n := &node{Kind: listNode, Pos: pos}
		for _, item := range e.Elts {
			if depth < 6 {
				n.Items = append(n.Items, literalValue(item, depth+1))
			}
		}
		return n
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			if text, err := literal.Unquote(e.Value); err == nil {
				return &node{Kind: stringNode, Pos: pos, Text: text}
			}
		}
	case *ast.BinaryExpr:
		// "#Base & {metadata: name: …}": either side may hold what is looked for.
		x, y := literalValue(e.X, depth+1), literalValue(e.Y, depth+1)
		if depth > 6 || y.Kind == structNode {
			return y
		}
		return x
	}
	return &node{Kind: badNode, Pos: pos}
}

// evaluate builds the package and reads its value.
func evaluate(ctx *cue.Context, j job) answer {
	bc := build.NewContext()
	var load build.LoadFunc
	load = func(_ token.Pos, path string) *build.Instance {
		files, ok := j.Imports[path]
		if !ok {
			return nil // the standard library's
		}
		return instance(bc, load, path, files)
	}
	at := newPlacer(j)
	inst := instance(bc, load, "", j.Files)
	if inst.Err != nil {
		return answer{Faults: at.faults(inst.Err, schema.CodeInvalid)}
	}
	w := &valueReader{placer: at}
	v := ctx.BuildInstance(inst)
	a := answer{Tree: w.value(v, 0, at.top())}
	if a.Tree.Kind == badNode {
		a.Faults = at.faults(v.Err(), schema.CodeInvalid)
	}
	a.Faults = append(a.Faults, w.more...)
	return a
}

// placer finds places in the repository's files. CUE's own packages have places
// too, which say nothing to anyone.
type placer struct {
	first string          // the file that stands for the job
	files map[string]bool // every file of the job; true where the fields are declared
}

func newPlacer(j job) placer {
	p := placer{first: j.Files[0].Name, files: map[string]bool{}}
	for _, list := range j.Imports {
		for _, src := range list {
			p.files[src.Name] = false
		}
	}
	for _, src := range j.Files {
		p.files[src.Name] = !src.Definitions
	}
	return p
}

func (p placer) top() schema.Pos { return schema.Pos{File: p.first, Line: 1, Col: 1} }

// place is a CUE place, or the other one when it is in no file of the job.
func (p placer) place(pos token.Pos, other schema.Pos) schema.Pos {
	at := place(pos)
	if _, ok := p.files[at.File]; !ok {
		return other
	}
	return at
}

// faults lists the errors inside an error, each at a place where the fields are
// declared when it has one there.
func (p placer) faults(err error, code schema.Code) []fault {
	var list []fault
	for _, e := range errors.Errors(err) {
		format, args := e.Msg()
		f := fault{Pos: p.place(e.Position(), schema.Pos{}), Code: code, Text: fmt.Sprintf(format, args...)}
		for _, input := range e.InputPositions() {
			if at := p.place(input, schema.Pos{}); at.File != "" && (f.Pos.File == "" || !p.files[f.Pos.File] && p.files[at.File]) {
				f.Pos = at
			}
		}
		if f.Pos.File == "" {
			f.Pos = p.top()
		}
		if list = append(list, f); len(list) >= maxFaults {
			break
		}
	}
	return list
}

const maxFaults = 100

func instance(bc *build.Context, load build.LoadFunc, path string, files []source) *build.Instance {
	inst := bc.NewInstance("", load)
	inst.ImportPath = path
	for _, src := range files {
		f, err := parser.ParseFile(src.Name, src.Text)
		if err != nil {
			inst.Err = errors.Append(inst.Err, errors.Promote(err, ""))
			continue
		}
		if src.Definitions {
			keepDefinitions(f)
		}
		inst.PkgName = f.PackageName()
		if err := inst.AddSyntax(f); err != nil {
			inst.Err = errors.Append(inst.Err, err)
		}
	}
	if inst.Err == nil {
		_ = inst.Complete() // Err is kept in the instance
	}
	return inst
}

// keepDefinitions drops what would become part of the value of a directory
// below, or of a sibling that is an object itself.
func keepDefinitions(f *ast.File) {
	kept := f.Decls[:0]
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.Field:
			if isRegular(d) {
				continue
			}
		case *ast.EmbedDecl, *ast.Comprehension, *ast.Ellipsis:
			continue
		}
		kept = append(kept, d)
	}
	f.Decls = kept
	f.Unresolved = nil
	astutil.Resolve(f, func(token.Pos, string, ...any) {})
	_ = astutil.SanitizeFiles([]*ast.File{f}) // drops imports that only the dropped fields used
}

// valueReader turns a CUE value into nodes.
type valueReader struct {
	placer
	nodes int
	bytes int     // of texts
	more  []fault // where one value has several
}

// What an evaluation may answer with; a program can make any amount.
const (
	maxValueNodes = 500_000
	maxValueBytes = 16 << 20
)

func (w *valueReader) value(v cue.Value, depth int, above schema.Pos) *node {
	v, _ = v.Default()
	n := &node{Pos: w.place(v.Pos(), above)}
	if w.nodes++; w.nodes > maxValueNodes || w.bytes > maxValueBytes {
		n.Kind, n.Text = badNode, sayTooMuch
		return n
	}
	if depth > maxDepth {
		n.Kind, n.Text = badNode, sayDepth
		return n
	}
	switch v.IncompleteKind() {
	case cue.StructKind:
		n.Kind = structNode
		w.fields(n, v, depth)
	case cue.ListKind:
		n.Kind = listNode
		items, err := v.List()
		for err == nil && items.Next() {
			n.Items = append(n.Items, w.value(items.Value(), depth+1, n.Pos))
		}
		if err != nil {
			w.bad(n, err)
		}
	case cue.BottomKind:
		// A struct or list is bottom, too, when something inside it is.
		if w.parts(n, v, depth); n.Kind == nullNode {
			w.scalar(n, v)
		}
	default:
		w.scalar(n, v)
	}
	return n
}

// parts reads what is inside a value that has an error somewhere, so that only
// the object with the error is held back (G-5).
func (w *valueReader) parts(n *node, v cue.Value, depth int) {
	it, err := v.Fields()
	for err == nil && it.Next() {
		sel := it.Selector()
		child := w.value(it.Value(), depth+1, n.Pos)
		if sel.LabelType() == cue.IndexLabel {
			n.Kind = listNode
			n.Items = append(n.Items, child)
			continue
		}
		n.Kind = structNode
		n.Fields = append(n.Fields, nodeField{Name: sel.Unquoted(), Pos: child.Pos, Value: child})
	}
	w.moveToMain(n)
}

// moveToMain places a struct that stands in several files in the declaring one.
func (w *valueReader) moveToMain(n *node) {
	for i := 0; i < len(n.Fields) && !w.files[n.Pos.File]; i++ {
		if pos := n.Fields[i].Pos; w.files[pos.File] {
			n.Pos = pos
		}
	}
}

func (w *valueReader) fields(n *node, v cue.Value, depth int) {
	it, err := v.Fields()
	if err != nil {
		w.bad(n, err)
		return
	}
	for it.Next() {
		val := it.Value()
		child := w.value(val, depth+1, n.Pos)
		n.Fields = append(n.Fields, nodeField{Name: it.Selector().Unquoted(), Pos: child.Pos, Value: child})
	}
	w.moveToMain(n)
}

func (w *valueReader) scalar(n *node, v cue.Value) {
	if err := v.Err(); err != nil {
		w.bad(n, err)
		return
	}
	if !v.IsConcrete() {
		n.Kind, n.Text = badNode, sayNotConcrete(fmt.Sprint(v))
		return
	}
	switch v.Kind() {
	case cue.NullKind:
		n.Kind = nullNode
	case cue.BoolKind:
		b, _ := v.Bool()
		n.Kind, n.Text = boolNode, fmt.Sprint(b)
	case cue.IntKind:
		i, _ := v.Int(nil)
		n.Kind, n.Text = intNode, fmt.Sprint(i)
	case cue.FloatKind, cue.NumberKind:
		text, _ := v.MarshalJSON()
		n.Kind, n.Text = floatNode, string(text)
	case cue.StringKind:
		n.Kind = stringNode
		n.Text, _ = v.String()
		if w.bytes += len(n.Text); w.bytes > maxValueBytes {
			n.Kind, n.Text = badNode, sayTooMuch
		}
	case cue.BytesKind:
		n.Kind = bytesNode
	default:
		n.Kind, n.Text = badNode, sayNotConcrete(fmt.Sprint(v))
	}
}

func (w *valueReader) bad(n *node, err error) {
	n.Kind = badNode
	list := w.faults(err, schema.CodeInvalid)
	if len(list) == 0 {
		n.Text = err.Error()
		return
	}
	n.Text, n.Pos = list[0].Text, list[0].Pos
	w.more = append(w.more, list[1:]...)
}

func place(p token.Pos) schema.Pos {
	if !p.IsValid() {
		return schema.Pos{}
	}
	at := p.Position()
	return schema.Pos{File: at.Filename, Line: at.Line, Col: at.Column}
}
