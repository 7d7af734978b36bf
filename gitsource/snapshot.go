package gitsource

import (
	"context"
	"io/fs"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Person is who wrote or committed.
type Person struct {
	Name, Email string
	When        time.Time
}

// CommitInfo is what a commit says about itself. None of it is verified: anyone can write any author (G-11).
type CommitInfo struct {
	Commit    string   // 40 hex digits; "" for a directory as it lies
	Parents   []string // first parent first
	Author    Person
	Committer Person
	Subject   string // first line of the message
	Message   string
	Signature string // armoured, as in the commit; "" when unsigned
}

// Snapshot is the desired-state files at one commit, or of a directory as it lies. It is immutable, except that a
// directory's file contents are read when asked for.
type Snapshot struct {
	CommitInfo
	Tree     string    // hash of the root tree; equal trees hold equal files; "" for a directory
	Ref      string    // full ref name, "HEAD" when detached, "" when taken by hash or for a directory
	Time     time.Time // of the commit (committer); for a directory when it was listed
	Problems []Problem // entries that are not served, by path; nil when the list is complete
	Files    int       // files served

	fsys *treeFS
}

// FS is the file tree. It also implements fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and HashFS. It stays readable until
// the Source is closed.
func (s *Snapshot) FS() fs.FS { return s.fsys }

// HashFS is a file system that knows the git blob hash of each file and what it does not serve.
type HashFS interface {
	fs.FS
	// Hash is the git blob hash of a file, or the tree hash of a directory of a commit. False when there is no such
	// entry or (directory as it lies) it cannot be read.
	Hash(path string) (string, bool)
	// Problems is Snapshot.Problems.
	Problems() []Problem
}

var (
	_ HashFS        = (*treeFS)(nil)
	_ fs.ReadDirFS  = (*treeFS)(nil)
	_ fs.ReadFileFS = (*treeFS)(nil)
	_ fs.StatFS     = (*treeFS)(nil)
)

func newSnapshot(info CommitInfo, when time.Time, root *node, c content, limit int64) *Snapshot {
	s := &Snapshot{CommitInfo: info, Time: when, Files: root.files}
	if root.problems > 0 {
		s.Problems = root.collect("", make([]Problem, 0, root.problems))
	}
	s.fsys = &treeFS{root: root, content: c, limit: limit, when: when, problems: s.Problems}
	return s
}

// blobContent reads files of a commit.
type blobContent struct {
	obj    *objects
	broken func(error)
}

func (c blobContent) size(_ string, e *entry) (int64, error) {
	if n := e.size.Load(); n >= 0 {
		return n, nil
	}
	n, err := c.obj.size(e.hash)
	if err != nil {
		c.broken(err)
		return 0, err
	}
	e.size.Store(n)
	return n, nil
}

func (c blobContent) read(_ string, e *entry, limit int64) ([]byte, error) {
	if n := e.size.Load(); n > limit {
		return nil, &TooLargeError{Size: n, Limit: limit}
	}
	data, err := c.obj.read(plumbing.BlobObject, e.hash, limit)
	if err != nil {
		c.broken(err)
		return nil, err
	}
	e.size.Store(int64(len(data)))
	return data, nil
}

func (c blobContent) hash(_ string, e *entry) (plumbing.Hash, bool) { return e.hash, true }

// load makes the snapshot of a commit, sharing with old what did not change.
func (s *Source) load(ctx context.Context, t tip, old *Snapshot) (*Snapshot, error) {
	c, err := s.obj.commit(t.commit)
	if err != nil {
		return nil, err
	}
	var oldRoot *node
	if old != nil {
		oldRoot = old.fsys.root
	}
	b := &builder{ctx: ctx, r: s.obj, max: s.opt.MaxEntries, made: map[plumbing.Hash]*node{}}
	root, err := b.build(c.TreeHash, oldRoot)
	if err != nil {
		return nil, err
	}
	info := commitInfo(t.commit, c)
	content := blobContent{obj: s.obj, broken: func(err error) { s.noteUnread(info.Commit, err) }}
	snap := newSnapshot(info, info.Committer.When, root, content, s.opt.MaxFileBytes)
	snap.Tree = c.TreeHash.String()
	snap.Ref = string(t.ref)
	return snap, nil
}

func commitInfo(h plumbing.Hash, c *object.Commit) CommitInfo {
	info := CommitInfo{
		Commit:    h.String(),
		Author:    Person{c.Author.Name, c.Author.Email, c.Author.When},
		Committer: Person{c.Committer.Name, c.Committer.Email, c.Committer.When},
		Message:   c.Message,
		Signature: c.PGPSignature,
	}
	info.Subject, _, _ = strings.Cut(strings.TrimSpace(c.Message), "\n")
	for _, p := range c.ParentHashes {
		info.Parents = append(info.Parents, p.String())
	}
	return info
}
