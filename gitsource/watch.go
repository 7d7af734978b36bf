package gitsource

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watch signals when Fetch may have something new: at Options.Poll, and at once when refs of a local repository
// change. Signals that are not taken are merged into one. The channel is closed when ctx or the Source ends. That a
// signal came says nothing: ask Fetch (G-8).
func (s *Source) Watch(ctx context.Context) (<-chan struct{}, error) {
	ctx, end, err := s.begin(ctx, "watch")
	if err != nil {
		return nil, err
	}
	w := &watcher{poll: s.opt.Poll, quiet: s.opt.Debounce}
	if l, ok := s.back.(*local); ok {
		w.list, w.want = l.watched, refEvent
	}
	out, err := w.start(ctx, end)
	return out, s.wrap("watch", err)
}

// WatchDir signals when something in a directory changes, as Source.Watch does for a repository: for a directory that
// is read with Dir or recorded with a Recorder. The channel is closed when ctx ends.
func WatchDir(ctx context.Context, dir string, poll, debounce time.Duration) (<-chan struct{}, error) {
	setDefault(&poll, 30*time.Second)
	setDefault(&debounce, 20*time.Millisecond)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return nil, redactor{}.wrap("watch", dir, &classified{kind: ErrUnavailable, err: err})
	}
	w := &watcher{poll: poll, quiet: debounce, list: func() []string { return subdirs(dir, ".git") }}
	w.want = func(path string) bool { return filepath.Base(path) != ".git" }
	out, err := w.start(ctx, func() {})
	return out, redactor{}.wrap("watch", dir, err)
}

// watched are the directories in which a commit shows: those of HEAD, packed-refs and refs.
func (l *local) watched() []string {
	dirs, err := findRepo(l.path)
	if err != nil {
		return nil
	}
	out := []string{dirs.git}
	if dirs.common != dirs.git {
		out = append(out, dirs.common)
	}
	return append(out, subdirs(filepath.Join(dirs.common, "refs"), "")...)
}

// refEvent leaves out what git does before and beside moving a ref.
func refEvent(path string) bool {
	base := filepath.Base(path)
	if strings.HasSuffix(base, ".lock") {
		return false
	}
	if strings.Contains(filepath.ToSlash(path), "/refs/") {
		return true
	}
	return base == "HEAD" || base == "packed-refs" || base == "refs"
}

// subdirs is root and all directories below, links and those named skip left out.
func subdirs(root, skip string) []string {
	var out []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if skip != "" && d.Name() == skip && path != root {
			return filepath.SkipDir
		}
		out = append(out, path)
		return nil
	})
	return out
}

// watcher merges a ticker and file notifications into one channel.
type watcher struct {
	poll  time.Duration   // negative: never
	quiet time.Duration   // a burst ends after this long without an event
	list  func() []string // directories to watch; nil for none
	want  func(path string) bool
}

func (w *watcher) start(ctx context.Context, end func()) (<-chan struct{}, error) {
	out := make(chan struct{}, 1)
	var notify *fsnotify.Watcher
	if w.list != nil {
		var err error
		if notify, err = fsnotify.NewWatcher(); err != nil {
			end()
			return nil, &classified{kind: ErrUnavailable, err: err}
		}
		w.rewatch(notify)
	}
	go func() {
		defer end()
		defer close(out)
		if notify != nil {
			defer notify.Close()
		}
		w.run(ctx, notify, out)
	}()
	return out, nil
}

// rewatch adds what is not watched yet; what is stays. Polling covers what cannot be watched.
func (w *watcher) rewatch(n *fsnotify.Watcher) {
	for _, dir := range w.list() {
		_ = n.Add(dir)
	}
}

func (w *watcher) run(ctx context.Context, notify *fsnotify.Watcher, out chan<- struct{}) {
	var events chan fsnotify.Event
	var failures chan error
	if notify != nil {
		events, failures = notify.Events, notify.Errors
	}
	var tick <-chan time.Time
	if w.poll > 0 {
		t := time.NewTicker(w.poll)
		defer t.Stop()
		tick = t.C
	}
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	defer quiet.Stop()
	var burst time.Time // when the burst began; zero between bursts
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-events:
			if ev.Op == fsnotify.Chmod || !w.want(ev.Name) {
				continue
			}
			if ev.Has(fsnotify.Create) {
				w.rewatch(notify)
			}
			if burst.IsZero() {
				burst = time.Now()
			}
			if time.Since(burst) < 20*w.quiet {
				quiet.Reset(w.quiet)
			}
		case <-failures: // events were lost: look
			signal(out)
		case <-tick:
			if notify != nil {
				w.rewatch(notify)
			}
			signal(out)
		case <-quiet.C:
			burst = time.Time{}
			signal(out)
		}
	}
}

func signal(out chan<- struct{}) {
	select {
	case out <- struct{}{}:
	default:
	}
}
