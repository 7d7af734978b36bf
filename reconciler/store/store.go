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
	marker *marker
	close  func() error

	mu   sync.Mutex
	meta Meta
}

// Open starts or dials the store and makes sure that it has an identity. The
// caller must Close it. Errors: ErrLocked, ErrNewerFormat, ErrCorrupt, ErrOlder, or
// that it cannot be reached; none holds a secret.
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
	s.setMeta(meta)
	return err
}

// NewUID is a random identity.
func NewUID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Meta is the store's identity.
func (s *Store) Meta() Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta
}

func (s *Store) setMeta(m Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = m
}

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
	return errors.Join(err, s.marker.close())
}

// timeout bounds one request.
func (s *Store) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.opt.Timeout)
}
