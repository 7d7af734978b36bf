package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Store is an open store. It is safe for concurrent use.
type Store struct {
	opt    Options
	keys   keyspace
	client *clientv3.Client
	embed  *embedded // nil with an external etcd
	meta   Meta
	close  func() error
}

// Meta identifies the store.
type Meta struct {
	ClusterUID string `json:"cluster_uid"`
	Epoch      int64  `json:"epoch"`
}

// Open starts or dials the store and makes sure that it has an identity. The
// caller must Close it. Errors: ErrLocked, ErrNewerFormat, ErrCorrupt, or that it
// cannot be reached; none holds a secret.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{opt: o, keys: newKeyspace(o.Cluster)}
	var err error
	if len(o.Endpoints) == 0 {
		s.embed, s.client, err = startEmbedded(ctx, o)
	} else {
		s.client, err = dial(o)
	}
	if err != nil {
		return nil, err
	}
	s.close = sync.OnceValue(s.closeAll)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func dial(o Options) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, TLS: o.TLS, Username: o.Username, Password: string(o.Password),
		DialTimeout: o.Timeout, DialKeepAliveTime: o.Timeout, DialKeepAliveTimeout: o.Timeout,
		AutoSyncInterval: 0, RejectOldCluster: true, Logger: zap.New(slogCore{o.Log}),
	})
	if err != nil {
		return nil, fmt.Errorf("store: dial: %w", err)
	}
	return client, nil
}

func (s *Store) prepare(ctx context.Context) error {
	if s.embed != nil {
		// The directory's lock says that no other controller lives: a leader's key here
		// is that of a crashed one, and waiting for its lease would delay every restart.
		if _, err := s.client.Delete(ctx, s.keys.prefix(areaLeader), clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	meta, err := s.ensureMeta(ctx)
	s.meta = meta
	return err
}

// ensureMeta makes the identity at first use, and a new epoch when asked to.
func (s *Store) ensureMeta(ctx context.Context) (Meta, error) {
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
			if !s.opt.NewEpoch {
				return meta, nil
			}
		} else {
			meta.ClusterUID = newUID()
		}
		meta.Epoch++
		value, err := encode(key, meta)
		if err != nil {
			return Meta{}, err
		}
		put, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", modified)).
			Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil {
			return Meta{}, fmt.Errorf("store: write %s: %w", key, err)
		}
		if put.Succeeded {
			return meta, nil
		}
	}
}

func newUID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Meta is the store's identity.
func (s *Store) Meta() Meta { return s.meta }

// Close ends everything that uses the store, and the embedded etcd.
func (s *Store) Close() error { return s.close() }

func (s *Store) closeAll() error {
	err := s.client.Close()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if s.embed != nil {
		err = errors.Join(err, s.embed.close())
	}
	return err
}

// timeout bounds one request.
func (s *Store) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.opt.Timeout)
}
