package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameAsCUE evaluates a file by CUE and compares it with what readPlain read.
func sameAsCUE(t testing.TB, name string, src []byte, pf *plainFile) {
	var e evaluator
	a := e.do(job{Files: []source{{Name: name, Text: string(src)}}})
	require.Empty(t, a.Faults, "readPlain took what CUE does not parse: %q", src)
	require.Equal(t, a.Package, pf.pkg)
	a = e.do(job{Eval: true, Files: []source{{Name: name, Text: string(src)}}})
	require.Empty(t, a.Faults, "%q", src)
	require.Equal(t, shown(a.Tree), shown(pf.root), "%q", src)
}

// shown is a value without places.
func shown(n *node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d%q", n.Kind, n.Text)
	for _, f := range n.Fields {
		fmt.Fprintf(&b, "{%q:%s}", f.Name, shown(f.Value))
	}
	for _, item := range n.Items {
		fmt.Fprintf(&b, "[%s]", shown(item))
	}
	return b.String()
}

var plainTexts = []string{
	"", "// only a comment", "package x", "package x\n\na: 1", "a: b: c: 1", "a: {b: 1, c: 2,}\n", "a: b: 1\na: c: 2",
	"a: [1, 2,\n3\n4,\n]", "a: [\n\n{b: 1}\n{b: 2}\n]", `"a b": "c\td\u00e9\n"`, "a: -5\nb: 1.5\nc: 10Ki\nd: 5G\ne: 0", "a: true, b: false, c: null",
	"a: \"\"\"\n\tx\n\t  y \\\"\n\n\tz\n\t\"\"\"", "a: // why\n\t{b: 1} // because\n", "a:\n\tb:\n\t\t1", "a: \"\"", "a: \"\"\"\n\"\"\"", "a: {}\nb: []",
	"a: 1\r\nb: 2\r\n", "a: b: {c: 1}, a: b: {d: [{e: 1}]}", "x: \"\\\\\"", "a: \"/* */ // not a comment\"", "len: 1\nstring: \"x\"", "a: -0\nb: -0.5",
}

// What is read as plain data is what CUE makes of it. G-1
func TestPlainIsCUE(t *testing.T) {
	for _, src := range plainTexts {
		pf, err := readPlain("x.cue", []byte(src))
		require.NoError(t, err)
		if pf == nil {
			t.Logf("not plain: %q", src)
			continue
		}
		sameAsCUE(t, "x.cue", []byte(src), pf)
	}
	_, files := corpus(t)
	plain := 0
	for name, text := range files {
		src, bad := sanitize(name, []byte(text))
		if bad != nil || !strings.HasSuffix(name, ".cue") {
			continue
		}
		if pf, err := readPlain(name, src); err == nil && pf != nil {
			plain++
			sameAsCUE(t, name, src, pf)
		}
	}
	require.Greater(t, plain, 50)
}

// What CUE would judge or compute is left to it.
func TestPlainGivesUp(t *testing.T) {
	for _, src := range []string{
		"a: b", "a: 1 + 1", "a: 1 | 2", "a: 1\na: 2", "a: 1\na: 1", "#a: 1", "_a: 1", "a?: 1", "a!: 1", "let x = 1", "import \"x\"", "{a: 1}", "[1]", "a: \"\\(b)\"",
		"a: 'x'", "a: #\"x\"#", "a: 0x10", "a: 1e3", "a: 01", "a: 1 b: 2", "a: [1 2]", "a: {", "a: [", "a: \"", "a: [...]", "a: {...}", "a: 1 @x()", "@x()", "for x in y {}",
		"a: [b: 1]", "x=a: 1", "a: b:: 1", "a:: 1", "(a): 1", "a: *1", "a: >1", "a: 1,,b: 2", ",a: 1", "a: +1", "a: 1.", "a: .5", "a: 5.0G", "a: \"\"\"x\"\"\"", "a: 1 ,\n,b: 2", "a: 1\n, b: 2",
	} {
		pf, err := readPlain("x.cue", []byte(src))
		require.NoError(t, err, src)
		require.Nil(t, pf, src)
	}
}

// FuzzPlain looks for text that readPlain takes and CUE reads otherwise.
func FuzzPlain(f *testing.F) {
	for _, s := range plainTexts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src, bad := sanitize("x.cue", data)
		if bad != nil || len(src) > 2000 {
			return
		}
		if pf, err := readPlain("x.cue", src); err == nil && pf != nil {
			sameAsCUE(t, "x.cue", src, pf)
		}
	})
}
