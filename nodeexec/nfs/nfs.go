package nfs

import (
	"context"
	"errors"
	"fmt"
	"path"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// Errors that callers act upon; implementations wrap them.
var (
	// ErrAccessDenied: the server has no export for this client, or a narrower one.
	ErrAccessDenied = errors.New("access denied by the server")
	// ErrBusy: a mount is in use by something on this machine.
	ErrBusy = errors.New("the mount is in use")
	// ErrForeign: something that is not ours is in the way; it is left alone.
	ErrForeign = errors.New("something else is there")
	// ErrIdentity: what is mounted is not what the server exports (D-82).
	ErrIdentity = errors.New("the mount does not show the exported directory")
)

// Claim is a network mount's identity: one (drive, source, client machine) (D-80).
type Claim struct {
	Drive  schema.Key
	UID    string // drive uid
	Source int
	Client string // client machine
}

// ExportDir is where the source machine binds what it exports.
func (c Claim) ExportDir(workRoot string) string {
	return path.Join(workRoot, "exports", fmt.Sprintf("%s-%d-%s", c.UID, c.Source, c.Client))
}

// MountDir is where the client machine mounts it (X-20, D-80).
func (c Claim) MountDir(workRoot string) string {
	return path.Join(workRoot, "datavolumes", "mounts", fmt.Sprintf("%s-%d", c.Drive.Scoped(), c.Source))
}

// ClaimOfExport is the claim that an export serves.
func ClaimOfExport(t schema.ExportTarget) Claim {
	return Claim{Drive: t.Drive, UID: t.UID, Source: t.Source, Client: t.Client}
}

// ClaimOfMount is the claim of a mount on the machine client.
func ClaimOfMount(t schema.MountTarget, client string) Claim {
	return Claim{Drive: t.Drive, UID: t.UID, Source: t.Source, Client: client}
}

// Shares does a machine's network mounts. All methods may be called
// concurrently for different claims; calls for one claim come one at a time.
type Shares interface {
	// Capability says what the machine can do and which piece is missing (D-82).
	Capability(ctx context.Context) schema.NetworkPart
	Server
	Client
}

// Server is the side that has the data.
type Server interface {
	// Export makes the wanted export, replacing one of the same claim that
	// differs. dir is the verified directory; it stays the caller's and is not
	// used after the call. Calling it again for what is there changes nothing.
	Export(ctx context.Context, target schema.ExportTarget, dir *host.Dir) error
	// Unexport removes the claim's export; one that is not there is nothing to do.
	Unexport(ctx context.Context, claim Claim) error
	// Exports reads the table back. An error means unknown, not none.
	Exports(ctx context.Context) ([]schema.Export, error)
}

// Client is the side that uses the data.
type Client interface {
	// Mount mounts the claim and returns when it is verified to be Bound; one
	// that is there as wanted is left alone. It ends with the context and then
	// leaves no half mount behind.
	Mount(ctx context.Context, target schema.MountTarget) error
	// Unmount takes the claim's mount away; one that is not there is nothing to
	// do. ErrBusy when a plain unmount is refused and a lazy one would be unsafe.
	Unmount(ctx context.Context, claim Claim) error
	// Mounts lists the mounts of ours from mountinfo, without touching any of
	// them. An error means unknown, not none.
	Mounts(ctx context.Context) ([]schema.Mount, error)
	// OpenMount opens the root of a Bound mount after verifying that it is
	// mounted and is the claim's (kubernetes#109955). The caller closes it.
	OpenMount(ctx context.Context, claim Claim) (*host.Dir, error)
}
