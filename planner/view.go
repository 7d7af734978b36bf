package planner

import (
	"maps"
	"slices"
	"time"

	"astraeus.io/astraeus/schema"
)

// ClaimState is what a claim is doing (D-80).
type ClaimState string

// The states of D-80.
const (
	ClaimPending   ClaimState = "Pending"   // the source does not export it yet
	ClaimExported  ClaimState = "Exported"  // exported, not mounted yet
	ClaimBound     ClaimState = "Bound"     // mounted as wanted
	ClaimReleasing ClaimState = "Releasing" // no user left, still mounted
	ClaimReleased  ClaimState = "Released"  // unmounted; the source stops exporting
	ClaimFailed    ClaimState = "Failed"    // the last attempt failed; it is retried
)

// Claim is the network mount of one drive's source on one client machine (D-80).
type Claim struct {
	Drive  schema.Key `json:"drive"`
	UID    string     `json:"uid,omitempty"`
	Source int        `json:"source"`
	From   string     `json:"from"`   // the machine that holds the data
	Client string     `json:"client"` // the machine that mounts it
	State  ClaimState `json:"state"`
	// Transport is the one in use, or the one that is tried first.
	Transport schema.Transport `json:"transport,omitempty"`
	Mode      schema.Mode      `json:"mode,omitempty"`
	Message   string           `json:"message,omitempty"`
	Users     []string         `json:"users,omitempty"` // names of the workers that need it
}

// DriveView is a drive as the status API shows it (D-90).
type DriveView struct {
	Key     schema.Key `json:"key"`
	UID     string     `json:"uid"`
	State   DriveState `json:"state"`
	Message string     `json:"message,omitempty"` // why it is unreachable
	Where   []string   `json:"where,omitempty"`   // machines that hold the data; empty for shared without a measuring machine
	Used    *int64     `json:"used_bytes,omitempty"`
	Files   *int64     `json:"files,omitempty"`
	Answers *int       `json:"answers,omitempty"`
	// MeasuredAt is when the oldest measurement was made that the numbers sum up (D-91).
	MeasuredAt *time.Time       `json:"measured_at,omitempty"`
	Managed    string           `json:"managed_by,omitempty"`
	Copies     []CopyView       `json:"copies,omitempty"`
	UsedBy     []UserView       `json:"used_by,omitempty"` // live workers
	Claims     []Claim          `json:"claims,omitempty"`
	Refused    *schema.Hold     `json:"refused,omitempty"`
	Spec       schema.DriveSpec `json:"spec"`
}

// DriveState is Available, or Unreachable while a source's machine is away (D-90).
type DriveState string

const (
	DriveAvailable   DriveState = "Available"
	DriveUnreachable DriveState = "Unreachable"
)

// CopyView is one copy of a placed drive (D-70).
type CopyView struct {
	Machine  string           `json:"machine"`
	Folder   string           `json:"folder"`
	State    schema.CopyState `json:"state"`
	Bytes    int64            `json:"bytes"`
	Files    int64            `json:"files"`
	LastUsed *time.Time       `json:"last_used"`
	Filled   bool             `json:"filled"`
}

// UserView is one live worker that uses a drive.
type UserView struct {
	Run     schema.Key  `json:"run"`
	Worker  string      `json:"worker"`
	Machine string      `json:"machine"`
	Source  int         `json:"source"`
	Mode    schema.Mode `json:"mode"`
	State   string      `json:"state"`
}

// RunPhase sums a run up.
type RunPhase string

const (
	RunWaiting    RunPhase = "Waiting"    // no place yet
	RunPreparing  RunPhase = "Preparing"  // placed, not all workers run yet
	RunRunning    RunPhase = "Running"    // every worker runs
	RunRestarting RunPhase = "Restarting" // waits for its next attempt
	RunStopping   RunPhase = "Stopping"   // removed or being replaced
	RunLost       RunPhase = "Lost"       // a machine is away
	RunSucceeded  RunPhase = "Succeeded"
	RunFailed     RunPhase = "Failed"
)

// RunView is a run as the status API shows it.
type RunView struct {
	Key        schema.Key      `json:"key"`
	UID        string          `json:"uid"`
	Generation int64           `json:"generation"`
	Attempt    int             `json:"attempt"`
	Phase      RunPhase        `json:"phase"`
	Summary    string          `json:"summary,omitempty"`
	Reasons    []schema.Reason `json:"reasons,omitempty"` // of the whole run
	Workers    []WorkerView    `json:"workers,omitempty"`
	Refused    *schema.Hold    `json:"refused,omitempty"`
}

// WorkerView is one worker of a run.
type WorkerView struct {
	Name    string             `json:"name"`
	Group   string             `json:"group,omitempty"`
	Rank    int                `json:"rank"`
	Index   int                `json:"index"`
	Machine string             `json:"machine,omitempty"`
	Address string             `json:"address,omitempty"`
	State   schema.WorkerState `json:"state,omitempty"` // "" while it waits for a place
	GPUs    []int              `json:"gpus,omitempty"`
	Outcome *schema.Outcome    `json:"outcome,omitempty"`
	Reasons []schema.Reason    `json:"reasons,omitempty"`
	Summary string             `json:"summary,omitempty"`
}

// View answers questions about one state for the status API. It is made once
// a state and only read afterwards, from any number of goroutines.
type View struct {
	accepted map[schema.Key]*schema.AcceptedObject
	placed   map[schema.Key]schema.Placement
	pass     *pass // reports, indexed
	waits    map[waitID]schema.Wait
	claims   []Claim
	byDrive  map[string][]Claim
	users    map[string][]UserView
	measures map[string]measured // by drive uid
}

type waitID struct {
	run    schema.Key
	worker string
}

// NewView looks at the state in, of which p is the plan.
func NewView(in Input, p schema.Plan) *View {
	v := &View{waits: map[waitID]schema.Wait{}, byDrive: map[string][]Claim{}, users: map[string][]UserView{}, measures: map[string]measured{}}
	acc, placed := Apply(in.Accepted, in.Placed, p.Decisions)
	maps.DeleteFunc(placed, func(_ schema.Key, pl schema.Placement) bool { return pl.Vacant() })
	v.accepted, v.placed = acc.Objects, placed
	v.pass = newPass(Input{Accepted: acc, Placed: placed, Observed: in.Observed, Now: in.Now})
	v.pass.buildMachines()
	v.pass.address = map[string]string{}
	for _, m := range v.pass.order {
		for _, a := range m.ownAddresses() {
			v.pass.address[a] = m.name
		}
	}
	for _, w := range p.Waits {
		v.waits[waitID{w.Run, w.Worker}] = w
	}
	v.collectClaims(p)
	v.collectUsers(p)
	v.collectMeasurements()
	return v
}

// Claims lists every claim that is needed or still there, by drive, source and client.
func (v *View) Claims() []Claim { return slices.Clone(v.claims) }

// Claims lists every claim of a state (D-80).
func Claims(in Input) []Claim { return NewView(in, Plan(in)).Claims() }

// DriveStatus is the view of one drive. Use a View for many.
func DriveStatus(in Input, key schema.Key) (DriveView, bool) { return NewView(in, Plan(in)).Drive(key) }

// RunStatus is the view of one run. Use a View for many.
func RunStatus(in Input, key schema.Key) (RunView, bool) { return NewView(in, Plan(in)).Run(key) }
