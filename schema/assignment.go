package schema

import (
	"maps"
	"slices"
)

// AssignmentVersion is the format version of Assignment and Report JSON.
const AssignmentVersion = 1

// Assignment is one machine's complete target plus the steps released now
// . What is not in it has no place on the machine: a worker, mount or
// export of ours that is absent is taken down, in order.
type Assignment struct {
	Version    int    `json:"version"`
	ClusterUID string `json:"cluster_uid"`
	// Epoch and Revision order assignments; both are set when published.
	Epoch    int64  `json:"epoch"`
	Revision int64  `json:"revision"`
	Machine  string `json:"machine"`
	Commit   string `json:"commit,omitempty"`

	DataLocations []DataLocation `json:"data_locations,omitempty"` // present first, then former
	// Drives names the complete drive list of each workspace namespace by hash
	// (a DriveList blob). A workspace that is not whole is not listed (D-61).
	Drives  map[string]string `json:"drives,omitempty"`
	Dirs    []DirTarget       `json:"dirs,omitempty"`
	Copies  []CopyTarget      `json:"copies,omitempty"`
	Exports []ExportTarget    `json:"exports,omitempty"`
	Mounts  []MountTarget     `json:"mounts,omitempty"`
	Workers []WorkerTarget    `json:"workers,omitempty"`
	Checks  []CheckTarget     `json:"checks,omitempty"`
	Measure []MeasureTarget   `json:"measure,omitempty"`
	Steps   []Step            `json:"steps,omitempty"`

	Names *NamesTarget `json:"names,omitempty"`

	Eviction     EvictionPolicy `json:"eviction,omitzero"`
	MeasureEvery Duration       `json:"measure_every,omitempty"`
	// AllowedVolumePrefixes is the machine's own list, nil for none: then what lets a
	// volume through for the cluster lets it through here (V-4).
	AllowedVolumePrefixes []string `json:"allowed_volume_prefixes,omitempty"`
	// DeniedVolumePrefixes are the cluster's, beside those that are built in.
	DeniedVolumePrefixes []string `json:"denied_volume_prefixes,omitempty"`
}

// DataLocation is a folder that holds or held copies on a machine (D-32).
type DataLocation struct {
	Path     string `json:"path"`
	MaxBytes int64  `json:"max_bytes,omitempty"`
	Present  bool   `json:"present"` // new copies go here
}

// DriveList is the complete list of a workspace's drives: a copy whose uid is
// not in it, and whose namespace is this one, may be deleted (D-61).
type DriveList struct {
	Namespace string        `json:"namespace"`
	Drives    []ListedDrive `json:"drives"`
}

// ListedDrive is one placed drive of a DriveList, or a tombstone's.
type ListedDrive struct {
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Evictable bool   `json:"evictable,omitempty"`
	Removed   bool   `json:"removed,omitempty"`
}

// DirTarget is a directory that must exist before it is used (D-3, D-5).
type DirTarget struct {
	Drive  Key    `json:"drive"`
	UID    string `json:"uid"`
	Source int    `json:"source"`
	Path   string `json:"path"`
	Grant  string `json:"grant"` // the granted path above it (D-20)
	Create bool   `json:"create"`
}

// CopyTarget is a copy that must be on the machine.
type CopyTarget struct {
	Drive     Key    `json:"drive"`
	UID       string `json:"uid"`
	Location  string `json:"location"` // the data location's path
	Evictable bool   `json:"evictable,omitempty"`
	SizeHint  int64  `json:"size_hint,omitempty"`
	// FillGeneration is the generation of the fill that is wanted, 0 for none.
	FillGeneration int64  `json:"fill_generation,omitempty"`
	FillTemplate   string `json:"fill_template,omitempty"` // hash of a TaskTemplate blob
}

// ExportTarget is one claim's export on its source machine.
type ExportTarget struct {
	Drive  Key    `json:"drive"`
	UID    string `json:"uid"`
	Source int    `json:"source"`
	Path   string `json:"path"`  // the source's host path
	Grant  string `json:"grant"` // the granted path above it
	Create bool   `json:"create,omitempty"`
	Client string `json:"client"` // client machine
	// Addresses are the client's, one a network that may be used.
	Addresses  []string    `json:"addresses"`
	Mode       Mode        `json:"mode"`
	Squash     string      `json:"squash,omitempty"`
	Transports []Transport `json:"transports"`
}

// MountTarget is one claim's mount on its client machine.
type MountTarget struct {
	Drive  Key    `json:"drive"`
	UID    string `json:"uid"`
	Source int    `json:"source"`
	From   string `json:"from"` // source machine
	// Addresses are the server's, in the order of Transports.
	Addresses  []string    `json:"addresses"`
	Transports []Transport `json:"transports"` // allowed ones, best first
	Mode       Mode        `json:"mode"`
}

// WorkerTarget is a worker that must be on the machine until its outcome is
// written down.
type WorkerTarget struct {
	Run        Key         `json:"run"`
	RunUID     string      `json:"run_uid"`
	Generation int64       `json:"generation"`
	Attempt    int         `json:"attempt"`
	Name       string      `json:"name"`
	Group      string      `json:"group,omitempty"`
	Rank       int         `json:"rank"`
	Index      int         `json:"index"`
	Template   string      `json:"template"` // hash of a TaskTemplate blob
	WorldSize  int         `json:"world_size"`
	Leader     string      `json:"leader,omitempty"`  // the leader's address (N-8)
	Address    string      `json:"address,omitempty"` // its own
	Network    NetworkMode `json:"network,omitempty"`
	// Resolver is the name server of its resolv.conf, "" to keep the machine's (N-7, N-8).
	Resolver string `json:"resolver,omitempty"`
	// Egress is what the worker may look up, nil for everything (N-5).
	Egress *EgressTarget `json:"egress,omitempty"`
	GPUs   []int         `json:"gpus,omitempty"`
	// CPUCores and MemoryBytes are this worker's share.
	CPUCores    float64      `json:"cpu_cores,omitempty"`
	MemoryBytes int64        `json:"memory_bytes,omitempty"`
	Mounts      []BindTarget `json:"mounts,omitempty"`
	// StopIfAwayAfter: the machine stops the worker by itself once it had no controller
	// for that long; 0 is never.
	StopIfAwayAfter Duration `json:"stop_if_away_after,omitempty"`
}

// EgressTarget is all that a worker with `default: deny` may look up (N-5).
type EgressTarget struct {
	Names      []string `json:"names,omitempty"`      // outside of the cluster
	Namespaces []string `json:"namespaces,omitempty"` // of the cluster: its own, and those that egress.cluster names; "*" is all of the org
}

// NamesTarget says where a machine serves names (N-3). A machine without a node
// network has none.
type NamesTarget struct {
	Org     string `json:"org"`     // whose names it serves (N-6)
	Domain  string `json:"domain"`  // of the cluster: "astraeus.local"
	Gateway string `json:"gateway"` // the address it serves on, port 53
	Network string `json:"network"` // its node network, a /24
}

// CheckTarget is a health check of one worker behind an endpoint, run by the
// worker's machine (N-1). It is TCP where HTTPPath is "".
type CheckTarget struct {
	Endpoint   Key      `json:"endpoint"`
	Run        Key      `json:"run"`
	RunUID     string   `json:"run_uid"`
	Generation int64    `json:"generation"`
	Attempt    int      `json:"attempt"`
	Worker     string   `json:"worker"`
	Address    string   `json:"address"`
	Port       int      `json:"port"`
	HTTPPath   string   `json:"http_path,omitempty"`
	Every      Duration `json:"every"`
	Timeout    Duration `json:"timeout"`
	Failures   int      `json:"failures"` // in a row, after which it does not pass any more
}

// ID is what a result answers: the same worker asked the same thing at the same
// place. How often it is asked does not matter.
func (c *CheckTarget) ID() CheckID {
	return CheckID{Endpoint: c.Endpoint.Scoped(), RunUID: c.RunUID, Generation: c.Generation, Attempt: c.Attempt, Worker: c.Worker,
		Address: c.Address, Port: c.Port, HTTPPath: c.HTTPPath}
}

// BindFrom says what a worker's mount is bound from.
type BindFrom string

const (
	BindCopy   BindFrom = "copy"   // a placed drive's copy on this machine
	BindDir    BindFrom = "dir"    // a one-machine, shared or scratch path on this machine
	BindClaim  BindFrom = "claim"  // a network mount
	BindVolume BindFrom = "volume" // a volume's or old-form host path
)

// BindTarget is one mount inside a worker.
type BindTarget struct {
	Drive    Key      `json:"drive,omitzero"`
	UID      string   `json:"uid,omitempty"` // drive uid, or volume id
	Source   int      `json:"source,omitempty"`
	From     BindFrom `json:"from"`
	Path     string   `json:"path,omitempty"`  // host path for dir and volume; folder inside the copy for copy
	Grant    string   `json:"grant,omitempty"` // the granted path above Path (D-21)
	SubPath  string   `json:"sub_path,omitempty"`
	Target   string   `json:"target"` // inside the worker
	ReadOnly bool     `json:"read_only,omitempty"`
}

// MeasureTarget is a path that this machine measures (D-91).
type MeasureTarget struct {
	Drive  Key    `json:"drive"`
	UID    string `json:"uid"`
	Source int    `json:"source"`
	Path   string `json:"path"` // "" for a copy, which the machine finds itself
	Grant  string `json:"grant,omitempty"`
}

// BlobHashes lists the hashes that the assignment names: drive lists, templates
// of workers and fills; sorted, each once.
func (a *Assignment) BlobHashes() []string {
	set := map[string]bool{}
	for _, hash := range a.Drives {
		set[hash] = true
	}
	for _, w := range a.Workers {
		set[w.Template] = true
	}
	for _, c := range a.Copies {
		set[c.FillTemplate] = true
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}
