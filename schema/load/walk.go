package load

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"astraeus.io/astraeus/schema"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// HashFS is an fs.FS that knows a file's content by a hash without reading it.
// The hash is compared with earlier ones of the same path only.
type HashFS interface {
	Hash(path string) (hash string, ok bool)
}

// ProblemFS is an fs.FS that knows entries which it does not serve (symlinks,
// submodules, unsafe names). Each becomes a diagnostic and makes its scope not whole.
type ProblemFS interface {
	Problems(yield func(path, code, message string))
}

// listing is what lies in the tree, in the order of paths.
type listing struct {
	files    []fileEntry
	problems []problem
}

type fileEntry struct {
	path  string
	entry fs.DirEntry
	twin  string // what is wrong with its name beside another's, "" for nothing
}

// problem is a diagnostic with the scope that it makes not whole.
type problem struct {
	scope string
	schema.Diagnostic
}

func entryProblem(scope string, pos schema.Pos, text string) problem {
	return problem{scope, schema.Diagnostic{
		Pos: pos, Severity: schema.SeverityError, Code: schema.CodeUnreadable,
		Status: schema.CodeUnreadable.Status(), Message: text,
	}}
}

// walk lists the tree. Only an unreadable root is an error (G-5: an error is
// never an empty tree).
func walk(ctx context.Context, fsys fs.FS) (*listing, error) {
	l := &listing{}
	if p, ok := fsys.(ProblemFS); ok {
		p.Problems(func(file, code, message string) {
			text := message
			if code != "" {
				text = fmt.Sprintf("%s (%s)", message, code)
			}
			l.problems = append(l.problems, entryProblem(scopeOfDir(file), schema.Pos{File: printable(file)}, text))
		})
	}
	root, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read the repository's top: %w", err)
	}
	return l, l.dir(ctx, fsys, ".", root)
}

func (l *listing) dir(ctx context.Context, fsys fs.FS, dir string, entries []fs.DirEntry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	twins := findTwins(entries)
	for _, e := range entries {
		if skipped(dir, e.Name()) {
			continue
		}
		if err := l.entry(ctx, fsys, dir, e, twins[e.Name()]); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) entry(ctx context.Context, fsys fs.FS, dir string, e fs.DirEntry, twin string) error {
	file := path.Join(dir, e.Name())
	ours := isFile(e.Name()) || file == "orgs" || file == "lib" || strings.HasPrefix(file, "orgs/")
	refuse := func(text string) {
		if ours {
			l.problems = append(l.problems, entryProblem(scopeOfEntry(file, e), schema.Pos{File: printable(file)}, text))
		}
	}
	switch {
	case badName(e.Name()):
		ours = true
		refuse(sayControlName)
	case e.Type()&fs.ModeSymlink != 0:
		refuse(saySymlink)
	case e.IsDir():
		if twin != "" {
			ours = true
			refuse(twin)
			return nil
		}
		entries, err := fs.ReadDir(fsys, file)
		if err != nil {
			ours = true
			refuse(sayUnreadable(err))
			return nil
		}
		return l.dir(ctx, fsys, file, entries)
	case !isFile(e.Name()):
	case !e.Type().IsRegular():
		refuse(sayIrregular)
	default:
		l.files = append(l.files, fileEntry{path: file, entry: e, twin: twin})
	}
	return nil
}

// scopeOfEntry is the scope that an entry belongs to; what is no regular file
// may stand for a directory.
func scopeOfEntry(file string, e fs.DirEntry) string {
	if e.Type().IsRegular() {
		return scopeOfDir(path.Dir(file))
	}
	return scopeOfDir(file)
}

func badName(name string) bool {
	return !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl)
}

// printable makes a path safe to show.
func printable(file string) string {
	if !badName(file) {
		return file
	}
	quoted := fmt.Sprintf("%+q", file)
	return quoted[1 : len(quoted)-1]
}

// findTwins finds names that some filesystem would take for one: differing in
// case only, or in Unicode form only. Both of such a pair are refused.
func findTwins(entries []fs.DirEntry) map[string]string {
	var twins map[string]string
	folded := make(map[string]string, len(entries))
	for _, e := range entries {
		name := e.Name()
		form := name
		if !plainLower(name) {
			form = cases.Fold().String(norm.NFC.String(name))
		}
		other, ok := folded[form]
		if !ok {
			folded[form] = name
			continue
		}
		if twins == nil {
			twins = map[string]string{}
		}
		text := sayTwin
		if norm.NFC.String(name) == norm.NFC.String(other) {
			text = sayFormTwin
		}
		twins[name] = sayTwinOf(text, printable(other))
		if twins[other] == "" {
			twins[other] = sayTwinOf(text, printable(name))
		}
	}
	return twins
}

func plainLower(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return true
}

// readFile reads a file of at most limit bytes; a larger one is not read.
func readFile(fsys fs.FS, e fileEntry, limit int64) ([]byte, *fault) {
	bad := func(text string) ([]byte, *fault) {
		return nil, &fault{Pos: schema.Pos{File: e.path, Line: 1, Col: 1}, Code: schema.CodeUnreadable, Text: text}
	}
	info, err := e.entry.Info()
	if err != nil {
		return bad(sayUnreadable(err))
	}
	if info.Size() > limit {
		return bad(sayTooBig(info.Size(), limit))
	}
	f, err := fsys.Open(e.path)
	if err != nil {
		return bad(sayUnreadable(err))
	}
	defer f.Close()
	data := make([]byte, 0, info.Size()+1)
	for int64(len(data)) <= limit {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return bad(sayUnreadable(err))
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data)+512)
		}
	}
	return bad(sayTooBig(int64(len(data)), limit))
}
