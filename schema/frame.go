package schema

import "time"

// The kinds that make the frame: cluster, orgs, machines, workspaces, grants.

// ClusterSpec is `cluster.cue` (kinds.md).
type ClusterSpec struct {
	DNSDomain        string         `json:"dns_domain,omitempty"`
	PathPolicy       PathPolicy     `json:"path_policy,omitzero"`
	Eviction         EvictionPolicy `json:"eviction,omitzero"`
	MeasureEvery     Duration       `json:"measure_every,omitempty"`
	DownAfter        Duration       `json:"down_after,omitempty"`
	ReplaceAfter     Duration       `json:"replace_after,omitempty"`
	DeletionBudget   DeletionBudget `json:"deletion_budget,omitzero"`
	Sync             SyncMode       `json:"sync,omitempty"`
	VolumesNeedGrant bool           `json:"volumes_need_grants,omitempty"`
}

// PathPolicy is the cluster's list of host-path prefixes for volumes (V-4).
type PathPolicy struct {
	Allowed []string `json:"allowed,omitempty"`
	Denied  []string `json:"denied,omitempty"`
}

// EvictionPolicy is in percent of free space (D-71).
type EvictionPolicy struct {
	StartPercent int `json:"start_percent,omitempty"`
	StopPercent  int `json:"stop_percent,omitempty"`
}

// DeletionBudget is X-28's: how many objects of a kind in a workspace may go at once.
type DeletionBudget struct {
	Count   int `json:"count,omitempty"`
	Percent int `json:"percent,omitempty"`
}

// SyncMode says whether a commit is applied by itself.
type SyncMode string

const (
	SyncAuto    SyncMode = "auto"
	SyncApprove SyncMode = "approve"
)

// Kind implements Spec.
func (*ClusterSpec) Kind() Kind { return KindCluster }

// Normalize implements Spec.
func (s *ClusterSpec) Normalize() {
	setDefault(&s.DNSDomain, "astraeus.local")
	setDefault(&s.Eviction.StartPercent, 10)
	setDefault(&s.Eviction.StopPercent, 15)
	setDefault(&s.MeasureEvery, Duration(5*time.Minute))
	setDefault(&s.DownAfter, Duration(30*time.Second))
	setDefault(&s.ReplaceAfter, Duration(5*time.Minute))
	setDefault(&s.DeletionBudget.Count, 10)
	setDefault(&s.DeletionBudget.Percent, 30)
	setDefault(&s.Sync, SyncAuto)
}

// Labels of a machine that placement reads (D-56, D-59).
const (
	LabelSite         = "topology.astraeus.io/site"
	LabelRack         = "topology.astraeus.io/rack"
	LabelFabric       = "topology.astraeus.io/fabric"
	LabelNVLinkDomain = "topology.astraeus.io/nvlink-domain"
)

// MachineSpec is what a repository says of a machine; most of a machine is observed.
type MachineSpec struct {
	Address               string            `json:"address,omitempty"`
	NodeNetwork           string            `json:"node_network,omitempty"`
	DataLocation          *DataLocationSpec `json:"data_location,omitempty"`
	RDMA                  []RDMAPort        `json:"rdma,omitempty"`
	Resources             *Resources        `json:"resources,omitempty"`
	Engine                EngineKind        `json:"engine,omitempty"`
	Schedulable           *bool             `json:"schedulable,omitempty"`
	AllowedVolumePrefixes []string          `json:"allowed_volume_prefixes,omitempty"`
}

// DataLocationSpec is where a machine keeps copies (D-30). MaxBytes 0 is no limit.
type DataLocationSpec struct {
	Path     string `json:"path"`
	MaxBytes int64  `json:"max_bytes,omitempty"`
}

// Resources of a machine. A zero field of an observed machine is none; a nil
// *Resources is unknown.
type Resources struct {
	CPUCores    float64 `json:"cpu_cores"`
	MemoryBytes int64   `json:"memory_bytes"`
	GPUs        int     `json:"gpus"`
}

// RDMAPort is one RDMA interface (D-81).
type RDMAPort struct {
	Kind    string `json:"kind"` // "InfiniBand" or "RoCE"
	Fabric  string `json:"fabric,omitempty"`
	Address string `json:"address,omitempty"`
}

// EngineKind is what runs a machine's workers.
type EngineKind string

const (
	EngineContainerd EngineKind = "containerd"
	EngineProcess    EngineKind = "process"
)

// Kind implements Spec.
func (*MachineSpec) Kind() Kind { return KindMachine }

// Normalize implements Spec.
func (s *MachineSpec) Normalize() {
	setDefault(&s.Engine, EngineContainerd)
	if s.Schedulable == nil {
		yes := true
		s.Schedulable = &yes
	}
	if s.DataLocation != nil {
		cleanField(&s.DataLocation.Path)
	}
}

// IsSchedulable reports whether workers may be placed here.
func (s *MachineSpec) IsSchedulable() bool { return s.Schedulable == nil || *s.Schedulable }

// OrgSpec is an org's (kinds.md).
type OrgSpec struct {
	Admins []string `json:"admins,omitempty"`
}

// Kind implements Spec.
func (*OrgSpec) Kind() Kind { return KindOrg }

// Normalize implements Spec.
func (*OrgSpec) Normalize() {}

// Role is what a user may do in a workspace.
type Role string

const (
	RoleViewer Role = "viewer"
	RoleMember Role = "member"
	RoleEditor Role = "editor"
	RoleAdmin  Role = "admin"
)

// WorkspaceSpec is a workspace's (kinds.md).
type WorkspaceSpec struct {
	Members   []Member `json:"members,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
}

// Member is one user's role in a workspace.
type Member struct {
	User string `json:"user"`
	Role Role   `json:"role"`
}

// Kind implements Spec.
func (*WorkspaceSpec) Kind() Kind { return KindWorkspace }

// Normalize implements Spec.
func (*WorkspaceSpec) Normalize() {}

// HostPathGrantSpec lets a workspace use host paths (D-20).
type HostPathGrantSpec struct {
	Workspace string   `json:"workspace"`
	Paths     []string `json:"paths"`
	Mode      Mode     `json:"mode,omitempty"`
}

// Kind implements Spec.
func (*HostPathGrantSpec) Kind() Kind { return KindHostPathGrant }

// Normalize implements Spec.
func (s *HostPathGrantSpec) Normalize() {
	setDefault(&s.Mode, ReadWrite)
	for i := range s.Paths {
		cleanField(&s.Paths[i])
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
