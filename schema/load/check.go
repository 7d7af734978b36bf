package load

import (
	"regexp"
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
)

// The checks that need only the object itself. What needs other objects or
// accepted state (grants, names that collide, V-4's prefixes) is the planner's.

// fail reports a problem of a field, unless the field could not be read anyway.
func (r *reader) fail(field, text string) { r.failAs(schema.CodeInvalid, field, field+": "+text) }

// failAs is fail with a code and the whole message.
func (r *reader) failAs(code schema.Code, field, message string) {
	for _, w := range r.wrong {
		if within(field, w) || within(w, field) {
			return
		}
	}
	r.add(code, field, r.d.loc.locate(field), message, "")
}

// failChoice reports a problem of several fields together, unless one of those
// could not be read; that another field beside them is wrong hides nothing (G-4).
func (r *reader) failChoice(field, text string, of ...string) {
	for _, w := range r.wrong {
		if within(field, w) {
			return
		}
		for _, name := range of {
			if within(w, field+"."+name) {
				return
			}
		}
	}
	r.add(schema.CodeInvalid, field, r.d.loc.locate(field), field+": "+text, "")
}

// within reports whether a field is another one or lies in it.
func within(field, outer string) bool {
	return field == outer || strings.HasPrefix(field, outer) && strings.ContainsAny(field[len(outer):len(outer)+1], ".[")
}

// failIf reports a problem that a function of package schema put into words.
func (r *reader) failIf(field, problem string) {
	if problem != "" {
		r.fail(field, problem)
	}
}

// each is the path of a list's element.
func each(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (r *reader) checkSpec() {
	switch s := r.d.spec.(type) {
	case *schema.ClusterSpec:
		r.checkCluster(s)
	case *schema.MachineSpec:
		r.checkMachine(s)
	case *schema.OrgSpec:
		r.checkUsers("spec.admins", s.Admins)
	case *schema.WorkspaceSpec:
		r.checkWorkspace(s)
	case *schema.HostPathGrantSpec:
		r.checkGrant(s)
	case *schema.DriveSpec:
		r.checkDrive(s)
	case *schema.VolumeSpec:
		r.checkVolume(s)
	case *schema.RunSpec:
		r.checkRun(s)
	case *schema.ReplicaGroupSpec:
		r.checkReplicaGroup(s)
	case *schema.EndpointSpec:
		r.checkEndpoint(s)
	case *schema.ModelSpec:
		r.checkModel(s)
	case *schema.DeletionSpec:
		r.checkDeletion(s)
	}
}

var (
	volumeID    = regexp.MustCompile(`^vol-[0-9a-f]{16}$`)
	namespace   = regexp.MustCompile(`^ws-[0-9a-f]{12}$`)
	machineName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)
)

// checkMetadata judges the name by its kind's rule (D-8, N-9, V-2).
func (r *reader) checkMetadata() {
	m := &r.d.meta
	const field = "metadata.name"
	switch r.d.kind {
	case schema.KindVolume:
		r.failIf(field, schema.VolumeNameProblem(m.Name))
		if m.ID != "" && !volumeID.MatchString(m.ID) {
			r.fail("metadata.id", sayVolumeID)
		}
	case schema.KindRun, schema.KindReplicaGroup, schema.KindEndpoint:
		r.checkDNSName(field, r.d.kind.Word(), m.Name)
	case schema.KindMachine:
		if len(m.Name) > 253 || !machineName.MatchString(m.Name) {
			r.fail(field, sayMachineName)
		}
	case schema.KindModel:
		if problem := schema.NameProblem(m.Name); problem != "" {
			r.fail(field, problem)
		} else if len("model-"+m.Name) > schema.MaxLabel {
			r.fail(field, sayModelName)
		}
	default:
		r.failIf(field, schema.NameProblem(m.Name))
	}
	if m.ID != "" && r.d.kind != schema.KindVolume {
		r.fail("metadata.id", sayIDElsewhere)
	}
}

// checkDNSName refuses what cannot be a DNS label (N-9).
func (r *reader) checkDNSName(field, what, name string) bool {
	if problem := schema.DNSNameProblem(name); problem != "" {
		r.failAs(schema.CodeNameNotDNSSafe, field, field+": "+sayNotDNS(what, name, problem))
		return false
	}
	return true
}

func (r *reader) checkUsers(field string, users []string) {
	for i, user := range users {
		if strings.TrimSpace(user) == "" {
			r.fail(each(field, i), sayRequired)
		}
	}
}

// unique reports each repetition in a list of names.
func (r *reader) unique(n int, field func(int) string, name func(int) string) {
	seen := make(map[string]bool, n)
	for i := range n {
		if name(i) != "" && seen[name(i)] {
			r.fail(field(i), sayNameTwice(name(i)))
		}
		seen[name(i)] = true
	}
}
