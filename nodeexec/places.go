package nodeexec

import (
	"maps"
	"sync"

	"astraeus.io/astraeus/nodeexec/host"
)

// places remembers on which filesystem each source was first used, so that a
// disk that is not mounted is noticed before anything is exported, made or
// bound on the one below it (X-17, kubernetes#109955). It is kept for good: data
// that moves to another disk on purpose has another path, or is a new drive's.
type places struct {
	saver
	mu      sync.Mutex
	list    map[object]string
	version uint64
}

// placeOf is a source at a path: a drive that nobody uses may be given another
// one, which is found on its own filesystem.
func placeOf(uid string, source int, path string) object {
	return dirObject(uid, source) + object(" "+path)
}

func loadPlaces(d *disk) (*places, error) {
	p := &places{saver: saver{disk: d, name: placesFile}, list: map[object]string{}}
	if _, err := d.read(placesFile, &p.list); err != nil {
		return nil, err
	}
	if p.list == nil {
		p.list = map[object]string{}
	}
	return p, nil
}

// check compares with the first use, or remembers this one.
func (p *places) check(o object, dir *host.Dir) error {
	if dir.FSID == "" {
		return nil // a filesystem without a name cannot be told from another
	}
	p.mu.Lock()
	known, ok := p.list[o]
	if ok {
		p.mu.Unlock()
		if known != dir.FSID {
			return failf(CodeNotMounted, "%s is not on the filesystem it was first used on (%s, not %s)", dir.Path, dir.FSID, known)
		}
		return nil
	}
	p.list[o] = dir.FSID
	p.version++
	version, snapshot := p.version, maps.Clone(p.list)
	p.mu.Unlock()
	return p.save(version, snapshot)
}

// expected is where an object is expected, "" when it was never used.
func (p *places) expected(o object) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[o]
}
