package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/schema"
)

// Output is what one worker printed since it was looked at last.
type Output struct {
	Worker, Machine string
	Lines           []string
}

// Logs follow what the workers of a lab print.
type Logs struct {
	at    layout
	files map[string]*logFile // by worker id; nil before the first look
}

// logFile is one attempt's output.
type logFile struct {
	name, worker, machine string
	offset                int64
	done                  bool // nothing more comes
}

// Logs begins to follow the workers. What those printed that have ended by the
// first look is an earlier lab's, and left out.
func (l *Lab) Logs() *Logs { return &Logs{at: l.layout} }

// LogFile is where an attempt's output is, in a lab's directory.
func LogFile(dir string, p schema.Placement, w schema.PlacedWorker) string {
	id := nodeexec.WorkerID(p.RunUID, p.Generation, p.Attempt, w.Name)
	return filepath.Join(layout{dir}.root(w.Machine), stateDir, nodeexec.LogsDir, id+".log")
}

// A worker may print without end and without lines: this much of it is looked at
// at a time.
const (
	maxTail = 64 << 10
	maxLine = 1000
)

// New gives the lines that are new, sorted by worker. Lines that are not whole
// yet wait for their rest, unless their worker has ended.
func (l *Logs) New(placed map[schema.Key]schema.Placement) []Output {
	first := l.files == nil
	if first {
		l.files = map[string]*logFile{}
	}
	running := map[string]bool{}
	for _, p := range placed {
		for _, w := range p.Workers {
			id := nodeexec.WorkerID(p.RunUID, p.Generation, p.Attempt, w.Name)
			if l.files[id] == nil {
				l.files[id] = &logFile{name: LogFile(l.at.dir, p, w), worker: w.Name, machine: w.Machine, done: first && w.Outcome != nil}
			}
			running[id] = w.Outcome == nil
		}
	}
	var all []Output
	for id, f := range l.files {
		if !f.done {
			f.done = !running[id]
			if lines := f.read(f.done); len(lines) > 0 {
				all = append(all, Output{f.worker, f.machine, lines})
			}
		}
		if _, placed := running[id]; !placed {
			delete(l.files, id) // an earlier attempt
		}
	}
	slices.SortFunc(all, func(a, b Output) int { return strings.Compare(a.Worker, b.Worker) })
	return all
}

// LastWords is the last line of a machine's agent, "" when it said nothing.
func (l *Lab) LastWords(machine string) string {
	f := logFile{name: filepath.Join(l.layout.machine(machine), "agent.log")}
	lines := f.read(true)
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// read gives the lines after those that were given. What is too much to be read
// by a person is skipped.
func (f *logFile) read(last bool) []string {
	file, err := os.Open(f.name)
	if err != nil {
		return nil // it has not started, or its machine is gone
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size <= f.offset {
		f.offset = min(f.offset, size) // it was cut off
		return nil
	}
	var lines []string
	if skipped := size - f.offset - maxTail; skipped > 0 {
		lines = append(lines, fmt.Sprintf("… %d bytes are not shown; they are in %s", skipped, f.name))
		f.offset += skipped
	}
	data := make([]byte, size-f.offset)
	n, err := file.ReadAt(data, f.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	text := string(data[:n])
	if end := strings.LastIndexByte(text, '\n') + 1; end < len(text) && !last && len(text) < maxTail {
		text = text[:end]
	}
	f.offset += int64(len(text))
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); len(line) > maxLine {
			line = line[:maxLine] + "…"
		}
		lines = append(lines, line)
	}
	return lines
}
