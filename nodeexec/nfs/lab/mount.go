package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/schema"
)

func (s *Shares) mountTable() string {
	return filepath.Join(s.o.Host.RealPath(s.o.WorkRoot), "datavolumes", "mounts.json")
}

// Mount implements nfs.Client.
func (s *Shares) Mount(ctx context.Context, t schema.MountTarget) error {
	own, err := s.o.Addresses(ctx)
	if err != nil {
		return fmt.Errorf("mount %s: the machine's addresses are unknown: %w", t.Drive.Name, err)
	}
	entry, dir, err := s.ask(t, own)
	if err != nil {
		return fmt.Errorf("mount %s from %s: %w", t.Drive.Name, t.From, err)
	}
	defer dir.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.attach(ctx, t, entry, dir); err != nil {
		return fmt.Errorf("mount %s from %s: %w", t.Drive.Name, t.From, err)
	}
	return nil
}

// ask plays the server: it finds the export, checks that this client may mount
// it as widely as it wants to, and opens what is exported.
func (s *Shares) ask(t schema.MountTarget, own []string) (mountEntry, *host.Dir, error) {
	for _, address := range t.Addresses {
		peer, ok := s.o.Peer(address)
		if !ok {
			continue
		}
		workRoot := filepath.Join(peer.Root, peer.WorkRoot)
		table, err := readExports(exportTableIn(workRoot))
		if err != nil {
			return mountEntry{}, nil, err
		}
		claim := nfs.ClaimOfMount(t, s.o.Machine)
		at := table.index(claim)
		switch {
		case at < 0:
			return mountEntry{}, nil, fmt.Errorf("%w: nothing is exported to %s", nfs.ErrAccessDenied, s.o.Machine)
		case !overlap(table[at].Addresses, own):
			return mountEntry{}, nil, fmt.Errorf("%w: the export is for %v, this machine is %v", nfs.ErrAccessDenied, table[at].Addresses, own)
		case t.Mode == schema.ReadWrite && table[at].Mode != schema.ReadWrite:
			return mountEntry{}, nil, fmt.Errorf("%w: the export is read-only", nfs.ErrAccessDenied)
		}
		export := claim.ExportDir(peer.WorkRoot)
		dir, err := openExport(claim.ExportDir(workRoot))
		if err != nil {
			return mountEntry{}, nil, err
		}
		if dir.Device != table[at].Device || dir.Inode != table[at].Inode {
			return mountEntry{}, nil, errors.Join(fmt.Errorf("%w: %s on %s", nfs.ErrIdentity, export, peer.Machine), dir.Close())
		}
		return mountEntry{Drive: t.Drive, UID: t.UID, Source: t.Source, From: t.From, Server: address, Export: export,
			Mode: t.Mode, Device: dir.Device, Inode: dir.Inode}, dir, nil
	}
	return mountEntry{}, nil, fmt.Errorf("no machine of the lab has an address of %v", t.Addresses)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// attach records the mount, makes it and looks at it again: Bound is said of
// what is verified only (failures.md).
func (s *Shares) attach(ctx context.Context, t schema.MountTarget, entry mountEntry, dir *host.Dir) error {
	target := nfs.ClaimOfMount(t, s.o.Machine).MountDir(s.o.WorkRoot)
	table, err := readTable[mountTable](s.mountTable())
	if err != nil {
		return err
	}
	mounted, err := s.mounted(ctx)
	if err != nil {
		return err
	}
	old, known := table[target]
	if _, there := mounted[target]; there {
		switch {
		case !known:
			return fmt.Errorf("%w: %s", nfs.ErrForeign, target)
		case old.UID != t.UID:
			return fmt.Errorf("%w: an older drive of that name is still mounted at %s", nfs.ErrBusy, target)
		case old != entry:
			if err := s.o.Host.Unmount(target, false, false); err != nil {
				return busy(err)
			}
		}
	}
	if old != entry {
		table = maps.Clone(table)
		if table == nil {
			table = mountTable{}
		}
		table[target] = entry
		if err := writeTable(s.mountTable(), table); err != nil {
			return err
		}
	}
	if err := s.o.Host.Bind(dir, target, t.Mode == schema.ReadOnly); err != nil {
		return err
	}
	return s.verify(ctx, target, entry)
}

func (s *Shares) verify(ctx context.Context, target string, entry mountEntry) error {
	dir, err := s.o.Host.OpenMount(ctx, target)
	if err != nil {
		return err
	}
	defer dir.Close()
	if dir.Device == entry.Device && dir.Inode == entry.Inode {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %s", nfs.ErrIdentity, target), s.o.Host.Unmount(target, false, false))
}

// Unmount implements nfs.Client. A mount of another drive uid at the same place
// is not the claim's and stays.
func (s *Shares) Unmount(ctx context.Context, claim nfs.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, err := readTable[mountTable](s.mountTable())
	if err != nil {
		return err
	}
	target := claim.MountDir(s.o.WorkRoot)
	if entry, known := table[target]; !known || entry.UID != claim.UID {
		return nil
	}
	if err := s.o.Host.Unmount(target, false, false); err != nil {
		return fmt.Errorf("unmount %s: %w", claim.Drive.Name, busy(err))
	}
	table = maps.Clone(table)
	delete(table, target)
	return writeTable(s.mountTable(), table)
}

// Mounts implements nfs.Client, from mountinfo and the record of each mount.
func (s *Shares) Mounts(ctx context.Context) ([]schema.Mount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, err := readTable[mountTable](s.mountTable())
	if err != nil {
		return nil, err
	}
	mounted, err := s.mounted(ctx)
	if err != nil {
		return nil, err
	}
	list := []schema.Mount{}
	for _, target := range slices.Sorted(maps.Keys(table)) {
		info, there := mounted[target]
		if !there {
			continue
		}
		e := table[target]
		mode := schema.ReadWrite
		if info.ReadOnly() {
			mode = schema.ReadOnly
		}
		list = append(list, schema.Mount{Drive: e.Drive.Scoped(), UID: e.UID, Source: e.Source, From: e.From, Path: target,
			State: schema.MountBound, Mode: mode, Transport: schema.TransportLab, Server: e.Server, Export: e.Export})
	}
	return list, nil
}

// OpenMount implements nfs.Client.
func (s *Shares) OpenMount(ctx context.Context, claim nfs.Claim) (*host.Dir, error) {
	target := claim.MountDir(s.o.WorkRoot)
	s.mu.Lock()
	table, err := readTable[mountTable](s.mountTable())
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	entry, known := table[target]
	if !known || entry.UID != claim.UID {
		return nil, fmt.Errorf("%s: %w", target, host.ErrNotMounted)
	}
	dir, err := s.o.Host.OpenMount(ctx, target)
	if err != nil {
		return nil, err
	}
	if dir.Device != entry.Device || dir.Inode != entry.Inode {
		return nil, errors.Join(fmt.Errorf("%w: %s", nfs.ErrIdentity, target), dir.Close())
	}
	return dir, nil
}
