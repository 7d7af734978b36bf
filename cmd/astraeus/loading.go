package main

import (
	"context"
	"io/fs"
	"sync"
	"time"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// loader reads desired state; what it read once it knows by content.
type loader struct {
	mu   sync.Mutex
	load *load.Loader
}

func newLoader() *loader { return &loader{load: load.New(load.Options{})} }

// files loads a tree; it is a reconciler.LoadFunc.
func (l *loader) files(ctx context.Context, files fs.FS, commit string, at time.Time) (*schema.Desired, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load.Load(ctx, files, load.Commit{ID: commit, Time: at})
}

func (l *loader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load.Close()
}
