//go:build !linux

package host

import (
	"context"
	"time"

	"astraeus.io/astraeus/schema"
)

// Host is the machine. See New.
type Host struct{}

// Copies are the placed drives' copies on the machine.
type Copies struct{}

// New fails: this system is not Linux.
func New(Options) (*Host, error) { return nil, errNeedsLinux }

func (h *Host) Close() error                { return errNeedsLinux }
func (h *Host) RealPath(path string) string { return path }
func (h *Host) BootID() (string, error)     { return "", errNeedsLinux }
func (h *Host) Resources(context.Context) (schema.Resources, error) {
	return schema.Resources{}, errNeedsLinux
}
func (h *Host) Addresses(context.Context) ([]string, error)              { return nil, errNeedsLinux }
func (h *Host) Filesystems(context.Context) ([]schema.Filesystem, error) { return nil, errNeedsLinux }
func (h *Host) FilesystemOf(context.Context, string) (schema.Filesystem, error) {
	return schema.Filesystem{}, errNeedsLinux
}
func (h *Host) OpenDir(path, grant string, forbidden []string) (*Dir, error) {
	return nil, errNeedsLinux
}
func (h *Host) MakeDir(path, grant string, forbidden []string) (*Dir, error) {
	return nil, errNeedsLinux
}
func (h *Host) OpenBeneath(d *Dir, sub string) (*Dir, error)               { return nil, errNeedsLinux }
func (h *Host) MakeBeneath(d *Dir, sub string) (*Dir, error)               { return nil, errNeedsLinux }
func (h *Host) OpenMount(ctx context.Context, target string) (*Dir, error) { return nil, errNeedsLinux }
func (h *Host) MakeMountPoint(target string) error                         { return errNeedsLinux }
func (h *Host) Bind(d *Dir, target string, readOnly bool) error            { return errNeedsLinux }
func (h *Host) Unmount(target string, force, lazy bool) error              { return errNeedsLinux }
func (h *Host) Mounts(context.Context) ([]MountInfo, error)                { return nil, errNeedsLinux }
func (h *Host) Measure(context.Context, *Dir) (Usage, error)               { return Usage{}, errNeedsLinux }
func (h *Host) Probe(ctx context.Context, path string) error               { return errNeedsLinux }
func (h *Host) Copies(clusterUID string) *Copies                           { return &Copies{} }

func (c *Copies) List(context.Context, []schema.DataLocation) (CopyListing, error) {
	return CopyListing{}, errNeedsLinux
}
func (c *Copies) Create(ctx context.Context, loc schema.DataLocation, drive schema.Key, uid string) error {
	return errNeedsLinux
}
func (c *Copies) Open(uid, folder string) (*Dir, error) { return nil, errNeedsLinux }
func (c *Copies) Delete(ctx context.Context, drive schema.Key, uid string) error {
	return errNeedsLinux
}
func (c *Copies) MarkUsed(uid string, at time.Time) error      { return errNeedsLinux }
func (c *Copies) SetFilled(uid string, generation int64) error { return errNeedsLinux }
func (c *Copies) HasFillMarker(uid string) (bool, error)       { return false, errNeedsLinux }
func (c *Copies) Close()                                       {}

// TreeSize needs Linux.
func TreeSize(ctx context.Context, d *Dir, workers int) (bytes, files int64, err error) {
	return 0, 0, errNeedsLinux
}
