package reconciler

import (
	"context"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
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
	return Snapshot{Commit: s.Commit, Time: s.Time, FS: s.FS(), Author: authorOf(s.CommitInfo), Subject: s.Subject}
}

// Touched implements Historian.
func (g git) Touched(ctx context.Context, older, newer string) (map[string]schema.CommitInfo, error) {
	return Touched(ctx, g.Source, older, newer)
}

// maxTouched is how many files' commits are looked up for one push: history is
// walked for each.
const maxTouched = 200

// Touched is what a Historian answers for a repository (G-11). Files beyond
// maxTouched are left out.
func Touched(ctx context.Context, s *gitsource.Source, older, newer string) (map[string]schema.CommitInfo, error) {
	b, err := s.At(ctx, newer)
	if err != nil {
		return nil, err
	}
	if len(b.Parents) == 1 && b.Parents[0] == older {
		return nil, nil // one commit touched all there is
	}
	a, err := s.At(ctx, older)
	if err != nil {
		return nil, err
	}
	paths, err := gitsource.Changed(a, b)
	if err != nil {
		return nil, err
	}
	out := map[string]schema.CommitInfo{}
	for _, path := range paths[:min(len(paths), maxTouched)] {
		last, err := s.HistoryOf(ctx, newer, path, 1)
		if err != nil {
			return nil, err
		}
		if len(last) > 0 {
			c := last[0]
			out[path] = schema.NewCommitInfo(c.Commit, authorOf(c), c.Subject, c.Committer.When)
		}
	}
	return out, nil
}

// authorOf is "ada <ada@example.org>", as the commit says it.
func authorOf(c gitsource.CommitInfo) string {
	if c.Author.Email == "" {
		return c.Author.Name
	}
	return c.Author.Name + " <" + c.Author.Email + ">"
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
