package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// agentState is where agents keep their own state: nothing may reach it.
const agentState = "/var/lib/astraeus-agent"

func (p *pass) hadBefore(key schema.Key) bool { return inForce(p.in.Accepted.Objects[key]) }

// judgeMachine checks a data location against what the machine reported. Such a
// hold clears by itself (D-31, D-32); the rest of the machine comes in force.
func (p *pass) judgeMachine(o *schema.Object, spec *schema.MachineSpec, prev *schema.AcceptedObject) (*schema.Object, *schema.Hold) {
	var old *schema.DataLocationSpec
	if prev != nil {
		old = prev.Object.Spec.(*schema.MachineSpec).DataLocation
		if prev.Object.Org != o.Org {
			if busy := p.machineBusy(o.Key.Name); busy != "" {
				return nil, holdOf(o, "", schema.CodeMachineInUse, busy)
			}
		}
	}
	if samePath(old, spec.DataLocation) {
		return o, nil
	}
	hold := p.judgeLocation(o, spec.DataLocation)
	if hold == nil {
		return o, nil
	}
	kept, keptSpec := *o, *spec
	keptSpec.DataLocation = old
	kept.Spec = &keptSpec
	kept.Rehash()
	return &kept, hold
}

func samePath(a, b *schema.DataLocationSpec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return schema.CleanPath(a.Path) == schema.CleanPath(b.Path)
}

const locationField = "spec.data_location.path"

func (p *pass) judgeLocation(o *schema.Object, l *schema.DataLocationSpec) *schema.Hold {
	name := o.Key.Name
	report := p.reports[name]
	hold := func(message string) *schema.Hold {
		return holdOf(o, locationField, schema.CodeDataLocation, message)
	}
	// It only waits for a report: nobody has to change anything.
	wait := func(message string) *schema.Hold {
		h := hold(message)
		h.Pending, h.Hint = true, onlyLocationWaits(name)
		return h
	}
	if l == nil { // D-32
		switch {
		case report == nil || report.Copies == nil:
			return wait(copiesUnknown(name))
		case heldCopies(report) > 0:
			return hold(holdsCopies(name, heldCopies(report)))
		}
		return nil
	}
	if report == nil || report.Filesystems == nil {
		return wait(notReported(name))
	}
	problem, warning := DataLocationProblem(name, report.Filesystems, l.Path)
	if warning != "" {
		p.note(schema.Diagnostic{Pos: o.At(locationField), Object: o.Key, Field: locationField, Message: warning})
	}
	if problem != "" {
		return hold(problem)
	}
	if path, by := p.hostPathIn(o.Org, name, l.Path); by != (schema.Key{}) {
		return hold(locationOverlaps(l.Path, path, by))
	}
	return nil
}

// DataLocationProblem says what forbids a folder as a machine's data location, by
// the disks that the machine reports (D-31, X-16), "" for nothing, and what a
// person should know of it. Other objects' paths are not looked at.
func DataLocationProblem(machine string, disks []schema.Filesystem, path string) (problem, warning string) {
	fs := filesystemOf(disks, path)
	switch {
	case fs == nil:
		return noFilesystem(machine, path), ""
	case fs.Shared:
		return notOwnDisk, ""
	case fs.System:
		warning = systemDiskWarning
	}
	if schema.Overlaps(path, agentState) {
		problem = overlapsState(path)
	}
	return problem, warning
}

func heldCopies(r *schema.MachineReport) (n int) {
	for _, c := range r.Copies {
		if c.State != schema.CopyTrash {
			n++
		}
	}
	return n
}

// hostPathIn finds an accepted host path of the org that overlaps a path on a
// machine.
func (p *pass) hostPathIn(org, machine, path string) (string, schema.Key) {
	for _, kind := range []schema.Kind{schema.KindHostPathGrant, schema.KindDrive, schema.KindVolume} {
		for _, key := range p.keysOf(kind) {
			a := p.objects[key]
			if a.Object.Org != org {
				continue
			}
			for _, h := range hostPathsOf(a.Object.Spec) {
				if (h.machine == "" || h.machine == machine) && schema.Overlaps(h.path, path) {
					return h.path, key
				}
			}
		}
	}
	return "", schema.Key{}
}

// hostPath is a path of the machines that an object names; machine "" is any.
type hostPath struct{ path, machine, field string }

func hostPathsOf(spec schema.Spec) []hostPath {
	var list []hostPath
	switch s := spec.(type) {
	case *schema.HostPathGrantSpec:
		for i, path := range s.Paths {
			list = append(list, hostPath{path: path, field: indexed("spec.paths", i, "")})
		}
	case *schema.DriveSpec:
		for i := range s.Sources {
			src := &s.Sources[i]
			h := hostPath{path: src.Path, field: indexed("spec.sources", i, ".path")}
			switch src.NodeScope {
			case schema.ScopePlaced:
				continue
			case schema.ScopeOneMachine:
				h.machine = src.Node
			}
			list = append(list, h)
		}
	case *schema.VolumeSpec:
		list = append(list, hostPath{path: s.HostPath, machine: s.NodeID, field: "spec.host_path"})
	}
	return list
}

// overlap says what of an agent's or of the data locations a path would reach
// on the machines of an org, or "".
func (p *pass) overlap(org string, h hostPath) string {
	if schema.Overlaps(h.path, agentState) {
		return overlapsState(h.path)
	}
	f := p.orgs[org]
	if f == nil {
		return ""
	}
	list := f.locationsByPath()
	if h.machine != "" {
		list = nil
		if m := p.machines[h.machine]; m != nil {
			list = locatedOf(m)
		}
	}
	for _, m := range list {
		if schema.Overlaps(h.path, m.path) {
			return overlapsLocation(h.path, m.path, m.machine.name)
		}
	}
	return ""
}

// located is a data location, present or former, with its machine.
type located struct {
	path    string
	machine *machine
}

func locatedOf(m *machine) []located {
	var list []located
	for _, l := range m.dataLocations() {
		list = append(list, located{l.Path, m})
	}
	return list
}

// locationsByPath are the fleet's data locations, each path once with its first machine.
func (f *fleet) locationsByPath() []located {
	if f.located == nil {
		f.located = []located{}
		seen := map[string]bool{}
		for _, m := range f.list {
			for _, l := range locatedOf(m) {
				if !seen[l.path] {
					seen[l.path] = true
					f.located = append(f.located, l)
				}
			}
		}
	}
	return f.located
}

// judgeGrant: X-16, for a new grant or new paths of one.
func (p *pass) judgeGrant(o *schema.Object, spec *schema.HostPathGrantSpec, prev *schema.AcceptedObject) *schema.Hold {
	var old []string
	if prev != nil {
		old = prev.Object.Spec.(*schema.HostPathGrantSpec).Paths
	}
	for _, h := range hostPathsOf(spec) {
		if slices.Contains(old, h.path) {
			continue
		}
		if text := p.overlap(o.Org, h); text != "" {
			return holdOf(o, h.field, schema.CodeHostAccessForbidden, text)
		}
	}
	return nil
}
