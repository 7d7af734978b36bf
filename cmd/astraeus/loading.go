package main

import (
	"context"
	"io/fs"
	"sync"
	"time"

	"astraeus.io/astraeus/gitsource"
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
	if tree, ok := files.(gitsource.HashFS); ok {
		files = sourceFS{tree}
	}
	return l.load.Load(ctx, files, load.Commit{ID: commit, Time: at})
}

func (l *loader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load.Close()
}

// sourceFS tells the loader what gitsource does not serve: a link in place of a
// drive's file is a problem, not a deletion (G-5). Neither package knows the other.
type sourceFS struct{ gitsource.HashFS }

// Problems implements load.ProblemFS.
func (f sourceFS) Problems(yield func(path, code, message string)) {
	for _, p := range f.HashFS.Problems() {
		yield(p.Path, string(p.Code), p.Message)
	}
}

// ReadDir implements fs.ReadDirFS.
func (f sourceFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.HashFS, name) }

// ReadFile implements fs.ReadFileFS.
func (f sourceFS) ReadFile(name string) ([]byte, error) { return fs.ReadFile(f.HashFS, name) }

// Stat implements fs.StatFS.
func (f sourceFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.HashFS, name) }

var (
	_ load.ProblemFS = sourceFS{}
	_ load.HashFS    = sourceFS{}
)
