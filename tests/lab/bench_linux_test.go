package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// From the write of a run's file to the first thing that its worker does: the
// change is noticed, recorded, loaded, planned, decided, assigned, sent, and the
// step that starts the worker was begun before. The aim is 300 ms at the median.
func BenchmarkChangeToStep(b *testing.B) {
	needsNamespaces(b)
	at := home(b)
	repo := example(b, at)
	r := start(b, at, repo)
	r.settled()
	scratch := r.host("gpu-01", "/scratch/astraeus")
	watcher, err := fsnotify.NewWatcher()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, watcher.Close()) })
	require.NoError(b, watcher.Add(scratch))
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("bench-%d", i)
		file := filepath.Join(repo, "orgs/acme/workspaces/research/runs", name+".cue")
		text := fmt.Sprintf(oneShot, name, "echo > /scratch/"+name, "scratch")
		begin := time.Now()
		require.NoError(b, os.WriteFile(file, []byte(text), 0o644))
		for wanted := filepath.Join(scratch, name); ; {
			select {
			case event := <-watcher.Events:
				if event.Name != wanted {
					continue
				}
			case err := <-watcher.Errors:
				b.Fatal(err)
			case <-time.After(patience):
				b.Fatalf("%s did not start\n%s", name, r.text())
			}
			break
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}
