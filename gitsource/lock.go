package gitsource

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// dirLock keeps a directory to one process. The kernel drops it when the process ends, however it ends.
type dirLock struct{ f *os.File }

// lockDir takes dir/lock or fails with ErrLocked, naming who has it.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail(ErrUnavailable, "cache directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fail(ErrUnavailable, "cache directory: %w", err)
	}
	taken, err := tryLock(f)
	if err != nil {
		_ = f.Close()
		return nil, fail(ErrUnavailable, "locking %s: %w", path, err)
	}
	if !taken {
		defer f.Close()
		who, _ := io.ReadAll(io.LimitReader(f, 256))
		name := strings.TrimSpace(string(who))
		if name == "" {
			name = "an unnamed process"
		}
		return nil, fail(ErrLocked, "%s has %s", name, path)
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("%s (pid %d on %s, since %s)\n", filepath.Base(os.Args[0]), os.Getpid(), host,
		time.Now().UTC().Format(time.RFC3339))
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(text), 0)
	}
	return &dirLock{f: f}, nil
}

func (l *dirLock) close() error { return l.f.Close() }

// writeAtomic replaces path by data so that a crash leaves the old or the new content. tmp is a directory of the same
// filesystem for the new content: not one whose every file means something, like refs.
func writeAtomic(tmp, path string, data []byte) error {
	f, err := os.CreateTemp(tmp, ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	syncDir(filepath.Dir(path))
	return nil
}

// syncDir makes a rename durable where the system can; where it cannot (Windows) the rename itself is.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
