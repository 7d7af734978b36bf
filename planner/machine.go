package planner

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// machine is an accepted machine with everything that placement asks of it.
type machine struct {
	index  int // in the fleet, by name
	name   string
	org    string
	object *schema.AcceptedObject
	spec   *schema.MachineSpec
	seen   *sighting          // nil when it was never heard of
	given  *schema.Assignment // what it was last assigned; nil for nothing
	state  schema.MachineState

	// Declared values win over observed ones (kinds.md).
	address        string
	addressProblem string
	rdma           []schema.RDMAPort
	resources      *schema.Resources

	where, rack, fabric, nvlink string // labels; where is the site

	location *place // where new copies go; nil when none is chosen
	pending  bool   // one was chosen, and the machine has not reported its disks yet
	former   []string
	shared   []schema.Filesystem // nil: filesystems are unknown
	class    *class
	keys     []poolKey
	busy     bool // has a worker of the group that is being placed
	leaving  bool // the commit removes it: it gets no worker any more
	load     load
	nodeNet  netip.Prefix // of its node network, zero for none

	tenants []tenant      // the placed workers that are to run here
	sources []driveSource // that it measures because they name it
	site    *site         // its target and steps
}

// place is a machine's present data location.
type place struct {
	path    string
	limit   int64 // 0: none
	mounted bool
	free    int64 // bytes of its filesystem, -1 unknown
	used    int64 // bytes of its copies, -1 unknown
}

func (m *machine) up() bool { return m.state == schema.MachineUp }

// workersKnown reports whether the machine's listing of workers can be relied on now.
func (m *machine) workersKnown() bool { return m.up() && m.seen != nil && m.seen.workers != nil }

// fleet is the machines of one org, by name.
type fleet struct {
	list    []*machine
	classes []*class
	pools   map[poolKey]*pool
	racks   map[string][]*machine
	nvlinks map[string][]*machine
	located []located // every data location, present or former
}

// buildMachines reads accepted machines and reports. It runs after the machines
// were judged, and before anything that depends on them.
func (p *pass) buildMachines() {
	p.machines, p.orgs, p.holders, p.order = map[string]*machine{}, map[string]*fleet{}, map[string][]*machine{}, nil
	p.planned = map[string][]*machine{}
	p.attempts = map[attemptKey]int{} // one more than the newest
	for _, key := range p.keysOf(schema.KindMachine) {
		m := p.newMachine(p.objects[key], p.reports[key.Name])
		p.machines[m.name] = m
		p.order = append(p.order, m)
		f := p.orgs[m.org]
		if f == nil {
			f = &fleet{pools: map[poolKey]*pool{}, racks: map[string][]*machine{}, nvlinks: map[string][]*machine{}}
			p.orgs[m.org] = f
		}
		m.index = len(f.list)
		f.list = append(f.list, m)
		if m.rack != "" {
			f.racks[m.rack] = append(f.racks[m.rack], m)
		}
		if m.nvlink != "" {
			f.nvlinks[m.nvlink] = append(f.nvlinks[m.nvlink], m)
		}
		if m.seen != nil {
			m.seen.eachHeld(func(uid string) { p.holders[uid] = append(p.holders[uid], m) })
		}
	}
}

func (p *pass) newMachine(a *schema.AcceptedObject, r *schema.MachineReport) *machine {
	spec := a.Object.Spec.(*schema.MachineSpec)
	labels := a.Object.Metadata.Labels
	m := &machine{
		name: a.Object.Key.Name, org: a.Object.Org, object: a, spec: spec, state: schema.MachineUnknown,
		address: spec.Address, rdma: spec.RDMA, resources: spec.Resources,
		where: labels[schema.LabelSite], rack: labels[schema.LabelRack],
		fabric: labels[schema.LabelFabric], nvlink: labels[schema.LabelNVLinkDomain],
	}
	m.pending = spec.DataLocation == nil && (r == nil || r.Filesystems == nil) && p.locationHeld(a)
	if r != nil {
		m.seen = p.sight(r)
		m.state = cmp.Or(r.State, schema.MachineUnknown)
		m.takeReport(r)
	}
	m.given = p.in.Given[m.name]
	m.nodeNet = nodeNetOf(spec)
	if spec.DataLocation != nil {
		m.location = newPlace(spec.DataLocation, m.seen)
	}
	m.former = formerLocations(m)
	m.load = newLoad(m)
	m.keys = keysFor(m)
	return m
}

// locationHeld reports whether a data location was declared and is held back.
func (p *pass) locationHeld(a *schema.AcceptedObject) bool {
	refusal := a.Refused
	if p.in.Desired != nil {
		refusal = p.gate.held[a.Object.Key]
	}
	if refusal == nil || refusal.Candidate == nil {
		return false
	}
	c, ok := refusal.Candidate.Spec.(*schema.MachineSpec)
	return ok && c.DataLocation != nil
}

func (m *machine) takeReport(r *schema.MachineReport) {
	switch {
	case m.address == "":
		m.address = r.Address
	case len(r.Addresses) > 0 && !slices.Contains(r.Addresses, m.address) && r.Address != m.address:
		// Never export to an address that is not the machine's (D-82).
		m.addressProblem = addressNotReported(m.name, m.address)
	}
	if m.rdma == nil {
		m.rdma = r.RDMA
	}
	if m.resources == nil {
		m.resources = r.Resources
	}
	if r.Filesystems != nil {
		m.shared = []schema.Filesystem{}
		for _, fs := range r.Filesystems {
			if fs.Shared {
				m.shared = append(m.shared, fs)
			}
		}
	}
}

// newPlace reads what is known of the present data location. Unknown room stays
// unknown: it does not refuse a machine (D-58).
func newPlace(spec *schema.DataLocationSpec, s *sighting) *place {
	l := &place{path: spec.Path, limit: spec.MaxBytes, mounted: true, free: -1, used: -1}
	if s == nil {
		return l
	}
	for _, state := range s.report.DataLocations {
		if state.Path == spec.Path {
			l.mounted, l.free, l.used = state.Mounted, state.FreeBytes, state.UsedBytes
		}
	}
	if fs := filesystemOf(s.report.Filesystems, spec.Path); fs != nil && l.free < 0 {
		l.free = fs.FreeBytes
	}
	if l.free >= 0 {
		l.free += s.trashBeside(spec.Path)
	}
	if l.used < 0 && s.copies != nil {
		l.used = 0
		for _, c := range s.copies {
			if schema.Covers(spec.Path, c.Folder) {
				l.used += max(0, c.Bytes)
			}
		}
	}
	return l
}

// filesystemOf is the filesystem that a path lies on: the longest mount point
// that covers it.
func filesystemOf(list []schema.Filesystem, path string) *schema.Filesystem {
	var best *schema.Filesystem
	for i := range list {
		if under(list[i].MountPoint, path) && (best == nil || len(list[i].MountPoint) > len(best.MountPoint)) {
			best = &list[i]
		}
	}
	return best
}

// under is schema.Covers for two clean paths.
func under(parent, path string) bool {
	if len(parent) >= len(path) {
		return parent == path
	}
	return path[:len(parent)] == parent && (path[len(parent)] == '/' || parent == "/")
}

// formerLocations are the folders that still hold copies though new ones go
// elsewhere (D-32): those the machine reports, and those its copies lie in.
func formerLocations(m *machine) []string {
	present := ""
	if m.location != nil {
		present = m.location.path
	}
	list := m.givenLocations(present)
	if m.seen == nil {
		return list
	}
	for _, state := range m.seen.report.DataLocations {
		if state.Path != present && (m.seen.copies == nil || !state.Mounted || m.seen.copiesUnder(state.Path)) {
			list = append(list, state.Path)
		}
	}
	for _, c := range m.seen.report.Copies {
		if base, ok := locationOfCopy(c); ok && base != present {
			list = append(list, base)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (s *sighting) copiesUnder(path string) bool {
	return slices.ContainsFunc(s.report.Copies, func(c schema.Copy) bool { return schema.Covers(path, c.Folder) })
}

// locationOfCopy is the data location of a copy's folder <location>/drives/<drive> (D-2).
func locationOfCopy(c schema.Copy) (string, bool) {
	base, found := strings.CutSuffix(c.Folder, "/drives/"+c.Drive)
	return base, found && base != "" && c.State != schema.CopyTrash
}

// dataLocations lists the present data location first, then the former ones.
func (m *machine) dataLocations() []schema.DataLocation {
	var list []schema.DataLocation
	if m.location != nil {
		list = append(list, schema.DataLocation{Path: m.location.path, MaxBytes: m.location.limit, Present: true})
	}
	for _, path := range m.former {
		list = append(list, schema.DataLocation{Path: path})
	}
	return list
}

// millicores makes exact arithmetic of declared cores: a request is rounded up,
// a capacity down.
func millicores(cores float64, up bool) int64 {
	if up {
		return int64(math.Ceil(cores*1000 - 1e-6))
	}
	return int64(math.Floor(cores*1000 + 1e-6))
}
