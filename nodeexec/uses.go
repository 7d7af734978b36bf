package nodeexec

import (
	"maps"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

// useRecord says what a worker uses from before it is prepared until it has
// ended, whatever becomes of this process.
type useRecord struct {
	Uses  []schema.Use `json:"uses"`
	Since time.Time    `json:"since"`
}

// uses are the use records by worker id.
type uses struct {
	saver
	mu      sync.Mutex
	list    map[string]useRecord
	version uint64
}

func loadUses(d *disk) (*uses, error) {
	u := &uses{saver: saver{disk: d, name: usesFile}, list: map[string]useRecord{}}
	if _, err := d.read(usesFile, &u.list); err != nil {
		return nil, err
	}
	if u.list == nil {
		u.list = map[string]useRecord{}
	}
	return u, nil
}

// put is durable when it returns.
func (u *uses) put(id string, list []schema.Use, now time.Time) error {
	return u.change(func(m map[string]useRecord) bool {
		m[id] = useRecord{Uses: list, Since: now}
		return true
	})
}

// drop forgets the records for which gone holds.
func (u *uses) drop(gone func(id string) bool) error {
	return u.change(func(m map[string]useRecord) bool {
		before := len(m)
		maps.DeleteFunc(m, func(id string, _ useRecord) bool { return gone(id) })
		return len(m) != before
	})
}

func (u *uses) change(edit func(map[string]useRecord) bool) error {
	u.mu.Lock()
	if !edit(u.list) {
		u.mu.Unlock()
		return nil
	}
	u.version++
	version, snapshot := u.version, maps.Clone(u.list)
	u.mu.Unlock()
	return u.save(version, snapshot)
}

func (u *uses) all() map[string]useRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.list)
}
