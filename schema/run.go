package schema

import "time"

// RestartPolicy of a run.
type RestartPolicy string

const (
	RestartNever     RestartPolicy = "Never"
	RestartOnFailure RestartPolicy = "OnFailure"
	RestartAlways    RestartPolicy = "Always"
)

// OnLost says what happens to a worker whose machine went away.
type OnLost string

const (
	OnLostWait    OnLost = "Wait"
	OnLostReplace OnLost = "Replace"
)

// MinStopIfAway is the least stop_if_away_after: a change of leader must stop nobody.
const MinStopIfAway = 30 * time.Second

// StopMargin is how much sooner than its replacement a worker is told to stop when
// its machine is away: the time that stopping takes.
const StopMargin = time.Minute

// RunSpec is a run's: one template, or worker groups (kinds.md).
type RunSpec struct {
	TaskTemplate  *TaskTemplate `json:"task_template,omitempty"`
	WorkerGroups  []WorkerGroup `json:"worker_groups,omitempty"`
	LeaderGroup   string        `json:"leader_group,omitempty"`
	RestartPolicy RestartPolicy `json:"restart_policy,omitempty"`
	OnLost        OnLost        `json:"on_lost,omitempty"`
	// StopIfAwayAfter makes a machine stop the run's workers by itself once it had no
	// controller for that long, so that they can be replaced whatever they write
	// 0 is never.
	StopIfAwayAfter  Duration         `json:"stop_if_away_after,omitempty"`
	Network          *Network         `json:"network,omitempty"`
	CheckpointPath   string           `json:"checkpoint_path,omitempty"`
	DatasetPath      string           `json:"dataset_path,omitempty"`
	ExternalAccesses []ExternalAccess `json:"external_accesses,omitempty"`
}

// WorkerGroup is a named set of workers of one template.
type WorkerGroup struct {
	Name         string       `json:"name"`
	TaskTemplate TaskTemplate `json:"task_template"`
}

// TaskTemplate is what a worker runs and mounts.
type TaskTemplate struct {
	Image              string             `json:"image,omitempty"`
	Command            string             `json:"command,omitempty"`
	Args               []string           `json:"args,omitempty"`
	Env                map[string]string  `json:"env,omitempty"`
	ConfigFiles        []ConfigFile       `json:"config_files,omitempty"`
	RequestedResources RequestedResources `json:"requested_resources,omitzero"`
	DatavolumeRefs     []DatavolumeRef    `json:"datavolume_refs,omitempty"`
	Volumes            []VolumeMount      `json:"volumes,omitempty"`
	ExternalAccesses   []ExternalAccess   `json:"external_accesses,omitempty"`
}

// ConfigFile is written into the worker. A template's files have at most 256 KB.
type ConfigFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// RequestedResources is the template's total, divided evenly over its machines (kinds.md).
type RequestedResources struct {
	CPUCores    float64    `json:"cpu_cores,omitempty"`
	MemoryBytes int64      `json:"memory_bytes,omitempty"`
	GPURequests GPURequest `json:"gpu_requests,omitzero"`
	Machines    int        `json:"machines,omitempty"`
}

// GPURequest counts GPUs over all machines of the template.
type GPURequest struct {
	Count int `json:"count,omitempty"`
}

// DatavolumeRef mounts a drive of the run's workspace (D-40).
type DatavolumeRef struct {
	Name        string `json:"name"`
	MountPath   string `json:"mount_path,omitempty"`
	SubPath     string `json:"sub_path,omitempty"`
	Mode        Mode   `json:"mode,omitempty"`
	SourceIndex int    `json:"source_index,omitempty"`
}

// VolumeMount mounts a volume, or a host path in the old form (V-5).
// BoundNodeID exists so that a file which sets it is refused by name.
type VolumeMount struct {
	VolumeID      string `json:"volume_id,omitempty"`
	Name          string `json:"name,omitempty"`
	HostPath      string `json:"host_path,omitempty"`
	ContainerPath string `json:"container_path"`
	ReadOnly      bool   `json:"read_only,omitempty"`
	BoundNodeID   string `json:"bound_node_id,omitempty"`
}

// ExternalAccess publishes a port of a worker (N-2: not in DNS).
type ExternalAccess struct {
	Name string `json:"name"`
	Port int    `json:"port"`
}

// NetworkMode of a run's workers.
type NetworkMode string

const (
	NetworkNode NetworkMode = "node"
	NetworkHost NetworkMode = "host"
)

// Network of a run. An empty Mode leaves the choice to the machine (N-8).
type Network struct {
	Mode   NetworkMode `json:"mode,omitempty"`
	Egress *Egress     `json:"egress,omitempty"`
}

// Egress is what a worker may resolve (N-5).
type Egress struct {
	Default string   `json:"default,omitempty"` // "allow" or "deny"
	Names   []string `json:"names,omitempty"`
	Cluster []string `json:"cluster,omitempty"`
}

// Kind implements Spec.
func (*RunSpec) Kind() Kind { return KindRun }

// Normalize implements Spec.
func (s *RunSpec) Normalize() {
	setDefault(&s.RestartPolicy, RestartOnFailure)
	setDefault(&s.OnLost, OnLostWait)
	if s.TaskTemplate != nil {
		s.TaskTemplate.normalize()
	}
	for i := range s.WorkerGroups {
		s.WorkerGroups[i].TaskTemplate.normalize()
	}
	if s.LeaderGroup == "" && len(s.WorkerGroups) > 0 {
		s.LeaderGroup = s.WorkerGroups[0].Name
	}
	if s.Network != nil && s.Network.Egress != nil {
		setDefault(&s.Network.Egress.Default, "allow")
	}
}

func (t *TaskTemplate) normalize() {
	setDefault(&t.RequestedResources.Machines, 1)
	for i := range t.Volumes {
		cleanField(&t.Volumes[i].HostPath)
		cleanField(&t.Volumes[i].ContainerPath)
	}
}

// Groups is the run's worker groups; a run without groups is one unnamed group.
func (s *RunSpec) Groups() []WorkerGroup {
	if len(s.WorkerGroups) > 0 || s.TaskTemplate == nil {
		return s.WorkerGroups
	}
	return []WorkerGroup{{TaskTemplate: *s.TaskTemplate}}
}

// ReplicaGroupSpec is N equal runs behind one endpoint (kinds.md).
type ReplicaGroupSpec struct {
	Replicas      int           `json:"replicas"`
	Port          int           `json:"port,omitempty"`
	HealthCheck   *HealthCheck  `json:"health_check,omitempty"`
	RestartPolicy RestartPolicy `json:"restart_policy,omitempty"`
	Network       *Network      `json:"network,omitempty"`
	TaskTemplate  TaskTemplate  `json:"task_template"`
}

// Kind implements Spec.
func (*ReplicaGroupSpec) Kind() Kind { return KindReplicaGroup }

// Normalize implements Spec.
func (s *ReplicaGroupSpec) Normalize() {
	setDefault(&s.RestartPolicy, RestartAlways)
	s.TaskTemplate.normalize()
	if s.HealthCheck != nil {
		s.HealthCheck.normalize()
	}
}

// EndpointSpec names the ready workers of a run or replica group (N-1).
type EndpointSpec struct {
	Run          string       `json:"run,omitempty"`
	ReplicaGroup string       `json:"replica_group,omitempty"`
	Port         int          `json:"port,omitempty"`
	HealthCheck  *HealthCheck `json:"health_check,omitempty"`
}

// HealthCheck is run by the worker's machine.
type HealthCheck struct {
	TCP      bool      `json:"tcp,omitempty"`
	HTTP     *HTTPPath `json:"http,omitempty"`
	Every    Duration  `json:"every,omitempty"`
	Timeout  Duration  `json:"timeout,omitempty"`
	Failures int       `json:"failures,omitempty"`
}

// HTTPPath is what an HTTP check asks for.
type HTTPPath struct {
	Path string `json:"path"`
}

func (h *HealthCheck) normalize() {
	setDefault(&h.Every, Duration(10*time.Second))
	setDefault(&h.Timeout, Duration(2*time.Second))
	setDefault(&h.Failures, 3)
}

// Kind implements Spec.
func (*EndpointSpec) Kind() Kind { return KindEndpoint }

// Normalize implements Spec.
func (s *EndpointSpec) Normalize() {
	if s.HealthCheck != nil {
		s.HealthCheck.normalize()
	}
}
