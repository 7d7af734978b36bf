package host

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

const (
	locationMode = 0o711
	// Only the agent enters drives; a copy may then be open to every user, as
	// the user inside a worker is not known.
	drivesMode = 0o700
	copyMode   = 0o777
)

// errUnused: a data location on which nothing of ours was ever put.
var errUnused = errors.New("the data location was never used")

// location is an open data location whose filesystem and marker were verified.
type location struct {
	path   string // host path
	dir    *os.File
	drives *os.File
	meta   *os.File
	trash  *os.File
	fsid   string
}

func (l *location) close() {
	for _, f := range []*os.File{l.trash, l.meta, l.drives, l.dir} {
		if f != nil {
			f.Close()
		}
	}
}

// openLocation opens a data location for looking and changing if it is the one
// of its first use. Errors: errUnused, ErrLocationNotMounted (with the reason).
func (c *Copies) openLocation(hostPath string) (*location, error) {
	known, isKnown, err := c.recorded(hostPath)
	if err != nil {
		return nil, err
	}
	l := &location{path: hostPath}
	if l.dir, err = c.h.openIn(hostPath); err != nil {
		return nil, unusable(hostPath, err, isKnown)
	}
	if err := c.verify(l, known, isKnown); err != nil {
		l.close()
		return nil, unusable(hostPath, err, isKnown)
	}
	if err := l.openInside(); err != nil {
		l.close()
		return nil, fmt.Errorf("data location %q: %w", hostPath, err)
	}
	if !isKnown {
		if err := c.remember(l); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// unusable sorts why a location cannot be used.
func unusable(hostPath string, err error, known bool) error {
	switch {
	case errors.Is(err, ErrMissing) && !known, errors.Is(err, errUnused):
		return errUnused
	case errors.Is(err, ErrMissing):
		return &PathError{hostPath, fmt.Errorf("%w: there is no such directory", ErrLocationNotMounted)}
	case errors.Is(err, ErrLocationNotMounted):
		return &PathError{hostPath, err}
	}
	return &PathError{hostPath, fmt.Errorf("%w: %w", ErrLocationNotMounted, err)}
}

// verify holds filesystem and marker against what was first seen. X-17.
func (c *Copies) verify(l *location, known locationRecord, isKnown bool) error {
	id, _, err := c.filesystemOf(l.dir)
	if err != nil {
		return err
	}
	l.fsid = id
	if isKnown && known.FSID != id {
		return fmt.Errorf("%w: it was first used on filesystem %s and is on %s", ErrLocationNotMounted, known.FSID, id)
	}
	data, err := readFileAt(int(l.dir.Fd()), markerName)
	switch {
	case errors.Is(err, unix.ENOENT) && isKnown:
		return fmt.Errorf("%w: its marker %s is not there", ErrLocationNotMounted, markerName)
	case errors.Is(err, unix.ENOENT):
		return errUnused
	case err != nil:
		return fmt.Errorf("%s: %w", markerName, err)
	}
	m, err := parseMarker(data)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", markerName, err)
	case m.ClusterUID != c.cluster:
		return fmt.Errorf("%w: its marker is of another cluster", ErrLocationNotMounted)
	case m.FSID != id:
		return fmt.Errorf("%w: its marker is of filesystem %s and it is on %s", ErrLocationNotMounted, m.FSID, id)
	}
	return nil
}

func (c *Copies) filesystemOf(f *os.File) (id string, e *mountEntry, err error) {
	entries, err := c.h.table()
	if err != nil {
		return "", nil, err
	}
	mnt, err := mountID(int(f.Fd()))
	if err != nil {
		return "", nil, err
	}
	e = entryByID(entries, mnt)
	return c.h.fsID(int(f.Fd()), e), e, nil
}

// openInside opens our directories, made at first use. The trash is there
// before it is needed: on a full disk it could not be made.
func (l *location) openInside() (err error) {
	if l.drives, err = ownDir(l.dir, drivesName); err != nil {
		return err
	}
	if l.meta, err = ownDir(l.drives, metaName); err != nil {
		return err
	}
	l.trash, err = ownDir(l.meta, trashName)
	return err
}

func ownDir(parent *os.File, name string) (*os.File, error) {
	fd, err := openat2(int(parent.Fd()), name, dirFlags, strict)
	if err == nil {
		return os.NewFile(uintptr(fd), name), nil
	}
	if !errors.Is(err, unix.ENOENT) {
		return nil, wrap(path.Join(parent.Name(), name), err)
	}
	return mkdirOpen(parent, name, path.Join(parent.Name(), name), drivesMode)
}

// firstUse makes a data location: folder, marker, then our memory of it. A crash
// in between leaves a marker of ours, which the next attempt takes as its own.
func (c *Copies) firstUse(hostPath string) (*location, error) {
	if problem := schema.AbsolutePathProblem(hostPath); problem != "" || hostPath == "/" {
		return nil, &PathError{hostPath, fmt.Errorf("%w: %s", ErrBadPath, problem)}
	}
	dir, err := c.h.makeAll(hostPath, locationMode)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	id, e, err := c.filesystemOf(dir)
	if err != nil {
		return nil, err
	}
	if e != nil && (kindOf(e.FSType, e.Source) == fsShared || c.h.isShared(e.host)) {
		return nil, &PathError{hostPath, ErrNotLocal}
	}
	m := marker{Version: fileVersion, ClusterUID: c.cluster, FSID: id, Created: c.now()}
	err = writeFileAt(int(dir.Fd()), markerName, encode(m), true)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("data location %q: marker: %w", hostPath, err)
	}
	c.h.sys.step("marker")
	return c.openLocation(hostPath)
}
