package gitsource

import (
	"bytes"
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// node is one directory, checked and immutable. A later snapshot shares the nodes that did not change.
type node struct {
	hash     plumbing.Hash // of the git tree; zero for a directory as it lies
	entries  []*entry      // what is served, by name
	bad      []badEntry    // what is not
	problems int           // here and below
	files    int           // served files here and below
	total    int           // all entries here and below
	depth    int           // of the deepest directory below, this one counted
}

// entry is a served file or directory.
type entry struct {
	name string
	dir  *node // nil for a file
	exec bool
	hash plumbing.Hash // of the blob or tree; zero for a directory as it lies
	size atomic.Int64  // bytes of a file, -1 when not known yet
	lies *lieBlob      // directories as they lie only
}

// badEntry is an entry that is not served.
type badEntry struct {
	name    string
	code    Code
	message string
	hash    plumbing.Hash
}

func (n *node) find(name string) *entry {
	i := sort.Search(len(n.entries), func(i int) bool { return n.entries[i].name >= name })
	if i < len(n.entries) && n.entries[i].name == name {
		return n.entries[i]
	}
	return nil
}

// walk finds the entry at a valid fs path other than ".".
func (n *node) walk(path string) *entry {
	for {
		name, rest, more := cutPath(path)
		e := n.find(name)
		if e == nil || !more {
			return e
		}
		if e.dir == nil {
			return nil
		}
		n, path = e.dir, rest
	}
}

func cutPath(path string) (first, rest string, more bool) {
	for i := 0; i < len(path); i++ {
		if path[i] == '/' {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

func joinPath(dir, name string) string {
	if dir == "" || dir == "." {
		return name
	}
	return dir + "/" + name
}

// collect appends the problems of n and below.
func (n *node) collect(dir string, out []Problem) []Problem {
	if n.problems == 0 {
		return out
	}
	at := dir
	if at == "" {
		at = "."
	}
	for _, b := range n.bad {
		out = append(out, Problem{Path: joinPath(dir, printable(b.name)), Dir: at, Code: b.code, Message: b.message})
	}
	for _, e := range n.entries {
		if e.dir != nil {
			out = e.dir.collect(joinPath(dir, e.name), out)
		}
	}
	return out
}

// seal checks the names of a directory, moves what must not be served to bad and counts.
func (n *node) seal() {
	n.rejectNames()
	n.rejectTwins()
	sort.Slice(n.entries, func(i, j int) bool { return n.entries[i].name < n.entries[j].name })
	sort.Slice(n.bad, func(i, j int) bool { return n.bad[i].name < n.bad[j].name })
	n.depth = 1
	n.problems = len(n.bad)
	n.total = len(n.bad) + len(n.entries)
	for _, e := range n.entries {
		if e.dir == nil {
			n.files++
			continue
		}
		n.problems += e.dir.problems
		n.files += e.dir.files
		n.total += e.dir.total
		n.depth = max(n.depth, e.dir.depth+1)
	}
}

func (n *node) reject(e *entry, code Code, message string) {
	n.bad = append(n.bad, badEntry{name: e.name, code: code, message: message, hash: e.hash})
}

func (n *node) rejectNames() {
	kept := n.entries[:0]
	for _, e := range n.entries {
		if why := nameProblem(e.name); why != "" {
			n.reject(e, CodeUnsafeName, why)
			continue
		}
		if e.dir != nil && e.dir.depth >= maxDepth {
			n.reject(e, CodeTooDeep, "directories are nested more than "+strconv.Itoa(maxDepth)+" deep")
			continue
		}
		kept = append(kept, e)
	}
	n.entries = kept
}

// rejectTwins serves neither of two names that some filesystem takes for one: which of them another reader of the
// repository sees is chance. Links and submodules count as names too.
func (n *node) rejectTwins() {
	firsts := make(map[string]string, len(n.entries)+len(n.bad))
	var twins map[string]bool
	note := func(name string) {
		key := foldKey(name)
		if _, ok := firsts[key]; ok {
			if twins == nil {
				twins = map[string]bool{}
			}
			twins[key] = true
			return
		}
		firsts[key] = name
	}
	for _, e := range n.entries {
		note(e.name)
	}
	for _, b := range n.bad {
		if b.code != CodeUnsafeName {
			note(b.name)
		}
	}
	if twins == nil {
		return
	}
	names := map[string][]string{}
	for _, e := range n.entries {
		if key := foldKey(e.name); twins[key] {
			names[key] = append(names[key], e.name)
		}
	}
	for _, b := range n.bad {
		if key := foldKey(b.name); twins[key] && b.code != CodeUnsafeName {
			names[key] = append(names[key], b.name)
		}
	}
	kept := n.entries[:0]
	for _, e := range n.entries {
		others, ok := names[foldKey(e.name)]
		if !ok {
			kept = append(kept, e)
			continue
		}
		code, message := describeTwin(e.name, others)
		n.reject(e, code, message)
	}
	n.entries = kept
}

func describeTwin(name string, all []string) (Code, string) {
	same := 0
	for _, other := range all {
		if other == name {
			same++
			continue
		}
		if code := twinCode(name, other); code == CodeUnicodeTwin {
			return code, "it has the same Unicode normal form as " + strconv.QuoteToASCII(other) + "; neither is read"
		}
	}
	if same > 1 {
		return CodeDuplicate, "the directory lists it " + strconv.Itoa(same) + " times; none is read"
	}
	for _, other := range all {
		if other != name {
			return CodeCaseTwin, "it differs from " + strconv.QuoteToASCII(other) + " in case only; neither is read"
		}
	}
	return CodeDuplicate, "the directory lists it twice; neither is read"
}

// Modes of tree entries, in git's octal.
const (
	modeDir     = 0o040000
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
	modeType    = 0o170000
)

type rawEntry struct {
	mode uint32
	name string
	hash plumbing.Hash
}

// parseTree reads a git tree object. Its names are checked by nobody before us.
func parseTree(data []byte, each func(rawEntry)) error {
	text := string(data) // one allocation for all names
	for at := 0; at < len(data); {
		space := bytes.IndexByte(data[at:], ' ')
		if space < 1 || space > 7 {
			return fail(ErrCorrupt, "a tree has a malformed mode")
		}
		mode, err := strconv.ParseUint(text[at:at+space], 8, 32)
		if err != nil {
			return fail(ErrCorrupt, "a tree has a malformed mode")
		}
		at += space + 1
		nul := bytes.IndexByte(data[at:], 0)
		if nul < 0 || at+nul+1+20 > len(data) {
			return fail(ErrCorrupt, "a tree ends in the middle of an entry")
		}
		e := rawEntry{mode: uint32(mode), name: text[at : at+nul]}
		at += nul + 1
		copy(e.hash[:], data[at:at+20])
		at += 20
		each(e)
	}
	return nil
}
