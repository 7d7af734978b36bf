package nodeexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/renameio/v2/maybe"

	"astraeus.io/astraeus/schema"
)

// errNoBlob: the controller named a blob that it has not sent.
var errNoBlob = errors.New("the controller has not sent it")

// blobs keeps what assignments name by hash: a file a blob, verified
// when it is stored and when it is read.
type blobs struct {
	dir string
	mu  sync.Mutex
	mem map[string][]byte
}

func openBlobs(dir string) (*blobs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return &blobs{dir: dir, mem: map[string][]byte{}}, nil
}

// put stores new blobs; a content that is not its hash's is refused.
func (b *blobs) put(list map[string][]byte) error {
	for hash, data := range list {
		if schema.HashBytes(data) != hash {
			return fmt.Errorf("blob %q does not have that hash", hash)
		}
		if _, err := b.get(hash); err == nil {
			continue
		}
		if err := maybe.WriteFile(filepath.Join(b.dir, hash), data, 0o600); err != nil {
			return fmt.Errorf("blob %s: %w", hash, err)
		}
		b.mu.Lock()
		b.mem[hash] = slices.Clone(data)
		b.mu.Unlock()
	}
	return nil
}

// get reads a blob; a damaged file counts as missing and is removed, so that
// the controller sends it again.
func (b *blobs) get(hash string) ([]byte, error) {
	b.mu.Lock()
	data, ok := b.mem[hash]
	b.mu.Unlock()
	if ok {
		return data, nil
	}
	if hash == "" || filepath.Base(hash) != hash {
		return nil, fmt.Errorf("blob %q: %w", hash, errNoBlob)
	}
	name := filepath.Join(b.dir, hash)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", hash, errNoBlob)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", hash, err)
	}
	if schema.HashBytes(data) != hash {
		_ = os.Remove(name)
		return nil, fmt.Errorf("blob %s: damaged on disk: %w", hash, errNoBlob)
	}
	b.mu.Lock()
	b.mem[hash] = data
	b.mu.Unlock()
	return data, nil
}

// decode reads a blob into v.
func (b *blobs) decode(hash string, v any) error {
	data, err := b.get(hash)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("blob %s: %w", hash, err)
	}
	return nil
}

// keep removes every blob that is not in used and gives the hashes that are
// there and whole. On an open stream the controller relies on the content of the
// last assignment that it has sent, and on no older one.
func (b *blobs) keep(used map[string]bool) []string {
	entries, _ := os.ReadDir(b.dir) // unreadable: nothing is announced, all is sent again
	var have []string
	for _, e := range entries {
		hash := e.Name()
		if !used[hash] {
			_ = os.Remove(filepath.Join(b.dir, hash))
			b.mu.Lock()
			delete(b.mem, hash)
			b.mu.Unlock()
			continue
		}
		if _, err := b.get(hash); err == nil {
			have = append(have, hash)
		}
	}
	return have
}

// hashesOf are the hashes that assignments name; nil names none.
func hashesOf(list ...*schema.Assignment) map[string]bool {
	used := map[string]bool{}
	for _, t := range list {
		if t == nil {
			continue
		}
		for _, hash := range t.BlobHashes() {
			used[hash] = true
		}
	}
	return used
}
