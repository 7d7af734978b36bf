package nodeexec

import (
	"context"
	"time"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/schema"
)

// Host is the machine under an agent: package host's, by way of OnHost, or a
// simulated one. All methods may be called concurrently.
type Host interface {
	Facts
	Dirs
	// Measure counts what is under a directory (D-91).
	Measure(ctx context.Context, dir *host.Dir) (host.Usage, error)
	// Copies gives the copies that belong to a cluster.
	Copies(clusterUID string) Copies
}

// Facts is what a machine says about itself. An error means unknown.
type Facts interface {
	BootID() (string, error)
	Resources(ctx context.Context) (schema.Resources, error)
	Addresses(ctx context.Context) ([]string, error)
	Filesystems(ctx context.Context) ([]schema.Filesystem, error)
}

// Dirs opens directories by descriptor, so that what was checked is what is
// used (D-21, CVE-2021-25741). The caller closes what it gets. Errors wrap
// those of package host.
type Dirs interface {
	// OpenDir opens path; with every link resolved it must lie under grant and
	// must not touch any of forbidden.
	OpenDir(path, grant string, forbidden []string) (*host.Dir, error)
	// MakeDir is OpenDir, making what is missing below grant.
	MakeDir(path, grant string, forbidden []string) (*host.Dir, error)
	// OpenBeneath opens sub below dir without leaving it (D-40).
	OpenBeneath(dir *host.Dir, sub string) (*host.Dir, error)
}

// Copies is a machine's copies of placed drives.
type Copies interface {
	CopyReader
	CopyWriter
	// Close ends background work, such as emptying the trash.
	Close()
}

// CopyReader looks at copies.
type CopyReader interface {
	List(ctx context.Context, locations []schema.DataLocation) (host.CopyListing, error)
	// Open opens folder inside a Present copy.
	Open(uid, folder string) (*host.Dir, error)
	HasFillMarker(uid string) (bool, error)
}

// CopyWriter changes copies; every method is idempotent.
type CopyWriter interface {
	Create(ctx context.Context, location schema.DataLocation, drive schema.Key, uid string) error
	// Delete renames the copy to the trash and returns; its bytes go in the background.
	Delete(ctx context.Context, drive schema.Key, uid string) error
	MarkUsed(uid string, at time.Time) error
	SetFilled(uid string, generation int64) error
}

// machine is what OnHost takes: a Host whose copies have a type of their own.
type machine[C Copies] interface {
	Facts
	Dirs
	Measure(ctx context.Context, dir *host.Dir) (host.Usage, error)
	Copies(clusterUID string) C
}

// OnHost makes a machine, package host's or a simulated one, an agent's Host.
func OnHost[C Copies](m machine[C]) Host { return onHost[C]{m} }

type onHost[C Copies] struct{ machine[C] }

func (h onHost[C]) Copies(clusterUID string) Copies { return h.machine.Copies(clusterUID) }
