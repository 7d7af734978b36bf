package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

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
	moves := prev != nil && prev.Object.Org != o.Org && spec.DataLocation != nil
	if samePath(old, spec.DataLocation) && !moves {
		return o, nil
	}
	hold := p.judgeLocation(o, spec.DataLocation)
	if hold == nil {
		return o, nil
	}
	if moves {
		return nil, hold // its data location would lie on the other org's paths
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
		p.note(schema.Diagnostic{Pos: o.At(locationField), Object: o.Key, Field: locationField, Code: schema.CodeSystemDisk, Message: warning})
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
