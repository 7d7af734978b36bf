package nodeexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/renameio/v2/maybe"
)

// stateVersion is in every file of the state directory; readers refuse others.
const stateVersion = 1

// Files of the state directory.
const (
	clusterFile    = "cluster.json"    // the pinned cluster uid
	assignmentFile = "assignment.json" // the last assignment accepted
	failuresFile   = "failures.json"   // what failed and when it is tried again
	usesFile       = "uses.json"       // which worker uses what
	placesFile     = "places.json"     // the filesystem a path was first used on
	evictionsFile  = "evictions.json"  // what was evicted lately, and where eviction goes on (D-71)
	pastFile       = "ended.json"      // workers that ended lately, for a store that was lost
	blobsDir       = "blobs"
)

// LogsDir is the folder of the state directory in which workers' output is, one
// file <WorkerID>.log each.
const LogsDir = "logs"

// disk reads and writes the agent's small files.
type disk struct{ dir string }

type envelope struct {
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// read decodes a file strictly into v; found is false when it is not there. A
// file that cannot be read is never taken for an empty one.
func (d *disk) read(name string, v any) (found bool, err error) {
	body, err := os.ReadFile(filepath.Join(d.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrState, err)
	}
	var e envelope
	if err := strict(body, &e); err != nil {
		return false, fmt.Errorf("%w: %s is damaged: %w", ErrState, name, err)
	}
	if e.Version != stateVersion {
		return false, fmt.Errorf("%w: %s has version %d, this program knows %d", ErrState, name, e.Version, stateVersion)
	}
	if err := strict(e.Data, v); err != nil {
		return false, fmt.Errorf("%w: %s is damaged: %w", ErrState, name, err)
	}
	return true, nil
}

func strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// write replaces a file in one step, synced.
func (d *disk) write(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	body, err := json.Marshal(envelope{Version: stateVersion, Data: data})
	if err != nil {
		return err
	}
	if err := maybe.WriteFile(filepath.Join(d.dir, name), body, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// saver writes snapshots of a value that changes under another lock, so that
// this lock is never held over I/O; an older snapshot never replaces a newer.
type saver struct {
	mu      sync.Mutex
	disk    *disk
	name    string
	written uint64
}

func (s *saver) save(version uint64, snapshot any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version <= s.written {
		return nil // a newer one, which holds this change too, is on disk
	}
	if err := s.disk.write(s.name, snapshot); err != nil {
		return err
	}
	s.written = version
	return nil
}
