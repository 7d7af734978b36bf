package dnszone

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"

	"astraeus.io/astraeus/schema"
)

// zoneFile holds the last zone: a complete update, then a line for each delta. A
// line that was cut off by a crash, or does not follow, ends it.
const zoneFile = "zone.jsonl"

// compactAt is how many bytes of deltas are appended at least before the file is
// written anew.
const compactAt = 1 << 20

// Keeper is a machine's zone and its file, so that a machine answers from the last
// zone after a restart without the control plane (N-3). Not for concurrent use; the
// tables that it gives are.
type Keeper struct {
	dir      string
	table    *Table
	file     *os.File // open for appending; nil when the file must be written anew
	base     int64    // bytes of the complete update
	appended int64
}

// OpenKeeper reads the last zone from a directory, which is made if missing. What
// cannot be read is told by problem and is like none: the machine asks for the zone.
func OpenKeeper(dir string) (k *Keeper, problem error) {
	k = &Keeper{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return k, fmt.Errorf("the zone's directory: %w", err)
	}
	problem = k.load()
	if errors.Is(problem, fs.ErrNotExist) {
		problem = nil
	}
	return k, problem
}

// load reads the file as far as it is whole.
func (k *Keeper) load() error {
	file, err := os.Open(filepath.Join(k.dir, zoneFile))
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<16)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // without its end a line was cut off
		}
		if err != nil {
			return err
		}
		u := new(schema.ZoneUpdate)
		strict := json.NewDecoder(bytes.NewReader(line))
		strict.DisallowUnknownFields()
		if err := strict.Decode(u); err != nil {
			return fmt.Errorf("%s line %d: %w", file.Name(), n, err)
		}
		next, err := k.table.Apply(u)
		if err != nil {
			return fmt.Errorf("%s line %d: %w", file.Name(), n, err)
		}
		k.table = next
	}
}

// Table is the zone as it is now, nil before the first.
func (k *Keeper) Table() *Table { return k.table }

// Have is what to tell the controller when a stream opens.
func (k *Keeper) Have() schema.ZoneHave { return k.table.Have() }

// Apply takes an update in and returns the new table, to be given to the server
// before Save. On ErrGap the machine asks for the whole zone; ErrOld is dropped.
func (k *Keeper) Apply(u *schema.ZoneUpdate) (*Table, error) {
	next, err := k.table.Apply(u)
	if err != nil {
		return nil, err
	}
	k.table = next
	return next, nil
}

// Save writes down what an applied update changed: a line, or the whole zone after
// a complete one or when the deltas have outgrown it. An error leaves the machine
// answering; the next Save writes the whole zone.
func (k *Keeper) Save(u *schema.ZoneUpdate) error {
	if k.file == nil || u.From == (schema.ZoneVersion{}) || k.appended > max(compactAt, k.base) {
		return k.rewrite()
	}
	line, err := json.Marshal(u)
	if err != nil {
		return err
	}
	n, err := k.file.Write(append(line, '\n'))
	k.appended += int64(n)
	if err != nil {
		k.closeFile()
		return fmt.Errorf("keep the zone: %w", err)
	}
	return nil
}

func (k *Keeper) rewrite() error {
	k.closeFile()
	data, err := json.Marshal(k.table.Complete())
	if err != nil {
		return err
	}
	path := filepath.Join(k.dir, zoneFile)
	if err := maybe.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the zone: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep the zone: %w", err)
	}
	k.file, k.base, k.appended = file, int64(len(data)), 0
	return nil
}

func (k *Keeper) closeFile() {
	if k.file != nil {
		_ = k.file.Close()
		k.file = nil
	}
}

// Close closes the file.
func (k *Keeper) Close() { k.closeFile() }
