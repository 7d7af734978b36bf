package schema

import (
	"encoding/json"
	"time"
)

// Action is what a step does, in the order of design.md.
type Action string

const (
	ActionCreateDir   Action = "CreateDir"
	ActionCreateCopy  Action = "CreateCopy"
	ActionFillCopy    Action = "FillCopy"
	ActionExport      Action = "Export"
	ActionMount       Action = "Mount"
	ActionStartWorker Action = "StartWorker"
	ActionStopWorker  Action = "StopWorker"
	ActionUnmount     Action = "Unmount"
	ActionUnexport    Action = "Unexport"
	ActionEvictCopy   Action = "EvictCopy"
	ActionDeleteCopy  Action = "DeleteCopy"
)

// Actions lists every action: going down first, in the order in which things
// are taken apart, then going up.
var Actions = []Action{
	ActionStopWorker, ActionUnmount, ActionUnexport, ActionEvictCopy, ActionDeleteCopy,
	ActionCreateDir, ActionCreateCopy, ActionFillCopy, ActionExport, ActionMount, ActionStartWorker,
}

// Destructive reports whether the action removes data.
func (a Action) Destructive() bool { return a == ActionEvictCopy || a == ActionDeleteCopy }

// Step is one action on one machine. ID is a hash of what it does, for display
// and tracing; nothing is remembered by it.
type Step struct {
	ID          string   `json:"id"`
	Machine     string   `json:"machine"`
	Action      Action   `json:"action"`
	Object      Key      `json:"object"`
	Args        StepArgs `json:"args,omitzero"`
	After       []string `json:"after,omitempty"` // step ids, also of other machines
	Why         Why      `json:"why"`
	Destructive bool     `json:"destructive,omitempty"`
}

// StepArgs says on what exactly a step acts. Which fields are set depends on the action.
type StepArgs struct {
	UID        string    `json:"uid,omitempty"`    // drive uid; run uid for workers
	Source     int       `json:"source,omitempty"` // source index
	Path       string    `json:"path,omitempty"`   // directory, copy folder, exported path, mount point
	From       string    `json:"from,omitempty"`   // source machine of a mount
	To         string    `json:"to,omitempty"`     // client machine of an export
	Client     string    `json:"client,omitempty"` // client address of an export
	Server     string    `json:"server,omitempty"` // server address of a mount
	Mode       Mode      `json:"mode,omitempty"`
	Transport  Transport `json:"transport,omitempty"`
	Worker     string    `json:"worker,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Attempt    int       `json:"attempt,omitempty"`
}

// Why says why a step is in the plan.
type Why struct {
	Code    WhyCode `json:"code"`
	Message string  `json:"message"`
}

// WhyCode is a closed enum; the sentences are in sentences.go.
type WhyCode string

const (
	WhyWorkerNeeds    WhyCode = "WORKER_NEEDS" // a worker on this machine uses it
	WhyClientNeeds    WhyCode = "CLIENT_NEEDS" // another machine mounts it
	WhyPlaced         WhyCode = "PLACED"       // the run was placed here
	WhyNoUser         WhyCode = "NO_USER"      // no worker uses it any more
	WhyRunRemoved     WhyCode = "RUN_REMOVED"
	WhyRunReplaced    WhyCode = "RUN_REPLACED" // a newer generation
	WhyRestart        WhyCode = "RESTART"      // a new attempt
	WhyMoved          WhyCode = "MOVED"        // no longer placed here
	WhyRunEnded       WhyCode = "RUN_ENDED"    // the run has ended, its policy is spent
	WhyDriveRemoved   WhyCode = "DRIVE_REMOVED"
	WhyDriveForced    WhyCode = "DRIVE_FORCED" // deleted by a Deletion
	WhyDiskNearlyFull WhyCode = "DISK_NEARLY_FULL"
	WhyOverLimit      WhyCode = "OVER_LIMIT"
	WhyChanged        WhyCode = "CHANGED" // options differ from what is wanted
	WhySourceDown     WhyCode = "SOURCE_DOWN"
)

// Wait says why a worker of a run is not running yet (D-59, X-34). Its JSON has
// its summary too.
type Wait struct {
	Run     Key
	Worker  string // "" when the whole run waits for a place
	Reasons []Reason
}

// Summary is the reasons in one line. It is made when it is asked for: a plan has
// waits by the hundred thousand of which few are read.
func (w Wait) Summary() string { return Summarize(w.Reasons, MostInSummary) }

type waitJSON struct {
	Run     Key      `json:"run"`
	Worker  string   `json:"worker,omitempty"`
	Reasons []Reason `json:"reasons"`
	Summary string   `json:"summary"`
}

// MarshalJSON writes the summary beside the reasons (conventions.md).
func (w Wait) MarshalJSON() ([]byte, error) {
	return json.Marshal(waitJSON{w.Run, w.Worker, w.Reasons, w.Summary()})
}

// UnmarshalJSON reads the reasons; the summary is made anew.
func (w *Wait) UnmarshalJSON(data []byte) error {
	var raw waitJSON
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*w = Wait{raw.Run, raw.Worker, raw.Reasons}
	return nil
}

// Hold says why a change is not let through (G-9).
type Hold struct {
	Object  Key    `json:"object"`
	Code    Code   `json:"code"`
	Status  int    `json:"status"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
	Hint    string `json:"hint,omitempty"` // what to do
	// Pending: only Field waits, for a machine's report, and is looked at again by
	// itself; the rest of the object is in force (D-31, D-32).
	Pending bool `json:"pending,omitempty"`
	Pos
}

// HeldBack counts the holds that need somebody to change something.
func HeldBack(holds []Hold) (n int) {
	for i := range holds {
		if !holds[i].Pending {
			n++
		}
	}
	return n
}

// Plan is what the planner decides: pure data that shares nothing mutable with
// its inputs.
type Plan struct {
	Commit    string
	Decisions Decisions
	// Targets holds one assignment a machine, by name, with the steps released now.
	Targets map[string]*Assignment
	// Blobs holds the content that assignments name by hash: JSON of a
	// TaskTemplate or DriveList.
	Blobs map[string][]byte
	// Steps holds every step of the plan, withheld ones too, in an order that
	// respects After; destructive ones first where order allows. Those that are
	// released are the targets' own: nobody changes them.
	Steps []*Step
	Waits []Wait
	Holds []Hold
	Drift []Drift
	// Notes are warnings that hold nothing back (D-6, D-31, V-11).
	Notes []Diagnostic
}

// Drift is a machine that differs from what was in force before this plan
// (a mount gone, an export changed) where no declaration changed.
type Drift struct {
	Machine string `json:"machine"`
	Object  Key    `json:"object"`
	Message string `json:"message"`
}

// Decisions are what must stick: the leader writes them before any step is
// published.
type Decisions struct {
	// Head is the commit that these decisions complete, "" when none.
	Head string
	// NotWhole are the scopes that are not whole from now on, nil when that does not change.
	NotWhole map[string]Pos
	Accept   []Acceptance
	Remove   []Removal
	Refuse   []Refused
	Place    []Placement // new and changed ones, each whole
	Unplace  []Key       // runs whose placement goes
	Bury     []Tombstone // new tombstones
	Exhume   []string    // uids of tombstones that are done with
	Events   []Event
	// The rest is the reconciler's: what the planner, that has no memory, does not know.
	Records []Record      // of the audit log (G-11)
	Approve *Approval
	Used    *UsedPlan     // a saved plan that is being applied (G-7)
	Status  *CommitStatus // what became of a commit so far (G-11)
}

// Empty reports whether there is nothing to write.
func (d *Decisions) Empty() bool {
	return d.Head == "" && d.NotWhole == nil && len(d.Accept) == 0 && len(d.Remove) == 0 && len(d.Refuse) == 0 && len(d.Place) == 0 &&
		len(d.Unplace) == 0 && len(d.Bury) == 0 && len(d.Exhume) == 0 && len(d.Events) == 0 &&
		len(d.Records) == 0 && d.Approve == nil && d.Used == nil && d.Status == nil
}

// Acceptance lets one object through: created or changed.
type Acceptance struct {
	Object AcceptedObject
	// Previous is nil for a new object.
	Previous *AcceptedObject
}

// Removal takes one object out of force.
type Removal struct {
	Key    Key
	UID    string
	Commit string
}

// Refused stores a refusal beside the accepted object, or clears it (Refusal nil).
// UID "" is a new object that has no accepted one: its refusal is kept under its key.
type Refused struct {
	Key     Key
	Refusal *Refusal
}

// Event is something that happened, kept for people (D-71).
type Event struct {
	At      time.Time `json:"at,omitzero"`
	Object  Key       `json:"object"`
	Type    string    `json:"type"` // Accepted, Held, Placed, Copied, Removed, …
	Message string    `json:"message"`
	Machine string    `json:"machine,omitempty"`
	Commit  string    `json:"commit,omitempty"`
	Count   int       `json:"count,omitempty"`
	// Volume is of a volume's removal (V-9).
	Volume *VolumeRemoval `json:"volume,omitempty"`
	// ActedFor is the owner of the object, where another than the owner made the
	// commit (V-10, R-2); By is who that was.
	ActedFor string `json:"acted_for,omitempty"`
	By       string `json:"by,omitempty"`
}

// VolumeRemoval says that a volume's record alone was deleted, in the documents'
// words (V-9).
type VolumeRemoval struct {
	ID              string `json:"id"`
	HostPath        string `json:"host_path"`
	HostDataDeleted bool   `json:"host_data_deleted"` // never
	Message         string `json:"message"`
}
