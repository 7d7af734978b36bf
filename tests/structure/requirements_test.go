package structure

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the test column of docs/requirements.md anew")

const requirementsFile = "../../docs/requirements.md"

// ids are all ids of the specification.
var ids = func() []string {
	var all []string
	add := func(letter string, ranges ...[2]int) {
		for _, r := range ranges {
			for n := r[0]; n <= r[1]; n++ {
				all = append(all, fmt.Sprintf("%s-%d", letter, n))
			}
		}
	}
	add("G", [2]int{1, 12})
	add("D", [2]int{1, 9}, [2]int{20, 21}, [2]int{30, 33}, [2]int{40, 43}, [2]int{50, 61}, [2]int{70, 71}, [2]int{80, 83}, [2]int{90, 93})
	add("N", [2]int{1, 9})
	add("V", [2]int{1, 11})
	add("R", [2]int{1, 2})
	add("X", [2]int{1, 40})
	return all
}()

var (
	idPattern    = regexp.MustCompile(`\b[GDNVRX]-[0-9]+\b`)
	rangePattern = regexp.MustCompile(`\b([GDNVRX])-([0-9]+)\.\.(?:[GDNVRX]-)?([0-9]+)\b`)
	rowPattern   = regexp.MustCompile(`^\| ([GDNVRX]-[0-9]+) \| ([^|]*) \| ([^|]*) \| (.*) \|$`)
)

// namedIDs are the ids that a comment names; "D-50..D-57" names all between.
func namedIDs(text string) []string {
	found := idPattern.FindAllString(text, -1)
	for _, m := range rangePattern.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		for n := from; n <= to; n++ {
			found = append(found, m[1]+"-"+strconv.Itoa(n))
		}
	}
	return found
}

// proofs maps each id to the tests that name it: in the comment above a test, in
// a comment inside it, or in the name of a scenario file beside it.
func proofs(t *testing.T) map[string][]string {
	proofs := map[string][]string{}
	note := func(id, test string) {
		if slices.Contains(ids, id) && !slices.Contains(proofs[id], test) {
			proofs[id] = append(proofs[id], test)
		}
	}
	eachGoFile(t, func(file string, src []byte) {
		if !strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tests/structure/requirements") {
			return
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, src, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !regexp.MustCompile(`^(Test|Fuzz|Benchmark)`).MatchString(fn.Name.Name) {
				continue
			}
			start := fn.Pos()
			if fn.Doc != nil {
				start = fn.Doc.Pos()
			}
			for _, group := range parsed.Comments {
				if group.Pos() >= start && group.End() <= fn.End() {
					for _, id := range namedIDs(group.Text()) {
						note(id, path.Dir(file)+"."+fn.Name.Name)
					}
				}
			}
		}
	})
	scenarios(t, note)
	for id := range proofs {
		slices.Sort(proofs[id])
	}
	return proofs
}

func scenarios(t *testing.T, note func(id, test string)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(file, "testdata") || path.Ext(file) != ".txtar" && path.Ext(file) != ".txt" {
			return err
		}
		rel, err := filepath.Rel("../..", file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		head, _, _ := strings.Cut(string(data), "\n-- ")
		for _, id := range namedIDs(filepath.Base(file) + "\n" + head) {
			note(id, filepath.ToSlash(rel))
		}
		return nil
	})
	require.NoError(t, err)
}

// docs/requirements.md maps every id of the specification to the tests that
// prove it, so that a missing row is visible.
func TestRequirementsAreMapped(t *testing.T) {
	proofs := proofs(t)
	data, err := os.ReadFile(requirementsFile)
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	seen := map[string]bool{}
	for i, line := range lines {
		row := rowPattern.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		id, what, state := row[1], strings.TrimSpace(row[2]), strings.TrimSpace(row[3])
		seen[id] = true
		tests := cmp.Or(strings.Join(proofs[id], "<br>"), "-")
		want := fmt.Sprintf("| %s | %s | %s | %s |", id, what, state, tests)
		if state != "not yet" && len(proofs[id]) == 0 {
			t.Errorf("%s is marked %q and no test names it", id, state)
		}
		if *update {
			lines[i] = want
		} else if line != want {
			t.Errorf("the row of %s is not up to date; go test ./tests/structure -run Requirements -update", id)
		}
	}
	for _, id := range ids {
		if !seen[id] {
			t.Errorf("docs/requirements.md has no row for %s", id)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(requirementsFile, []byte(strings.Join(lines, "\n")), 0o644))
	}
}
