package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Options say where the agent lives on the machine.
type Options struct {
	// Root is "" or "/" for the real machine. Otherwise every host path resolves
	// beneath this directory, symlinks and absolute ones too.
	Root string
	// Shared are host mount points reported as shared filesystems though their
	// type does not say so (a lab).
	Shared []string
	// WorkRoot is the host path under which the agent mounts; StateDir is
	// that of its state. No worker may see either.
	WorkRoot string
	StateDir string
}

// Errors that callers act upon. They come wrapped with the path they are about.
var (
	// ErrMissing: the path, or a directory on the way to it, does not exist.
	ErrMissing = errors.New("does not exist")
	// ErrNotDirectory: there is something at the path and it is not a directory.
	ErrNotDirectory = errors.New("is not a directory")
	// ErrOutsideGrant: with every symlink resolved the path is not under its grant (D-21).
	ErrOutsideGrant = errors.New("is not under the granted path once its links are followed")
	// ErrForbidden: the path equals, lies in or contains a data location or a
	// directory of the agent.
	ErrForbidden = errors.New("overlaps a data location or a directory of the agent")
	// ErrOutsideParent: a sub path leads out of its directory (D-40).
	ErrOutsideParent = errors.New("leads out of its directory")
	// ErrBadPath: the path itself is not one that can be used.
	ErrBadPath = errors.New("is not a usable path")
	// ErrNotAnswering: the filesystem did not answer in time, or still
	// owes an answer from an earlier time.
	ErrNotAnswering = errors.New("the filesystem does not answer")
	// ErrBoundElsewhere: something else is mounted at the target already.
	ErrBoundElsewhere = errors.New("something else is mounted there")
	// ErrNotMounted: nothing is mounted at the target.
	ErrNotMounted = errors.New("is not mounted")
	// ErrBusy: a mount is in use and was not released.
	ErrBusy = errors.New("is in use")

	// ErrLocationNotMounted: the data location is not the filesystem on which it
	// was first used, or its marker is not there.
	ErrLocationNotMounted = errors.New("the data location is not mounted")
	// ErrNotLocal: a data location must be on this machine's own disk (D-31).
	ErrNotLocal = errors.New("a data location must be on this machine's own disk — to use shared storage, make a shared drive instead")
	// ErrNoSidecar: there is a directory in a copy's place and nothing says whose.
	ErrNoSidecar = errors.New("there is a directory without a sidecar")
	// ErrForeignCopy: the sidecar names another cluster or another drive uid.
	ErrForeignCopy = errors.New("the copy belongs to another drive or cluster")
	// ErrNewerFormat: the file was written by a newer version and is left alone.
	ErrNewerFormat = errors.New("the file has a newer format than this version knows")
	// ErrDamaged: a sidecar or marker cannot be read as one; it is left alone.
	ErrDamaged = errors.New("the file is damaged")
	// ErrMountPoint: a copy's directory has a filesystem mounted on it.
	ErrMountPoint = errors.New("has a filesystem mounted on it")
	// ErrNoCopy: no copy with this uid is on the machine.
	ErrNoCopy = errors.New("no copy with this uid is on the machine")
	// ErrClosed: the Copies or Host was closed.
	ErrClosed = errors.New("closed")

	errNeedsLinux = errors.New("host: a machine of the cluster needs Linux 5.12 or newer")
)

// PathError is an error about one host path; Unwrap gives the kind (ErrMissing, …).
type PathError struct {
	Path string // host path
	Err  error
}

// Error implements error.
func (e *PathError) Error() string { return fmt.Sprintf("%q %v", e.Path, e.Err) }

// Unwrap gives the kind of error.
func (e *PathError) Unwrap() error { return e.Err }

// Dir is a checked directory. Its descriptor is what is mounted later, whatever
// happens to the path in between (CVE-2021-25741).
type Dir struct {
	File *os.File // O_PATH
	Path string   // resolved host path at the time of the check
	FSID string   // as in schema.Filesystem
	// Device and Inode identify the directory while it exists.
	Device, Inode uint64

	oneFilesystem bool // no mount may be crossed below it (a copy)
}

// Close releases the descriptor. A Dir that is nil or closed is fine.
func (d *Dir) Close() error {
	if d == nil || d.File == nil {
		return nil
	}
	err := d.File.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// MountInfo is one mount beneath the work root, as the kernel lists it.
type MountInfo struct {
	ID, Parent   int
	Target       string // host path
	Source       string
	FSType       string
	Root         string // directory of the filesystem that is mounted
	Options      string // of the mount: "rw,nosuid"
	SuperOptions string // of the filesystem
	Device       string // "8:1"
}

// ReadOnly reports whether this mount refuses writes.
func (m MountInfo) ReadOnly() bool { return hasOption(m.Options, "ro") }

// Usage is what a directory holds and what is left on its filesystem (D-91).
type Usage struct {
	Bytes      int64 // allocated, as du counts
	Files      int64 // everything but directories, hard links once
	FreeBytes  int64 // Bavail
	FreeInodes int64 // -1: the filesystem has no such limit
}

// CopyListing is what is in a machine's data locations.
type CopyListing struct {
	// Copies have Bytes and Files -1: listing does not measure.
	Copies    []schema.Copy
	Locations []schema.DataLocationState
	// Problems are things found and left alone, in words for a person.
	Problems []string
	// Complete is false when a mounted location could not be read to its end.
	// Copies of a location that is not mounted are listed as CopyUnknown.
	Complete bool
}

func hasOption(options, want string) bool {
	return slices.Contains(strings.Split(options, ","), want)
}
