package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// usedEvery is how often a copy's last use is written at most (D-70).
const usedEvery = time.Hour

// Copies are the placed drives' copies in the data locations of one cluster on
// this machine. They are found by their uid from the last List or Create on, so
// List comes first. The host's bytes are the truth: what is remembered is
// verified against the sidecar before each use.
type Copies struct {
	h       *Host
	cluster string
	locks   keyLocks // by copy name
	remover *remover

	mu     sync.Mutex
	memory memory
	known  []string              // host paths of data locations
	index  map[string]whereabout // by drive uid
	lists  int64                 // how many listings have begun
}

type whereabout struct {
	location, name string
	since          int64 // the listing during or after which it was noted
}

// Copies gives the copies of one cluster. Call Close when done.
func (h *Host) Copies(clusterUID string) *Copies {
	c := &Copies{h: h, cluster: clusterUID, index: map[string]whereabout{}}
	c.remover = newRemover(c)
	return c
}

// Close stops the removal of trash, which goes on at the next List of another
// Copies, and waits for it.
func (c *Copies) Close() { c.remover.close() }

func (c *Copies) now() time.Time { return c.h.sys.now().UTC() }

func (c *Copies) note(uid, location, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index[uid] = whereabout{location, name, c.lists}
	if !slices.Contains(c.known, location) {
		c.known = append(c.known, location)
	}
}

func (c *Copies) forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.index, uid)
}

func (c *Copies) where(uid string) (whereabout, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.index[uid]
	return w, ok
}

// Create makes the copy of a drive in a data location, or in none if any known
// location has it already. The sidecar is durable before the directory is
// there. Errors: ErrNoSidecar, ErrForeignCopy, ErrNewerFormat, ErrDamaged (what
// is there stays untouched), ErrLocationNotMounted, ErrNotLocal. A full disk is
// ENOSPC and leaves nothing half-done..
func (c *Copies) Create(ctx context.Context, loc schema.DataLocation, drive schema.Key, uid string) error {
	name, err := copyName(drive, uid)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer c.locks.lock(name)()
	if d, err := c.Open(uid, ""); err == nil {
		return d.Close()
	} else if !errors.Is(err, ErrNoCopy) && !errors.Is(err, ErrMissing) {
		return err
	}
	where := path.Clean(loc.Path)
	l, err := c.openLocation(where)
	if errors.Is(err, errUnused) {
		l, err = c.firstUse(where)
	}
	if err != nil {
		return err
	}
	defer l.close()
	if err := c.make(l, name, uid); err != nil {
		return &PathError{l.copyPath(name), err}
	}
	c.note(uid, where, name)
	return nil
}

func (l *location) copyPath(name string) string { return path.Join(l.path, drivesName, name) }

// make is Create in an open location.
func (c *Copies) make(l *location, name, uid string) error {
	there, err := l.hasCopyDir(name)
	if err != nil {
		return err
	}
	s, err := l.readSidecar(name)
	switch {
	case errors.Is(err, unix.ENOENT) && there:
		return ErrNoSidecar
	case errors.Is(err, unix.ENOENT):
		return c.makeNew(l, name, uid, true)
	case err != nil:
		return err
	case !c.owns(s, name, uid):
		return ErrForeignCopy
	case there:
		return nil
	}
	// The directory was never made, or went to the trash: in both cases the
	// new one is empty, whatever the old sidecar says of a fill.
	return c.makeNew(l, name, uid, false)
}

func (c *Copies) owns(s sidecar, name, uid string) bool {
	return s.ClusterUID == c.cluster && s.DriveUID == uid && s.Drive == name
}

func (c *Copies) makeNew(l *location, name, uid string, fresh bool) error {
	s := sidecar{Version: fileVersion, ClusterUID: c.cluster, Drive: name, DriveUID: uid, Created: c.now()}
	if err := writeFileAt(int(l.meta.Fd()), name+jsonSuffix, encode(s), fresh); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	c.h.sys.step("sidecar")
	err := retry(func() error { return unix.Mkdirat(int(l.drives.Fd()), name, copyMode) })
	if err == nil {
		err = l.settle(name)
	}
	if err == nil {
		c.h.sys.step("copy")
		return nil
	}
	if errors.Is(err, unix.EEXIST) {
		err = ErrNoSidecar // it came from somebody else, just now
	}
	return errors.Join(err, l.dropSidecar(name))
}

// settle gives a new copy its mode and makes it durable, or takes it away.
func (l *location) settle(name string) error {
	fd, err := openat2(int(l.drives.Fd()), name, dirFlags, strict)
	if err != nil {
		return err
	}
	err = errors.Join(chmodFd(fd, copyMode), syncDir(int(l.drives.Fd())), unix.Close(fd))
	if err != nil {
		err = errors.Join(err, unix.Unlinkat(int(l.drives.Fd()), name, unix.AT_REMOVEDIR))
	}
	return err
}

func (l *location) dropSidecar(name string) error {
	return errors.Join(unix.Unlinkat(int(l.meta.Fd()), name+jsonSuffix, 0), syncDir(int(l.meta.Fd())))
}

func (l *location) readSidecar(name string) (sidecar, error) {
	data, err := readFileAt(int(l.meta.Fd()), name+jsonSuffix)
	if err != nil {
		return sidecar{}, err
	}
	return parseSidecar(data)
}

// openCopy opens a copy's directory: a real one, on the location's filesystem.
// Errors: ENOENT, ErrNotDirectory, ErrMountPoint.
func (l *location) openCopy(name string) (*os.File, error) {
	fd, err := openat2(int(l.drives.Fd()), name, dirFlags, strict)
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, ErrMountPoint
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, ErrNotDirectory
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(fd), l.copyPath(name)), nil
}

func (l *location) hasCopyDir(name string) (bool, error) {
	f, err := l.openCopy(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, f.Close()
}

// found opens the location of a known copy and its verified sidecar.
func (c *Copies) found(uid string) (*location, whereabout, sidecar, error) {
	w, ok := c.where(uid)
	if !ok {
		return nil, w, sidecar{}, fmt.Errorf("%w: %s", ErrNoCopy, uid)
	}
	l, err := c.openLocation(w.location)
	if errors.Is(err, errUnused) {
		err = &PathError{w.location, ErrLocationNotMounted}
	}
	if err != nil {
		return nil, w, sidecar{}, err
	}
	s, err := l.readSidecar(w.name)
	if err == nil && !c.owns(s, w.name, uid) {
		err = ErrForeignCopy
	}
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %s", ErrNoCopy, uid)
	}
	if err != nil {
		l.close()
		return nil, w, sidecar{}, &PathError{l.copyPath(w.name), err}
	}
	return l, w, s, nil
}

// Open gives a directory of a copy: folder is relative, "" is the copy itself;
// what is missing of it is made (mode 0777). Links in it must stay inside, and
// no other filesystem may be on the way. Errors: ErrNoCopy, ErrMissing (the
// sidecar is there and the directory is not), ErrForeignCopy,
// ErrLocationNotMounted, ErrNotDirectory, ErrMountPoint, ErrOutsideParent.
func (c *Copies) Open(uid, folder string) (*Dir, error) {
	l, w, _, err := c.found(uid)
	if err != nil {
		return nil, err
	}
	defer l.close()
	f, err := l.openCopy(w.name)
	if err != nil {
		return nil, wrap(l.copyPath(w.name), err)
	}
	id, err := identOf(int(f.Fd()))
	if err != nil {
		return nil, errors.Join(wrap(l.copyPath(w.name), err), f.Close())
	}
	d := &Dir{
		File: f, Path: l.copyPath(w.name), FSID: l.fsid, Device: id.dev, Inode: id.ino, oneFilesystem: true,
	}
	if strings.Trim(folder, "/") == "" {
		return d, nil
	}
	defer d.Close()
	return c.h.MakeBeneath(d, folder)
}

// MarkUsed notes that a copy is in use: at most one write an hour, and never
// back in time.
func (c *Copies) MarkUsed(uid string, at time.Time) error {
	return c.change(uid, func(s *sidecar) bool {
		at := at.UTC()
		if s.LastUsed != nil && at.Sub(*s.LastUsed) < usedEvery {
			return false
		}
		s.LastUsed = &at
		return true
	})
}

// SetFilled notes the generation of the fill that a copy holds, 0 for none (D-42).
func (c *Copies) SetFilled(uid string, generation int64) error {
	if generation < 0 {
		return fmt.Errorf("fill generation %d of copy %s: %w", generation, uid, ErrDamaged)
	}
	return c.change(uid, func(s *sidecar) bool {
		changed := s.FilledGeneration != generation
		s.FilledGeneration = generation
		return changed
	})
}

// change rewrites a copy's sidecar under the copy's lock.
func (c *Copies) change(uid string, fn func(*sidecar) bool) error {
	w, ok := c.where(uid)
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoCopy, uid)
	}
	defer c.locks.lock(w.name)()
	l, w, s, err := c.found(uid)
	if err != nil {
		return err
	}
	defer l.close()
	if !fn(&s) {
		return nil
	}
	if err := writeFileAt(int(l.meta.Fd()), w.name+jsonSuffix, encode(s), false); err != nil {
		return &PathError{l.copyPath(w.name), fmt.Errorf("sidecar: %w", err)}
	}
	return nil
}

// HasFillMarker reports whether the copy holds schema.FillMarker, in any form
// but a link: a worker's file, whose content says nothing.
func (c *Copies) HasFillMarker(uid string) (bool, error) {
	d, err := c.Open(uid, "")
	if err != nil {
		return false, err
	}
	defer d.Close()
	fd, err := openat2(int(d.File.Fd()), schema.FillMarker, unix.O_PATH|unix.O_NOFOLLOW, strict)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
		return false, nil
	case err != nil:
		return false, wrap(path.Join(d.Path, schema.FillMarker), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG, nil
}
