package gitsource

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Options says which ref of which repository to follow. URL is required; zero values of the others are defaults.
type Options struct {
	// URL is a path, file://, http(s):// or ssh:// URL, or user@host:path.
	URL string
	// Ref is a branch, a tag, a full ref name or a full commit hash. Default: the checked-out branch of a local
	// repository, HEAD of a remote; followed when it changes.
	Ref string
	// CacheDir holds the clones of remotes, one directory for each (URL, Ref). Default: the user's cache directory.
	CacheDir string
	Auth     Auth
	// Poll is how often Watch signals without being told. Default 30 s; negative never.
	Poll time.Duration
	// Debounce is how long Watch waits for a burst of changes to end. Default 5 ms; at most 20 times as long.
	Debounce time.Duration
	// Timeout bounds one exchange with a remote. Default 5 min.
	Timeout time.Duration
	// MaxFileBytes is the largest file that is read. Default 1 MiB.
	MaxFileBytes int64
	// MaxEntries is the largest number of files and directories of a tree. Default 1,000,000.
	MaxEntries int
	// MaxPacks is how many packs may pile up in a clone before they are made one. Default 50.
	MaxPacks int
}

func (o *Options) setDefaults() {
	setDefault(&o.Poll, 30*time.Second)
	setDefault(&o.Debounce, 5*time.Millisecond)
	setDefault(&o.Timeout, 5*time.Minute)
	setDefault(&o.MaxFileBytes, DefaultMaxFileBytes)
	setDefault(&o.MaxEntries, DefaultMaxEntries)
	setDefault(&o.MaxPacks, 50)
}

// Limits that hold unless Options say otherwise.
const (
	DefaultMaxFileBytes int64 = 1 << 20
	DefaultMaxEntries         = 1_000_000
)

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Source follows one ref of one repository.
type Source struct {
	opt  Options
	url  URL
	red  redactor
	obj  *objects
	back backend

	busy   chan struct{} // held while the backend works: it is not safe for concurrent use
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	last    *Snapshot
	broken  bool // something read was damaged: repair before the next fetch
	running *flight
	next    *flight
	closed  bool
}

// backend brings commits within reach of Source.obj. Calls do not overlap.
type backend interface {
	// update finds the followed ref and makes its commit readable.
	update(context.Context) (tip, error)
	// resolve finds a revision without ~ and ^ steps and makes its commit readable.
	resolve(context.Context, string) (tip, error)
	// repair replaces what is damaged as far as it can.
	repair(context.Context) error
	// shallow lists commits whose parents are cut off.
	shallow() (map[plumbing.Hash]bool, error)
	close() error
}

// Open prepares to follow a ref. A local path must be a repository (ErrNotRepository); a remote is not contacted
// before the first Fetch, so that a controller starts during an outage. The caller must Close it.
func Open(ctx context.Context, opt Options) (*Source, error) {
	opt.setDefaults()
	red := newRedactor(opt.Auth.secrets()...)
	u, err := ParseURL(opt.URL)
	if err != nil {
		return nil, red.wrap("open", "repository", err)
	}
	red = newRedactor(append(opt.Auth.secrets(), u.secrets()...)...)
	s := &Source{opt: opt, url: u, red: red, obj: newObjects(), busy: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if u.Local() {
		s.back, err = openLocal(u.path, opt.Ref, s.obj)
	} else {
		s.back, err = openRemote(u, opt, s.obj)
	}
	if err != nil {
		s.cancel()
		return nil, red.wrap("open", u.String(), err)
	}
	return s, nil
}

// URL is where the repository is; it redacts itself.
func (s *Source) URL() URL { return s.url }

// Close ends watches and running fetches and closes files. Snapshots cannot be read afterwards.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.obj.close()
	return s.red.wrap("close", s.url.String(), s.back.close())
}

// flight is a fetch that several callers wait for.
type flight struct {
	done chan struct{}
	snap *Snapshot
	err  error
}

// Fetch returns the newest snapshot of the followed ref: the same pointer as before when the commit did not move.
// Calls are merged: those that come while a fetch runs share the one that follows it, so a caller never gets a state
// older than its call and a burst costs two fetches at most. A failure is not remembered. Errors: ErrUnavailable
// (also ErrAuth), ErrRefNotFound, ErrEmptyRepository, ErrNotRepository, ErrCorrupt, ErrTooMany (G-5, G-8).
func (s *Source) Fetch(ctx context.Context) (*Snapshot, error) {
	f, err := s.join()
	if err != nil {
		return nil, err
	}
	select {
	case <-f.done:
		return f.snap, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Source) join() (*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.wrap("fetch", ErrClosed)
	}
	if s.running == nil {
		s.running = &flight{done: make(chan struct{})}
		s.work.Add(1)
		go s.fly()
		return s.running, nil
	}
	if s.next == nil {
		s.next = &flight{done: make(chan struct{})}
	}
	return s.next, nil
}

// fly runs the current flight and those that queued up meanwhile.
func (s *Source) fly() {
	defer s.work.Done()
	for {
		s.mu.Lock()
		f := s.running
		s.mu.Unlock()
		snap, err := s.fetch(s.ctx)
		f.snap, f.err = snap, s.wrap("fetch", err)
		s.mu.Lock()
		s.running, s.next = s.next, nil
		more := s.running != nil
		s.mu.Unlock()
		close(f.done)
		if !more {
			return
		}
	}
}

// begin counts a caller in, so that Close waits for it, and gives it a context that Close ends.
func (s *Source) begin(ctx context.Context, op string) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, s.wrap(op, ErrClosed)
	}
	s.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel(); s.work.Done() }, nil
}

func (s *Source) wrap(op string, err error) error {
	if err != nil && s.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = ErrClosed
	}
	return s.red.wrap(op, s.url.String(), err)
}

// exclusive runs f while no other backend work runs, bounded by Options.Timeout.
func (s *Source) exclusive(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.busy }()
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return f(ctx)
}

func (s *Source) fetch(ctx context.Context) (snap *Snapshot, err error) {
	err = s.exclusive(ctx, func(ctx context.Context) error {
		snap, err = s.fetchOnce(ctx)
		if errors.Is(err, ErrCorrupt) {
			s.noteBroken(err)
			snap, err = s.fetchOnce(ctx)
		}
		if errors.Is(err, ErrCorrupt) {
			s.noteBroken(err)
		}
		return err
	})
	return snap, err
}

func (s *Source) fetchOnce(ctx context.Context) (*Snapshot, error) {
	if err := s.mend(ctx); err != nil {
		return nil, err
	}
	t, err := s.back.update(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	old := s.last
	s.mu.Unlock()
	if old != nil && old.Commit == t.commit.String() && old.Ref == string(t.ref) {
		return old, nil
	}
	snap, err := s.load(ctx, t, old)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.last = snap
	s.mu.Unlock()
	return snap, nil
}

// mend repairs what was found damaged.
func (s *Source) mend(ctx context.Context) error {
	s.mu.Lock()
	broken := s.broken
	s.broken = false
	s.mu.Unlock()
	if !broken {
		return nil
	}
	err := s.back.repair(ctx)
	if err != nil {
		s.noteBroken(ErrCorrupt)
	}
	return err
}

// noteUnread is noteBroken for a file of a snapshot. That an older commit is not complete any more is no damage: its
// objects go when history was rewritten and packs are merged.
func (s *Source) noteUnread(commit string, err error) {
	s.mu.Lock()
	older := s.last != nil && s.last.Commit != commit
	s.mu.Unlock()
	if !older || err != errNoObject {
		s.noteBroken(err)
	}
}

// noteBroken remembers damage for the next fetch.
func (s *Source) noteBroken(err error) {
	if !errors.Is(err, ErrCorrupt) {
		return
	}
	s.mu.Lock()
	s.broken = true
	s.mu.Unlock()
}

// At returns the snapshot of any revision: a branch, tag, ref name, full or abbreviated hash, HEAD (of the repository,
// not of the followed ref), each with ~n and ^n steps. Branches and tags of a remote are asked anew each time.
// Errors: as Fetch; ErrRefNotFound when there is no such revision.
func (s *Source) At(ctx context.Context, rev string) (snap *Snapshot, err error) {
	ctx, end, err := s.begin(ctx, "read")
	if err != nil {
		return nil, err
	}
	defer end()
	err = s.exclusive(ctx, func(ctx context.Context) error {
		snap, err = s.atOnce(ctx, rev)
		if errors.Is(err, ErrCorrupt) {
			s.noteBroken(err)
			snap, err = s.atOnce(ctx, rev)
			s.noteBroken(err)
		}
		return err
	})
	if err != nil && ctx.Err() != nil && s.ctx.Err() == nil {
		return nil, ctx.Err()
	}
	return snap, s.wrap("read", err)
}

func (s *Source) atOnce(ctx context.Context, rev string) (*Snapshot, error) {
	if err := s.mend(ctx); err != nil {
		return nil, err
	}
	t, err := s.resolve(ctx, rev)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	old := s.last
	s.mu.Unlock()
	if old != nil && old.Commit == t.commit.String() && old.Ref == string(t.ref) {
		return old, nil
	}
	return s.load(ctx, t, old)
}

func (s *Source) resolve(ctx context.Context, rev string) (tip, error) {
	base, steps := splitRev(rev)
	if base == "@" || base == "" && rev != "" {
		base = "HEAD"
	}
	if base == "" {
		return tip{}, fail(ErrRefNotFound, "no revision given")
	}
	t, err := s.back.resolve(ctx, base)
	if err != nil || steps == "" {
		return t, err
	}
	h, err := s.obj.walkSteps(t.commit, rev, steps)
	return tip{commit: h}, err
}
