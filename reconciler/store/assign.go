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

// Assign makes targets the machines' assignments: it writes the references of
// those that changed, drops those of machines without a target, and sets
// ClusterUID, Epoch and Revision of every target, which nobody changes from then on
// . An unchanged target keeps its revision and costs no write. Call it when the decisions that the
// targets follow from are committed. It returns how many changed. Errors are
// those of Commit.
func (l *Leader) Assign(ctx context.Context, targets map[string]*schema.Assignment, blobs map[string][]byte) (int, error) {
	if l.state == nil {
		return 0, ErrStale
	}
	next := maps.Clone(l.state.Assigned)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if sameTarget(l.given[name], targets[name]) {
			continue
		}
		given := ReferTo(targets[name], l.state.Meta.Epoch)
		if old, ok := next[name]; ok && old.Hash == given.Hash && old.Epoch == given.Epoch {
			continue
		}
		next[name] = given
		changed = append(changed, name)
	}
	var dropped []string
	for name := range next {
		if targets[name] == nil {
			dropped = append(dropped, name)
			delete(next, name)
		}
	}
	slices.Sort(dropped)
	if len(changed)+len(dropped) > 0 {
		if err := l.assign(ctx, next, changed, dropped, blobs); err != nil {
			return 0, err
		}
	}
	for name, target := range targets {
		target.ClusterUID, target.Epoch, target.Revision = l.state.Meta.ClusterUID, next[name].Epoch, next[name].Revision
	}
	l.given = targets
	return len(changed), nil
}

func (l *Leader) assign(ctx context.Context, next map[string]Assigned, changed, dropped []string, blobs map[string][]byte) (err error) {
	defer func() {
		if err != nil {
			l.state = nil
		}
	}()
	if err := l.store.opt.Point("assign.before"); err != nil {
		return err
	}
	if err := l.putBlobs(ctx, next, changed, blobs); err != nil {
		return err
	}
	if err := l.putAssigned(ctx, next, changed); err != nil {
		return err
	}
	gone := make([]group, 0, len(dropped))
	for _, name := range dropped {
		gone = append(gone, group{{key: l.store.keys.under(areaAssigned, name), remove: true}})
	}
	gone = append(gone, l.unusedBlobs(next)...)
	for _, batch := range batches(gone) {
		if _, err := l.txn(ctx, batch); err != nil {
			return err
		}
	}
	state := *l.state
	state.Assigned = next
	l.state = &state
	return nil
}

// putAssigned writes references and notes the revision that each was written at.
func (l *Leader) putAssigned(ctx context.Context, next map[string]Assigned, changed []string) error {
	for names := range slices.Chunk(changed, MaxBatchOps) {
		ops := make([]op, 0, len(names))
		for _, name := range names {
			key := l.store.keys.under(areaAssigned, name)
			value, err := encode(key, next[name])
			if err != nil {
				return err
			}
			ops = append(ops, op{key: key, value: value})
		}
		rev, err := l.txnSplit(ctx, ops)
		if err != nil {
			return err
		}
		for i, name := range names {
			given := next[name]
			given.Revision = rev[i]
			next[name] = given
		}
		if err := l.store.opt.Point("assign.batch"); err != nil {
			return err
		}
	}
	return nil
}

// txnSplit writes operations in as many transactions as their bytes need and
// returns each one's revision.
func (l *Leader) txnSplit(ctx context.Context, ops []op) ([]int64, error) {
	groups := make([]group, len(ops))
	for i, o := range ops {
		groups[i] = group{o}
	}
	revisions := make([]int64, 0, len(ops))
	for _, batch := range batches(groups) {
		rev, err := l.txn(ctx, batch)
		if err != nil {
			return nil, err
		}
		for range batch {
			revisions = append(revisions, rev)
		}
	}
	return revisions, nil
}

// plain is what a machine does by an assignment: a commit that changes nothing for
// it must not touch it.
func plain(a *schema.Assignment) *schema.Assignment {
	out := *a
	out.ClusterUID, out.Epoch, out.Revision, out.Commit = "", 0, 0, ""
	return &out
}

// sameTarget spares most of the hashing: few machines change in a pass.
func sameTarget(old, a *schema.Assignment) bool {
	return old != nil && reflect.DeepEqual(plain(old), plain(a))
}

// ReferTo is what is kept of an assignment: references only.
func ReferTo(a *schema.Assignment, epoch int64) Assigned {
	out := Assigned{Epoch: epoch, Commit: a.Commit, Hash: schema.HashJSON(plain(a)), Blobs: a.BlobHashes()}
	for _, c := range a.Copies {
		out.Copies = append(out.Copies, c.UID)
	}
	for _, l := range a.DataLocations {
		out.Locations = append(out.Locations, l.Path)
	}
	for _, m := range a.Mounts {
		out.Mounts = append(out.Mounts, fmt.Sprintf("%s/%d", m.UID, m.Source))
	}
	for _, e := range a.Exports {
		out.Exports = append(out.Exports, fmt.Sprintf("%s/%d/%s", e.UID, e.Source, e.Client))
	}
	for i := range a.Workers {
		out.Workers = append(out.Workers, workerRef(&a.Workers[i]))
	}
	return out
}

// putBlobs keeps what changed assignments name, before they name it. One that is
// too large for the store is left out: machines get it from the plan, and only
// readers of the store miss it.
func (l *Leader) putBlobs(ctx context.Context, next map[string]Assigned, changed []string, blobs map[string][]byte) error {
	var groups []group
	var added []string
	seen := map[string]bool{}
	for _, name := range changed {
		for _, hash := range next[name].Blobs {
			data, ok := blobs[hash]
			if !ok || l.blobs[hash] || seen[hash] || len(data) > MaxValueBytes {
				continue
			}
			seen[hash] = true
			added = append(added, hash)
			groups = append(groups, group{{key: l.store.keys.under(areaBlobs, hash), value: data}})
		}
	}
	for _, batch := range batches(groups) {
		if _, err := l.txn(ctx, batch); err != nil {
			return err
		}
	}
	for _, hash := range added {
		l.blobs[hash] = true
	}
	return nil
}

// unusedBlobs removes what no assignment names any more.
func (l *Leader) unusedBlobs(next map[string]Assigned) []group {
	used := map[string]bool{}
	for _, given := range next {
		for _, hash := range given.Blobs {
			used[hash] = true
		}
	}
	var out []group
	for _, hash := range slices.Sorted(maps.Keys(l.blobs)) {
		if !used[hash] {
			out = append(out, group{{key: l.store.keys.under(areaBlobs, hash), remove: true}})
			delete(l.blobs, hash)
		}
	}
	return out
}

// Blob is the content of a hash that an assignment names, nil when it is not
// kept. Errors: ErrCorrupt when the content does not fit its hash.
func (s *Store) Blob(ctx context.Context, hash string) ([]byte, error) {
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	key := s.keys.under(areaBlobs, hash)
	got, err := s.client.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store: read %s: %w", key, err)
	}
	if len(got.Kvs) == 0 {
		return nil, nil
	}
	data := got.Kvs[0].Value
	if schema.HashBytes(data) != hash {
		return nil, fmt.Errorf("store: the value of key %s %w: it has another hash", key, ErrCorrupt)
	}
	return data, nil
}

func (s *Store) blobHashes(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	_, err := s.scan(ctx, s.keys.prefix(areaBlobs), 0, func(kv *mvccpb.KeyValue) error {
		_, hash := s.keys.split(string(kv.Key))
		out[hash] = true
		return nil
	}, clientv3.WithKeysOnly())
	return out, err
}
