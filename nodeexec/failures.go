package nodeexec

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
)

// Backoff of X-23.
const (
	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
	backoffShare = 0.2
)

// failKey is what is retried on its own.
type failKey struct {
	Object object        `json:"object"`
	Action schema.Action `json:"action"`
}

func keyOf(s schema.Step) failKey { return failKey{objectOf(s), s.Action} }

type failureRecord struct {
	Key     failKey        `json:"key"`
	Failure schema.Failure `json:"failure"`
	// Target is the hash of what was wanted: another one starts anew.
	Target string `json:"target,omitempty"`
}

// failures are the steps that failed, with their backoff.
type failures struct {
	saver
	mu      sync.Mutex
	list    map[failKey]failureRecord
	version uint64
}

func loadFailures(d *disk, now time.Time) (*failures, error) {
	f := &failures{saver: saver{disk: d, name: failuresFile}, list: map[failKey]failureRecord{}}
	var records []failureRecord
	if _, err := d.read(failuresFile, &records); err != nil {
		return nil, err
	}
	for _, r := range records {
		// A clock that was set back must not stop retries for good.
		if latest := now.Add(backoffMost * 12 / 10); r.Failure.NextAt.After(latest) {
			r.Failure.NextAt = latest
		}
		f.list[r.Key] = r
	}
	return f, nil
}

// blocked says until when the step is left alone. A refusal blocks nothing: it
// is judged anew each time.
func (f *failures) blocked(key failKey, now time.Time) (until time.Time, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.list[key]
	if !ok || r.Failure.Code == CodeRefused || !r.Failure.NextAt.After(now) {
		return time.Time{}, false
	}
	return r.Failure.NextAt, true
}

// quiet reports whether the same refusal stands already.
func (f *failures) quiet(key failKey, message string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.list[key]
	return ok && r.Failure.Code == CodeRefused && r.Failure.Message == message
}

// record adds one failed attempt and gives the failure as it is reported now.
func (f *failures) record(s schema.Step, target, code, message string, now time.Time, random float64) (schema.Failure, error) {
	key := keyOf(s)
	f.mu.Lock()
	r, ok := f.list[key]
	if !ok || r.Target != target {
		r = failureRecord{Key: key, Target: target, Failure: schema.Failure{
			Object: s.Object, UID: s.Args.UID, Source: s.Args.Source, Worker: s.Args.Worker, Action: s.Action, Since: now,
		}}
	}
	r.Failure.Code, r.Failure.Message = code, message
	r.Failure.Attempts++
	r.Failure.NextAt = now.Add(backoff(r.Failure.Attempts, random))
	f.list[key] = r
	version, records := f.snapshot()
	f.mu.Unlock()
	return r.Failure, f.save(version, records)
}

// backoff is 1 s doubling to 5 min, ±20 % (X-23).
func backoff(attempts int, random float64) time.Duration {
	d := backoffMost
	if n := attempts - 1; n < 9 {
		d = min(backoffMost, backoffFirst<<n)
	}
	return time.Duration(float64(d) * (1 - backoffShare + 2*backoffShare*random))
}

// clear forgets the failures for which gone holds.
func (f *failures) clear(gone func(failureRecord) bool) error {
	f.mu.Lock()
	before := len(f.list)
	for key, r := range f.list {
		if gone(r) {
			delete(f.list, key)
		}
	}
	if len(f.list) == before {
		f.mu.Unlock()
		return nil
	}
	version, records := f.snapshot()
	f.mu.Unlock()
	return f.save(version, records)
}

// retarget keeps, of a new assignment, the failures of steps that are still in
// it and want the same as before; the others start anew.
func (f *failures) retarget(t *schema.Assignment) error {
	items, steps := targetItems(t), map[failKey]bool{}
	for _, s := range t.Steps {
		steps[keyOf(s)] = true
	}
	return f.clear(func(r failureRecord) bool {
		return !steps[r.Key] || r.Target != fingerprint(items, r.Key.Object)
	})
}

func fingerprint(items map[object]any, o object) string {
	if item, ok := items[o]; ok {
		return schema.HashJSON(item)
	}
	return ""
}

// snapshot is called with the lock held.
func (f *failures) snapshot() (uint64, []failureRecord) {
	f.version++
	records := make([]failureRecord, 0, len(f.list))
	for _, r := range f.list {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b failureRecord) int {
		return cmp.Or(cmp.Compare(a.Key.Object, b.Key.Object), cmp.Compare(a.Key.Action, b.Key.Action))
	})
	return f.version, records
}

// reported lists the failures in a stable order.
func (f *failures) reported() []schema.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]schema.Failure, 0, len(f.list))
	for _, r := range f.list {
		list = append(list, r.Failure)
	}
	slices.SortFunc(list, func(a, b schema.Failure) int {
		return cmp.Or(schema.CompareKeys(a.Object, b.Object), cmp.Compare(a.Action, b.Action),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Worker, b.Worker),
			cmp.Compare(a.Since.UnixNano(), b.Since.UnixNano()))
	})
	return list
}

// standing are the steps that were tried and failed. A refusal was not tried.
func (f *failures) standing() map[failKey]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make(map[failKey]bool, len(f.list))
	for key, r := range f.list {
		if r.Failure.Code != CodeRefused {
			list[key] = true
		}
	}
	return list
}
