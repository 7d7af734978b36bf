package store

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrOlder: the store was lost, or restored from an older state. What to do is in
// the error's text.
var ErrOlder = errors.New("was lost or restored: start with --new-epoch, which takes over what the machines report " +
	"before anything is deleted or stopped")

// Meta identifies the store.
type Meta struct {
	// ClusterUID is "" while a store that was lost does not know whose it is.
	ClusterUID string `json:"cluster_uid"`
	Epoch      int64  `json:"epoch"`
	// Adopting: a new epoch began, and what machines report is not accepted yet.
	Adopting bool `json:"adopting,omitempty"`
	// Lost: all that the store knew is gone, so that machines know better whatever they
	// say. It is set with Adopting.
	Lost bool `json:"lost,omitempty"`
	// Doubt is why this store is not used without a new epoch, nil for no doubt.
	Doubt *Doubt `json:"doubt,omitempty"`
}

// Doubt is the word of a machine that contradicts the store.
type Doubt struct {
	Machine    string `json:"machine"`
	ClusterUID string `json:"cluster_uid"`
	Epoch      int64  `json:"epoch"`
	Revision   int64  `json:"revision"`
}

// foreign reports whether the machine belongs to another cluster than the store.
func (d *Doubt) foreign(meta Meta) bool { return d != nil && d.ClusterUID != meta.ClusterUID }

// Doubted is the error of a store with a Doubt: ErrOlder, with why.
func (m Meta) Doubted(revision int64) error {
	d := m.Doubt
	if d.foreign(m) {
		return fmt.Errorf("store: it is new, and machine %s belongs to cluster %s already: the store of that one %w",
			d.Machine, d.ClusterUID, ErrOlder)
	}
	return fmt.Errorf("store: it is at epoch %d, revision %d, and machine %s has seen epoch %d, revision %d: the store %w",
		m.Epoch, revision, d.Machine, d.Epoch, d.Revision, ErrOlder)
}

// ensureMeta makes the identity at first use, and a new epoch when asked to.
func (s *Store) ensureMeta(ctx context.Context) (Meta, error) {
	kept, err := readMark(s.opt.MarkFile)
	if err != nil {
		return Meta{}, err
	}
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	key := s.keys.single(areaMeta)
	for {
		got, err := s.client.Get(ctx, key)
		if err != nil {
			return Meta{}, fmt.Errorf("store: read %s: %w", key, err)
		}
		var meta Meta
		var modified int64
		if len(got.Kvs) > 0 {
			modified = got.Kvs[0].ModRevision
			if err := decode(key, got.Kvs[0].Value, &meta); err != nil {
				return Meta{}, err
			}
		}
		revision := got.Header.Revision
		next, err := begin(meta, kept, modified > 0, revision, s.opt.NewEpoch)
		if err != nil {
			return Meta{}, err
		}
		if next != meta {
			value, err := encode(key, next)
			if err != nil {
				return Meta{}, err
			}
			put, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", modified)).
				Then(clientv3.OpPut(key, string(value))).Commit()
			if err != nil {
				return Meta{}, fmt.Errorf("store: write %s: %w", key, err)
			}
			if !put.Succeeded {
				continue
			}
			revision = put.Header.Revision
		}
		s.marker = startMarker(s.opt.MarkFile, kept)
		s.marker.reached(next, revision)
		return next, nil
	}
}

// begin is the identity to go on with. kept is how far this controller knows that
// the store had come.
func begin(meta Meta, kept mark, there bool, revision int64, newEpoch bool) (Meta, error) {
	switch {
	case newEpoch && !there:
		return Meta{ClusterUID: kept.ClusterUID, Epoch: kept.Epoch + 1, Adopting: true, Lost: true}, nil
	case newEpoch:
		return anew(meta, kept), nil
	case !there && kept.ClusterUID != "":
		return Meta{}, fmt.Errorf("store: it is empty, and this controller had one of cluster %s at epoch %d, revision %d: it %w",
			kept.ClusterUID, kept.Epoch, kept.Revision, ErrOlder)
	case !there:
		return Meta{ClusterUID: NewUID(), Epoch: 1}, nil
	case meta.Doubt != nil:
		return Meta{}, meta.Doubted(revision)
	case meta.Adopting || kept.ClusterUID == "":
		return meta, nil
	case kept.ClusterUID != meta.ClusterUID:
		return Meta{}, fmt.Errorf("store: it is of cluster %s, and this controller had one of cluster %s: it %w",
			meta.ClusterUID, kept.ClusterUID, ErrOlder)
	case kept.Epoch > meta.Epoch || kept.Epoch == meta.Epoch && kept.Revision > revision:
		return Meta{}, fmt.Errorf("store: it is at epoch %d, revision %d, and had come to epoch %d, revision %d: it %w",
			meta.Epoch, revision, kept.Epoch, kept.Revision, ErrOlder)
	}
	return meta, nil
}

// anew begins a new epoch in a store that knows something.
func anew(meta Meta, kept mark) Meta {
	next := Meta{ClusterUID: meta.ClusterUID, Epoch: max(meta.Epoch, kept.Epoch) + 1, Adopting: true, Lost: meta.Adopting && meta.Lost}
	if meta.Doubt != nil {
		next.Epoch = max(next.Epoch, meta.Doubt.Epoch+1)
	}
	if kept.ClusterUID != "" && kept.ClusterUID != meta.ClusterUID {
		next.ClusterUID, next.Lost = kept.ClusterUID, true
	}
	if meta.Doubt.foreign(meta) {
		// It was made anew where one had been lost: machines say whose it is.
		next.ClusterUID, next.Lost = "", true
	}
	return next
}

// SetMeta changes the identity and returns the state that is then in force.
// Errors are those of Commit.
func (l *Leader) SetMeta(ctx context.Context, meta Meta) (*State, error) {
	if l.state == nil {
		return nil, ErrStale
	}
	key := l.store.keys.single(areaMeta)
	value, err := encode(key, meta)
	if err != nil {
		return nil, err
	}
	rev, err := l.txn(ctx, []op{{key: key, value: value}})
	if err != nil {
		l.state = nil
		return nil, err
	}
	next := l.state.clone()
	next.setMeta(meta)
	next.Revision = max(next.Revision, rev)
	l.state = next
	l.store.setMeta(meta)
	l.store.marker.reached(meta, rev)
	return next, nil
}

func (st *State) setMeta(meta Meta) {
	st.Meta = meta
	st.Accepted.ClusterUID, st.Accepted.Epoch = meta.ClusterUID, meta.Epoch
}
