package gitsource

import (
	"container/heap"
	"context"
	"io/fs"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// IsAncestor tells whether newer descends from (or is) older, both full hashes: false means that history was
// rewritten, also when older is not known any more (G-5). Only commits fetched so far count. Errors: ErrRefNotFound
// when newer is unknown or a hash is malformed; ErrShallow when history is cut off before the answer; ErrCorrupt.
func (s *Source) IsAncestor(ctx context.Context, older, newer string) (yes bool, err error) {
	err = s.look(ctx, "compare", func(ctx context.Context) error {
		old, ok1 := fullHash(older)
		tip, ok2 := fullHash(newer)
		if !ok1 || !ok2 {
			return fail(ErrRefNotFound, "%q or %q is not a full commit hash", older, newer)
		}
		if _, err := s.obj.typeOf(tip); err == errNoObject {
			return fail(ErrRefNotFound, "no commit %s", newer)
		} else if err != nil {
			return err
		}
		if old == tip {
			yes = true
			return nil
		}
		if _, err := s.obj.typeOf(old); err == errNoObject {
			return nil
		} else if err != nil {
			return err
		}
		yes, err = s.descends(ctx, old, tip)
		return err
	})
	return yes, err
}

// look runs a reading question under the caller's context.
func (s *Source) look(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	err = f(ctx)
	s.noteBroken(err)
	if err != nil && ctx.Err() != nil && s.ctx.Err() == nil {
		return ctx.Err()
	}
	return s.wrap(op, err)
}

func (s *Source) descends(ctx context.Context, old, tip plumbing.Hash) (bool, error) {
	cut := false
	w, err := s.walkFrom(tip)
	if err != nil {
		return false, err
	}
	for w.Len() > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		c := w.next()
		if c.hash == old {
			return true, nil
		}
		if w.cut[c.hash] {
			cut = true
			continue
		}
		if err := w.push(c.commit.ParentHashes...); err != nil {
			return false, err
		}
	}
	if cut {
		return false, ErrShallow
	}
	return false, nil
}

// History lists commits reachable from the followed ref's last snapshot (from HEAD before the first Fetch) that
// changed path, newest first, at most limit (0 is all). A merge counts only when the result differs from all its
// parents, as in git log. path "." or "" is everything. It ends quietly where history is cut off (G-11).
func (s *Source) History(ctx context.Context, path string, limit int) ([]CommitInfo, error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == nil {
		snap, err := s.Fetch(ctx)
		if err != nil {
			return nil, err
		}
		last = snap
	}
	return s.HistoryOf(ctx, last.Commit, path, limit)
}

// HistoryOf is History from a commit given by its full hash.
func (s *Source) HistoryOf(ctx context.Context, commit, path string, limit int) (out []CommitInfo, err error) {
	err = s.look(ctx, "read history of", func(ctx context.Context) error {
		if path == "" {
			path = "."
		}
		tip, ok := fullHash(commit)
		if !ok || !fs.ValidPath(path) {
			return fail(ErrRefNotFound, "%q is not a full commit hash or %q not a path", commit, path)
		}
		w, err := s.walkFrom(tip)
		if err != nil {
			return err
		}
		for w.Len() > 0 && (limit <= 0 || len(out) < limit) {
			if err := ctx.Err(); err != nil {
				return err
			}
			c := w.next()
			touched, follow, err := w.touched(c, path)
			if err != nil {
				return err
			}
			if touched {
				out = append(out, commitInfo(c.hash, c.commit))
			}
			if err := w.push(follow...); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// walker visits commits newest first, each once.
type walker struct {
	obj   *objects
	seen  map[plumbing.Hash]bool
	cut   map[plumbing.Hash]bool // parents are not here
	paths map[plumbing.Hash]plumbing.Hash
	queue []walked
}

type walked struct {
	hash   plumbing.Hash
	commit *object.Commit
}

func (s *Source) walkFrom(tip plumbing.Hash) (*walker, error) {
	cut, err := s.back.shallow()
	if err != nil {
		return nil, err
	}
	w := &walker{obj: s.obj, cut: cut, seen: map[plumbing.Hash]bool{}, paths: map[plumbing.Hash]plumbing.Hash{}}
	return w, w.push(tip)
}

func (w *walker) Len() int { return len(w.queue) }
func (w *walker) Less(i, j int) bool {
	return w.queue[i].commit.Committer.When.After(w.queue[j].commit.Committer.When)
}
func (w *walker) Swap(i, j int) { w.queue[i], w.queue[j] = w.queue[j], w.queue[i] }
func (w *walker) Push(x any)    { w.queue = append(w.queue, x.(walked)) }
func (w *walker) Pop() any {
	last := w.queue[len(w.queue)-1]
	w.queue = w.queue[:len(w.queue)-1]
	return last
}

func (w *walker) next() walked { return heap.Pop(w).(walked) }

func (w *walker) push(hs ...plumbing.Hash) error {
	for _, h := range hs {
		if w.seen[h] {
			continue
		}
		w.seen[h] = true
		c, err := w.obj.commit(h)
		if err != nil {
			return err
		}
		heap.Push(w, walked{h, c})
	}
	return nil
}

// touched compares a commit with its parents at path and says which parents to go on with: one that has the same
// there explains everything before.
func (w *walker) touched(c walked, path string) (bool, []plumbing.Hash, error) {
	here, err := w.at(c.commit, path)
	if err != nil {
		return false, nil, err
	}
	if w.cut[c.hash] || len(c.commit.ParentHashes) == 0 {
		return !here.IsZero(), nil, nil
	}
	for _, p := range c.commit.ParentHashes {
		parent, err := w.obj.commit(p)
		if err != nil {
			return false, nil, err
		}
		there, err := w.at(parent, path)
		if err != nil {
			return false, nil, err
		}
		if there == here {
			return false, []plumbing.Hash{p}, nil
		}
	}
	return true, c.commit.ParentHashes, nil
}

// at is the hash of what a commit has at path; zero for nothing.
func (w *walker) at(c *object.Commit, path string) (plumbing.Hash, error) {
	if path == "." {
		return c.TreeHash, nil
	}
	if h, ok := w.paths[c.TreeHash]; ok {
		return h, nil
	}
	h, err := w.lookup(c.TreeHash, path)
	if err == nil {
		w.paths[c.TreeHash] = h
	}
	return h, err
}

func (w *walker) lookup(tree plumbing.Hash, path string) (plumbing.Hash, error) {
	for {
		name, rest, more := cutPath(path)
		data, err := w.obj.tree(tree)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		var found rawEntry
		if err := parseTree(data, func(e rawEntry) {
			if e.name == name {
				found = e
			}
		}); err != nil {
			return plumbing.ZeroHash, err
		}
		if !more {
			return found.hash, nil
		}
		if found.mode&modeType != modeDir {
			return plumbing.ZeroHash, nil
		}
		tree, path = found.hash, rest
	}
}
