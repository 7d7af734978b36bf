package load

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// claim is an object whose kind and name are known although its file cannot be
// used.
type claim struct {
	kind      schema.Kind
	name      string
	namespace string // a workspace's spec.namespace
	pos       schema.Pos
}

// found is what a file or package holds.
type found struct {
	objects []*declared
	claims  []claim
	faults  []fault
}

// levels is how deep below a file's top objects are looked for.
const levels = 3

// finder looks for the objects in a value: the value itself, or the values in
// it that have a kind (doc.go).
type finder struct {
	main  []string // the files that may declare; the first stands for all
	found *found
}

// find reads every object of a root value.
func (f *finder) find(root *node) {
	switch {
	case root.Kind != structNode && root.Kind != listNode:
		f.fault(root.Pos, schema.CodeInvalid, sayNotObject)
	case f.isObject(root):
		f.object(root)
	case f.isBody(root):
		f.object(unflatten(root, placeOf(f.fileOf(root)).folder))
	default:
		before := f.yield()
		f.inside(root, levels)
		if f.yield() == before && !f.computes() {
			f.fault(root.Pos, schema.CodeInvalid, sayEmpty)
		}
	}
}

// computes reports whether the file may hold values that are no objects and make
// none: CUE may. Each document of another file may have been an object.
func (f *finder) computes() bool { return path.Ext(f.main[0]) == ".cue" }

func (f *finder) yield() int { return len(f.found.objects) + len(f.found.faults) }

func (f *finder) fault(pos schema.Pos, code schema.Code, text string) {
	f.found.faults = append(f.found.faults, fault{Pos: pos, Code: code, Text: text})
}

func (f *finder) isObject(n *node) bool { return n.has("kind") || n.has("metadata") || n.has("spec") }

func (f *finder) inside(n *node, left int) {
	try := func(v *node) {
		switch {
		case v.Kind == badNode && v.Text != "":
			f.fault(v.Pos, schema.CodeInvalid, v.Text)
		case isOne(v):
			f.object(v)
		case left > 1:
			f.inside(v, left-1)
		default:
			f.tooDeep(v)
		}
	}
	for i := range n.Fields {
		try(n.Fields[i].Value)
	}
	objects := !f.computes() && slices.ContainsFunc(n.Items, isOne)
	for _, item := range n.Items {
		if objects && !isOne(item) && item.Kind != badNode {
			f.fault(item.Pos, schema.CodeInvalid, sayNotObject) // what stands among objects is meant to be one
			continue
		}
		try(item)
	}
}

// isOne reports whether a value inside another one is an object.
func isOne(v *node) bool { return v.has("kind") || v.has("metadata") && v.has("spec") }

// tooDeep finds the objects that lie deeper than objects are looked for: they are
// not declared, and must not pass for removed.
func (f *finder) tooDeep(n *node) {
	look := func(v *node) {
		if schema.Kind(v.text("kind")).Known() && v.has("metadata") {
			f.fault(v.Pos, schema.CodeInvalid, sayTooDeep)
			return
		}
		f.tooDeep(v)
	}
	for i := range n.Fields {
		look(n.Fields[i].Value)
	}
	for _, item := range n.Items {
		look(item)
	}
}

func (f *finder) fileOf(n *node) string {
	if slices.Contains(f.main, n.Pos.File) {
		return n.Pos.File
	}
	return f.main[0]
}

// object reads one object. A kind that is not given is its folder's, so that
// the bodies of the documents are valid files.
func (f *finder) object(n *node) {
	file := f.fileOf(n)
	kindNode := n.field("kind")
	kind := schema.Kind(n.text("kind"))
	switch {
	case kindNode == nil:
		if kind = placeOf(file).folder; kind == "" {
			f.fault(n.Pos, schema.CodeInvalid, sayNoKind)
			return
		}
	case kindNode.Kind != stringNode:
		text := sayBadKind
		if kindNode.Kind == badNode && kindNode.Text != "" {
			text = "kind: " + kindNode.Text
		}
		f.fault(kindNode.Pos, schema.CodeInvalid, text)
		return
	case !kind.Known():
		names := make([]string, len(schema.Kinds))
		for i, k := range schema.Kinds {
			names[i] = string(k)
		}
		f.fault(kindNode.Pos, schema.CodeInvalid, sayUnknownKind(string(kind), nearest(string(kind), names)))
		return
	}
	if n.Pos.File != file {
		placed := *n
		placed.Pos = schema.Pos{File: file, Line: 1, Col: 1}
		n = &placed
	}
	f.found.objects = append(f.found.objects, readObject(n, kind, file))
}

// isBody recognises the documents' flat bodies of a volume and of a task.
func (f *finder) isBody(n *node) bool {
	folder := placeOf(f.fileOf(n)).folder
	return n.has("name") && (folder == schema.KindVolume && n.has("host_path") || folder == schema.KindRun && n.has("image"))
}

// unflatten gives a flat body the form of an object.
func unflatten(n *node, kind schema.Kind) *node {
	group := func() *node { return &node{Kind: structNode, Pos: n.Pos} }
	meta, spec, out := group(), group(), group()
	inner := spec
	if kind == schema.KindRun {
		inner = group()
		spec.Fields = []nodeField{{Name: "task_template", Pos: n.Pos, Value: inner}}
	}
	for _, field := range n.Fields {
		switch {
		case field.Name == "name" || field.Name == "id" || field.Name == "owner":
			meta.Fields = append(meta.Fields, field)
		case field.Name == "gpu_required" && kind == schema.KindRun:
			requests, resources := group(), group()
			requests.Fields = []nodeField{{Name: "count", Pos: field.Pos, Value: field.Value}}
			resources.Fields = []nodeField{{Name: "gpu_requests", Pos: field.Pos, Value: requests}}
			inner.Fields = append(inner.Fields, nodeField{Name: "requested_resources", Pos: field.Pos, Value: resources})
		default:
			inner.Fields = append(inner.Fields, field)
		}
	}
	out.Fields = []nodeField{{Name: "metadata", Pos: n.Pos, Value: meta}, {Name: "spec", Pos: n.Pos, Value: spec}}
	return out
}

// claimsIn lists the kinds and names that stand literally in a value.
func claimsIn(n *node, file string, left int) []claim {
	if n == nil {
		return nil
	}
	kind, name := schema.Kind(n.text("kind")), n.text("metadata", "name")
	if kind == "" && name != "" {
		kind = placeOf(file).folder
	}
	if kind.Known() {
		return []claim{{kind: kind, name: name, namespace: n.text("spec", "namespace"), pos: n.Pos}}
	}
	var list []claim
	if left > 0 {
		for i := range n.Fields {
			list = append(list, claimsIn(n.Fields[i].Value, file, left-1)...)
		}
		for _, item := range n.Items {
			list = append(list, claimsIn(item, file, left-1)...)
		}
	}
	return list
}

var (
	kindText      = regexp.MustCompile(`"?\bkind\b"?[ \t]*:[ \t]*["']?([A-Za-z]+)`)
	nameText      = regexp.MustCompile(`"?\bname\b"?[ \t]*:[ \t]*["']?([A-Za-z0-9_.-]+)`)
	namespaceText = regexp.MustCompile(`"?\bnamespace\b"?[ \t]*:[ \t]*["']?(ws-[0-9a-f]{12})\b`)
)

// claimsInText guesses kinds and names from text that no parser takes: each
// kind goes with the first name after it.
func claimsInText(src []byte, file string) []claim {
	var list []claim
	lines := indexLines(src)
	marks := kindText.FindAllSubmatchIndex(src, 1000)
	if len(marks) == 0 {
		if kind := placeOf(file).folder; kind != "" {
			if m := nameText.FindSubmatch(src); m != nil {
				return []claim{{kind: kind, name: string(m[1]), pos: schema.Pos{File: file, Line: 1, Col: 1}}}
			}
		}
		return nil
	}
	for i, m := range marks {
		kind := schema.Kind(src[m[2]:m[3]])
		if !kind.Known() {
			continue
		}
		rest := src[m[1]:]
		if i+1 < len(marks) {
			rest = src[m[1]:marks[i+1][0]]
		}
		c := claim{kind: kind, pos: lines.pos(file, m[0])}
		if name := nameText.FindSubmatch(rest); name != nil {
			c.name = strings.TrimRight(string(name[1]), ".")
		} else if name := nameText.FindSubmatch(src[:m[0]]); name != nil && len(marks) == 1 {
			c.name = string(name[1]) // metadata before kind
		}
		if ns := namespaceText.FindSubmatch(rest); ns != nil {
			c.namespace = string(ns[1])
		}
		list = append(list, c)
	}
	return list
}
