package nodeexec

import (
	"maps"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

const (
	// evictedMost bounds what is kept of evictions, evictedFor how long a machine
	// in touch with the controller, which has heard of them, keeps it.
	evictedMost = 64
	evictedFor  = 24 * time.Hour
	// trashSizeFor is how long a size waits for its trash to show in a listing.
	trashSizeFor = time.Minute
)

// evictState is the content of evictionsFile.
type evictState struct {
	// Begun are the filesystems, by id, on which eviction began and has not
	// reached the stop mark: an agent that was killed goes on (D-71).
	Begun map[string]bool `json:"begun"`
	// Evicted are copies that were evicted lately, oldest first: written before
	// they go, so that the event says why whatever happens (D-71).
	Evicted []schema.Evicted `json:"evicted"`
}

// evictions is what a machine remembers of evicting.
type evictions struct {
	saver
	mu      sync.Mutex
	state   evictState
	version uint64
}

func loadEvictions(d *disk) (*evictions, error) {
	e := &evictions{saver: saver{disk: d, name: evictionsFile}}
	if _, err := d.read(evictionsFile, &e.state); err != nil {
		return nil, err
	}
	if e.state.Begun == nil {
		e.state.Begun = map[string]bool{}
	}
	return e, nil
}

// change edits the state and saves it if edit says that it did. It is in force
// also when it cannot be saved, as on a disk that is full.
func (e *evictions) change(edit func(*evictState) bool) error {
	e.mu.Lock()
	if !edit(&e.state) {
		e.mu.Unlock()
		return nil
	}
	e.version++
	version := e.version
	snapshot := evictState{maps.Clone(e.state.Begun), slices.Clone(e.state.Evicted)}
	e.mu.Unlock()
	return e.save(version, snapshot)
}

func (e *evictions) goesOn() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.state.Begun)
}

func (e *evictions) lately() []schema.Evicted {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.state.Evicted)
}

// setBegun keeps where eviction goes on.
func (e *evictions) setBegun(begun map[string]bool) error {
	return e.change(func(s *evictState) bool {
		changed := !maps.Equal(s.Begun, begun)
		s.Begun = begun
		return changed
	})
}

func (e *evictions) add(x schema.Evicted) error {
	return e.change(func(s *evictState) bool {
		s.Evicted = slices.DeleteFunc(s.Evicted, func(old schema.Evicted) bool { return old.UID == x.UID })
		s.Evicted = append(s.Evicted, x)
		s.Evicted = slices.Clone(s.Evicted[max(0, len(s.Evicted)-evictedMost):])
		return true
	})
}

func (e *evictions) drop(gone func(schema.Evicted) bool) error {
	return e.change(func(s *evictState) bool {
		before := len(s.Evicted)
		s.Evicted = slices.DeleteFunc(slices.Clone(s.Evicted), gone)
		return len(s.Evicted) != before
	})
}

// trashSizes are the sizes that copies had when they went to the trash, by drive
// uid: they count as free before the remover is done. After a restart they
// are unknown, and eviction waits for the remover instead.
type trashSizes struct {
	mu   sync.Mutex
	list map[string]trashSize
}

type trashSize struct {
	bytes int64
	since time.Time
	seen  bool // in a listing
}

func (t *trashSizes) put(uid string, bytes int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[string]trashSize{}
	}
	t.list[uid] = trashSize{bytes: bytes, since: now}
}

// fill puts known sizes into a listing. Of two former copies of one drive only
// one is known.
func (t *trashSizes) fill(copies []schema.Copy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == 0 {
		return
	}
	count := map[string]int{}
	for i := range copies {
		if copies[i].State == schema.CopyTrash {
			count[copies[i].UID]++
		}
	}
	for i := range copies {
		c := &copies[i]
		size, known := t.list[c.UID]
		if c.State != schema.CopyTrash || !known || count[c.UID] != 1 {
			continue
		}
		if c.Bytes < 0 {
			c.Bytes = size.bytes
		}
		size.seen = true
		t.list[c.UID] = size
	}
}

// forget drops what was in the trash and is not any more.
func (t *trashSizes) forget(copies []schema.Copy, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.list, func(uid string, size trashSize) bool {
		if !size.seen && now.Sub(size.since).Abs() < trashSizeFor {
			return false
		}
		return !slices.ContainsFunc(copies, func(c schema.Copy) bool { return c.UID == uid && c.State == schema.CopyTrash })
	})
}
