package lab

import (
	"bytes"
	"errors"
	"io"
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
			text, err := tail(filepath.Join(l.root(w.Machine), stateDir, nodeexec.LogsDir, id+".log"), lines)
			if err != nil {
				continue // it has not started, or its machine is gone
			}
			all = append(all, Output{w.Name, w.Machine, text})
		}
	}
	slices.SortFunc(all, func(a, b Output) int { return strings.Compare(a.Worker, b.Worker) })
	return all
}

// LastWords is the last line of a machine's agent, "" when it said nothing.
func (l *Lab) LastWords(machine string) string {
	lines, err := tail(filepath.Join(l.layout.machine(machine), "agent.log"), 1)
	if err != nil {
		return ""
	}
	return lines[0]
}

// A worker may print without end and without lines: this much of it is looked at.
const (
	maxTail = 64 << 10
	maxLine = 1000
)

// tail gives the last lines of a file, each cut to a length that people read.
func tail(name string, lines int) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(size, maxTail))
	n, err := file.ReadAt(data, size-int64(len(data)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text := strings.Split(string(bytes.TrimRight(data[:n], "\n")), "\n")
	text = text[max(0, len(text)-lines):]
	for i, line := range text {
		if len(line) > maxLine {
			text[i] = line[:maxLine] + "…"
		}
	}
	return text, nil
}
