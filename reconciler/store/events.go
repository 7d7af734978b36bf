package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"astraeus.io/astraeus/schema"
)

// eventLog is what a leader knows of the kept events: how many an object has, its
// newest one of this term, and the lease of the hour. A copy is made for each
// write and kept when the write succeeds.
type eventLog struct {
	counts map[string]int // by prefix
	newest map[string]kept
	serial int
	hour   int64
	lease  clientv3.LeaseID
}

type kept struct {
	key   string
	event schema.Event
}

// countEvents counts what is kept; expired ones leave the counts too high until
// an object reaches its cap.
func (s *Store) countEvents(ctx context.Context) (eventLog, error) {
	log := eventLog{newest: map[string]kept{}}
	var err error
	log.counts, err = s.count(ctx, areaEvents)
	return log, err
}

// count counts an area's keys by what stands before their last slash.
func (s *Store) count(ctx context.Context, a area) (map[string]int, error) {
	counts := map[string]int{}
	_, err := s.scan(ctx, s.keys.prefix(a), 0, func(kv *mvccpb.KeyValue) error {
		key := string(kv.Key)
		counts[key[:strings.LastIndexByte(key, '/')+1]]++
		return nil
	}, clientv3.WithKeysOnly())
	return counts, err
}

// eventOps turns events into writes, by object. An event equal to the object's
// newest one raises its count instead of being kept again.
func (l *Leader) eventOps(ctx context.Context, events []schema.Event) (map[schema.Key][]op, eventLog, error) {
	if len(events) == 0 {
		return nil, l.events, nil
	}
	log := l.events
	log.counts, log.newest = maps.Clone(log.counts), maps.Clone(log.newest)
	if err := l.hourLease(ctx, &log); err != nil {
		return nil, log, err
	}
	ops := map[schema.Key]map[string]op{}
	for _, e := range events {
		if e.At.IsZero() {
			e.At = l.store.opt.Now()
		}
		e.At = e.At.UTC()
		prefix := l.store.keys.events(e.Object)
		key := log.place(prefix, &e)
		value, err := encode(key, e)
		if err != nil {
			return nil, log, err
		}
		if ops[e.Object] == nil {
			ops[e.Object] = map[string]op{}
		}
		ops[e.Object][key] = op{key: key, value: value, lease: log.lease}
		if log.counts[prefix] > l.store.opt.EventsPerObject {
			if log.counts[prefix], err = l.trim(ctx, prefix, l.store.opt.EventsPerObject, ops[e.Object]); err != nil {
				return nil, log, err
			}
		}
	}
	out := make(map[schema.Key][]op, len(ops))
	for object, list := range ops {
		for _, key := range slices.Sorted(maps.Keys(list)) {
			out[object] = append(out[object], list[key])
		}
	}
	return out, log, nil
}

// place chooses an event's key and counts it.
func (log *eventLog) place(prefix string, e *schema.Event) string {
	if old, ok := log.newest[prefix]; ok && sameEvent(old.event, *e) {
		e.Count = max(old.event.Count, 1) + max(e.Count, 1)
		log.newest[prefix] = kept{old.key, *e}
		return old.key
	}
	log.serial++
	key := fmt.Sprintf("%s%020d-%06d", prefix, e.At.UnixNano(), log.serial)
	log.counts[prefix]++
	log.newest[prefix] = kept{key, *e}
	return key
}

func sameEvent(a, b schema.Event) bool {
	return a.Type == b.Type && a.Message == b.Message && a.Machine == b.Machine && a.Commit == b.Commit
}

// trim removes the oldest keys of an object until a tenth of the cap is free, and
// returns how many are left. ops are those that are about to be written.
func (l *Leader) trim(ctx context.Context, prefix string, limit int, ops map[string]op) (left int, err error) {
	var keys []string
	_, err = l.store.scan(ctx, prefix, 0, func(kv *mvccpb.KeyValue) error {
		keys = append(keys, string(kv.Key))
		return nil
	}, clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	for key := range ops {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	drop := max(0, len(keys)-limit+limit/10)
	for _, key := range keys[:min(drop, len(keys)-1)] {
		ops[key] = op{key: key, remove: true}
	}
	return len(keys) - drop, nil
}

// hourLease makes one lease an hour, so that thousands of events need one.
func (l *Leader) hourLease(ctx context.Context, log *eventLog) error {
	hour := l.store.opt.Now().Unix() / 3600
	if log.lease != 0 && log.hour == hour {
		return nil
	}
	ctx, cancel := l.store.timeout(ctx)
	defer cancel()
	got, err := l.store.client.Grant(ctx, int64((l.store.opt.EventTTL+time.Hour)/time.Second))
	if err != nil {
		return fmt.Errorf("store: events: %w", err)
	}
	log.hour, log.lease = hour, got.ID
	// Known to the next write even when this one fails.
	l.events.hour, l.events.lease = hour, got.ID
	return nil
}

// EventFilter chooses events. Zero fields choose all.
type EventFilter struct {
	Object schema.Key
	Since  time.Time
	Limit  int // the newest ones
}

// ListEvents returns the kept events, the oldest first.
func (s *Store) ListEvents(ctx context.Context, f EventFilter) ([]schema.Event, error) {
	prefix := s.keys.prefix(areaEvents)
	if f.Object != (schema.Key{}) {
		prefix = s.keys.events(f.Object)
	}
	var out []schema.Event
	_, err := s.scan(ctx, prefix, 0, func(kv *mvccpb.KeyValue) error {
		var e schema.Event
		if err := decode(string(kv.Key), kv.Value, &e); err != nil {
			return err
		}
		if !e.At.Before(f.Since) {
			out = append(out, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b schema.Event) int {
		return cmp.Or(a.At.Compare(b.At), schema.CompareKeys(a.Object, b.Object))
	})
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[len(out)-f.Limit:]
	}
	return out, nil
}
