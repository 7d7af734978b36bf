package control

import (
	"context"

	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/reconciler"
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

// IsAncestor implements reconciler.Source.
func (f Fixed) IsAncestor(ctx context.Context, older, newer string) (bool, error) {
	return f.Repository.IsAncestor(ctx, older, newer)
}
