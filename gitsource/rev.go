package gitsource

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// tip is a ref and the commit it stands at.
type tip struct {
	ref    plumbing.ReferenceName // full name; "HEAD" when detached; "" for a bare hash
	commit plumbing.Hash
}

// refCandidates is where git looks for a short name.
func refCandidates(name string) []plumbing.ReferenceName {
	if strings.HasPrefix(name, "refs/") {
		return []plumbing.ReferenceName{plumbing.ReferenceName(name)}
	}
	return []plumbing.ReferenceName{
		plumbing.NewBranchReferenceName(name),
		plumbing.NewTagReferenceName(name),
		plumbing.ReferenceName("refs/" + name),
		plumbing.ReferenceName("refs/remotes/" + name),
	}
}

// checkRefName refuses what can only be a mistake or an attack, before it becomes a path.
func checkRefName(name string) error {
	for _, part := range strings.Split(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, ".") {
			return fail(ErrRefNotFound, "%q is not a ref name", name)
		}
	}
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }
	if strings.IndexFunc(name, bad) >= 0 || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return fail(ErrRefNotFound, "%q is not a ref name", name)
	}
	return nil
}

func fullHash(s string) (plumbing.Hash, bool) {
	if len(s) != 40 {
		return plumbing.ZeroHash, false
	}
	var h plumbing.Hash
	_, err := hex.Decode(h[:], []byte(s))
	return h, err == nil
}

// refs reads the refs of one repository.
type refs struct {
	st  *filesystem.Storage
	obj *objects
}

// tip finds the followed ref: "" is HEAD. An empty repository and a missing ref are told apart.
func (r refs) tip(name string) (tip, error) {
	if name == "" || name == "HEAD" {
		return r.head()
	}
	if h, ok := fullHash(name); ok {
		return r.peel(tip{commit: h})
	}
	if err := checkRefName(name); err != nil {
		return tip{}, err
	}
	for _, full := range refCandidates(name) {
		ref, err := storer.ResolveReference(r.st, full)
		if err == nil {
			return r.peel(tip{ref: full, commit: ref.Hash()})
		}
		if !isRefMissing(err) {
			return tip{}, fail(ErrCorrupt, "%s: %w", full, err)
		}
	}
	return tip{}, r.missing(name)
}

func (r refs) head() (tip, error) {
	head, err := r.st.Reference(plumbing.HEAD)
	if err != nil {
		return tip{}, fail(ErrCorrupt, "HEAD: %w", err)
	}
	if head.Type() == plumbing.HashReference {
		return r.peel(tip{ref: plumbing.HEAD, commit: head.Hash()})
	}
	ref, err := storer.ResolveReference(r.st, head.Target())
	if isRefMissing(err) {
		return tip{}, r.missing(head.Target().Short())
	}
	if err != nil {
		return tip{}, fail(ErrCorrupt, "HEAD: %w", err)
	}
	return r.peel(tip{ref: head.Target(), commit: ref.Hash()})
}

func isRefMissing(err error) bool {
	// A name below an existing ref ("main/x") ends in ENOTDIR, a directory of refs in ErrIsDir; both are no ref.
	return errors.Is(err, plumbing.ErrReferenceNotFound) ||
		err != nil && (strings.Contains(err.Error(), "not a directory") || strings.Contains(err.Error(), "is a directory"))
}

// missing tells a repository without commits from one that lacks this ref.
func (r refs) missing(name string) error {
	iter, err := r.st.IterReferences()
	if err != nil {
		return fail(ErrUnavailable, "refs: %w", err)
	}
	defer iter.Close()
	any := false
	err = iter.ForEach(func(ref *plumbing.Reference) error {
		if ref.Type() == plumbing.HashReference {
			any = true
			return storer.ErrStop
		}
		return nil
	})
	if err != nil {
		return fail(ErrUnavailable, "refs: %w", err)
	}
	if !any {
		return ErrEmptyRepository
	}
	return fail(ErrRefNotFound, "%q does not exist", name)
}

// peel follows annotated tags to a commit.
func (r refs) peel(t tip) (tip, error) {
	h, err := r.obj.peel(t.commit)
	t.commit = h
	return t, err
}

func (o *objects) peel(h plumbing.Hash) (plumbing.Hash, error) {
	for range 10 {
		typ, err := o.typeOf(h)
		switch {
		case err != nil:
			return h, err
		case typ == plumbing.CommitObject:
			return h, nil
		case typ != plumbing.TagObject:
			return h, fail(ErrRefNotFound, "%s is a %s, not a commit", h, typ)
		}
		data, err := o.read(plumbing.TagObject, h, maxCommitBytes)
		if err != nil {
			return h, err
		}
		var tag object.Tag
		if err := decode(plumbing.TagObject, data, &tag); err != nil {
			return h, fail(ErrCorrupt, "tag %s: %w", h, err)
		}
		h = tag.Target
	}
	return h, fail(ErrRefNotFound, "tags of tags of tags")
}

// splitRev cuts the ~n and ^n steps off a revision.
func splitRev(rev string) (base, steps string) {
	if i := strings.IndexAny(rev, "~^"); i >= 0 {
		return rev[:i], rev[i:]
	}
	return rev, ""
}

// walkSteps follows ~n (n first parents) and ^n (the nth parent); ^0, ^{} and ^{commit} are the commit itself.
func (o *objects) walkSteps(h plumbing.Hash, rev, steps string) (plumbing.Hash, error) {
	for steps != "" {
		op := steps[0]
		steps = steps[1:]
		if op == '^' && strings.HasPrefix(steps, "{") {
			kind, rest, ok := strings.Cut(steps[1:], "}")
			if !ok || kind != "" && kind != "commit" {
				return h, fail(ErrRefNotFound, "%q is not understood", rev)
			}
			steps = rest
			continue
		}
		end := 0
		for end < len(steps) && steps[end] >= '0' && steps[end] <= '9' {
			end++
		}
		n, err := 1, error(nil)
		if end > 0 {
			n, err = strconv.Atoi(steps[:end])
		}
		if err != nil || end == 0 && steps != "" && steps[0] != '~' && steps[0] != '^' || op != '~' && op != '^' {
			return h, fail(ErrRefNotFound, "%q is not understood", rev)
		}
		steps = steps[end:]
		if h, err = o.step(h, rev, op, n); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (o *objects) step(h plumbing.Hash, rev string, op byte, n int) (plumbing.Hash, error) {
	nth := n - 1
	if op == '~' {
		nth = 0
	} else {
		n = min(n, 1)
	}
	for ; n > 0; n-- {
		c, err := o.commit(h)
		if err != nil {
			return h, err
		}
		if nth >= len(c.ParentHashes) {
			return h, fail(ErrRefNotFound, "%q goes beyond the first commit", rev)
		}
		h = c.ParentHashes[nth]
	}
	return h, nil
}

// abbreviated finds the one commit whose hash starts with s (at least 4 hex digits).
func (o *objects) abbreviated(s string) (plumbing.Hash, error) {
	s = strings.ToLower(s)
	notFound := fail(ErrRefNotFound, "%q does not exist", s)
	if len(s) < 4 || len(s) > 40 || strings.Trim(s, "0123456789abcdef") != "" {
		return plumbing.ZeroHash, notFound
	}
	prefix, _ := hex.DecodeString(s[:len(s)&^1])
	found := map[plumbing.Hash]bool{}
	err := o.packed(func(st *filesystem.Storage) error {
		hs, err := st.HashesWithPrefix(prefix)
		if err != nil {
			return err
		}
		for _, h := range hs {
			if strings.HasPrefix(h.String(), s) {
				found[h] = true
			}
		}
		if len(found) == 0 {
			return plumbing.ErrObjectNotFound
		}
		return nil
	})
	if err != nil && len(found) == 0 {
		return plumbing.ZeroHash, notFound
	}
	commits := map[plumbing.Hash]bool{}
	for h := range found {
		if c, err := o.peel(h); err == nil {
			commits[c] = true
		}
	}
	for h := range commits {
		if len(commits) > 1 {
			return h, fail(ErrRefNotFound, "%q is the start of %d commits", s, len(commits))
		}
		return h, nil
	}
	return plumbing.ZeroHash, notFound
}
