package gitsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// cacheDir holds the clone of one (URL, ref):
//
//	lock         who has it
//	current      the name of the clone in use, replaced atomically: this is the swap
//	clone-…/     bare repositories; those current does not name are leftovers
type cacheDir struct {
	dir  string
	lock *dirLock
}

func openCache(base string, u URL, ref string) (*cacheDir, error) {
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fail(ErrUnavailable, "no cache directory: %w", err)
		}
		base = filepath.Join(user, "astraeus", "git")
	}
	sum := sha256.Sum256([]byte(u.identity() + "\x00" + ref))
	dir := filepath.Join(base, hex.EncodeToString(sum[:12]))
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	c := &cacheDir{dir: dir, lock: lock}
	c.sweep()
	return c, nil
}

const clonePrefix = "clone-"

// current is the path of the clone in use, "" when there is none.
func (c *cacheDir) current() string {
	data, err := os.ReadFile(filepath.Join(c.dir, "current"))
	name := strings.TrimSpace(string(data))
	if err != nil || !strings.HasPrefix(name, clonePrefix) || name != filepath.Base(name) {
		return ""
	}
	return filepath.Join(c.dir, name)
}

// begin makes an empty bare repository beside the one in use.
func (c *cacheDir) begin() (string, error) {
	dir, err := os.MkdirTemp(c.dir, clonePrefix)
	if err != nil {
		return "", fail(ErrUnavailable, "cache directory: %w", err)
	}
	st := openStore(osfs.New(dir), newObjects().cache, true)
	defer st.Close()
	err = st.Init()
	if err == nil {
		// No deltas when packs are merged: it would cost more than it saves.
		config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[pack]\n\twindow = 0\n"
		err = os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", fail(ErrUnavailable, "cache directory: %w", err)
	}
	return dir, nil
}

// swap makes dir the clone in use and removes all others.
func (c *cacheDir) swap(dir string) error {
	if err := writeAtomic(c.dir, filepath.Join(c.dir, "current"), []byte(filepath.Base(dir)+"\n")); err != nil {
		return fail(ErrUnavailable, "cache directory: %w", err)
	}
	c.sweep()
	return nil
}

// sweep removes what a crash left: clones not in use, temporary files, locks of programs that are gone (ours is the
// only one that may be here). What cannot be removed now is removed next time.
func (c *cacheDir) sweep() {
	cur := c.current()
	items, _ := os.ReadDir(c.dir)
	for _, it := range items {
		path := filepath.Join(c.dir, it.Name())
		if strings.HasPrefix(it.Name(), clonePrefix) && path != cur || strings.HasPrefix(it.Name(), ".tmp-") {
			_ = os.RemoveAll(path)
		}
	}
	if cur == "" {
		return
	}
	_ = filepath.WalkDir(cur, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() &&
			(strings.HasSuffix(path, ".lock") || strings.HasPrefix(d.Name(), "tmp_") || strings.HasPrefix(d.Name(), "._")) {
			_ = os.Remove(path)
		}
		return nil
	})
}

func (c *cacheDir) close() error { return c.lock.close() }

// checkPacks finds cut-off and mixed-up packs without reading them whole: each must end with the checksum its index
// names. Damage inside shows when an object is read, because every one is checked against its hash.
func checkPacks(dir string) error {
	packs := filepath.Join(dir, "objects", "pack")
	items, err := os.ReadDir(packs)
	if err != nil {
		return err
	}
	for _, it := range items {
		name, ok := strings.CutSuffix(it.Name(), ".pack")
		if !ok {
			continue
		}
		if err := checkPack(filepath.Join(packs, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func checkPack(base string) error {
	data, err := os.ReadFile(base + ".idx")
	if err != nil {
		return err
	}
	idx := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(bytes.NewReader(data)).Decode(idx); err != nil {
		return err
	}
	f, err := os.Open(base + ".pack")
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var head [4]byte
	var tail [20]byte
	if info.Size() < 32 {
		return errors.New("cut off")
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return err
	}
	if _, err := f.ReadAt(tail[:], info.Size()-20); err != nil {
		return err
	}
	if string(head[:]) != "PACK" || tail != idx.PackfileChecksum {
		return errors.New("it does not match its index")
	}
	return nil
}

func countPacks(dir string) int {
	list, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	return len(list)
}

func openClone(dir string, obj *objects) *filesystem.Storage {
	return openStore(osfs.New(dir), obj.cache, true)
}
