package lab

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/schema"
)

// Binder makes and takes away bind mounts below the work root.
type Binder interface {
	Bind(d *host.Dir, target string, readOnly bool) error
	Unmount(target string, force, lazy bool) error
}

// Looker looks at the mounts below the work root.
type Looker interface {
	Mounts(ctx context.Context) ([]host.MountInfo, error)
	OpenMount(ctx context.Context, target string) (*host.Dir, error)
	RealPath(hostPath string) string
}

// Host is what the lab needs of a machine; *host.Host is one.
type Host interface {
	Binder
	Looker
}

// Peer is another machine of the lab.
type Peer struct {
	Machine  string `json:"machine"`
	Root     string `json:"root"`      // the directory that is its /
	WorkRoot string `json:"work_root"` // as that machine names it
}

// Options of a machine's lab shares.
type Options struct {
	Machine  string
	WorkRoot string // host path
	Host     Host
	// Addresses are this machine's own, by which servers know it.
	Addresses func(context.Context) ([]string, error)
	// Peer finds the machine that has an address.
	Peer func(address string) (Peer, bool)
}

// Shares implements nfs.Shares.
type Shares struct {
	o  Options
	mu sync.Mutex // the two tables; bind mounts are local and quick
}

var _ nfs.Shares = (*Shares)(nil)

// New makes a machine's shares; nothing is touched.
func New(o Options) (*Shares, error) {
	if o.Machine == "" || !path.IsAbs(o.WorkRoot) || o.Host == nil || o.Addresses == nil || o.Peer == nil {
		return nil, errors.New("lab: machine, work root, host, addresses and peers are needed")
	}
	return &Shares{o: o}, nil
}

// Capability implements nfs.Shares: a lab has everything it needs.
func (s *Shares) Capability(context.Context) schema.NetworkPart {
	return schema.NetworkPart{Kind: "lab", Server: true, Client: true}
}

func (s *Shares) exportTable() string {
	return exportTableIn(s.o.Host.RealPath(s.o.WorkRoot))
}

func exportTableIn(workRoot string) string { return filepath.Join(workRoot, "exports", "table.json") }

// Export implements nfs.Server.
func (s *Shares) Export(ctx context.Context, t schema.ExportTarget, dir *host.Dir) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := nfs.ClaimOfExport(t)
	if len(t.Addresses) == 0 {
		return fmt.Errorf("export %s: the client %s has no address", claim.Drive.Name, claim.Client)
	}
	entries, err := readExports(s.exportTable())
	if err != nil {
		return err
	}
	entry := exportEntry{Drive: t.Drive, UID: t.UID, Source: t.Source, Path: t.Path, Client: t.Client,
		Addresses: sorted(t.Addresses), Mode: t.Mode, Squash: t.Squash, Device: dir.Device, Inode: dir.Inode}
	target := claim.ExportDir(s.o.WorkRoot)
	at := entries.index(claim)
	if at >= 0 && !entries[at].same(entry) {
		// Narrowed or moved: nobody mounts it by the old entry meanwhile.
		if err := writeExports(s.exportTable(), slices.Delete(slices.Clone(entries), at, at+1)); err != nil {
			return err
		}
	}
	if err := s.bind(dir, target, t.Mode == schema.ReadOnly); err != nil {
		return fmt.Errorf("export %s: %w", claim.Drive.Name, err)
	}
	return writeExports(s.exportTable(), entries.with(claim, entry))
}

// bind binds dir on target, replacing an older bind of another directory there.
func (s *Shares) bind(dir *host.Dir, target string, readOnly bool) error {
	err := s.o.Host.Bind(dir, target, readOnly)
	if !errors.Is(err, host.ErrBoundElsewhere) {
		return err
	}
	if err := s.o.Host.Unmount(target, false, false); err != nil {
		return err
	}
	return s.o.Host.Bind(dir, target, readOnly)
}

// Unexport implements nfs.Server. The entry goes first: from then on no client
// can mount it.
func (s *Shares) Unexport(ctx context.Context, claim nfs.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := readExports(s.exportTable())
	if err != nil {
		return err
	}
	if at := entries.index(claim); at >= 0 {
		if err := writeExports(s.exportTable(), slices.Delete(entries, at, at+1)); err != nil {
			return err
		}
	}
	if err := s.o.Host.Unmount(claim.ExportDir(s.o.WorkRoot), false, false); err != nil {
		return fmt.Errorf("unexport %s: %w", claim.Drive.Name, busy(err))
	}
	return s.sweep(ctx)
}

// sweep takes away export mounts without an entry, which a crash may leave.
func (s *Shares) sweep(ctx context.Context) error {
	entries, err := readExports(s.exportTable())
	if err != nil {
		return err
	}
	mounts, err := s.o.Host.Mounts(ctx)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if path.Dir(m.Target) != path.Join(s.o.WorkRoot, "exports") || entries.at(s.o.WorkRoot, m.Target) != nil {
			continue
		}
		if err := s.o.Host.Unmount(m.Target, false, false); err != nil {
			return busy(err)
		}
	}
	return nil
}

// Exports implements nfs.Server: an entry whose bind mount is gone, as after a
// reboot, exports nothing.
func (s *Shares) Exports(ctx context.Context) ([]schema.Export, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := readExports(s.exportTable())
	if err != nil {
		return nil, err
	}
	mounted, err := s.mounted(ctx)
	if err != nil {
		return nil, err
	}
	list := []schema.Export{}
	for _, e := range entries {
		if _, ok := mounted[e.claim().ExportDir(s.o.WorkRoot)]; ok {
			list = append(list, schema.Export{Drive: e.Drive.Scoped(), UID: e.UID, Source: e.Source, Path: e.Path,
				Client: e.Addresses[0], Clients: e.Addresses, To: e.Client, Mode: e.Mode, Transport: schema.TransportLab})
		}
	}
	return list, nil
}

// mounted are the visible mounts below the work root, by target.
func (s *Shares) mounted(ctx context.Context) (map[string]host.MountInfo, error) {
	list, err := s.o.Host.Mounts(ctx)
	if err != nil {
		return nil, err
	}
	byTarget := map[string]host.MountInfo{}
	for _, m := range list {
		byTarget[m.Target] = m // the last one covers the others
	}
	return byTarget, nil
}

func busy(err error) error {
	if errors.Is(err, host.ErrBusy) {
		return fmt.Errorf("%w: %w", nfs.ErrBusy, err)
	}
	return err
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.SortFunc(list, strings.Compare)
	return slices.Compact(list)
}
