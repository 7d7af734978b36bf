package schema

// NodeScope chooses what a drive's source is (D-1).
type NodeScope string

const (
	ScopeOneMachine NodeScope = ""
	ScopePlaced     NodeScope = "placed"
	ScopeShared     NodeScope = "shared"
	ScopeLocalAny   NodeScope = "local-any"
)

// Mode is how data may be used.
type Mode string

const (
	ReadOnly  Mode = "ReadOnly"
	ReadWrite Mode = "ReadWrite"
)

// Transport is how a drive on one machine is reached from another (D-6, D-81).
// TransportLab is never declared: it is what a lab's network mounts report.
type Transport string

const (
	TransportAuto  Transport = "Auto"
	TransportRDMA  Transport = "RDMA"
	TransportTCP   Transport = "TCP"
	TransportLocal Transport = "Local"
	TransportLab   Transport = "Lab"
)

// FillMarker is the file that a fill writes last into a copy (D-42).
const FillMarker = ".astralyx-filled"

// FillMount is where a fill sees the copy (D-42).
const FillMount = "/drive"

// DriveSpec is a drive's (D-1..D-7). ManagedBy exists so that a file which sets
// it gets D-7's message; on an accepted object it is set by the planner for a
// model's drive (D-43).
type DriveSpec struct {
	Sources        []DriveSource `json:"sources"`
	Transport      Transport     `json:"transport,omitempty"`
	Evictable      bool          `json:"evictable,omitempty"`
	SizeHintBytes  int64         `json:"size_hint_bytes,omitempty"`
	Fill           *FillSpec     `json:"fill,omitempty"`
	Permissions    Permissions   `json:"permissions,omitzero"`
	IdleTTLSeconds int64         `json:"idle_ttl_seconds,omitempty"`
	ManagedBy      string        `json:"managed_by,omitempty"`
	NFS            NFSOptions    `json:"nfs,omitzero"`
}

// DriveSource is one place of a drive's data.
type DriveSource struct {
	NodeScope     NodeScope `json:"node_scope,omitempty"`
	Node          string    `json:"node,omitempty"`
	Path          string    `json:"path"`
	MountPath     string    `json:"mount_path,omitempty"`
	Mode          Mode      `json:"mode,omitempty"`
	EligibleNodes []string  `json:"eligible_nodes,omitempty"`
}

// FillSpec fills each copy once before anything else uses it (D-42).
type FillSpec struct {
	Template TaskTemplate `json:"template"`
}

// Permissions of a source's directory. Only Create is applied (D-6).
type Permissions struct {
	Create    bool   `json:"create,omitempty"`
	OwnerUID  *int64 `json:"owner_uid,omitempty"`
	OwnerGID  *int64 `json:"owner_gid,omitempty"`
	DirMode   string `json:"dir_mode,omitempty"`
	Apply     string `json:"apply,omitempty"`
	Recursive bool   `json:"recursive,omitempty"`
}

// Stored reports whether a field is set that is accepted and stored, not applied (D-6).
func (p Permissions) Stored() bool {
	return p.OwnerUID != nil || p.OwnerGID != nil || p.DirMode != "" || p.Apply != "" || p.Recursive
}

// NFSOptions of a drive's network mounts. Squash is "root" (default), "none" or "all".
type NFSOptions struct {
	Squash string `json:"squash,omitempty"`
}

// Kind implements Spec.
func (*DriveSpec) Kind() Kind { return KindDrive }

// Normalize implements Spec.
func (s *DriveSpec) Normalize() {
	setDefault(&s.Transport, TransportAuto)
	setDefault(&s.NFS.Squash, "root")
	for i := range s.Sources {
		setDefault(&s.Sources[i].Mode, ReadOnly)
		cleanField(&s.Sources[i].Path)
	}
	if s.Fill != nil {
		s.Fill.Template.normalize()
	}
}

// Placed reports whether the drive is kept as copies on data locations (D-2).
func (s *DriveSpec) Placed() bool {
	return len(s.Sources) == 1 && s.Sources[0].NodeScope == ScopePlaced
}

// VolumeSpec is a registered host path (V-1).
type VolumeSpec struct {
	HostPath    string `json:"host_path"`
	Shared      bool   `json:"shared,omitempty"`
	NodeID      string `json:"node_id,omitempty"`
	CapacityGB  int64  `json:"capacity_gb,omitempty"`
	Description string `json:"description,omitempty"`
}

// Kind implements Spec.
func (*VolumeSpec) Kind() Kind { return KindVolume }

// Normalize implements Spec. host_path is cleaned (V-2).
func (s *VolumeSpec) Normalize() { cleanField(&s.HostPath) }

// ModelSpec owns the managed drive model-<name> (D-43).
type ModelSpec struct {
	Fill          *FillSpec `json:"fill,omitempty"`
	SizeHintBytes int64     `json:"size_hint_bytes,omitempty"`
	MountPath     string    `json:"mount_path,omitempty"`
}

// Kind implements Spec.
func (*ModelSpec) Kind() Kind { return KindModel }

// Normalize implements Spec.
func (s *ModelSpec) Normalize() {
	if s.Fill != nil {
		s.Fill.Template.normalize()
	}
}

// DeletionSpec deletes on purpose or lifts the budget for one head.
// Exactly one of the name fields, or Allow, is set.
type DeletionSpec struct {
	Drive        string         `json:"drive,omitempty"`
	Volume       string         `json:"volume,omitempty"`
	Run          string         `json:"run,omitempty"`
	ReplicaGroup string         `json:"replica_group,omitempty"`
	Endpoint     string         `json:"endpoint,omitempty"`
	Model        string         `json:"model,omitempty"`
	Force        bool           `json:"force,omitempty"`
	Allow        *DeletionAllow `json:"allow,omitempty"`
}

// DeletionAllow lets Count objects of Kind go in one head.
type DeletionAllow struct {
	Kind  Kind `json:"kind"`
	Count int  `json:"count"`
}

// Kind implements Spec.
func (*DeletionSpec) Kind() Kind { return KindDeletion }

// Normalize implements Spec.
func (*DeletionSpec) Normalize() {}
