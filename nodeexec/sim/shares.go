package sim

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/schema"
)

// export is one entry of a machine's table. bound: the directory is exported,
// which a reboot ends.
type export struct {
	claim     nfs.Claim
	path      string
	addresses []string
	mode      schema.Mode
	dir       uint64
	bound     bool
}

// mount is one network mount. bound: it is mounted, which a reboot ends.
type mount struct {
	claim                nfs.Claim
	from, server, export string
	mode                 schema.Mode
	dir                  uint64
	bound                bool
}

// Shares implements nfs.Shares for one machine.
type Shares struct{ *Machine }

var _ nfs.Shares = Shares{}

// Shares are the machine's network mounts.
func (m *Machine) Shares() Shares { return Shares{m} }

// Capability implements nfs.Shares.
func (s Shares) Capability(context.Context) schema.NetworkPart {
	return schema.NetworkPart{Kind: "lab", Server: true, Client: true}
}

func (m *Machine) exportOf(c nfs.Claim) *export {
	for _, e := range m.table {
		if e.claim.UID == c.UID && e.claim.Source == c.Source && e.claim.Client == c.Client {
			return e
		}
	}
	return nil
}

// Export implements nfs.Server.
func (s Shares) Export(ctx context.Context, t schema.ExportTarget, dir *host.Dir) error {
	claim := nfs.ClaimOfExport(t)
	if len(t.Addresses) == 0 {
		return fmt.Errorf("export %s: the client %s has no address", claim.Drive.Name, claim.Client)
	}
	return s.effect(ctx, &Effect{Name: "Export", UID: t.UID, Claim: claim, Export: &t}, func() error {
		addresses := slices.Sorted(slices.Values(t.Addresses))
		e := s.exportOf(claim)
		if e == nil {
			e = &export{}
			s.table = append(s.table, e)
		}
		*e = export{claim: claim, path: t.Path, addresses: slices.Compact(addresses), mode: t.Mode, dir: dir.Inode, bound: true}
		return nil
	})
}

// Unexport implements nfs.Server.
func (s Shares) Unexport(ctx context.Context, claim nfs.Claim) error {
	return s.effect(ctx, &Effect{Name: "Unexport", UID: claim.UID, Claim: claim}, func() error {
		e := s.exportOf(claim)
		s.table = slices.DeleteFunc(s.table, func(x *export) bool { return x == e })
		return nil
	})
}

// Exports implements nfs.Server.
func (s Shares) Exports(context.Context) ([]schema.Export, error) {
	if err := s.o.Look("exports"); err != nil {
		return nil, err
	}
	defer s.lock()()
	list := []schema.Export{}
	for _, e := range s.table {
		if e.bound {
			list = append(list, schema.Export{Drive: e.claim.Drive.Scoped(), UID: e.claim.UID, Source: e.claim.Source, Path: e.path,
				Client: e.addresses[0], Clients: slices.Clone(e.addresses), To: e.claim.Client, Mode: e.mode, Transport: schema.TransportLab})
		}
	}
	return list, nil
}

// Mount implements nfs.Client.
func (s Shares) Mount(ctx context.Context, t schema.MountTarget) error {
	claim := nfs.ClaimOfMount(t, s.o.Name)
	return s.effect(ctx, &Effect{Name: "Mount", UID: t.UID, Claim: claim, Mount: &t}, func() error {
		if err := s.mount(t, claim); err != nil {
			return fmt.Errorf("mount %s from %s: %w", t.Drive.Name, t.From, err)
		}
		return nil
	})
}

func (s Shares) mount(t schema.MountTarget, claim nfs.Claim) error {
	server, address := s.net.at(t.Addresses)
	if server == nil || s.away {
		return fmt.Errorf("no machine answers at %v: %w", t.Addresses, context.DeadlineExceeded)
	}
	e := server.exportOf(claim)
	switch {
	case e == nil || !e.bound:
		return fmt.Errorf("%w: nothing is exported to %s", nfs.ErrAccessDenied, s.o.Name)
	case !slices.ContainsFunc(e.addresses, func(a string) bool { return slices.Contains(s.o.Addresses, a) }):
		return fmt.Errorf("%w: the export is for %v, this machine is %v", nfs.ErrAccessDenied, e.addresses, s.o.Addresses)
	case t.Mode == schema.ReadWrite && e.mode != schema.ReadWrite:
		return fmt.Errorf("%w: the export is read-only", nfs.ErrAccessDenied)
	}
	point := claim.MountDir(s.o.WorkRoot)
	if old := s.mounts[point]; old != nil && old.bound && old.claim.UID != t.UID {
		return fmt.Errorf("%w: an older drive of that name is still mounted at %s", nfs.ErrBusy, point)
	}
	s.mounts[point] = &mount{claim: claim, from: t.From, server: address, export: claim.ExportDir(server.o.WorkRoot),
		mode: t.Mode, dir: e.dir, bound: true}
	return nil
}

// Unmount implements nfs.Client.
func (s Shares) Unmount(ctx context.Context, claim nfs.Claim) error {
	return s.effect(ctx, &Effect{Name: "Unmount", UID: claim.UID, Claim: claim}, func() error {
		point := claim.MountDir(s.o.WorkRoot)
		if m := s.mounts[point]; m != nil && m.claim.UID == claim.UID {
			delete(s.mounts, point)
		}
		return nil
	})
}

// Mounts implements nfs.Client.
func (s Shares) Mounts(context.Context) ([]schema.Mount, error) {
	if err := s.o.Look("mounts"); err != nil {
		return nil, err
	}
	defer s.lock()()
	list := []schema.Mount{}
	for _, point := range slices.Sorted(maps.Keys(s.mounts)) {
		if m := s.mounts[point]; m.bound {
			list = append(list, schema.Mount{Drive: m.claim.Drive.Scoped(), UID: m.claim.UID, Source: m.claim.Source, From: m.from,
				Path: path.Clean(point), State: schema.MountBound, Mode: m.mode, Transport: schema.TransportLab, Server: m.server, Export: m.export})
		}
	}
	return list, nil
}

// OpenMount implements nfs.Client.
func (s Shares) OpenMount(_ context.Context, claim nfs.Claim) (*host.Dir, error) {
	defer s.lock()()
	point := claim.MountDir(s.o.WorkRoot)
	m := s.mounts[point]
	if m == nil || !m.bound || m.claim.UID != claim.UID {
		return nil, fmt.Errorf("%s: %w", point, host.ErrNotMounted)
	}
	d, err := s.dir(s.net.nodes[m.dir])
	if err == nil {
		d.Path = point
	}
	return d, err
}
