package load

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// defaultModule is the import path of the repository's top when there is no
// cue.mod/module.cue: lib/ is then "astraeus.io/repo/lib".
const defaultModule = "astraeus.io/repo"

// unit is what is evaluated together: one file that is an object, or the files
// of one package in one directory that are none by themselves.
type unit struct {
	main    []string
	context []string            // files that give their definitions only
	imports map[string][]string // files by import path
	bad     *fault              // why it is not evaluated
	names   []string            // every file, sorted
}

// unitState is the result of evaluating a unit.
type unitState struct {
	hash string
	found
	broken bool
	retry  time.Time // as of a file
}

// packaging is how the CUE files of a tree go together.
type packaging struct {
	module string
	dirs   map[string][]string // CUE files by directory, sorted
	files  map[string]*fileState
	units  map[string]*unit
	order  []string
	// handled are the files whose objects come from a unit.
	handled map[string]bool
	entries map[string]fileEntry
	// holes are directories with a CUE file that could not be read at all, so that
	// nobody knows which package lacks it.
	holes map[string]string
}

// packages decides what is evaluated together (doc.go has the rules).
func (l *Loader) packages(list *listing) *packaging {
	files := list.files
	p := &packaging{
		module: defaultModule, dirs: map[string][]string{}, files: l.files,
		units: map[string]*unit{}, handled: map[string]bool{}, entries: map[string]fileEntry{}, holes: map[string]string{},
	}
	for _, bad := range list.problems {
		p.hole(bad.File)
	}
	if !slices.ContainsFunc(files, func(e fileEntry) bool {
		c := l.files[e.path].cue
		return c != nil && (c.computes || c.pkg != "")
	}) {
		return p // nothing but data
	}
	groups := map[string][]string{}
	for _, e := range files {
		st := l.files[e.path]
		if st.cue == nil {
			if st.broken {
				p.hole(e.path)
			}
			continue
		}
		dir := path.Dir(e.path)
		p.dirs[dir] = append(p.dirs[dir], e.path)
		p.entries[e.path] = e
		switch {
		case inLib(e.path) || st.broken && st.cue.pkg == "":
		case st.cue.object || st.cue.pkg == "":
			if st.cue.computes && !st.broken {
				p.add("file:"+e.path, []string{e.path})
			}
		case st.cue.fields || st.broken:
			id := "package:" + dir + ":" + st.cue.pkg
			groups[id] = append(groups[id], e.path)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		main := groups[id]
		first := l.files[main[0]]
		if len(main) > 1 || first.cue.computes && !first.broken || p.holes[path.Dir(main[0])] != "" {
			p.add(id, main)
		}
	}
	slices.Sort(p.order)
	return p
}

func (p *packaging) hole(file string) {
	if path.Ext(file) == ".cue" {
		p.holes[path.Dir(file)] = file
	}
}

func inLib(file string) bool { return strings.HasPrefix(file, "lib/") }

func (p *packaging) add(id string, main []string) {
	p.units[id] = &unit{main: main}
	p.order = append(p.order, id)
	for _, f := range main {
		p.handled[f] = true
	}
}

// evaluate brings l.units up to date.
func (l *Loader) evaluate(ctx context.Context, fsys fs.FS, p *packaging) error {
	p.module = moduleName(fsys)
	now := make(map[string]*unitState, len(p.units))
	for _, id := range p.order {
		u := p.units[id]
		p.gather(u)
		hash := p.hash(u)
		if old := l.units[id]; old != nil && old.hash == hash && !due(old.retry) {
			now[id] = old
			continue
		}
		st, err := l.evaluateUnit(ctx, fsys, p, u)
		if err != nil {
			return err
		}
		st.hash = hash
		now[id] = st
	}
	l.units = now
	return nil
}

// moduleName reads the module's path from cue.mod/module.cue.
func moduleName(fsys fs.FS) string {
	data, err := fs.ReadFile(fsys, "cue.mod/module.cue")
	if err != nil || len(data) > 64<<10 {
		return defaultModule
	}
	pf, err := readPlain("cue.mod/module.cue", data)
	if err != nil || pf == nil {
		return defaultModule
	}
	name, _, _ := strings.Cut(pf.root.text("module"), "@")
	return cmp.Or(name, defaultModule)
}

// gather finds the files that a unit is evaluated with.
func (p *packaging) gather(u *unit) {
	dir := path.Dir(u.main[0])
	pkg := p.files[u.main[0]].cue.pkg
	if pkg != "" {
		u.context = p.above(dir, pkg, u.main)
	}
	u.imports = map[string][]string{}
	u.names = slices.Concat(u.main, u.context)
	for _, f := range u.names {
		p.follow(u, f, dir, []string{p.packageID(u.main[0])})
	}
	slices.Sort(u.names)
	for _, f := range u.names {
		if broken := p.brokenBeside(f); broken != "" && u.bad == nil && p.files[f].cue.pkg != "" {
			u.bad = &fault{Pos: schema.Pos{File: u.main[0], Line: 1, Col: 1}, Code: schema.CodeInvalid, Text: sayBroken(broken)}
		}
	}
}

// brokenBeside names a file that a file's package may lack.
func (p *packaging) brokenBeside(file string) string {
	if p.files[file].broken {
		return file
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if hole := p.holes[dir]; hole != "" {
			return hole
		}
		if dir == "." || inLib(file) {
			return ""
		}
	}
}

// above lists the other files of a package in its directory and the ones above.
func (p *packaging) above(dir, pkg string, main []string) []string {
	var list []string
	for {
		for _, f := range p.dirs[dir] {
			st := p.files[f]
			// Plain data has no definitions to give.
			if st.cue.pkg == pkg && (st.cue.computes || st.broken) && !slices.Contains(main, f) {
				list = append(list, f)
			}
		}
		if dir == "." {
			return list
		}
		dir = path.Dir(dir)
	}
}

// follow adds what a file imports, and what that imports. open holds the packages
// on the way here: CUE's builder would run in a circle for ever.
func (p *packaging) follow(u *unit, file, from string, open []string) {
	for _, ref := range p.files[file].cue.imports {
		files, text := p.resolve(ref.Path, from)
		if len(files) > 0 && slices.Contains(open, p.packageID(files[0])) {
			files, text = nil, sayImportCycle(ref.Path)
		}
		if text != "" && u.bad == nil {
			code := schema.CodeInvalid
			if text == sayImportPlace(ref.Path) {
				code = schema.CodeForbiddenPlace
			}
			u.bad = &fault{Pos: ref.Pos, Code: code, Text: text}
		}
		if _, seen := u.imports[ref.Path]; seen || len(files) == 0 {
			continue
		}
		u.imports[ref.Path] = files
		u.names = append(u.names, files...)
		inner := append(slices.Clone(open), p.packageID(files[0]))
		for _, f := range files {
			p.follow(u, f, path.Dir(f), inner)
		}
	}
}

func (p *packaging) packageID(file string) string {
	return path.Dir(file) + ":" + p.files[file].cue.pkg
}

// resolve finds the files of an import; text says why it may not be imported.
// Nothing outside the tree is ever looked for.
func (p *packaging) resolve(importPath, from string) (files []string, text string) {
	name, pkg, _ := strings.Cut(importPath, ":")
	name, _, _ = strings.Cut(name, "@")
	dir, ok := strings.CutPrefix(name, p.module+"/")
	switch {
	case name == p.module:
		dir, ok = ".", true
	case !ok && strings.HasPrefix(name, defaultModule+"/"):
		dir, ok = strings.TrimPrefix(name, defaultModule+"/"), true
	}
	if !ok {
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
			return nil, sayImport(importPath)
		}
		return nil, "" // the standard library's; CUE says so when it is not
	}
	dir = path.Clean(dir)
	inside := dir == "." || dir == from || strings.HasPrefix(from, dir+"/")
	if dir != "lib" && !inLib(dir) && !inside || inLib(from+"/") && !inLib(dir+"/") {
		return nil, sayImportPlace(importPath)
	}
	if pkg == "" {
		pkg = path.Base(dir)
	}
	for _, f := range p.dirs[dir] {
		if p.files[f].cue.pkg == pkg {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, sayNoImport(importPath)
	}
	return files, ""
}

func (p *packaging) hash(u *unit) string {
	parts := []string{p.module, fmt.Sprint(len(u.main), len(u.context))}
	for _, f := range slices.Concat(u.main, u.context, u.names) {
		parts = append(parts, f, p.files[f].hash)
	}
	if u.bad != nil {
		parts = append(parts, u.bad.Error())
	}
	return schema.HashJSON(parts)
}

func (l *Loader) evaluateUnit(ctx context.Context, fsys fs.FS, p *packaging, u *unit) (*unitState, error) {
	st := &unitState{}
	if u.bad != nil {
		st.broken = true
		st.faults = []fault{*u.bad}
		claimUnit(p, u, st)
		return st, nil
	}
	j, bad := l.jobOf(fsys, p, u)
	if bad != nil {
		// It could be read a moment ago: another time, perhaps.
		st.broken, st.faults, st.retry = true, []fault{*bad}, time.Now()
		claimUnit(p, u, st)
		return st, nil
	}
	a, err := l.worker.do(ctx, j)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", u.main[0], err)
	}
	st.faults, st.retry = a.Faults, retryOf(a)
	if a.Tree != nil && a.Tree.Kind != badNode {
		f := &finder{main: u.main, found: &st.found}
		f.findIn(a.Tree, p.files[u.main[0]].cue)
	}
	st.broken = len(st.faults) > 0 && len(st.objects) == 0
	if len(st.faults) > 0 || slices.ContainsFunc(st.objects, func(d *declared) bool { return !d.ok }) {
		claimUnit(p, u, st)
	}
	return st, nil
}

// findIn is find for an evaluated package. Only a package may yield nothing.
func (f *finder) findIn(root *node, cue *cueFile) {
	if root.Kind != structNode || len(root.Fields) > 0 {
		f.find(root)
	}
	if cue.pkg == "" && len(f.found.objects) == 0 && len(f.found.faults) == 0 {
		f.fault(schema.Pos{File: f.main[0], Line: 1, Col: 1}, schema.CodeInvalid, sayEmpty)
	}
}

// claimUnit keeps the keys of a unit that could not be evaluated.
func claimUnit(p *packaging, u *unit, st *unitState) {
	for _, f := range u.main {
		file := p.files[f]
		if file.broken {
			continue // it makes its own claims
		}
		if file.cue.tree != nil {
			st.claims = append(st.claims, claimsIn(file.cue.tree, f, levels)...)
			continue
		}
		for _, d := range file.objects {
			st.claims = append(st.claims, claim{kind: d.kind, name: d.meta.Name, pos: d.pos})
		}
	}
}

// jobOf collects the texts of a unit.
func (l *Loader) jobOf(fsys fs.FS, p *packaging, u *unit) (j job, bad *fault) {
	sources := func(files []string, definitions bool) (list []source) {
		for _, f := range files {
			data, problem := readFile(fsys, p.entries[f], l.opt.MaxFileBytes)
			if problem == nil {
				data, problem = sanitize(f, data)
			}
			if problem != nil {
				bad = problem
			}
			list = append(list, source{Name: f, Text: string(data), Definitions: definitions})
		}
		return list
	}
	j = job{Eval: true, Files: append(sources(u.main, false), sources(u.context, true)...), Imports: map[string][]source{}}
	for name, files := range u.imports {
		j.Imports[name] = sources(files, false)
	}
	return j, bad
}
