package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/google/renameio/v2/maybe"
)

// mark is how far a store had come when this controller last looked, kept outside
// of it: a store that is behind its mark was lost or restored. It may lag
// behind the store by markEvery, for machines remember too what they have seen.
type mark struct {
	ClusterUID string `json:"cluster_uid"`
	Epoch      int64  `json:"epoch"`
	Revision   int64  `json:"revision"`
}

const markEvery = 10 * time.Second

// readMark reads the mark; the zero value is that there is none.
func readMark(file string) (m mark, err error) {
	if file == "" {
		return m, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("store: %s, which says how far the store had come, cannot be read: %w; "+
			"remove it if you are sure that the store is the newest", file, err)
	}
	return m, nil
}

// marker keeps the mark up to date.
type marker struct {
	file string
	mu   sync.Mutex
	now  mark
	kept mark
	stop context.CancelFunc
	done chan struct{}
}

// startMarker begins with what was read and goes on until close.
func startMarker(file string, kept mark) *marker {
	ctx, stop := context.WithCancel(context.Background())
	m := &marker{file: file, now: kept, kept: kept, stop: stop, done: make(chan struct{})}
	go m.run(ctx)
	return m
}

// reached notes where the store is.
func (m *marker) reached(meta Meta, revision int64) {
	if m == nil || meta.ClusterUID == "" || meta.Adopting {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = mark{meta.ClusterUID, meta.Epoch, revision}
}

func (m *marker) run(ctx context.Context) {
	defer close(m.done)
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = m.write() // it is tried again; the store itself says when the disk is full
		}
	}
}

func (m *marker) write() error {
	m.mu.Lock()
	now, kept := m.now, m.kept
	m.mu.Unlock()
	if m.file == "" || now == kept {
		return nil
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = maybe.WriteFile(m.file, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	m.mu.Lock()
	m.kept = now
	m.mu.Unlock()
	return nil
}

// close writes the mark a last time.
func (m *marker) close() error {
	if m == nil {
		return nil
	}
	m.stop()
	<-m.done
	return m.write()
}
