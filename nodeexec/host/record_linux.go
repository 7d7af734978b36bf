package host

import (
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sys/unix"
)

// memory is the record in the state directory, read once and written when it
// changes. Guarded by Copies.mu.
type memory struct {
	loaded bool
	record record
}

func (c *Copies) loadLocked() error {
	if c.memory.loaded {
		return nil
	}
	r := record{Version: fileVersion, ClusterUID: c.cluster, Locations: map[string]locationRecord{}}
	if c.h.state != "" {
		read, err := c.readRecord()
		switch {
		case errors.Is(err, ErrMissing) || errors.Is(err, unix.ENOENT):
		case err != nil:
			return fmt.Errorf("%s/%s: %w", c.h.state, recordName, err)
		case read.ClusterUID != c.cluster:
			return fmt.Errorf("%s/%s is of another cluster: %w", c.h.state, recordName, ErrForeignCopy)
		default:
			r = read
		}
	}
	if r.Locations == nil {
		r.Locations = map[string]locationRecord{}
	}
	c.memory = memory{loaded: true, record: r}
	return nil
}

func (c *Copies) readRecord() (record, error) {
	dir, err := c.h.openIn(c.h.state)
	if err != nil {
		return record{}, err
	}
	defer dir.Close()
	data, err := readFileAt(int(dir.Fd()), recordName)
	if err != nil {
		return record{}, err
	}
	return parseRecord(data)
}

func (c *Copies) saveLocked() error {
	if c.h.state == "" {
		return nil
	}
	dir, err := c.h.makeAll(c.h.state, 0o700)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	defer dir.Close()
	if err := writeFileAt(int(dir.Fd()), recordName, encode(c.memory.record), false); err != nil {
		return fmt.Errorf("write %s/%s: %w", c.h.state, recordName, err)
	}
	return nil
}

// recorded is what is known of a location from its first use.
func (c *Copies) recorded(hostPath string) (locationRecord, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.loadLocked(); err != nil {
		return locationRecord{}, false, err
	}
	r, ok := c.memory.record.Locations[hostPath]
	r.Copies = maps.Clone(r.Copies)
	return r, ok, nil
}

// remember writes a verified location down.
func (c *Copies) remember(l *location) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.loadLocked(); err != nil {
		return err
	}
	c.memory.record.Locations[l.path] = locationRecord{FSID: l.fsid, Created: c.now()}
	if err := c.saveLocked(); err != nil {
		delete(c.memory.record.Locations, l.path) // not durable: not known
		return err
	}
	return nil
}

// rememberCopies keeps the names of a location's copies, so that they can be
// named when the disk is gone. It is only help: an error is for the report.
func (c *Copies) rememberCopies(hostPath string, copies map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.loadLocked(); err != nil {
		return err
	}
	r, ok := c.memory.record.Locations[hostPath]
	if !ok || maps.Equal(r.Copies, copies) {
		return nil
	}
	r.Copies = maps.Clone(copies)
	c.memory.record.Locations[hostPath] = r
	return c.saveLocked()
}
