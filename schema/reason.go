package schema

import (
	"encoding/json"
	"slices"
)

// ReasonCode is a closed enum of why a worker waits; its sentence is in sentences.go.
type ReasonCode string

const (
	// A machine is not a candidate.
	ReasonNoDataLocation   ReasonCode = "NO_DATA_LOCATION"   // D-50
	ReasonNoRoom           ReasonCode = "NO_ROOM"            // D-51
	ReasonOverLimit        ReasonCode = "OVER_LIMIT"         // D-52
	ReasonLocalElsewhere   ReasonCode = "LOCAL_ELSEWHERE"    // D-53
	ReasonNotEligible      ReasonCode = "NOT_ELIGIBLE"       // D-54
	ReasonSharedNotMounted ReasonCode = "SHARED_NOT_MOUNTED" // D-55
	ReasonOtherSite        ReasonCode = "OTHER_SITE"         // D-56
	ReasonNoDrive          ReasonCode = "NO_DRIVE"           // D-57
	ReasonMachineDown      ReasonCode = "MACHINE_DOWN"
	ReasonNotConnected     ReasonCode = "NOT_CONNECTED"     // the leader has not heard it
	ReasonNotReported      ReasonCode = "NOT_REPORTED"      // has not reported its disks yet (D-31)
	ReasonUnschedulable    ReasonCode = "UNSCHEDULABLE"
	ReasonLeaving          ReasonCode = "LEAVING"           // the commit removes it
	ReasonNoEngine         ReasonCode = "NO_ENGINE"
	ReasonUnknownResources ReasonCode = "UNKNOWN_RESOURCES"
	ReasonCPU              ReasonCode = "NOT_ENOUGH_CPU"
	ReasonMemory           ReasonCode = "NOT_ENOUGH_MEMORY"
	ReasonGPUs             ReasonCode = "NOT_ENOUGH_GPUS"
	ReasonNoHostNumber     ReasonCode = "NO_FREE_ADDRESS"  // N-8: its node network is full
	ReasonTaken            ReasonCode = "TAKEN"            // another worker of the same run is there
	ReasonNotMounted       ReasonCode = "NOT_MOUNTED"
	ReasonMissingNFS       ReasonCode = "MISSING_NFS"      // D-82: names machine and piece
	ReasonNoAddress        ReasonCode = "NO_ADDRESS"       // a claim's machine has no address
	ReasonSourceAway       ReasonCode = "SOURCE_AWAY"      // D-90: the drive's machine is not Up
	ReasonVolumeElsewhere  ReasonCode = "VOLUME_ELSEWHERE" // V-7
	ReasonVolumeAway       ReasonCode = "VOLUME_AWAY"      // V-7
	// The whole run cannot be placed, whatever the machine.
	ReasonNoMachines   ReasonCode = "NO_MACHINES"    // the org has none
	ReasonTooFew       ReasonCode = "TOO_FEW"        // candidates than workers
	ReasonForbidden    ReasonCode = "FORBIDDEN"      // a refused reference: Text says it
	ReasonNoMountPath  ReasonCode = "NO_MOUNT_PATH"  // D-40
	ReasonBackoff      ReasonCode = "BACKOFF"
	ReasonDriveDeleted ReasonCode = "DRIVE_DELETED"
	ReasonStopping     ReasonCode = "STOPPING_FIRST" // the older workers stop first
	// A placed worker is not running yet.
	ReasonMounting     ReasonCode = "MOUNTING"      // D-80
	ReasonFilling      ReasonCode = "FILLING"       // D-42
	ReasonCreatingCopy ReasonCode = "CREATING_COPY" // the copy is being made
	ReasonCreatingDir  ReasonCode = "CREATING_DIR"
	ReasonStarting     ReasonCode = "STARTING"
	ReasonLost         ReasonCode = "LOST"
	ReasonStepFailed   ReasonCode = "STEP_FAILED" // Text is the agent's message
)

// Reason is one reason of a wait. Equal (Code, Args) are grouped: Machines then
// names at most ten of Count machines.
type Reason struct {
	Code     ReasonCode
	Machine  string // set when it concerns one machine
	Machines []string
	Count    int
	Args     ReasonArgs
}

// ReasonArgs are what a sentence needs. Comparable, so that reasons can be grouped.
type ReasonArgs struct {
	Drive   string  `json:"drive,omitempty"`
	Source  int     `json:"source,omitempty"`
	Machine string  `json:"machine,omitempty"` // another machine than the candidate
	Site    string  `json:"site,omitempty"`
	Path    string  `json:"path,omitempty"`
	State   string  `json:"state,omitempty"`
	Text    string  `json:"text,omitempty"`
	Why     string  `json:"why,omitempty"`  // how an earlier attempt ended
	Need    int64   `json:"need,omitempty"` // bytes (of memory), or a count
	Have    int64   `json:"have,omitempty"`
	GPUs    int64   `json:"gpus,omitempty"` // beside cores or memory that are missing too
	FreeGPU int64   `json:"free_gpus,omitempty"`
	Limit   int64   `json:"limit,omitempty"`
	Cores   float64 `json:"cores,omitempty"`
	Free    float64 `json:"free,omitempty"`
}

type reasonJSON struct {
	Machine  string     `json:"machine,omitempty"`
	Machines []string   `json:"machines,omitempty"`
	Count    int        `json:"count,omitempty"`
	Code     ReasonCode `json:"code"`
	Message  string     `json:"message"`
	Args     ReasonArgs `json:"args,omitzero"`
}

// MarshalJSON writes the message beside code and arguments (conventions.md).
func (r Reason) MarshalJSON() ([]byte, error) {
	return json.Marshal(reasonJSON{r.Machine, r.Machines, r.Count, r.Code, r.Message(), r.Args})
}

// UnmarshalJSON reads code and arguments; the message is made anew.
func (r *Reason) UnmarshalJSON(data []byte) error {
	var raw reasonJSON
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*r = Reason{Code: raw.Code, Machine: raw.Machine, Machines: raw.Machines, Count: raw.Count, Args: raw.Args}
	return nil
}

// MaxNamedMachines is how many machines a grouped reason names.
const MaxNamedMachines = 10

// GroupReasons joins reasons with equal code and arguments and sorts them, the
// most frequent first, then by sentence.
func GroupReasons(list []Reason) []Reason {
	type group struct {
		code ReasonCode
		args ReasonArgs
	}
	index := map[group]int{}
	var out []Reason
	for _, r := range list {
		i, seen := index[group{r.Code, r.Args}]
		if !seen {
			index[group{r.Code, r.Args}] = len(out)
			r.Machines = slices.Clone(r.Machines)
			if r.Count == 0 {
				r.Count = 1
			}
			if len(r.Machines) == 0 && r.Machine != "" {
				r.Machines = []string{r.Machine}
			}
			out = append(out, r)
			continue
		}
		out[i].Count += max(1, r.Count)
		for _, name := range r.named() {
			if len(out[i].Machines) < MaxNamedMachines && !slices.Contains(out[i].Machines, name) {
				out[i].Machines = append(out[i].Machines, name)
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].Machines)
		out[i].Machine = ""
		if out[i].Count == 1 && len(out[i].Machines) == 1 {
			out[i].Machine = out[i].Machines[0]
		}
	}
	slices.SortStableFunc(out, compareReasons)
	return out
}

func (r Reason) named() []string {
	if len(r.Machines) > 0 || r.Machine == "" {
		return r.Machines
	}
	return []string{r.Machine}
}
