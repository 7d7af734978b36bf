package structure

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "astraeus.io/astraeus/"

// mayImport is the import table of docs/design.md: a folder's packages may
// import packages of the named folders, and of their own.
var mayImport = map[string][]string{
	"schema":                    {},
	"schema/load":               {"schema"},
	"schema/link":               {"schema"},
	"schema/access":             {"schema"},
	"planner":                   {"schema", "schema/access"},
	"gitsource":                 {},
	"dnszone":                   {"schema"},
	"reconciler":                {"schema", "schema/link", "schema/access", "planner", "gitsource", "dnszone"},
	"nodeexec":                  {"schema", "schema/link", "planner", "dnszone"},
	"statusapi":                 {"schema", "schema/access", "planner", "reconciler/store"},
	"cmd/astraeus":              {"*"},
	"cmd/astraeus-agent-drives": {"nodeexec", "schema", "schema/link"},
	"tests":                     {"*"},
}

// knownOnlyTo names the one place (folder) that may import a big dependency directly.
var knownOnlyTo = map[string][]string{
	"go.etcd.io/etcd":          {"reconciler/store"},
	"cuelang.org/go":           {"schema/load"},
	"github.com/go-git/go-git": {"gitsource"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	GoFiles    []string
	Dir        string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Imports,Deps,GoFiles,Dir", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
}

// room is the row of the table that a package belongs to: its longest prefix.
func room(path string) string {
	best := ""
	for row := range mayImport {
		if (path == row || strings.HasPrefix(path, row+"/")) && len(row) > len(best) {
			best = row
		}
	}
	return best
}

func ours(path string) (string, bool) { return strings.CutPrefix(path, module) }

// The import table of docs/design.md.
func TestImportsFollowTheTable(t *testing.T) {
	pkgs := list(t)
	require.NotEmpty(t, pkgs)
	for _, p := range pkgs {
		path, _ := ours(p.ImportPath)
		row := room(path)
		if !assertRow(t, path, row) {
			continue
		}
		for _, imported := range p.Imports {
			target, mine := ours(imported)
			if !mine || room(target) == row && row != "schema" {
				continue
			}
			allowed := mayImport[row]
			if !slices.Contains(allowed, "*") && !slices.Contains(allowed, room(target)) && !slices.Contains(allowed, target) {
				t.Errorf("%s imports %s; the table lets %s import %v only", path, target, row, allowed)
			}
		}
	}
}

func assertRow(t *testing.T, path, row string) bool {
	t.Helper()
	if row == "" {
		t.Errorf("%s is in no row of the import table", path)
	}
	return row != ""
}

func TestBigDependenciesAreKnownInOnePlace(t *testing.T) {
	for _, p := range list(t) {
		path, _ := ours(p.ImportPath)
		for dep, places := range knownOnlyTo {
			for _, imported := range p.Imports {
				if strings.HasPrefix(imported, dep) &&
					!slices.ContainsFunc(places, func(place string) bool { return path == place || strings.HasPrefix(path, place+"/") }) {
					t.Errorf("%s imports %s, which only %v may know", path, imported, places)
				}
			}
		}
	}
}

// What is linked into a package, directly or not, and must not be.
func TestLeanPackagesStayLean(t *testing.T) {
	never := map[string][]string{
		"schema":                    {"cuelang.org/go", "google.golang.org/grpc", "go.etcd.io", "github.com/go-git"},
		"planner":                   {"cuelang.org/go", "google.golang.org/grpc", "go.etcd.io", "github.com/go-git"},
		"nodeexec":                  {"cuelang.org/go", "go.etcd.io", "github.com/go-git"},
		"cmd/astraeus-agent-drives": {"cuelang.org/go", "go.etcd.io", "github.com/go-git"},
	}
	for _, p := range list(t) {
		path, _ := ours(p.ImportPath)
		for _, unwanted := range never[room(path)] {
			for _, dep := range p.Deps {
				if strings.HasPrefix(dep, unwanted) {
					t.Errorf("%s links %s", path, dep)
					break
				}
			}
		}
	}
}
