package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/schema"
)

// Output is what one worker printed last.
type Output struct {
	Worker, Machine string
	Lines           []string
}

// Outputs reads the last lines that the placed workers printed, sorted by worker.
func (l *Lab) Outputs(placed map[schema.Key]schema.Placement, lines int) []Output {
	var all []Output
	for _, placement := range placed {
		for _, w := range placement.Workers {
			id := nodeexec.WorkerID(placement.RunUID, placement.Generation, placement.Attempt, w.Name)
			data, err := os.ReadFile(filepath.Join(l.root(w.Machine), stateDir, nodeexec.LogsDir, id+".log"))
			if err != nil {
				continue // it has not started, or its machine is gone
			}
			text := strings.Split(string(bytes.TrimRight(data, "\n")), "\n")
			all = append(all, Output{w.Name, w.Machine, text[max(0, len(text)-lines):]})
		}
	}
	slices.SortFunc(all, func(a, b Output) int { return strings.Compare(a.Worker, b.Worker) })
	return all
}
