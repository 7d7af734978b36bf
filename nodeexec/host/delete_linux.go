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

// trashEntry is a former copy whose bytes are still to be removed.
type trashEntry struct {
	location string // host path
	name     string // "<uid>-<n>"
}

// Delete takes a copy away: it is gone when Delete returns, and its bytes go in
// the background. The sidecar must carry the uid; where no known location has
// that uid there is nothing to do and nil is returned, unless a location that
// could have it is not mounted. Nothing is written, so that it works on a full
// disk. Errors: ErrForeignCopy, ErrNoSidecar, ErrNewerFormat, ErrDamaged,
// ErrNotDirectory (a link in its place), ErrMountPoint, ErrLocationNotMounted.
// D-9, X-2.
func (c *Copies) Delete(ctx context.Context, drive schema.Key, uid string) error {
	name, err := copyName(drive, uid)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer c.locks.lock(name)()
	c.mu.Lock()
	known := slices.Clone(c.known)
	c.mu.Unlock()
	if len(known) == 0 {
		return fmt.Errorf("%w: %s (no data location was listed yet)", ErrNoCopy, uid)
	}
	var problems []error
	for _, where := range known {
		found, err := c.deleteIn(where, name, uid)
		if found && err == nil {
			c.forget(uid)
			return nil
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	c.forget(uid)
	return nil
}

// deleteIn deletes the copy if the location has it.
func (c *Copies) deleteIn(where, name, uid string) (found bool, err error) {
	l, err := c.openLocation(where)
	if errors.Is(err, errUnused) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.close()
	fail := func(err error) (bool, error) { return false, &PathError{l.copyPath(name), err} }
	s, err := l.readSidecar(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		if there, err := l.hasCopyDir(name); err != nil {
			return fail(err)
		} else if there {
			return fail(ErrNoSidecar)
		}
		return false, nil
	case err != nil:
		return fail(err)
	case !c.owns(s, name, uid):
		return fail(ErrForeignCopy)
	}
	if err := c.toTrash(l, name, uid); err != nil {
		return fail(err)
	}
	return true, nil
}

// toTrash moves a verified copy away. The sidecar is linked beside the trash
// first, so that at any moment a directory of ours has one: removal goes on
// after a crash by that name alone.
func (c *Copies) toTrash(l *location, name, uid string) error {
	dir, err := l.openCopy(name)
	if errors.Is(err, unix.ENOENT) {
		return l.dropSidecar(name) // never made, or in the trash already
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	trash, err := c.linkSidecar(l, name, uid)
	if err != nil {
		return err
	}
	c.h.sys.step("trash-sidecar")
	if err := l.moveCopy(dir, name, trash); err != nil {
		return errors.Join(err, unix.Unlinkat(int(l.trash.Fd()), trash+jsonSuffix, 0))
	}
	c.h.sys.step("trash-copy")
	if err := l.dropSidecar(name); err != nil {
		return err
	}
	c.h.sys.step("trash-done")
	c.remover.add(trashEntry{l.path, trash})
	return nil
}

func (c *Copies) linkSidecar(l *location, name, uid string) (trash string, err error) {
	for n := 1; ; n++ {
		trash = fmt.Sprintf("%s-%d", uid, n)
		if there, err := pathExists(l.trash, trash); err != nil {
			return "", err
		} else if there {
			continue
		}
		err = unix.Linkat(int(l.meta.Fd()), name+jsonSuffix, int(l.trash.Fd()), trash+jsonSuffix, 0)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("trash: %w", err)
		}
		if s, err := readTrashSidecar(l.trash, trash); err != nil || !c.owns(s, name, uid) {
			return "", errors.Join(ErrForeignCopy, err, unix.Unlinkat(int(l.trash.Fd()), trash+jsonSuffix, 0))
		}
		return trash, syncDir(int(l.trash.Fd()))
	}
}

// moveCopy renames the copy and looks whether it was the one that was checked.
func (l *location) moveCopy(dir *os.File, name, trash string) error {
	from, to := int(l.drives.Fd()), int(l.trash.Fd())
	err := retry(func() error { return unix.Renameat2(from, name, to, trash, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EBUSY) {
		return ErrMountPoint
	}
	if err != nil {
		return fmt.Errorf("trash: %w", err)
	}
	var want, got unix.Stat_t
	err = errors.Join(
		unix.Fstat(int(dir.Fd()), &want),
		unix.Fstatat(to, trash, &got, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT),
	)
	if err != nil || want.Dev != got.Dev || want.Ino != got.Ino {
		back := unix.Renameat2(to, trash, from, name, unix.RENAME_NOREPLACE)
		return errors.Join(ErrNotDirectory, err, back)
	}
	return errors.Join(syncDir(from), syncDir(to))
}

func pathExists(dir *os.File, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

func readTrashSidecar(trash *os.File, name string) (sidecar, error) {
	data, err := readFileAt(int(trash.Fd()), name+jsonSuffix)
	if err != nil {
		return sidecar{}, err
	}
	return parseSidecar(data)
}

// scanTrash lists what is still to be removed. A sidecar whose directory is
// gone, or never came, is ours and goes now.
func (c *Copies) scanTrash(l *location, s *scan) error {
	all, err := names(l.trash)
	if err != nil {
		return err
	}
	slices.Sort(all)
	for _, n := range all {
		if base, ok := strings.CutSuffix(n, jsonSuffix); ok {
			c.sweepTrashSidecar(l, base)
			continue
		}
		where := path.Join(l.path, drivesName, metaName, trashName, n)
		sc, err := readTrashSidecar(l.trash, n)
		if err != nil || sc.ClusterUID != c.cluster || !strings.HasPrefix(n, sc.DriveUID+"-") {
			s.problems = append(s.problems, fmt.Sprintf("%q is not a former copy of ours; it is left alone", where))
			continue
		}
		entry, bytes := trashEntry{l.path, n}, int64(-1)
		if c.remover.stuck(entry) {
			bytes = 0 // nobody may count on what does not go (D-71)
		}
		s.trash = append(s.trash, entry)
		s.copies = append(s.copies, schema.Copy{
			Drive: sc.Drive, UID: sc.DriveUID, State: schema.CopyTrash, Folder: where, FSID: l.fsid, Bytes: bytes, Files: -1,
			LastUsed: sc.LastUsed, Created: &sc.Created,
		})
	}
	return nil
}

func (c *Copies) sweepTrashSidecar(l *location, base string) {
	if there, err := pathExists(l.trash, base); err != nil || there {
		return
	}
	sc, err := readTrashSidecar(l.trash, base)
	if err != nil || sc.ClusterUID != c.cluster || !strings.HasPrefix(base, sc.DriveUID+"-") {
		return
	}
	// A Delete under way has linked it and not moved the copy yet: its lock is
	// the copy's. Look again once that is over.
	defer c.locks.lock(sc.Drive)()
	if there, err := pathExists(l.trash, base); err == nil && !there {
		_ = unix.Unlinkat(int(l.trash.Fd()), base+jsonSuffix, 0)
	}
}
