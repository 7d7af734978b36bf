package load

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
	"golang.org/x/sync/errgroup"
)

// Options of a Loader; the zero value is what is normally wanted.
type Options struct {
	// MaxFileBytes is the largest file that is read; 0 is 1 MiB.
	MaxFileBytes int64
	// EvalTimeout bounds the parsing and the evaluation of one file or package
	// that computes; 0 is 2s.
	EvalTimeout time.Duration
	// Isolate makes the command of a child that calls MaybeChild. Nil re-executes
	// this program if it called MaybeChild itself, and otherwise evaluates in this
	// process, where an evaluation that does not end keeps a goroutine.
	Isolate func() (*exec.Cmd, error)
	// Parallel is how many files are read at a time; 0 is the number of CPUs.
	Parallel int
}

// Commit is the commit that a tree belongs to; zero for files in no commit.
type Commit struct {
	ID   string
	Time time.Time
}

// Loader turns trees into desired state and keeps what it read by content, so
// that loading again costs what changed. It is used by one goroutine at a time.
type Loader struct {
	opt    Options
	files  map[string]*fileState
	units  map[string]*unitState
	worker *worker
}

// New makes a Loader. Close it to end its child process.
func New(opt Options) *Loader {
	if opt.MaxFileBytes <= 0 {
		opt.MaxFileBytes = defaultMaxFileBytes
	}
	if opt.EvalTimeout <= 0 {
		opt.EvalTimeout = defaultEvalTimeout
	}
	if opt.Parallel <= 0 {
		opt.Parallel = runtime.GOMAXPROCS(0)
	}
	if opt.Isolate == nil && childReady.Load() {
		opt.Isolate = selfCommand
	}
	return &Loader{
		opt: opt, files: map[string]*fileState{}, units: map[string]*unitState{},
		worker: &worker{command: opt.Isolate, timeout: opt.EvalTimeout},
	}
}

// Close ends the evaluating child, if there is one. The Loader can be used on.
func (l *Loader) Close() { l.worker.stop() }

// fileState is what one file's content says, whatever lies around it.
type fileState struct {
	hash  string
	place filePlace
	found
	broken bool      // a syntax error or unreadable: nothing of it may be relied on
	retry  time.Time // of a file that took too long: when to try again; zero is never
	cue    *cueFile
}

// cueFile is what is known of a CUE file before it is evaluated.
type cueFile struct {
	pkg      string
	imports  []importRef
	computes bool
	// object: the file itself is an object, so it is evaluated by itself and gives
	// only its definitions to others of its package.
	object bool
	// fields: it has fields that become part of its package's value.
	fields bool
	tree   *node // what stands there literally; only of a file that computes
}

// Load turns a tree into desired state. Whatever is wrong with files is in the
// diagnostics; the error is the context's, an unreadable root, or a child that
// cannot be started.
func (l *Loader) Load(ctx context.Context, fsys fs.FS, at Commit) (*schema.Desired, error) {
	list, err := walk(ctx, fsys)
	if err != nil {
		return nil, err
	}
	if err := l.readFiles(ctx, fsys, list.files); err != nil {
		return nil, err
	}
	l.refuseTwins(list.files)
	p := l.packages(list)
	if err := l.evaluate(ctx, fsys, p); err != nil {
		return nil, err
	}
	a := newAssembly(list.problems)
	for _, e := range list.files {
		a.addFile(e.path, l.files[e.path], p.handled[e.path])
	}
	for _, id := range p.order {
		a.addUnit(p.units[id], l.units[id])
	}
	d := a.finish()
	d.Commit, d.Time, d.Guard = at.ID, at.Time, guardOf(fsys)
	return d, nil
}

// guardOf finds the file by which the repository's host asks owners to review.
func guardOf(fsys fs.FS) string {
	for _, name := range []string{"CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS"} {
		if info, err := fs.Stat(fsys, name); err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// refuseTwins makes files whose names some filesystem would take for one broken:
// what they declare stays declared and is not used, alone or in a package.
func (l *Loader) refuseTwins(files []fileEntry) {
	for _, e := range files {
		if e.twin == "" {
			continue
		}
		st := *l.files[e.path]
		st.hash, st.broken = "", true
		st.faults = append(slices.Clone(st.faults), fault{Pos: schema.Pos{File: printable(e.path)}, Code: schema.CodeUnreadable, Text: e.twin})
		st.claims = slices.Clone(st.claims)
		for _, d := range st.objects {
			st.claims = append(st.claims, d.claim())
		}
		if st.cue != nil {
			st.claims = append(st.claims, claimsIn(st.cue.tree, e.path, levels)...)
		}
		st.objects = nil
		l.files[e.path] = &st
	}
}

// readFiles brings l.files up to date with the tree.
func (l *Loader) readFiles(ctx context.Context, fsys fs.FS, files []fileEntry) error {
	hashes, _ := fsys.(HashFS)
	now := make(map[string]*fileState, len(files))
	states := make([]*fileState, len(files))
	texts := make([][]byte, len(files)) // of files that the child must look at
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(l.opt.Parallel)
	for start := 0; start < len(files); start += 256 {
		g.Go(func() error {
			for i := start; i < min(start+256, len(files)); i++ {
				if err := gctx.Err(); err != nil {
					return err
				}
				states[i], texts[i] = l.readOne(fsys, hashes, files[i])
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, e := range files {
		if texts[i] != nil {
			if err := l.lookAt(ctx, e.path, states[i], texts[i]); err != nil {
				return err
			}
		}
		now[e.path] = states[i]
	}
	l.files = now
	return nil
}

// readOne reads one file, or finds it read already. A text is given back when
// only the child can tell what is in it.
func (l *Loader) readOne(fsys fs.FS, hashes HashFS, e fileEntry) (*fileState, []byte) {
	old := l.files[e.path]
	var hash string
	if hashes != nil {
		if h, ok := hashes.Hash(e.path); ok {
			if hash = "fs:" + h; old != nil && old.hash == hash && !due(old.retry) {
				return old, nil
			}
		}
	}
	data, bad := readFile(fsys, e, l.opt.MaxFileBytes)
	if bad != nil {
		// No hash: it is tried again at the next load.
		return &fileState{place: placeOf(e.path), broken: true, found: found{faults: []fault{*bad}}}, nil
	}
	if hash == "" {
		if hash = schema.HashBytes(data); old != nil && old.hash == hash && !due(old.retry) {
			return old, nil
		}
	}
	st := &fileState{hash: hash, place: placeOf(e.path)}
	return st, st.parse(e.path, data)
}

// retryAfter is how long an evaluation that was given up stays so, without a
// change of its files: long enough not to pay for it at every load.
const retryAfter = time.Minute

func retryOf(a answer) (at time.Time) {
	if a.gaveUp {
		at = time.Now().Add(retryAfter)
	}
	return at
}

func due(retry time.Time) bool { return !retry.IsZero() && time.Now().After(retry) }

// parse reads what needs no evaluation.
func (st *fileState) parse(file string, data []byte) []byte {
	src, bad := sanitize(file, data)
	if bad != nil {
		st.breakOff(file, data, bad)
		return nil
	}
	var roots []*node
	var err error
	switch path.Ext(file) {
	case ".cue":
		var pf *plainFile
		if pf, err = readPlain(file, src); err == nil && pf == nil {
			return src
		}
		if pf != nil {
			st.cue = &cueFile{pkg: pf.pkg, fields: len(pf.root.Fields) > 0}
			roots = []*node{pf.root}
		}
	case ".json":
		if len(strings.TrimSpace(string(src))) > 0 {
			roots, err = readJSON(file, src)
		}
	default:
		roots, err = readYAML(file, src)
	}
	if err != nil {
		bad, ok := err.(*fault)
		if !ok {
			bad = &fault{Pos: schema.Pos{File: file, Line: 1, Col: 1}, Code: schema.CodeSyntax, Text: err.Error()}
		}
		st.breakOff(file, src, bad)
		return nil
	}
	st.take(file, roots)
	return nil
}

// take finds the objects in the values of a file.
func (st *fileState) take(file string, roots []*node) {
	f := &finder{main: []string{file}, found: &st.found}
	for _, root := range roots {
		if st.cue != nil {
			st.cue.object = f.isObject(root) || f.isBody(root)
			if len(root.Fields) == 0 {
				continue
			}
		}
		f.find(root)
	}
	if len(st.objects) == 0 && len(st.faults) == 0 && (st.cue == nil || st.cue.pkg == "") {
		st.faults = append(st.faults, fault{Pos: schema.Pos{File: file, Line: 1, Col: 1}, Code: schema.CodeInvalid, Text: sayEmpty})
	}
}

func (st *fileState) breakOff(file string, src []byte, bad *fault) {
	st.broken = true
	st.faults = append(st.faults, *bad)
	st.claims = claimsInText(src, file)
	if path.Ext(file) == ".cue" && st.cue == nil {
		st.cue = &cueFile{pkg: packageText(src)}
	}
}

// packageText finds the package clause of a file that no parser takes.
func packageText(src []byte) string {
	for line := range strings.Lines(string(src[:min(len(src), 4096)])) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "package "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// lookAt has the child parse a CUE file that computes.
func (l *Loader) lookAt(ctx context.Context, file string, st *fileState, src []byte) error {
	a, err := l.worker.do(ctx, job{Files: []source{{Name: file, Text: string(src)}}})
	if err != nil {
		return fmt.Errorf("look at %s: %w", file, err)
	}
	st.cue = &cueFile{pkg: a.Package, imports: a.Imports, computes: true, fields: a.HasFields, tree: a.Tree}
	st.cue.object = a.Tree != nil && (a.Tree.has("kind") || a.Tree.has("metadata") || a.Tree.has("spec"))
	st.retry = retryOf(a)
	if len(a.Faults) > 0 {
		st.broken = true
		st.faults = a.Faults
		if st.claims = claimsIn(a.Tree, file, levels); !slices.ContainsFunc(st.claims, func(c claim) bool { return c.name != "" }) {
			st.claims = claimsInText(src, file)
		}
		if st.cue.pkg == "" {
			st.cue.pkg = packageText(src)
		}
	}
	return nil
}
