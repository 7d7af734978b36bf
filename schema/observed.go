package schema

import "time"

// Observed is what machines report, and the JSON of `--observed FILE` and
// GET /v1/observed (conventions.md). Nil means unknown, never none.
type Observed struct {
	At         time.Time         `json:"at"`
	Machines   []*MachineReport  `json:"machines"`
	Placements []PlacementRecord `json:"placements,omitempty"`
}

// PlacementRecord is one worker's place in an observed state file. All after
// Machine may be left out: the worker is then the accepted run's, has not ended,
// and its GPUs are the lowest free ones.
type PlacementRecord struct {
	Run        string `json:"run"` // "ws-….train"
	Worker     string `json:"worker"`
	Machine    string `json:"machine"`
	RunUID     string `json:"run_uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	GPUs       []int  `json:"gpus,omitempty"`
	Address    string `json:"address,omitempty"`
	// Outcome is how it ended: its machine need not know that any more.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// MachineState is the leader's view of a machine.
type MachineState string

const (
	MachineUp      MachineState = "Up"
	MachineDown    MachineState = "Down"
	MachineUnknown MachineState = "Unknown" // never heard, or not long enough to say Down
)

// MachineReport is one machine's whole report. Each slice is one part; nil is
// unknown, empty is none.
type MachineReport struct {
	Name    string       `json:"name"`
	State   MachineState `json:"state,omitempty"` // set by the leader, not by the machine
	Address string       `json:"address,omitempty"`
	// Addresses are all of the machine's own addresses.
	Addresses []string `json:"addresses,omitempty"`

	BootID      string `json:"boot_id,omitempty"`
	Incarnation string `json:"incarnation,omitempty"` // one an agent process
	Sequence    int64  `json:"sequence,omitempty"`
	// Epoch and Applied are the newest assignment that the machine works by.
	Epoch   int64 `json:"epoch,omitempty"`
	Applied int64 `json:"applied,omitempty"`

	RDMA      []RDMAPort   `json:"rdma,omitempty"`
	Resources *Resources   `json:"resources,omitempty"`
	Engine    *EngineState `json:"engine,omitempty"`
	Network   *NetworkPart `json:"network_mounts,omitempty"`

	Filesystems   []Filesystem        `json:"filesystems,omitzero"`
	DataLocations []DataLocationState `json:"data_locations,omitzero"`
	Paths         []PathState         `json:"paths,omitzero"`
	Copies        []Copy              `json:"copies,omitzero"`
	Exports       []Export            `json:"exports,omitzero"`
	Mounts        []Mount             `json:"mounts,omitzero"`
	Workers       []Worker            `json:"workers,omitzero"`
	Measurements  []Measurement       `json:"measurements,omitzero"`
	MountSeries   []MountSeries       `json:"mount_series,omitzero"`
	Failures      []Failure           `json:"failures,omitzero"`
	Checks        []CheckState        `json:"checks,omitzero"`   // what has been answered so far
	Evicted       []Evicted           `json:"evicted,omitempty"` // lately, oldest first
	// Problems are things found on the machine that are reported and left alone
	// (a copy without a sidecar, a foreign marker).
	Problems []string `json:"problems,omitzero"`
}

// EngineState is a machine's worker engine. Message says what is missing.
type EngineState struct {
	Kind    EngineKind `json:"kind"`
	Ready   bool       `json:"ready"`
	Message string     `json:"message,omitempty"`
	// StopsAway: workers that are told so are stopped when the machine has no controller,
	// also while its agent is dead.
	StopsAway bool `json:"stops_away,omitempty"`
}

// NetworkPart says what a machine can do for network mounts (D-82). Kind is
// "kernel" for kernel NFS, "lab" for a lab's bind mounts.
type NetworkPart struct {
	Kind          string `json:"kind"`
	Server        bool   `json:"server"`
	Client        bool   `json:"client"`
	ServerMessage string `json:"server_message,omitempty"` // the missing piece
	ClientMessage string `json:"client_message,omitempty"`
}

// Filesystem is one mounted filesystem that can hold data (D-33).
type Filesystem struct {
	MountPoint  string `json:"mount_point"`
	ID          string `json:"id,omitempty"` // UUID, or another name that survives a reboot
	Type        string `json:"type"`
	Medium      Medium `json:"medium,omitempty"`
	System      bool   `json:"system"`
	Shared      bool   `json:"shared"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	TotalBytes  int64  `json:"total_bytes"`
	FreeBytes   int64  `json:"free_bytes"` // Bavail: what can be used
	UsedBytes   int64  `json:"used_bytes,omitempty"`
	FreeInodes  int64  `json:"free_inodes"`
	Recommended bool   `json:"recommended,omitempty"` // as data location (D-33)
	// Evicting: eviction has begun here and has not reached the stop mark (D-71).
	Evicting bool `json:"evicting,omitempty"`
}

// Medium is a disk in plain words (D-33).
type Medium string

const (
	MediumNVMe    Medium = "NVMe SSD"
	MediumSSD     Medium = "SSD"
	MediumRAID    Medium = "RAID array"
	MediumHDD     Medium = "hard disk"
	MediumVirtual Medium = "virtual disk"
	MediumShared  Medium = "shared"
)

// DataLocationState is a data location on the machine, present or former.
type DataLocationState struct {
	Path    string `json:"path"`
	FSID    string `json:"fs_id,omitempty"`
	Present bool   `json:"present"` // current one of the assignment
	Mounted bool   `json:"mounted"` // the expected filesystem and marker are there
	Message string `json:"message,omitempty"`
	// UsedBytes is the sum of its copies; FreeBytes its filesystem's Bavail. -1 is unknown.
	UsedBytes int64 `json:"used_bytes"`
	FreeBytes int64 `json:"free_bytes"`
	// OverLimit: its copies exceed the limit of the assignment (D-71).
	OverLimit bool `json:"over_limit,omitempty"`
}

// Evicted is a copy that the machine evicted, also while it was away from the
// control plane, kept so that the event says why (D-71).
type Evicted struct {
	Drive string    `json:"drive"` // "ws-….hf-cache"
	UID   string    `json:"uid"`
	Why   WhyCode   `json:"why"`
	At    time.Time `json:"at"`
}

// PathState is an assigned directory (X-8, CreateDir).
type PathState struct {
	UID    string `json:"uid"`
	Source int    `json:"source"`
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	FSID   string `json:"fs_id,omitempty"`
}

// CopyState of a copy on a machine.
type CopyState string

const (
	CopyCreating CopyState = "Creating"
	CopyPresent  CopyState = "Present"
	CopyTrash    CopyState = "Trash"
	// CopyUnknown: its data location is not mounted.
	CopyUnknown CopyState = "Unknown"
)

// Copy is a placed drive's bytes on a machine (D-70). UID "" in an observed
// state file means the accepted drive of that name; State "" means Present.
// Bytes -1 is not measured yet. Trash: the bytes that its removal still gives
// back, at most; 0 for what cannot be removed.
type Copy struct {
	Drive            string     `json:"drive"` // "ws-….hf-cache"
	UID              string     `json:"uid,omitempty"`
	State            CopyState  `json:"state,omitempty"`
	Folder           string     `json:"folder"`
	FSID             string     `json:"fs_id,omitempty"`
	Bytes            int64      `json:"bytes"`
	Files            int64      `json:"files"`
	LastUsed         *time.Time `json:"last_used"`
	Created          *time.Time `json:"created,omitempty"`
	Filled           bool       `json:"filled"`
	FilledGeneration int64      `json:"filled_generation,omitempty"`
}

// Export is one entry of the export table as read back.
type Export struct {
	Drive  string `json:"drive"`
	UID    string `json:"uid,omitempty"`
	Source int    `json:"source"`
	Path   string `json:"path"`   // what is exported
	Client string `json:"client"` // the client machine's address (D-80)
	// To is the client machine: the claim's identity when its address changes.
	To        string    `json:"to,omitempty"`
	Clients   []string  `json:"clients,omitempty"`
	Mode      Mode      `json:"mode,omitempty"`
	Transport Transport `json:"transport,omitempty"`
}

// MountState of a network mount on its client.
type MountState string

const (
	MountBound    MountState = "Bound"
	MountFailed   MountState = "Failed"
	MountDetached MountState = "Detached" // after a lazy unmount
	MountHung     MountState = "Hung"
)

// Mount is a network mount as the client sees it.
type Mount struct {
	Drive     string     `json:"drive"`
	UID       string     `json:"uid,omitempty"`
	Source    int        `json:"source"`
	From      string     `json:"from"` // the source machine
	Path      string     `json:"path"` // where it is mounted
	State     MountState `json:"state"`
	Mode      Mode       `json:"mode,omitempty"`
	Transport Transport  `json:"transport"`
	Message   string     `json:"message"`
	Server    string     `json:"server,omitempty"` // address
	Export    string     `json:"export,omitempty"` // the server's path
}

// WorkerState is what a worker is doing.
type WorkerState string

const (
	WorkerPreparing WorkerState = "Preparing"
	WorkerRunning   WorkerState = "Running"
	WorkerStopping  WorkerState = "Stopping"
	WorkerStuck     WorkerState = "Stuck" // killed and still there
	WorkerLost      WorkerState = "Lost"
	WorkerSucceeded WorkerState = "Succeeded"
	WorkerFailed    WorkerState = "Failed"
)

// RebootedReason is the Reason of a worker that a reboot of its machine ended: no
// failure of the run's.
const RebootedReason = "the machine rebooted"

// AwayReason is the Reason of a worker that its machine stopped because it had no
// controller: no failure of the run's either.
const AwayReason = "stopped while the machine had no controller"

// Ended reports whether the worker will not run any more.
func (s WorkerState) Ended() bool { return s == WorkerSucceeded || s == WorkerFailed }

// Worker is a worker as its machine's engine lists it.
type Worker struct {
	Run        string      `json:"run"` // "ws-….train"
	RunUID     string      `json:"run_uid,omitempty"`
	Generation int64       `json:"generation,omitempty"`
	Attempt    int         `json:"attempt,omitempty"`
	Name       string      `json:"name"`
	Group      string      `json:"group"`
	Rank       int         `json:"rank"`
	Index      int         `json:"index,omitempty"`
	GPUs       []int       `json:"gpus,omitempty"`
	State      WorkerState `json:"state"`
	Reason     string      `json:"reason"`
	Address    string      `json:"address"`
	ExitCode   *int        `json:"exit_code"`
	Started    time.Time   `json:"started,omitzero"`
	Ended      time.Time   `json:"ended,omitzero"`
	// Uses are the drive uids and volume ids that the worker was started with, so
	// that use is known without the assignment.
	Uses []Use `json:"uses,omitempty"`
}

// Use names one thing a worker uses on its machine.
type Use struct {
	UID    string `json:"uid"` // drive uid or volume id
	Source int    `json:"source,omitempty"`
	Mode   Mode   `json:"mode,omitempty"`
}

// Measurement of one path (D-91).
type Measurement struct {
	Drive      string    `json:"drive"`
	UID        string    `json:"uid,omitempty"`
	Source     int       `json:"source"`
	Bytes      int64     `json:"bytes"`
	Files      int64     `json:"files"`
	FreeBytes  int64     `json:"free_bytes"`
	FreeInodes int64     `json:"free_inodes"`
	Answers    int       `json:"answers"` // 1 or 0
	At         time.Time `json:"at"`
}

// CheckID identifies a health check: one that is asked anything else is another.
type CheckID struct {
	Endpoint   string `json:"endpoint"` // "ws-….api"
	RunUID     string `json:"run_uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	Worker     string `json:"worker"`
	Address    string `json:"address"`
	Port       int    `json:"port"`
	HTTPPath   string `json:"http_path,omitempty"`
}

// CheckState is what a health check says of a worker (N-1). It changes when the
// verdict does, not at each answer.
type CheckState struct {
	CheckID
	Passing bool   `json:"passing"`
	Message string `json:"message,omitempty"` // why it does not pass
}

// MountSeries is what the client's mountstats say of one network mount lately: at
// most MaxMountSamples samples, the oldest first (D-83).
type MountSeries struct {
	Drive   string        `json:"drive"`
	UID     string        `json:"uid,omitempty"`
	Source  int           `json:"source"`
	Samples []MountSample `json:"samples"`
}

// MaxMountSamples is three hours of samples, one in five minutes: enough for a
// look. A longer memory is the business of whoever scrapes the machine.
const MaxMountSamples = 36

// MountSample is what happened on a mount in the Seconds before At. RoundTrip is
// the mean time from a request to its answer, 0 without operations.
type MountSample struct {
	At              time.Time `json:"at"`
	Seconds         float64   `json:"seconds"`
	ReadBytes       int64     `json:"read_bytes"`
	WrittenBytes    int64     `json:"written_bytes"`
	Operations      int64     `json:"operations"`
	RoundTrip       float64   `json:"round_trip_seconds"`
	Retransmissions int64     `json:"retransmissions"`
	Timeouts        int64     `json:"timeouts"`
}

// Failure is a step's failure that the agent retries.
type Failure struct {
	Object   Key       `json:"object"`
	UID      string    `json:"uid,omitempty"`
	Source   int       `json:"source,omitempty"`
	Worker   string    `json:"worker,omitempty"`
	Action   Action    `json:"action"`
	Code     string    `json:"code"`
	Message  string    `json:"message"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
	NextAt   time.Time `json:"next_at"`
}
