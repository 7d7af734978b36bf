package nodeexec

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What workers printed outlives them, but not without bound: a worker that is
// started again and again would fill the agent's disk.
const (
	oldLogFiles = 1000
	oldLogBytes = 256 << 20
)

// sweepLogs removes the oldest logs of workers that the engine no longer has.
func (a *Agent) sweepLogs(ctx context.Context) error {
	listing, err := a.cfg.Engine.List(ctx)
	if err != nil || !listing.Complete {
		return err
	}
	known := map[string]bool{}
	for _, w := range listing.Workers {
		known[w.ID] = true
	}
	dir := filepath.Join(a.cfg.StateDir, LogsDir)
	old, err := oldLogs(dir, known)
	if err != nil {
		return err
	}
	var errs []error
	var bytes int64
	for i, info := range old {
		if bytes += info.Size(); i < oldLogFiles && bytes <= oldLogBytes {
			continue
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// oldLogs are the logs of no known worker, the newest first.
func oldLogs(dir string, known map[string]bool) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var old []fs.FileInfo
	for _, entry := range entries {
		if id, _, _ := strings.Cut(entry.Name(), ".log"); known[id] {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept meanwhile
		}
		if err != nil {
			return nil, err
		}
		old = append(old, info)
	}
	slices.SortFunc(old, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	return old, nil
}
