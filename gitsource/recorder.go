package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// RecorderBranch is the branch a Recorder commits to.
const RecorderBranch = "main"

// Recorder turns the files of a directory into commits of a private bare repository that descend from each other, so
// that a directory which is no repository can be followed like one. Source reads the same repository.
type Recorder struct {
	dir  string
	lock *dirLock
	obj  *objects
	now  func() time.Time

	mu     sync.Mutex
	scans  map[string]*scanner // by directory
	trees  map[plumbing.Hash]bool
	closed bool
}

// OpenRecorder opens the bare repository in dir, or makes it. Only one Recorder can have it open (ErrLocked).
func OpenRecorder(ctx context.Context, dir string) (*Recorder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, redactor{}.wrap("open", dir, err)
	}
	r := &Recorder{dir: dir, lock: lock, now: time.Now, obj: newObjects()}
	r.scans, r.trees = map[string]*scanner{}, map[plumbing.Hash]bool{}
	if err := r.init(); err != nil {
		_ = lock.close()
		return nil, redactor{}.wrap("open", dir, err)
	}
	return r, nil
}

// init makes the repository; HEAD comes last because it is what makes it one.
func (r *Recorder) init() error {
	r.sweep()
	st := openStore(osfs.New(r.dir), r.obj.cache, false)
	r.obj.use([]objectStore{{dir: r.objects(), st: st}})
	if err := st.Init(); err != nil {
		return &classified{kind: ErrUnavailable, err: err}
	}
	head := filepath.Join(r.dir, "HEAD")
	if _, err := os.Stat(head); err == nil {
		return r.check()
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	err := writeAtomic(r.dir, filepath.Join(r.dir, "config"), []byte(config))
	if err == nil {
		err = writeAtomic(r.dir, head, []byte("ref: refs/heads/"+RecorderBranch+"\n"))
	}
	if err != nil {
		return &classified{kind: ErrUnavailable, err: err}
	}
	return nil
}

// sweep removes what a crash left half-written.
func (r *Recorder) sweep() {
	for _, pattern := range []string{".tmp-*", "objects/tmp_obj_*"} {
		left, _ := filepath.Glob(filepath.Join(r.dir, pattern))
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
}

// check finds out whether the last commit survived a crash of the machine.
func (r *Recorder) check() error {
	head, err := r.head()
	if err != nil || head.IsZero() {
		return err
	}
	c, err := r.obj.commit(head)
	if err != nil {
		return err
	}
	_, err = r.obj.tree(c.TreeHash)
	return err
}

func (r *Recorder) objects() string { return filepath.Join(r.dir, "objects") }
func (r *Recorder) refPath() string { return filepath.Join(r.dir, "refs", "heads", RecorderBranch) }

// head is the last commit, zero when there is none.
func (r *Recorder) head() (plumbing.Hash, error) {
	data, err := os.ReadFile(r.refPath())
	if errors.Is(err, fs.ErrNotExist) {
		return plumbing.ZeroHash, nil
	}
	if err != nil {
		return plumbing.ZeroHash, &classified{kind: ErrUnavailable, err: err}
	}
	h, ok := fullHash(strings.TrimSpace(string(data)))
	if !ok {
		return h, fail(ErrCorrupt, "the branch holds no commit")
	}
	return h, nil
}

// Close gives the repository free.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.obj.close()
	return redactor{}.wrap("close", r.dir, r.lock.close())
}

// scanTries is how often a directory that changes under our hands is listed again.
const scanTries = 5

// Record commits the files of dir as they lie: links, submodules and unsafe names are recorded as what they are, for
// the reader to report; .git is left out, big files are not. changed is false, and nothing is written, when the last
// commit has the same files. What cannot be recorded (a file without read permission, a pipe) is an error and no
// commit, because leaving it out would look like its removal (G-5).
func (r *Recorder) Record(ctx context.Context, dir, message string) (commit string, changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return "", false, redactor{}.wrap("record", dir, ErrClosed)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", false, redactor{}.wrap("record", dir, err)
	}
	sc := r.scans[abs]
	if sc == nil {
		sc = &scanner{path: abs, max: DefaultMaxEntries}
		r.scans[abs] = sc
	}
	for try := 1; ; try++ {
		commit, changed, err = r.record(ctx, sc, message)
		if !errors.Is(err, errChanged) || try == scanTries {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return "", false, ctx.Err()
	}
	return commit, changed, redactor{}.wrap("record", dir, err)
}

func (r *Recorder) record(ctx context.Context, sc *scanner, message string) (string, bool, error) {
	root, err := sc.scan(ctx)
	if err != nil {
		return "", false, err
	}
	w := &treeWriter{ctx: ctx, r: r, root: sc.path}
	tree, err := w.write("", root)
	if err != nil {
		return "", false, err
	}
	head, err := r.head()
	if err != nil {
		return "", false, err
	}
	if !head.IsZero() {
		c, err := r.obj.commit(head)
		if err != nil {
			return "", false, err
		}
		if c.TreeHash == tree {
			return head.String(), false, nil
		}
	}
	h, err := r.commit(tree, head, message)
	return h.String(), err == nil, err
}

func (r *Recorder) commit(tree, parent plumbing.Hash, message string) (plumbing.Hash, error) {
	who := object.Signature{Name: "astraeus", Email: "astraeus@localhost", When: r.now()}
	c := &object.Commit{Author: who, Committer: who, Message: message, TreeHash: tree}
	if !strings.HasSuffix(message, "\n") {
		c.Message += "\n"
	}
	if !parent.IsZero() {
		c.ParentHashes = []plumbing.Hash{parent}
	}
	m := &plumbing.MemoryObject{}
	if err := c.Encode(m); err != nil {
		return plumbing.ZeroHash, fail(ErrCorrupt, "commit: %w", err)
	}
	data, err := readStored(m)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	h, err := writeLoose(r.objects(), plumbing.CommitObject, data)
	if err == nil {
		err = writeAtomic(r.dir, r.refPath(), []byte(h.String()+"\n"))
	}
	if err != nil {
		return h, &classified{kind: ErrUnavailable, err: err}
	}
	return h, nil
}

// treeWriter stores what a scan found that is not stored yet.
type treeWriter struct {
	ctx  context.Context
	r    *Recorder
	root string
}

// write stores a directory and returns its tree. Empty directories are in no tree.
func (w *treeWriter) write(path string, l *lie) (plumbing.Hash, error) {
	raws := make([]rawEntry, 0, len(l.sub))
	for _, s := range l.sub {
		if err := w.ctx.Err(); err != nil {
			return plumbing.ZeroHash, err
		}
		at := joinPath(path, s.name)
		raw, err := w.entry(at, s)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if s.kind == lieDirectory && raw.hash == emptyTree {
			continue
		}
		raws = append(raws, raw)
	}
	data := encodeTree(raws)
	h := hashObject(plumbing.TreeObject, data)
	if w.r.trees[h] {
		return h, nil
	}
	if _, err := writeLoose(w.r.objects(), plumbing.TreeObject, data); err != nil {
		return h, &classified{kind: ErrUnavailable, err: err}
	}
	w.r.trees[h] = true
	return h, nil
}

func (w *treeWriter) entry(path string, s *lie) (rawEntry, error) {
	raw := rawEntry{name: s.name}
	var err error
	switch s.kind {
	case lieDirectory:
		raw.mode = modeDir
		raw.hash, err = w.write(path, s)
	case lieFile:
		raw.mode = modeFile
		if s.exec {
			raw.mode = modeExec
		}
		raw.hash, err = w.file(path, s.blob)
	case lieLink:
		raw.mode = modeLink
		raw.hash, err = w.link(path)
	case lieNested:
		// The hash of a submodule names a commit elsewhere; any will do, since none is ever read.
		raw.mode = modeGitlink
		raw.hash = hashObject(plumbing.BlobObject, []byte(path))
	case lieSpecial:
		err = fail(ErrUnavailable, "%s is a device, socket or pipe", describe(path))
	default:
		err = fail(ErrUnavailable, "%s cannot be read", describe(path))
	}
	return raw, err
}

func (w *treeWriter) link(path string) (plumbing.Hash, error) {
	d, err := openRootDir(w.root)
	for name, rest, more := cutPath(path); err == nil && more; name, rest, more = cutPath(rest) {
		var sub *dirFD
		sub, err = d.openDir(name)
		d.close()
		d, path = sub, rest
	}
	if err != nil {
		return plumbing.ZeroHash, w.readError(path, err)
	}
	defer d.close()
	target, err := d.readlink(path)
	if err != nil {
		return plumbing.ZeroHash, w.readError(path, err)
	}
	h, err := writeLoose(w.r.objects(), plumbing.BlobObject, []byte(target))
	if err != nil {
		return h, &classified{kind: ErrUnavailable, err: err}
	}
	return h, nil
}

// maxInMemory is the largest file that is read at once; larger ones are streamed.
const maxInMemory = 1 << 20

func (w *treeWriter) file(path string, b *lieBlob) (plumbing.Hash, error) {
	if h, known, stored := b.get(); known && stored {
		return h, nil
	}
	begun := time.Now()
	data, h, err := readLie(w.root, path, maxInMemory)
	var large *TooLargeError
	switch {
	case errors.As(err, &large):
		h, err = streamLoose(w.r.objects(), w.root, path)
	case err == nil:
		_, err = writeLoose(w.r.objects(), plumbing.BlobObject, data)
	}
	if err == nil {
		err = b.pin(h, begun)
	}
	if err != nil {
		return h, w.readError(path, err)
	}
	b.mu.Lock()
	b.stored = true
	b.mu.Unlock()
	return h, nil
}

// readError tells a directory that changes now, which is listed again, from one that cannot be read.
func (w *treeWriter) readError(path string, err error) error {
	if errors.Is(err, errChanged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return &classified{kind: ErrUnavailable, err: fmt.Errorf("%s: %w", describe(path), errChanged)}
	}
	return &classified{kind: ErrUnavailable, err: fmt.Errorf("%s: %w", describe(path), err)}
}

// encodeTree writes a tree object. Git orders directories as if their names ended in a slash.
func encodeTree(raws []rawEntry) []byte {
	key := func(e rawEntry) string {
		if e.mode == modeDir {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(raws, func(a, b rawEntry) int { return strings.Compare(key(a), key(b)) })
	out := make([]byte, 0, len(raws)*48)
	for _, e := range raws {
		out = fmt.Appendf(out, "%o %s\x00", e.mode, e.name)
		out = append(out, e.hash[:]...)
	}
	return out
}
