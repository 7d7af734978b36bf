package control

import (
	"context"
	"sync"

	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// maxLogged is how many histories and statuses of commits are kept at hand.
const maxLogged = 512

// logBook reads the audit log for the status API. What was read is kept until the
// watch says that it was added to, so that asking again reads nothing.
type logBook struct {
	store readsLog

	mu        sync.Mutex
	number    int // of changes, so that what was read before one is not kept after it
	histories map[schema.Key][]schema.Record
	commits   map[string]*schema.CommitStatus
}

// readsLog is the store's side of the audit log.
type readsLog interface {
	History(ctx context.Context, object schema.Key) ([]schema.Record, error)
	CommitStatus(ctx context.Context, commit string) (*schema.CommitStatus, error)
}

func newLogBook(s readsLog) *logBook {
	l := &logBook{store: s}
	l.forgetAll()
	return l
}

// History implements statusapi.Log.
func (l *logBook) History(ctx context.Context, object schema.Key) ([]schema.Record, error) {
	return kept(l, &l.histories, object, func() ([]schema.Record, error) { return l.store.History(ctx, object) })
}

// CommitStatus implements statusapi.Log.
func (l *logBook) CommitStatus(ctx context.Context, commit string) (*schema.CommitStatus, error) {
	return kept(l, &l.commits, commit, func() (*schema.CommitStatus, error) { return l.store.CommitStatus(ctx, commit) })
}

func kept[K comparable, V any](l *logBook, in *map[K]V, key K, read func() (V, error)) (V, error) {
	l.mu.Lock()
	value, have := (*in)[key]
	number := l.number
	l.mu.Unlock()
	if have {
		return value, nil
	}
	value, err := read()
	if err != nil {
		return value, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.number == number {
		if len(*in) >= maxLogged {
			for other := range *in { // any one
				delete(*in, other)
				break
			}
		}
		(*in)[key] = value
	}
	return value, nil
}

// forget drops what changes added to.
func (l *logBook) forget(c store.Changes) {
	if c.Reload {
		l.forgetAll()
		return
	}
	if len(c.Histories)+len(c.Commits) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	for _, object := range c.Histories {
		delete(l.histories, object)
	}
	for _, commit := range c.Commits {
		delete(l.commits, commit)
	}
}

func (l *logBook) forgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	l.histories, l.commits = map[schema.Key][]schema.Record{}, map[string]*schema.CommitStatus{}
}
