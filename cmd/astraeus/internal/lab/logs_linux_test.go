package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// printed writes a worker's output where its machine keeps it.
func printed(t *testing.T, dir string, p schema.Placement, i int, text string) {
	t.Helper()
	file := LogFile(dir, p, p.Workers[i])
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = out.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

// What workers print is shown as it comes, once, with the last words of those
// that ended or were started again. X-38
func TestLogsComeOnce(t *testing.T) {
	dir := t.TempDir()
	logs := (&Lab{layout: layout{dir}}).Logs()
	run := schema.Key{Kind: schema.KindRun, Namespace: "ws-1", Name: "train"}
	p := schema.Placement{Run: run, RunUID: "r", Workers: []schema.PlacedWorker{{Name: "train-0", Machine: "m1"}, {Name: "train-1", Machine: "m2"}}}
	look := func() (lines []string) {
		for _, o := range logs.New(map[schema.Key]schema.Placement{run: p}) {
			for _, line := range o.Lines {
				lines = append(lines, o.Worker+" "+line)
			}
		}
		return lines
	}
	p.Workers[1].Outcome = &schema.Outcome{State: schema.WorkerSucceeded}
	printed(t, dir, p, 1, "long ago\n")
	require.Empty(t, look(), "what ended before is an earlier lab's")
	printed(t, dir, p, 0, "one\ntw")
	require.Equal(t, []string{"train-0 one"}, look())
	printed(t, dir, p, 0, "o\nthree")
	require.Equal(t, []string{"train-0 two"}, look())
	require.Empty(t, look())
	before := p
	p.Attempt, p.Workers = 1, []schema.PlacedWorker{{Name: "train-0", Machine: "m1"}, {Name: "train-1", Machine: "m2"}}
	printed(t, dir, before, 0, " and out")
	printed(t, dir, p, 1, "again\n")
	require.Equal(t, []string{"train-0 three and out", "train-1 again"}, look())
	p.Workers[0].Outcome = &schema.Outcome{State: schema.WorkerFailed}
	printed(t, dir, p, 0, "no newline")
	require.Equal(t, []string{"train-0 no newline"}, look())
	require.Empty(t, look())
}

// What a worker prints does not fill the screen or the memory, however much it is. X-38
func TestLogsAreBounded(t *testing.T) {
	f := logFile{name: filepath.Join(t.TempDir(), "log")}
	require.NoError(t, os.WriteFile(f.name, []byte(strings.Repeat("x", 1<<20)+"\nend\n"), 0o600))
	lines := f.read(false)
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "bytes are not shown; they are in "+f.name)
	require.Equal(t, strings.Repeat("x", maxLine)+"…", lines[1])
	require.Equal(t, "end", lines[2])
	require.NoError(t, os.Truncate(f.name, 0))
	require.Empty(t, f.read(false))
	require.NoError(t, os.WriteFile(f.name, []byte("anew\n"), 0o600))
	require.Equal(t, []string{"anew"}, f.read(false))
}
