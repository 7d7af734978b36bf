package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"astraeus.io/astraeus/schema"
)

// auditLog is what a leader knows of the audit log: how many records an object
// has, and the commit whose status it wrote last.
type auditLog struct {
	counts map[string]int // by prefix
	serial int
	status *schema.CommitStatus
}

// audited is what one write does to the audit log; it counts once the write is done.
type audited struct {
	first  []group // goes before everything else
	last   []group // goes after it, before the head
	counts map[string]int
	status *schema.CommitStatus
}

func (a *auditLog) done(w audited) {
	maps.Copy(a.counts, w.counts)
	if w.status != nil {
		a.status = w.status
	}
}

// recordOps turns records into writes, by object. Keys of one object are capped:
// the log has no other end (G-11).
func (l *Leader) recordOps(ctx context.Context, records []schema.Record, w *audited) (map[schema.Key][]op, error) {
	w.counts = map[string]int{}
	ops := map[schema.Key]map[string]op{}
	for _, r := range records {
		if r.At.IsZero() {
			r.At = l.store.opt.Now()
		}
		r.At = r.At.UTC()
		prefix := l.store.keys.history(r.Object)
		l.audit.serial++
		key := fmt.Sprintf("%s%020d-%06d", prefix, r.At.UnixNano(), l.audit.serial)
		value, err := encode(key, r)
		if err != nil {
			return nil, err
		}
		if ops[r.Object] == nil {
			ops[r.Object] = map[string]op{}
			w.counts[prefix] = l.audit.counts[prefix]
		}
		ops[r.Object][key] = op{key: key, value: value}
		w.counts[prefix]++
		if limit := l.store.opt.HistoryPerObject; w.counts[prefix] > limit {
			if w.counts[prefix], err = l.trim(ctx, prefix, limit, ops[r.Object]); err != nil {
				return nil, err
			}
		}
	}
	out := make(map[schema.Key][]op, len(ops))
	for object, list := range ops {
		for _, key := range slices.Sorted(maps.Keys(list)) {
			out[object] = append(out[object], list[key])
		}
	}
	return out, nil
}

// usedOps notes a saved plan as applied. Only the leader writes, so what it reads
// here stays true until it writes. Errors: ErrUsed.
func (l *Leader) usedOps(ctx context.Context, u *schema.UsedPlan) (group, error) {
	before, err := l.store.UsedPlan(ctx, u.Digest)
	if err != nil {
		return nil, err
	}
	if before != nil && before.Nonce != u.Nonce {
		return nil, fmt.Errorf("saved plan %s %w", u.Digest, ErrUsed)
	}
	key := l.store.keys.under(areaPlans, u.Digest)
	value, err := encode(key, u)
	if err != nil {
		return nil, err
	}
	old, err := l.oldest(ctx, areaPlans)
	return append(group{{key: key, value: value}}, old...), err
}

// statusOps merges a look at a commit with what is known of it; nothing is
// written when nothing is new.
func (l *Leader) statusOps(ctx context.Context, s *schema.CommitStatus, w *audited) (group, error) {
	before := l.audit.status
	if before == nil || before.Commit.ID != s.Commit.ID {
		var err error
		if before, err = l.store.CommitStatus(ctx, s.Commit.ID); err != nil {
			return nil, err
		}
	}
	var ops group
	next := (schema.CommitStatus{}).Merge(*s)
	if before != nil {
		next = before.Merge(*s)
	} else {
		var err error
		if ops, err = l.oldest(ctx, areaCommits); err != nil {
			return nil, err
		}
	}
	w.status = &next
	if before != nil && reflect.DeepEqual(*before, next) {
		return nil, nil
	}
	key := l.store.keys.under(areaCommits, s.Commit.ID)
	value, err := encode(key, next)
	if err != nil {
		return nil, err
	}
	return append(group{{key: key, value: value}}, ops...), nil
}

// oldest removes what an area holds over its cap, the first written first.
func (l *Leader) oldest(ctx context.Context, a area) (group, error) {
	prefix := l.store.keys.prefix(a)
	ctx, cancel := l.store.timeout(ctx)
	defer cancel()
	got, err := l.store.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(10))
	if err != nil {
		return nil, fmt.Errorf("store: read %s: %w", prefix, err)
	}
	over := int(got.Count) + 1 - l.store.opt.Commits
	var ops group
	for _, kv := range got.Kvs[:max(0, min(over, len(got.Kvs)))] {
		ops = append(ops, op{key: string(kv.Key), remove: true})
	}
	return ops, nil
}

// History returns an object's records, the oldest first (G-11). Objects that are
// gone keep theirs.
func (s *Store) History(ctx context.Context, object schema.Key) ([]schema.Record, error) {
	var out []schema.Record
	_, err := s.scan(ctx, s.keys.history(object), 0, func(kv *mvccpb.KeyValue) error {
		var r schema.Record
		if err := decode(string(kv.Key), kv.Value, &r); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	})
	return out, err
}

// CommitStatus is what became of a commit, nil when nothing is known of it.
func (s *Store) CommitStatus(ctx context.Context, commit string) (*schema.CommitStatus, error) {
	return one[schema.CommitStatus](ctx, s, s.keys.under(areaCommits, commit))
}

// UsedPlan says when a saved plan was applied, nil when it was not.
func (s *Store) UsedPlan(ctx context.Context, digest string) (*schema.UsedPlan, error) {
	return one[schema.UsedPlan](ctx, s, s.keys.under(areaPlans, digest))
}

// one reads a single key, nil when it is not there.
func one[T any](ctx context.Context, s *Store, key string) (*T, error) {
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	got, err := s.client.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store: read %s: %w", key, err)
	}
	if len(got.Kvs) == 0 {
		return nil, nil
	}
	value := new(T)
	return value, decode(key, got.Kvs[0].Value, value)
}

// auditOps puts what a decision says beside objects in front of and after them:
// a plan is used and a commit approved before anything of it is in force.
func (l *Leader) auditOps(ctx context.Context, d schema.Decisions) (*audited, error) {
	w := &audited{}
	if d.Used != nil {
		used, err := l.usedOps(ctx, d.Used)
		if err != nil {
			return nil, err
		}
		w.first = append(w.first, used)
	}
	if d.Approve != nil {
		key := l.store.keys.single(areaApproved)
		value, err := encode(key, d.Approve)
		if err != nil {
			return nil, err
		}
		w.first = append(w.first, group{{key: key, value: value}})
	}
	if d.Status != nil {
		status, err := l.statusOps(ctx, d.Status, w)
		if err != nil {
			return nil, err
		}
		w.last = append(w.last, status)
	}
	return w, nil
}
