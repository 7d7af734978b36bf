package reconciler

import (
	"context"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/reconciler/store"
)

// Git makes a repository a Source.
func Git(s *gitsource.Source) Source { return git{s} }

type git struct{ *gitsource.Source }

func (g git) Fetch(ctx context.Context) (Snapshot, error) {
	s, err := g.Source.Fetch(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	return Commit(s), nil
}

// Commit is a snapshot of a repository as a Source hands it out.
func Commit(s *gitsource.Snapshot) Snapshot {
	author := s.Author.Name
	if s.Author.Email != "" {
		author += " <" + s.Author.Email + ">"
	}
	return Snapshot{Commit: s.Commit, Time: s.Time, FS: s.FS(), Author: author, Subject: s.Subject}
}

// Etcd makes a store a Store.
func Etcd(s *store.Store) Store { return etcd{s} }

type etcd struct{ *store.Store }

func (e etcd) Campaign(ctx context.Context, address string) (Leader, error) {
	l, err := e.Store.Campaign(ctx, address)
	if err != nil {
		return nil, err
	}
	return l, nil
}
