package statusapi

import (
	"cmp"
	"path"
	"slices"

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
	Location    *MachineDataLocation `json:"data_location"` // null: none was chosen
	// Recommended is the folder to choose as data location (D-33), "" when none
	// is known to be good.
	Recommended string `json:"recommended_data_location,omitempty"`
	// Disks is null until the machine has reported them.
	Disks    []schema.Filesystem `json:"disks" nullable:"true"`
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

// machineFacts is what a machine's body is made from.
type machineFacts struct {
	accepted *schema.AcceptedObject
	report   *schema.MachineReport // nil before the first
}

func (f machineFacts) state() schema.MachineState {
	if f.report == nil || f.report.State == "" {
		return schema.MachineUnknown
	}
	return f.report.State
}

var machines = &collection{
	word: "machines", entries: entriesOf(schema.KindMachine),
	facts: func(s *state, e entry) any { return machineFacts{e.object, s.reports[e.key.Name]} },
	body:  func(r *request, facts any) any { return r.machine(facts.(machineFacts)) },
	manner: func(r *request, _ any) string {
		if r.uncut() {
			return "whole"
		}
		return "-" // what is on it is cut to what the request sees
	},
	filters: map[string]filter{
		"state":     byWordOf("only machines in this state", func(_ *request, f machineFacts) string { return string(f.state()) }),
		labelFilter: byLabel(func(f machineFacts) *schema.Object { return f.accepted.Object }),
	},
}

func (r *request) machine(f machineFacts) Machine {
	m := Machine{
		Metadata: MetadataOf(f.accepted), State: f.state(), Copies: []Copy{}, Workers: []MachineWorker{}, Refused: r.refused(f.accepted),
	}
	spec, ok := f.accepted.Object.Spec.(*schema.MachineSpec)
	if ok {
		m.Address, m.Resources, m.RDMA, m.Schedulable = spec.Address, spec.Resources, spec.RDMA, spec.IsSchedulable()
		if spec.DataLocation != nil {
			m.Location = &MachineDataLocation{Path: spec.DataLocation.Path, MaxBytes: spec.DataLocation.MaxBytes, UsedBytes: -1, FreeBytes: -1}
		}
	}
	if f.report != nil {
		r.observe(&m, f.report)
	}
	return m
}

func (r *request) observe(m *Machine, report *schema.MachineReport) {
	// Declared values win over observed ones (kinds.md).
	m.Address = cmp.Or(m.Address, report.Address)
	if m.Resources == nil {
		m.Resources = report.Resources
	}
	if m.RDMA == nil {
		m.RDMA = report.RDMA
	}
	m.Engine, m.Network, m.Disks = report.Engine, report.Network, report.Filesystems
	m.Failures = r.failures(report.Failures)
	if r.administers(m.Metadata.Org) {
		m.Problems = report.Problems // they name what lies on the machine, whosever it is
	}
	m.Recommended = recommended(report.Filesystems)
	if m.Location != nil {
		i := slices.IndexFunc(report.DataLocations, func(s schema.DataLocationState) bool { return s.Path == m.Location.Path })
		if i >= 0 {
			s := report.DataLocations[i]
			m.Location.Mounted, m.Location.UsedBytes, m.Location.FreeBytes, m.Location.Message = s.Mounted, s.UsedBytes, s.FreeBytes, s.Message
		}
	}
	for _, c := range report.Copies {
		if name, ok := r.local(schema.KindDrive, c.Drive); ok {
			m.Copies = append(m.Copies, Copy{name, "", c.Folder, c.State, c.Bytes, c.Files, c.LastUsed, c.Filled})
		}
	}
	for _, w := range report.Workers {
		if name, ok := r.local(schema.KindRun, w.Run); ok {
			m.Workers = append(m.Workers, MachineWorker{name, w.Name, w.State})
		}
	}
}

// failures leaves out those of what the request does not see.
func (r *request) failures(list []schema.Failure) []schema.Failure {
	var out []schema.Failure
	for _, f := range list {
		if r.sees(f.Object) {
			f.Message = r.say(f.Object.Namespace, f.Message)
			out = append(out, f)
		}
	}
	return out
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
