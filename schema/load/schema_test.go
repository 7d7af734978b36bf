package load

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"astraeus.io/astraeus/schema"
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/token"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The compiled shapes name exactly the fields of the Go types, and every whole
// number has bounds that its Go type holds. G-2
func TestShapesMatchTypes(t *testing.T) {
	for _, kind := range schema.Kinds {
		sh := shapes()[kind]
		require.NotNil(t, sh, kind)
		require.Equal(t, []string{"kind", "metadata", "spec"}, sh.order)
		matchType(t, string(kind)+".metadata", sh.fields["metadata"].shape, reflect.TypeFor[schema.Metadata]())
		matchType(t, string(kind)+".spec", sh.fields["spec"].shape, reflect.TypeOf(schema.NewSpec(kind)).Elem())
	}
}

func matchType(t *testing.T, path string, sh *shape, typ reflect.Type) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch sh.kind {
	case structShape:
		require.Equal(t, reflect.Struct, typ.Kind(), path)
		index := fieldIndex(typ)
		require.Len(t, index, len(sh.order), "%s: %v", path, sh.order)
		for name, f := range sh.fields {
			i, ok := index[name]
			require.True(t, ok, "%s.%s", path, name)
			matchType(t, path+"."+name, f.shape, typ.Field(i).Type)
		}
	case listShape:
		require.Equal(t, reflect.Slice, typ.Kind(), path)
		matchType(t, path+"[]", sh.elem, typ.Elem())
	case mapShape:
		require.Equal(t, reflect.TypeFor[map[string]string](), typ, path)
		require.Equal(t, textShape, sh.elem.kind)
	case textShape:
		require.True(t, typ.Kind() == reflect.String || typ == durationType, path)
	case boolShape:
		require.Equal(t, reflect.Bool, typ.Kind(), path)
	case wholeShape:
		require.True(t, typ.Kind() == reflect.Int64 || typ.Kind() == reflect.Int, path)
		require.NotNil(t, sh.min, path)
		require.NotNil(t, sh.max, path)
	case numberShape:
		require.Equal(t, reflect.Float64, typ.Kind(), path)
	default:
		t.Fatal(path)
	}
}

// cueJudge asks CUE itself about a value.
type cueJudge struct {
	ctx    *cue.Context
	schema cue.Value
	used   int
}

func (j *cueJudge) accepts(t require.TestingT, kind schema.Kind, n *node) bool {
	if j.used++; j.ctx == nil || j.used > maxContexts {
		j.ctx, j.used = cuecontext.New(), 0
		j.schema = j.ctx.CompileBytes(schemaText())
		require.NoError(t, j.schema.Err())
	}
	v := j.ctx.BuildExpr(exprOf(n))
	def := j.schema.LookupPath(cue.ParsePath("#" + string(kind)))
	require.NoError(t, def.Err())
	return def.Unify(v).Validate(cue.Concrete(true), cue.Final()) == nil
}

// exprOf is a node as CUE.
func exprOf(n *node) ast.Expr {
	switch n.Kind {
	case nullNode:
		return ast.NewNull()
	case boolNode:
		return ast.NewBool(n.Text == "true")
	case intNode:
		if rest, ok := strings.CutPrefix(n.Text, "-"); ok {
			return &ast.UnaryExpr{Op: token.SUB, X: ast.NewLit(token.INT, rest)}
		}
		return ast.NewLit(token.INT, n.Text)
	case floatNode:
		if rest, ok := strings.CutPrefix(n.Text, "-"); ok {
			return &ast.UnaryExpr{Op: token.SUB, X: ast.NewLit(token.FLOAT, rest)}
		}
		return ast.NewLit(token.FLOAT, n.Text)
	case stringNode:
		return ast.NewString(n.Text)
	case bytesNode:
		return ast.NewLit(token.STRING, "'x'")
	case listNode:
		list := &ast.ListLit{}
		for _, item := range n.Items {
			list.Elts = append(list.Elts, exprOf(item))
		}
		return list
	}
	s := &ast.StructLit{}
	for _, f := range n.Fields {
		s.Elts = append(s.Elts, &ast.Field{Label: ast.NewString(f.Name), Value: exprOf(f.Value)})
	}
	return s
}

// shapeAccepts is the verdict of the compiled shapes alone. A duration's text is
// judged by Go only.
func shapeAccepts(n *node, kind schema.Kind) (bool, []schema.Diagnostic) {
	d := &declared{kind: kind, spec: schema.NewSpec(kind), loc: &locator{}}
	r := &reader{d: d}
	r.readShape(n)
	real := slices.DeleteFunc(slices.Clone(d.problems), func(p schema.Diagnostic) bool {
		return strings.Contains(p.Message, "is not a duration")
	})
	return len(real) == 0, real
}

// corpus is every object of the golden cases and the examples.
func corpus(t testing.TB) (objects []*node, files map[string]string) {
	files = map[string]string{}
	cases, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, name := range cases {
		ar, err := txtar.ParseFile(name)
		require.NoError(t, err)
		fsys, _ := caseFiles(ar)
		for file, f := range fsys {
			files[filepath.Base(name)+"/"+file] = string(f.Data)
		}
	}
	err = filepath.WalkDir("../../examples/repo", func(p string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && isFile(p) {
			data, _ := os.ReadFile(p)
			files[p] = string(data)
		}
		return err
	})
	require.NoError(t, err)
	for _, file := range slices.Sorted(mapsKeys(files)) {
		src, bad := sanitize(file, []byte(files[file]))
		if bad != nil {
			continue
		}
		var roots []*node
		switch filepath.Ext(file) {
		case ".json":
			roots, _ = readJSON(file, src)
		case ".yaml", ".yml":
			roots, _ = readYAML(file, src)
		case ".cue":
			if pf, err := readPlain(file, src); err == nil && pf != nil {
				roots = []*node{pf.root}
			}
		}
		for _, n := range roots {
			if schema.Kind(n.text("kind")).Known() {
				objects = append(objects, n)
			}
		}
	}
	return objects, files
}

func mapsKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// The shapes say what CUE's evaluator says of the same schema, for every example
// of a valid and an invalid file. G-1
func TestShapesSayWhatCUESays(t *testing.T) {
	objects, _ := corpus(t)
	require.Greater(t, len(objects), 60)
	var j cueJudge
	accepted := 0
	for _, n := range objects {
		kind := schema.Kind(n.text("kind"))
		ours, problems := shapeAccepts(n, kind)
		assert.Equal(t, j.accepts(t, kind, n), ours, "%s: %v", n.Pos, problems)
		if ours {
			accepted++
		}
	}
	require.Greater(t, accepted, 20)
	require.Less(t, accepted, len(objects))
}

// The same for files with one thing changed at random. G-1
func TestShapesSayWhatCUESaysOfMutants(t *testing.T) {
	objects, _ := corpus(t)
	var j cueJudge
	rapid.Check(t, func(t *rapid.T) {
		n := cloneNode(objects[rapid.IntRange(0, len(objects)-1).Draw(t, "object")])
		kind := schema.Kind(n.text("kind"))
		seed := rapid.Uint64().Draw(t, "seed")
		mutate(n, rand.New(rand.NewPCG(seed, 0)))
		n.Fields = slices.DeleteFunc(n.Fields, func(f nodeField) bool { return f.Name == "kind" })
		n.Fields = append(n.Fields, nodeField{Name: "kind", Value: &node{Kind: stringNode, Text: string(kind)}})
		ours, problems := shapeAccepts(n, kind)
		if cues := j.accepts(t, kind, n); cues != ours {
			text, _ := json.Marshal(n)
			t.Fatalf("CUE says %v, we say %v: %v\n%s", cues, ours, problems, text)
		}
	})
}

func cloneNode(n *node) *node {
	c := *n
	c.Fields = slices.Clone(n.Fields)
	for i := range c.Fields {
		c.Fields[i].Value = cloneNode(c.Fields[i].Value)
	}
	c.Items = slices.Clone(n.Items)
	for i := range c.Items {
		c.Items[i] = cloneNode(c.Items[i])
	}
	return &c
}

// mutate changes one value somewhere in a tree.
func mutate(n *node, rnd *rand.Rand) {
	all := allNodes(n)
	target := all[rnd.IntN(len(all))]
	values := []node{
		{Kind: nullNode}, {Kind: boolNode, Text: "true"}, {Kind: intNode, Text: "0"}, {Kind: intNode, Text: "-1"},
		{Kind: intNode, Text: "70000"}, {Kind: intNode, Text: "9223372036854775807"}, {Kind: intNode, Text: "9223372036854775808"},
		{Kind: floatNode, Text: "1.5"}, {Kind: floatNode, Text: "8.0"}, {Kind: floatNode, Text: "-0.5"}, {Kind: stringNode, Text: ""},
		{Kind: stringNode, Text: "ReadOnly"}, {Kind: stringNode, Text: "x"}, {Kind: bytesNode}, {Kind: listNode}, {Kind: structNode},
	}
	switch rnd.IntN(5) {
	case 0:
		if len(target.Fields) > 0 {
			target.Fields = slices.Delete(target.Fields, 0, 1)
		}
	case 1:
		if target.Kind == structNode {
			target.Fields = append(target.Fields, nodeField{Name: "extra", Value: &node{Kind: stringNode}})
		}
	case 2:
		if target.Kind == listNode {
			v := values[rnd.IntN(len(values))]
			target.Items = append(target.Items, &v)
		}
	default:
		v := values[rnd.IntN(len(values))]
		*target = v
	}
}

func allNodes(n *node) []*node {
	list := []*node{n}
	for _, f := range n.Fields {
		list = append(list, allNodes(f.Value)...)
	}
	for _, item := range n.Items {
		list = append(list, allNodes(item)...)
	}
	return list
}
