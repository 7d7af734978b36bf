package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// madeDirMode is of directories made for a worker below a grant (D-3, D-5).
const madeDirMode = 0o755

// OpenDir resolves path, with every link in it, and gives the directory if it
// is under the equally resolved grant and overlaps neither the forbidden host
// paths nor the agent's own directories. Errors: ErrMissing, ErrNotDirectory,
// ErrOutsideGrant, ErrForbidden, ErrBadPath, ErrNotAnswering. D-21, X-16.
func (h *Host) OpenDir(path, grant string, forbidden []string) (*Dir, error) {
	return h.checked(path, grant, func() (*Dir, error) { return h.openDir(path, grant, forbidden) })
}

// MakeDir is OpenDir that first makes the missing segments of path (mode 0755).
// The grant's own directory is made only where its parent exists. A link that
// leads to nothing is not followed, and nothing is made outside the grant.
func (h *Host) MakeDir(path, grant string, forbidden []string) (*Dir, error) {
	return h.checked(path, grant, func() (*Dir, error) {
		d, err := h.openDir(path, grant, forbidden)
		if !errors.Is(err, ErrMissing) {
			return d, err
		}
		if err := h.makeDir(path, grant, forbidden); err != nil {
			return nil, err
		}
		return h.openDir(path, grant, forbidden)
	})
}

// checked judges the texts, then works under a deadline: the path may lead to a
// server that is gone.
func (h *Host) checked(path, grant string, fn func() (*Dir, error)) (*Dir, error) {
	for _, p := range []string{path, grant} {
		if schema.AbsolutePathProblem(p) != "" {
			return nil, &PathError{p, fmt.Errorf("%w: %s", ErrBadPath, schema.AbsolutePathProblem(p))}
		}
	}
	d, err := ask(context.Background(), h.probes, "dir "+path, probeTimeout, fn, func(d *Dir) { d.Close() })
	if err != nil {
		return nil, wrap(path, err)
	}
	return d, nil
}

func (h *Host) openDir(hostPath, grant string, forbidden []string) (*Dir, error) {
	f, err := h.openIn(hostPath)
	if err != nil {
		return nil, err
	}
	d, err := h.verified(f, hostPath, grant, forbidden)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// verified applies grant and prohibitions to an open directory. The words of
// the path are compared as the kernel gives them in one piece, and so are the
// directories themselves, which a bind mount gives another path.
func (h *Host) verified(f *os.File, asked, grant string, forbidden []string) (*Dir, error) {
	g, err := h.openIn(grant)
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	defer g.Close()
	resolved, err := h.under(f, g)
	if err != nil {
		return nil, wrap(asked, err)
	}
	entries, err := h.table()
	if err != nil {
		return nil, err
	}
	s, err := h.subject(f, resolved, entries)
	if err != nil {
		return nil, wrap(asked, err)
	}
	for _, p := range append(h.own(), forbidden...) {
		if err := h.apart(s, p, entries); err != nil {
			return nil, wrap(asked, err)
		}
	}
	return &Dir{
		File: f, Path: resolved, Device: s.chain[0].dev, Inode: s.chain[0].ino,
		FSID: h.fsID(int(f.Fd()), s.entry),
	}, nil
}

// under gives f's resolved host path if it is g or lies in it.
func (h *Host) under(f, g *os.File) (string, error) {
	resolved, err := h.fdHostPath(int(f.Fd()))
	if err != nil {
		return "", err
	}
	above, err := h.fdHostPath(int(g.Fd()))
	if err != nil {
		return "", fmt.Errorf("grant: %w", err)
	}
	if !schema.Covers(above, resolved) {
		return "", ErrOutsideGrant
	}
	id, err := identOf(int(g.Fd()))
	if err != nil {
		return "", fmt.Errorf("grant: %w", err)
	}
	chain, err := h.ancestors(int(f.Fd()))
	if err != nil {
		return "", err
	}
	if !slices.Contains(chain, id) {
		return "", ErrOutsideGrant
	}
	return resolved, nil
}

// makeDir walks from the grant down, one segment at a time.
func (h *Host) makeDir(hostPath, grant string, forbidden []string) error {
	hostPath, grant = path.Clean(hostPath), path.Clean(grant)
	if !schema.Covers(grant, hostPath) {
		return &PathError{hostPath, ErrOutsideGrant}
	}
	g, err := h.grantDir(grant, forbidden)
	if err != nil {
		return err
	}
	defer g.Close()
	cur, err := h.openIn(grant)
	if err != nil {
		return err
	}
	defer func() { cur.Close() }()
	at := grant
	for seg := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(hostPath, grant), "/"), "/") {
		if seg == "" {
			continue
		}
		at = path.Join(at, seg)
		next, err := h.step(cur, seg, at, g, forbidden)
		if err != nil {
			return err
		}
		cur.Close()
		cur = next
	}
	return nil
}

// grantDir opens the grant's directory, and makes it where only it is missing.
func (h *Host) grantDir(grant string, forbidden []string) (*os.File, error) {
	g, err := h.openIn(grant)
	if !errors.Is(err, ErrMissing) {
		return g, err
	}
	parent, err := h.openIn(path.Dir(grant))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := h.mayMake(parent, path.Base(grant), forbidden); err != nil {
		return nil, wrap(grant, err)
	}
	return mkdirOpen(parent, path.Base(grant), grant, madeDirMode)
}

// step goes into seg below cur, making it if it is not there. A link is resolved
// as a whole path, because it may be absolute, and must stay under the grant.
func (h *Host) step(cur *os.File, seg, at string, grant *os.File, forbidden []string) (*os.File, error) {
	fd, err := openat2(int(cur.Fd()), seg, dirFlags, beneath|unix.RESOLVE_NO_SYMLINKS)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), at), nil
	case errors.Is(err, unix.ELOOP):
		next, err := h.openIn(at)
		if err != nil {
			return nil, err
		}
		if _, err := h.under(next, grant); err != nil {
			return nil, errors.Join(wrap(at, err), next.Close())
		}
		return next, nil
	case !errors.Is(err, unix.ENOENT):
		return nil, wrap(at, err)
	}
	if _, err := h.under(cur, grant); err != nil {
		return nil, wrap(at, err)
	}
	if err := h.mayMake(cur, seg, forbidden); err != nil {
		return nil, wrap(at, err)
	}
	return mkdirOpen(cur, seg, at, madeDirMode)
}

// mayMake judges a directory that is not there yet.
func (h *Host) mayMake(parent *os.File, name string, forbidden []string) error {
	resolved, err := h.fdHostPath(int(parent.Fd()))
	if err != nil {
		return err
	}
	entries, err := h.table()
	if err != nil {
		return err
	}
	s, err := h.subject(parent, resolved, entries)
	if err != nil {
		return err
	}
	for _, p := range append(h.own(), forbidden...) {
		if err := h.apartFrom(s, name, p, entries); err != nil {
			return err
		}
	}
	return nil
}

// mkdirOpen makes name below parent, durably, and opens what is there then if
// that is a real directory. The mode does not depend on the umask.
func mkdirOpen(parent *os.File, name, hostPath string, mode uint32) (*os.File, error) {
	made := retry(func() error { return unix.Mkdirat(int(parent.Fd()), name, mode) })
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, wrap(hostPath, made)
	}
	fd, err := openat2(int(parent.Fd()), name, dirFlags, beneath|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, wrap(hostPath, err)
	}
	f := os.NewFile(uintptr(fd), hostPath)
	if made == nil {
		err = errors.Join(chmodFd(fd, mode), syncDir(int(parent.Fd())))
	}
	if err != nil {
		return nil, errors.Join(wrap(hostPath, err), f.Close())
	}
	return f, nil
}

// OpenBeneath opens a directory inside d. Links inside are followed as long as
// they stay inside (relative ones; an absolute one leads out). "" is d again.
// Errors: ErrOutsideParent, ErrMissing, ErrNotDirectory, ErrBadPath. D-40.
func (h *Host) OpenBeneath(d *Dir, sub string) (*Dir, error) { return h.below(d, sub, false) }

// MakeBeneath is OpenBeneath that makes what is missing (mode 0777, as the
// worker's user is not known), never through a link.
func (h *Host) MakeBeneath(d *Dir, sub string) (*Dir, error) { return h.below(d, sub, true) }

func (h *Host) below(d *Dir, sub string, create bool) (*Dir, error) {
	if schema.RelativePathProblem(sub) != "" {
		return nil, &PathError{sub, fmt.Errorf("%w: %s", ErrBadPath, schema.RelativePathProblem(sub))}
	}
	sub = path.Clean("./" + sub)
	full := path.Join(d.Path, sub)
	return ask(context.Background(), h.probes, "dir "+full, probeTimeout, func() (*Dir, error) {
		fd, err := d.openBeneath(sub)
		if create && errors.Is(err, unix.ENOENT) {
			if err := d.makeBeneath(sub); err != nil {
				return nil, wrapBeneath(full, err)
			}
			fd, err = d.openBeneath(sub)
		}
		if err != nil {
			return nil, wrapBeneath(full, err)
		}
		return h.childDir(d, os.NewFile(uintptr(fd), full), full)
	}, func(d *Dir) { d.Close() })
}

func (d *Dir) openBeneath(sub string) (int, error) {
	rules := uint64(beneath)
	if d.oneFilesystem {
		rules |= unix.RESOLVE_NO_XDEV
	}
	return openat2(int(d.File.Fd()), sub, dirFlags, rules)
}

func (d *Dir) makeBeneath(sub string) error {
	rules := uint64(beneath | unix.RESOLVE_NO_SYMLINKS)
	if d.oneFilesystem {
		rules |= unix.RESOLVE_NO_XDEV
	}
	cur, err := openat2(int(d.File.Fd()), ".", dirFlags, rules)
	if err != nil {
		return err
	}
	for seg := range strings.SplitSeq(sub, "/") {
		next, err := openat2(cur, seg, dirFlags, rules)
		if errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(cur, seg, copyMode); err == nil || errors.Is(err, unix.EEXIST) {
				made := err == nil
				next, err = openat2(cur, seg, dirFlags, rules)
				if err == nil && made {
					err = errors.Join(chmodFd(next, copyMode), syncDir(cur))
				}
			}
		}
		unix.Close(cur)
		if err != nil {
			return err
		}
		cur = next
	}
	return unix.Close(cur)
}

// childDir is the Dir of a directory found inside d.
func (h *Host) childDir(d *Dir, f *os.File, full string) (*Dir, error) {
	id, err := identOf(int(f.Fd()))
	if err != nil {
		return nil, errors.Join(wrap(full, err), f.Close())
	}
	c := &Dir{
		File: f, Path: full, FSID: d.FSID, Device: id.dev, Inode: id.ino,
		oneFilesystem: d.oneFilesystem,
	}
	if real, err := h.fdHostPath(int(f.Fd())); err == nil {
		c.Path = real
	}
	if d.oneFilesystem || id.dev == d.Device {
		return c, nil
	}
	entries, err := h.table()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, e, err := h.placeOf(int(f.Fd()), entries)
	if err != nil {
		return nil, errors.Join(wrap(full, err), f.Close())
	}
	c.FSID = h.fsID(int(f.Fd()), e)
	return c, nil
}

func wrapBeneath(full string, err error) error {
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
		return &PathError{full, ErrOutsideParent}
	}
	return wrap(full, err)
}
