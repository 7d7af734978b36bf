package statusapi

import (
	"path"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Machine is a machine's body: what is declared of it and what it reports.
type Machine struct {
	Metadata    Metadata             `json:"metadata"`
	State       schema.MachineState  `json:"state"`
	Address     string               `json:"address,omitempty"`
	Schedulable bool                 `json:"schedulable"`
	Engine      *schema.EngineState  `json:"engine,omitempty"`
	Resources   *schema.Resources    `json:"resources,omitempty"`
	RDMA        []schema.RDMAPort    `json:"rdma,omitempty"`
	Network     *schema.NetworkPart  `json:"network_mounts,omitempty"`
	Location    *MachineDataLocation `json:"data_location"`
	// Recommended is the folder to choose as data location (D-33), "" when none
	// is known to be good.
	Recommended string `json:"recommended_data_location,omitempty"`
	// Disks is null until the machine has reported them.
	Disks    []schema.Filesystem `json:"disks"`
	Copies   []Copy              `json:"copies"`
	Workers  []MachineWorker     `json:"workers"`
	Failures []schema.Failure    `json:"failures,omitempty"`
	Problems []string            `json:"problems,omitempty"`
	Refused  *schema.Hold        `json:"refused,omitempty"`
}

// MachineDataLocation is where a machine keeps copies; bytes of -1 are unknown.
type MachineDataLocation struct {
	Path      string `json:"path"`
	MaxBytes  int64  `json:"max_bytes"`
	Mounted   bool   `json:"mounted"`
	UsedBytes int64  `json:"used_bytes"`
	FreeBytes int64  `json:"free_bytes"`
	Message   string `json:"message,omitempty"`
}

// MachineWorker is one worker that a machine reports.
type MachineWorker struct {
	Run   string             `json:"run"`
	Name  string             `json:"name"`
	State schema.WorkerState `json:"state"`
}

func listMachines(r *request) (any, error) {
	var out []Machine
	for _, o := range r.index[schema.KindMachine] {
		if r.ofOrg(o) {
			out = append(out, r.machine(o))
		}
	}
	return page(r.query, out, func(m Machine) string { return m.Metadata.Name })
}

func oneMachine(r *request) (any, error) {
	for _, o := range r.index[schema.KindMachine] {
		if o.Object.Key.Name == r.name && r.ofOrg(o) {
			return r.machine(o), nil
		}
	}
	return nil, notFound("machine")
}

func (r *request) ofOrg(o *schema.AcceptedObject) bool {
	return r.scope.whole() || o.Object.Org == r.scope.org
}

func (r *request) machine(o *schema.AcceptedObject) Machine {
	m := Machine{Metadata: MetadataOf(o), State: schema.MachineUnknown, Copies: []Copy{}, Workers: []MachineWorker{}, Refused: refusedHold(o)}
	spec, ok := o.Object.Spec.(*schema.MachineSpec)
	if ok {
		m.Address, m.Resources, m.RDMA, m.Schedulable = spec.Address, spec.Resources, spec.RDMA, spec.IsSchedulable()
		if spec.DataLocation != nil {
			m.Location = &MachineDataLocation{Path: spec.DataLocation.Path, MaxBytes: spec.DataLocation.MaxBytes, UsedBytes: -1, FreeBytes: -1}
		}
	}
	if report := r.reports[o.Object.Key.Name]; report != nil {
		r.observe(&m, report)
	}
	return m
}

func (r *request) observe(m *Machine, report *schema.MachineReport) {
	if report.State != "" {
		m.State = report.State
	}
	// Declared values win over observed ones (kinds.md).
	if m.Address == "" {
		m.Address = report.Address
	}
	if m.Resources == nil {
		m.Resources = report.Resources
	}
	if m.RDMA == nil {
		m.RDMA = report.RDMA
	}
	m.Engine, m.Network, m.Disks = report.Engine, report.Network, report.Filesystems
	m.Failures, m.Problems = r.failures(report.Failures), report.Problems
	m.Recommended = recommended(report.Filesystems)
	if m.Location != nil {
		i := slices.IndexFunc(report.DataLocations, func(s schema.DataLocationState) bool { return s.Path == m.Location.Path })
		if i >= 0 {
			s := report.DataLocations[i]
			m.Location.Mounted, m.Location.UsedBytes, m.Location.FreeBytes, m.Location.Message = s.Mounted, s.UsedBytes, s.FreeBytes, s.Message
		}
	}
	for _, c := range report.Copies {
		if name, ok := r.local(c.Drive); ok {
			m.Copies = append(m.Copies, Copy{name, "", c.Folder, c.State, c.Bytes, c.Files, c.LastUsed, c.Filled})
		}
	}
	for _, w := range report.Workers {
		if name, ok := r.local(w.Run); ok {
			m.Workers = append(m.Workers, MachineWorker{name, w.Name, w.State})
		}
	}
}

// failures leaves out those of other workspaces.
func (r *request) failures(list []schema.Failure) []schema.Failure {
	var out []schema.Failure
	for _, f := range list {
		if r.scope.covers(f.Object) {
			out = append(out, f)
		}
	}
	return out
}

// local is a "<namespace>.<name>" as the scope names it; ok is false outside of it.
func (r *request) local(scoped string) (string, bool) {
	if r.scope.whole() {
		return scoped, true
	}
	return strings.CutPrefix(scoped, r.scope.namespace+".")
}

// recommended is the default folder on the recommended filesystem (D-33).
func recommended(disks []schema.Filesystem) string {
	for _, d := range disks {
		switch {
		case !d.Recommended:
		case d.MountPoint == "/":
			return "/var/lib/astraeus"
		default:
			return path.Join(d.MountPoint, "astraeus")
		}
	}
	return ""
}
