package statusapi

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Metadata names an object.
type Metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Org       string            `json:"org,omitempty"`
	Workspace string            `json:"workspace,omitempty"`
	UID       string            `json:"uid,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	// Generation and Commit are of the spec in force; File is where it was declared.
	Generation int64  `json:"generation,omitempty"`
	Commit     string `json:"commit,omitempty"`
	File       string `json:"file,omitempty"`
}

// MetadataOf names an accepted object, whose Object must be set.
func MetadataOf(o *schema.AcceptedObject) Metadata {
	obj := o.Object
	return Metadata{
		Name: obj.Key.Name, Namespace: obj.Key.Namespace, Org: obj.Org, Workspace: obj.Workspace, UID: o.UID,
		Labels: obj.Metadata.Labels, Owner: obj.Metadata.Owner, Generation: o.Generation, Commit: o.Commit,
		File: obj.Origin.String(),
	}
}

// order sorts objects as their keys sort, and names one in a page token.
func (m Metadata) order() string { return m.Namespace + "\x00" + m.Name }

// Drive is a drive's body (D-90, D-92).
type Drive struct {
	Metadata Metadata         `json:"metadata"`
	Spec     schema.DriveSpec `json:"spec"`
	Status   DriveStatus      `json:"status"`
	UsedBy   []DriveUser      `json:"used_by"`
	Claims   []Claim          `json:"claims"`
	Copies   []Copy           `json:"copies"`
	// Refused is the change that is held back, beside the spec in force (G-9).
	Refused *schema.Hold `json:"refused,omitempty"`
}

// DriveStatus holds the columns of D-90. Absent numbers are not known yet.
type DriveStatus struct {
	State     planner.DriveState `json:"state"`
	Message   string             `json:"message,omitempty"`
	Where     []string           `json:"where"`
	UsedBytes *int64             `json:"used_bytes,omitempty"`
	Files     *int64             `json:"files,omitempty"`
	Answers   *int               `json:"answers,omitempty"`
	// MeasuredAt is when the oldest of the measurements was made that the numbers sum up.
	MeasuredAt *time.Time `json:"measured_at,omitempty"`
	Workers    int        `json:"workers"`
	ManagedBy  string     `json:"managed_by,omitempty"`
}

// DriveUser is one live worker that uses a drive.
type DriveUser struct {
	Run     string      `json:"run"`
	Worker  string      `json:"worker"`
	Machine string      `json:"machine,omitempty"`
	Source  int         `json:"source"`
	Mode    schema.Mode `json:"mode,omitempty"`
	State   string      `json:"state,omitempty"`
}

// Copy is one copy of a placed drive (D-70).
type Copy struct {
	Drive    string           `json:"drive,omitempty"` // in a machine's body
	Machine  string           `json:"machine,omitempty"`
	Folder   string           `json:"folder"`
	State    schema.CopyState `json:"state,omitempty"`
	Bytes    int64            `json:"bytes"`
	Files    int64            `json:"files"`
	LastUsed *time.Time       `json:"last_used"`
	Filled   bool             `json:"filled"`
}

// Claim is a network mount (D-80).
type Claim struct {
	Drive     string             `json:"drive"`
	Source    int                `json:"source"`
	From      string             `json:"from"`
	Client    string             `json:"client"`
	State     planner.ClaimState `json:"state"`
	Transport schema.Transport   `json:"transport,omitempty"`
	Mode      schema.Mode        `json:"mode,omitempty"`
	Message   string             `json:"message,omitempty"`
	Users     []string           `json:"users"`
}

// stateHeld is the state of an object of which nothing is in force yet.
const stateHeld = "Held"

func listDrives(r *request) (any, error) {
	var out []Drive
	for _, o := range r.index[schema.KindDrive] {
		if r.scope.covers(o.Object.Key) {
			out = append(out, r.drive(o))
		}
	}
	return page(r.query, out, func(d Drive) string { return d.Metadata.order() })
}

func oneDrive(r *request) (any, error) {
	o, err := r.find(schema.KindDrive)
	if err != nil {
		return nil, err
	}
	return r.drive(o), nil
}

func (r *request) drive(o *schema.AcceptedObject) Drive {
	d := Drive{Metadata: MetadataOf(o), UsedBy: []DriveUser{}, Claims: []Claim{}, Copies: []Copy{}, Refused: refusedHold(o)}
	if spec, ok := o.Object.Spec.(*schema.DriveSpec); ok {
		d.Spec = *spec
	}
	v, ok := r.derived.Drive(o.Object.Key)
	if !ok {
		d.Status.Where = []string{}
		if held(o) {
			d.Status.State = stateHeld
		}
		return d
	}
	d.Status = DriveStatus{
		State: v.State, Message: v.Message, Where: append([]string{}, v.Where...), UsedBytes: v.Used, Files: v.Files,
		Answers: v.Answers, Workers: len(v.UsedBy), ManagedBy: v.Managed,
	}
	if v.Used != nil || v.Files != nil {
		d.Status.MeasuredAt = r.measuredAt(o)
	}
	for _, u := range v.UsedBy {
		d.UsedBy = append(d.UsedBy, DriveUser{r.ref(u.Run), u.Worker, u.Machine, u.Source, u.Mode, u.State})
	}
	for _, c := range v.Claims {
		d.Claims = append(d.Claims, r.claim(c))
	}
	for _, c := range v.Copies {
		d.Copies = append(d.Copies, Copy{"", c.Machine, c.Folder, c.State, c.Bytes, c.Files, c.LastUsed, c.Filled})
	}
	return d
}

// measuredAt is the time of the oldest measurement of a drive, nil when none has one.
func (r *request) measuredAt(o *schema.AcceptedObject) *time.Time {
	var oldest *time.Time
	for _, report := range r.reports {
		for _, m := range report.Measurements {
			own := m.UID == o.UID || m.UID == "" && m.Drive == o.Object.Key.Scoped()
			if own && !m.At.IsZero() && (oldest == nil || m.At.Before(*oldest)) {
				oldest = &m.At
			}
		}
	}
	return oldest
}

// ref names an object as the scope does: local names inside a workspace.
func (r *request) ref(key schema.Key) string {
	if r.scope.whole() {
		return key.Scoped()
	}
	return key.Name
}

func (r *request) claim(c planner.Claim) Claim {
	return Claim{r.ref(c.Drive), c.Source, c.From, c.Client, c.State, c.Transport, c.Mode, c.Message, append([]string{}, c.Users...)}
}

func refusedHold(o *schema.AcceptedObject) *schema.Hold {
	if o.Refused == nil {
		return nil
	}
	return &o.Refused.Hold
}

func listMounts(r *request) (any, error) {
	var out []Claim
	for _, c := range r.derived.Claims() {
		if r.scope.covers(c.Drive) {
			out = append(out, r.claim(c))
		}
	}
	slices.SortFunc(out, func(a, b Claim) int { return cmp.Compare(claimID(a), claimID(b)) })
	return page(r.query, out, claimID)
}

// claimID orders claims and names one in a page token.
func claimID(c Claim) string {
	return c.Drive + "\x00" + strconv.Itoa(c.Source) + "\x00" + c.From + "\x00" + c.Client
}
