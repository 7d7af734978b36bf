package control

import (
	"context"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/schema"
)

// Fixed is a source that stays at one commit of a repository.
type Fixed struct {
	Repository *gitsource.Source
	Snapshot   *gitsource.Snapshot
}

// Fetch implements reconciler.Source.
func (f Fixed) Fetch(context.Context) (reconciler.Snapshot, error) {
	return reconciler.Commit(f.Snapshot), nil
}

// Watch implements reconciler.Source: nothing new ever comes.
func (f Fixed) Watch(ctx context.Context) (<-chan struct{}, error) {
	never := make(chan struct{})
	context.AfterFunc(ctx, func() { close(never) })
	return never, nil
}

// Touched implements reconciler.Historian.
func (f Fixed) Touched(ctx context.Context, older, newer string) (map[string]schema.CommitInfo, error) {
	return reconciler.Touched(ctx, f.Repository, older, newer)
}

// IsAncestor implements reconciler.Source.
func (f Fixed) IsAncestor(ctx context.Context, older, newer string) (bool, error) {
	return f.Repository.IsAncestor(ctx, older, newer)
}
