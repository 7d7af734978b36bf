package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"astraeus.io/astraeus/schema"
)

// Leader is a term of leadership. Its writes compare the leader's key, so they
// fail with ErrNotLeader once another leads. Load comes first. One goroutine may
// call Load, Commit and Assign, and another one PutReports and PutAlive.
type Leader struct {
	store    *Store
	session  *concurrency.Session
	election *concurrency.Election
	guard    clientv3.Cmp

	state  *State                        // nil: must be loaded
	given  map[string]*schema.Assignment // the newest targets
	blobs  map[string]bool
	events eventLog
	audit  auditLog

	mu      sync.Mutex
	written map[string]*schema.MachineReport // what the store holds of each machine; nil before Load
	unsure  map[string]bool                  // machines of which it may hold something else: a write failed
	alive   *Alive                           // what it holds; nil for not known

	ended  chan struct{}
	stop   context.CancelFunc
	ending sync.WaitGroup
}

// Campaign waits until this process leads. The address is where machines find
// it. It returns the context's error when that ends first.
func (s *Store) Campaign(ctx context.Context, address string) (*Leader, error) {
	ttl := max(1, int(s.opt.LeaderTTL/time.Second))
	session, err := concurrency.NewSession(s.client, concurrency.WithTTL(ttl), concurrency.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("store: campaign: %w", err)
	}
	election := concurrency.NewElection(session, s.keys.single(areaLeader))
	if err := election.Campaign(ctx, address); err != nil {
		s.revoke(ctx, session.Lease())
		session.Orphan()
		return nil, fmt.Errorf("store: campaign: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Leader{
		store: s, session: session, election: election, stop: stop, ended: make(chan struct{}),
		guard: clientv3.Compare(clientv3.CreateRevision(election.Key()), "=", election.Rev()),
	}
	l.ending.Go(func() { l.keep(life) })
	return l, nil
}

func (s *Store) revoke(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := s.timeout(context.WithoutCancel(ctx))
	defer cancel()
	// The lease runs out by itself when this fails.
	_, _ = s.client.Revoke(ctx, lease)
}

// keep watches the term: it ends when the lease cannot be kept or the key is gone.
func (l *Leader) keep(ctx context.Context) {
	defer close(l.ended)
	gone := l.store.client.Watch(ctx, l.election.Key(), clientv3.WithRev(l.election.Rev()+1), clientv3.WithFilterPut())
	for {
		select {
		case event, ok := <-gone:
			if !ok || len(event.Events) > 0 {
				return
			}
		case <-l.session.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// Done is closed when the term is over.
func (l *Leader) Done() <-chan struct{} { return l.ended }

// Term is larger for each later leader of a store.
func (l *Leader) Term() int64 { return l.election.Rev() }

// Resign ends the term and lets another one lead at once.
func (l *Leader) Resign(ctx context.Context) {
	l.store.revoke(ctx, l.session.Lease())
	l.stop()
	l.session.Orphan()
	l.ending.Wait()
}

// Load reads the state and makes it the one that Commit and Assign go on from.
// Errors are those of Store.Load.
func (l *Leader) Load(ctx context.Context) (*State, error) {
	st, err := l.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if l.blobs, err = l.store.blobHashes(ctx); err != nil {
		return nil, err
	}
	if l.events, err = l.store.countEvents(ctx); err != nil {
		return nil, err
	}
	if l.audit.counts, err = l.store.count(ctx, areaHistory); err != nil {
		return nil, err
	}
	l.audit.status = nil
	l.state, l.given = st, nil
	l.mu.Lock()
	defer l.mu.Unlock()
	// Once only: later on the writer of reports, who may be at it just now, knows better.
	if l.written == nil {
		l.written, l.unsure, l.alive = maps.Clone(st.Observed), map[string]bool{}, &st.Alive
	}
	return st, nil
}

// txn writes operations if this is still the leader. The error is ErrNotLeader,
// or one after which nobody knows whether it was written.
func (l *Leader) txn(ctx context.Context, batch []op) (int64, error) {
	ops := make([]clientv3.Op, len(batch))
	for i, o := range batch {
		ops[i] = o.etcd()
	}
	ctx, cancel := l.store.timeout(ctx)
	defer cancel()
	got, err := l.store.client.Txn(ctx).If(l.guard).Then(ops...).Commit()
	if err != nil {
		return 0, fmt.Errorf("store: write %s and %d more: %w", batch[0].key, len(batch)-1, err)
	}
	if !got.Succeeded {
		return 0, fmt.Errorf("store: write %s: %w", batch[0].key, ErrNotLeader)
	}
	l.store.marker.reached(l.store.Meta(), got.Header.Revision)
	return got.Header.Revision, nil
}

// LeaderAddress is where the present leader is found, "" when there is none.
func (s *Store) LeaderAddress(ctx context.Context) (string, error) {
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	got, err := s.client.Get(ctx, s.keys.prefix(areaLeader), clientv3.WithFirstCreate()...)
	if err != nil {
		return "", fmt.Errorf("store: read the leader: %w", err)
	}
	if len(got.Kvs) == 0 {
		return "", nil
	}
	return string(got.Kvs[0].Value), nil
}

// WatchLeader calls f with the leader's address now and at each change ("" for
// none) until the context ends. Errors: the store was not reached.
func (s *Store) WatchLeader(ctx context.Context, f func(address string)) error {
	changes := s.client.Watch(clientv3.WithRequireLeader(ctx), s.keys.prefix(areaLeader), clientv3.WithPrefix())
	last, first := "", true
	for {
		address, err := s.LeaderAddress(ctx)
		if err != nil {
			return err
		}
		if first || address != last {
			last, first = address, false
			f(address)
		}
		select {
		case got, ok := <-changes:
			if err := errors.Join(got.Err(), ctx.Err()); err != nil || !ok {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
