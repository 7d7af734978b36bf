package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const maxLines = 500

func eachGoFile(t *testing.T, visit func(path string, src []byte)) {
	t.Helper()
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel), src)
		}
		return nil
	})
	require.NoError(t, err)
}

func TestFilesStayReadable(t *testing.T) {
	eachGoFile(t, func(path string, src []byte) {
		if lines := strings.Count(string(src), "\n"); lines > maxLines && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %d lines, more than %d", path, lines, maxLines)
		}
	})
}

// The planner is pure: no clock, disk, network or randomness, and no goroutine but
// those of planner/parallel.go, which end before it returns.
func TestPlannerIsPure(t *testing.T) {
	forbidden := []string{"os", "net", "io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "os/exec", "log", "log/slog", "sync", "sync/atomic", "runtime", "context", "syscall"}
	seen := 0
	eachGoFile(t, func(path string, src []byte) {
		if !strings.HasPrefix(path, "planner/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		seen++
		file, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			for _, name := range forbidden {
				concurrent := name == "sync" || name == "sync/atomic" || name == "runtime"
				if strings.Trim(imported.Path.Value, `"`) == name && !(concurrent && path == "planner/parallel.go") {
					t.Errorf("%s imports %s", path, name)
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", path)
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "Until") {
					t.Errorf("%s reads the clock", path)
				}
			}
			return true
		})
	})
	require.NotZero(t, seen)
}
