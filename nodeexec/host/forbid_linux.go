package host

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// subject is a directory that is held against forbidden paths.
type subject struct {
	path  string  // resolved host path
	chain []ident // itself and everything above it
	place place
	entry *mountEntry
}

func (h *Host) subject(f *os.File, resolved string, entries []*mountEntry) (s subject, err error) {
	s.path = resolved
	if s.chain, err = h.ancestors(int(f.Fd())); err != nil {
		return s, err
	}
	s.place, s.entry, err = h.placeOf(int(f.Fd()), entries)
	return s, err
}

// apart fails with ErrForbidden if s equals, lies in or contains the forbidden
// host path: by the directories themselves up both chains, by their place on
// the filesystem (a bind mount of a part of a data location has neither the
// path nor the parents of it), and by what is mounted inside s. X-16.
func (h *Host) apart(s subject, forbidden string, entries []*mountEntry) error {
	o, err := h.forbidden(s.path, forbidden, entries)
	if err != nil || o == nil {
		return err
	}
	if o.holds(s) || slices.Contains(o.chain, s.chain[0]) || s.place.overlaps(o.place) || schema.Overlaps(s.path, o.path) {
		return ErrForbidden
	}
	for _, e := range entries {
		nested := e.host != s.path && schema.Covers(s.path, e.host)
		if nested && o.place.overlaps(place{e.device(), e.fsRoot}) {
			return ErrForbidden
		}
	}
	return nil
}

// apartFrom is apart for a directory name that does not exist yet below s. It
// contains nothing yet, so it only must not lie in or become a forbidden path.
func (h *Host) apartFrom(s subject, name, forbidden string, entries []*mountEntry) error {
	at := path.Join(s.path, name)
	o, err := h.forbidden(at, forbidden, entries)
	if err != nil || o == nil {
		return err
	}
	if o.holds(s) || below(s.place, []string{name}).overlaps(o.place) || schema.Overlaps(at, o.path) {
		return ErrForbidden
	}
	return nil
}

// forbiddenDir is where a forbidden path is, or would be: rest is what of it does
// not exist below the subject.
type forbiddenDir struct {
	subject
	rest []string
}

// holds reports whether s is the forbidden directory or lies in it.
func (o *forbiddenDir) holds(s subject) bool {
	return len(o.rest) == 0 && slices.Contains(s.chain, o.chain[0])
}

// forbidden finds a forbidden path. Where it is not to be found out, the words
// must do: nil then says that at is apart from it.
func (h *Host) forbidden(at, hostPath string, entries []*mountEntry) (*forbiddenDir, error) {
	f, rest, err := h.openPrefix(hostPath)
	if err != nil {
		if schema.Overlaps(at, path.Clean(hostPath)) {
			return nil, ErrForbidden
		}
		return nil, errUnless(err, ErrBadPath)
	}
	defer f.Close()
	resolved, err := h.fdHostPath(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	o, err := h.subject(f, resolved, entries)
	if err != nil {
		return nil, err
	}
	o.path, o.place = path.Join(append([]string{resolved}, rest...)...), below(o.place, rest)
	return &forbiddenDir{o, rest}, nil
}

func below(p place, rest []string) place {
	if p.path != "" && len(rest) > 0 {
		p.path = path.Join(p.path, strings.Join(rest, "/"))
	}
	return p
}

// errUnless is err, unless it is of the kind that says nothing can be there.
func errUnless(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}
