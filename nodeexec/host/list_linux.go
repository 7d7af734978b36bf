package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"astraeus.io/astraeus/schema"
)

// listTimeout bounds reading one data location: a disk may die while it is read.
const listTimeout = 30 * time.Second

// scan is what one data location holds.
type scan struct {
	state    schema.DataLocationState
	copies   []schema.Copy
	problems []string
	trash    []trashEntry
	complete bool
	mounted  bool
}

// List reads the data locations, present first, and takes up what is in their
// trash. What does not belong to a copy of ours is reported and left alone. An
// error means that nothing is known. D-70, X-2, X-17.
func (c *Copies) List(ctx context.Context, locations []schema.DataLocation) (CopyListing, error) {
	c.mu.Lock()
	err := c.loadLocked()
	c.lists++
	begun := c.lists
	c.mu.Unlock()
	if err != nil {
		return CopyListing{}, err
	}
	list := CopyListing{
		Copies: []schema.Copy{}, Locations: []schema.DataLocationState{}, Problems: []string{}, Complete: true,
	}
	seen := map[string]bool{}
	for _, loc := range locations {
		where := path.Clean(loc.Path)
		if seen[where] {
			continue
		}
		seen[where] = true
		s, err := ask(ctx, c.h.probes, "location "+where, listTimeout, func() (scan, error) { return c.scan(where) }, nil)
		if ctx.Err() != nil {
			return CopyListing{}, ctx.Err()
		}
		if err != nil {
			s = c.unreadable(where, err)
		}
		s.state.Present = loc.Present
		c.take(&list, s)
	}
	list.Copies = onePerUID(list.Copies)
	list.Problems = append(list.Problems, c.remover.problems()...)
	c.reindex(list.Copies, seen, begun)
	return list, nil
}

func (c *Copies) take(list *CopyListing, s scan) {
	list.Copies = append(list.Copies, s.copies...)
	list.Locations = append(list.Locations, s.state)
	list.Problems = append(list.Problems, s.problems...)
	list.Complete = list.Complete && s.complete
	for _, t := range s.trash {
		c.remover.add(t)
	}
	if !s.mounted || !s.complete {
		return
	}
	names := map[string]string{}
	for _, cp := range s.copies {
		if cp.State != schema.CopyTrash {
			names[cp.UID] = cp.Drive
		}
	}
	if err := c.rememberCopies(s.state.Path, names); err != nil {
		list.Problems = append(list.Problems, err.Error())
	}
}

// onePerUID drops a sidecar whose directory is missing where the copy is whole
// in another location.
func onePerUID(copies []schema.Copy) []schema.Copy {
	present := map[string]bool{}
	for _, cp := range copies {
		if cp.State == schema.CopyPresent {
			present[cp.UID] = true
		}
	}
	return slices.DeleteFunc(copies, func(cp schema.Copy) bool {
		return cp.State == schema.CopyCreating && present[cp.UID]
	})
}

// reindex makes the listing the way to find copies, and what was created since
// it began.
func (c *Copies) reindex(copies []schema.Copy, listed map[string]bool, begun int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, w := range c.index {
		if w.since < begun {
			delete(c.index, uid)
		} else {
			listed[w.location] = true
		}
	}
	c.known = slices.Sorted(maps.Keys(listed))
	for _, cp := range copies {
		if _, newer := c.index[cp.UID]; !newer && cp.State != schema.CopyTrash {
			c.index[cp.UID] = whereabout{path.Dir(path.Dir(cp.Folder)), cp.Drive, begun - 1}
		}
	}
}

// scan reads one location; it may block as long as the disk does.
func (c *Copies) scan(where string) (scan, error) {
	s := scan{complete: true, state: schema.DataLocationState{Path: where, UsedBytes: -1, FreeBytes: -1}}
	l, err := c.openLocation(where)
	if errors.Is(err, errUnused) {
		s.state.Mounted = true // nothing is expected there yet
		c.roomOf(where, &s.state)
		return s, nil
	}
	if err != nil {
		return scan{}, err
	}
	defer l.close()
	s.mounted, s.state.Mounted, s.state.FSID = true, true, l.fsid
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(l.dir.Fd()), &st); err == nil {
		s.state.FreeBytes = numbersOf(&st).free
	}
	if err := errors.Join(c.scanCopies(l, &s), c.scanTrash(l, &s)); err != nil {
		s.complete = false
		s.problems = append(s.problems, fmt.Sprintf("data location %s could not be read: %v", where, err))
	}
	return s, nil
}

// roomOf is for a location that does not exist yet: the filesystem it will be on.
func (c *Copies) roomOf(where string, state *schema.DataLocationState) {
	f, _, err := c.h.openPrefix(where)
	if err != nil {
		return
	}
	defer f.Close()
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) == nil {
		state.FreeBytes = numbersOf(&st).free
	}
	state.FSID, _, _ = c.filesystemOf(f)
}

// unreadable is a location that is not mounted, foreign or dead: its copies are
// named as far as they are remembered, and unknown.
func (c *Copies) unreadable(where string, why error) scan {
	known, _, _ := c.recorded(where)
	s := scan{complete: true, state: schema.DataLocationState{
		Path: where, FSID: known.FSID, UsedBytes: -1, FreeBytes: -1,
		Message: "data location " + where + " is not mounted: " + reasonOf(why),
	}}
	s.problems = append(s.problems, s.state.Message)
	if !errors.Is(why, ErrLocationNotMounted) {
		s.complete = false
		s.state.Message = "data location " + where + ": " + why.Error()
		s.problems[0] = s.state.Message
	}
	for uid, name := range known.Copies {
		s.copies = append(s.copies, schema.Copy{
			Drive: name, UID: uid, State: schema.CopyUnknown, FSID: known.FSID, Bytes: -1, Files: -1,
			Folder: path.Join(where, drivesName, name),
		})
	}
	sortCopies(s.copies)
	return s
}

func reasonOf(err error) string {
	text := err.Error()
	if _, reason, ok := strings.Cut(text, ErrLocationNotMounted.Error()+": "); ok {
		return reason
	}
	return text
}

func sortCopies(copies []schema.Copy) {
	slices.SortFunc(copies, func(a, b schema.Copy) int {
		return cmp.Or(cmp.Compare(a.Drive, b.Drive), cmp.Compare(a.Folder, b.Folder))
	})
}

func (c *Copies) scanCopies(l *location, s *scan) error {
	dirs, err := names(l.drives)
	if err != nil {
		return err
	}
	files, err := names(l.meta)
	if err != nil {
		return err
	}
	todo := map[string]bool{}
	for _, n := range dirs {
		if n != metaName {
			todo[n] = true
		}
	}
	for _, n := range files {
		switch {
		case strings.HasPrefix(n, tempPrefix):
			sweepTemp(l.meta, n)
		case strings.HasSuffix(n, jsonSuffix):
			todo[strings.TrimSuffix(n, jsonSuffix)] = true
		}
	}
	for n := range todo {
		c.scanCopy(l, n, s)
	}
	sortCopies(s.copies)
	slices.Sort(s.problems)
	return nil
}

// scanCopy judges one name: its sidecar says whose it is, its directory whether
// it is there.
func (c *Copies) scanCopy(l *location, name string, s *scan) {
	problem := func(format string, args ...any) {
		s.problems = append(s.problems, fmt.Sprintf("%q: ", l.copyPath(name))+fmt.Sprintf(format, args...)+"; it is left alone")
	}
	sc, err := l.readSidecar(name)
	there, dirErr := l.hasCopyDir(name)
	switch {
	case errors.Is(err, unix.ENOENT) && dirErr == nil && !there:
		return // it went while we looked
	case errors.Is(err, unix.ENOENT):
		problem("%v", ErrNoSidecar)
		return
	case errors.Is(err, ErrNewerFormat), errors.Is(err, ErrDamaged):
		problem("its sidecar: %v", err)
		return
	case err != nil:
		s.complete = false
		problem("its sidecar cannot be read: %v", err)
		return
	case sc.ClusterUID != c.cluster:
		problem("its sidecar is of another cluster")
		return
	case sc.Drive != name:
		problem("its sidecar is of the drive %q", sc.Drive)
		return
	}
	cp := schema.Copy{
		Drive: name, UID: sc.DriveUID, State: schema.CopyPresent, Folder: l.copyPath(name), FSID: l.fsid,
		Bytes: -1, Files: -1, LastUsed: sc.LastUsed, Filled: sc.FilledGeneration > 0,
		FilledGeneration: sc.FilledGeneration, Created: &sc.Created,
	}
	switch {
	case dirErr != nil:
		cp.State = schema.CopyUnknown
		problem("%v", dirErr)
	case !there:
		cp.State, cp.Filled, cp.FilledGeneration = schema.CopyCreating, false, 0
	}
	s.copies = append(s.copies, cp)
}

// sweepTemp removes what a crash left half-written: never read by anybody.
func sweepTemp(dir *os.File, name string) {
	if !strings.HasPrefix(name, fmt.Sprintf("%s%d-", tempPrefix, os.Getpid())) {
		_ = unix.Unlinkat(int(dir.Fd()), name, 0)
	}
}

// names lists a directory; the order is the filesystem's.
func names(dir *os.File) ([]string, error) {
	fd, err := openat2(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, strict)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir.Name())
	defer f.Close()
	return f.Readdirnames(-1)
}
