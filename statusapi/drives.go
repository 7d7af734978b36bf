package statusapi

import (
	"slices"
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

// Drive is a drive's body (D-90, D-92).
type Drive struct {
	Metadata Metadata         `json:"metadata"`
	Spec     schema.DriveSpec `json:"spec"`
	Status   DriveStatus      `json:"status"`
	// UsedBy are the live workers that use it, as far as the caller sees their runs.
	UsedBy []DriveUser `json:"used_by"`
	// HiddenReferenceCount counts the workers that use it and are not shown.
	HiddenReferenceCount int     `json:"hidden_reference_count"`
	Claims               []Claim `json:"claims"`
	Copies               []Copy  `json:"copies"`
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

// stateHeld is the state of an object of which nothing is in force yet.
const stateHeld = "Held"

// driveFacts is what a drive's body is made from.
type driveFacts struct {
	accepted *schema.AcceptedObject
	view     *planner.DriveView // nil when nothing of it is in force
}

var drives = &collection{
	word: "drives", entries: entriesOf(schema.KindDrive),
	facts: func(s *state, e entry) any {
		f := driveFacts{accepted: e.object}
		if v, ok := s.derived().Drive(e.key); ok {
			f.view = &v
		}
		return f
	},
	body: func(r *request, facts any) any { return r.drive(facts.(driveFacts)) },
	manner: func(r *request, facts any) string {
		f := facts.(driveFacts)
		if f.accepted.Refused != nil && !r.all() || r.private() && f.view != nil && len(f.view.UsedBy)+len(f.view.Claims) > 0 {
			return "-"
		}
		return plainly(r)
	},
	filters: map[string]filter{
		"state": byWordOf("only drives in this state", func(r *request, f driveFacts) string { return string(f.state()) }),
		"machine": anyOf("only drives that are on this machine, or that have a copy there", func(_ *request, f driveFacts) []string {
			if f.view == nil {
				return nil
			}
			return f.view.Where
		}),
		"workspace": byWorkspace(func(f driveFacts) schema.Key { return f.accepted.Object.Key }),
		labelFilter: byLabel(func(f driveFacts) *schema.Object { return f.accepted.Object }),
	},
}

// entriesOf are the accepted objects of a kind.
func entriesOf(kind schema.Kind) func(*state) []entry {
	return func(s *state) []entry {
		out := make([]entry, 0, len(s.kinds[kind]))
		for _, o := range s.kinds[kind] {
			out = append(out, entry{id: o.Object.Key.Scoped(), key: o.Object.Key, object: o})
		}
		return out
	}
}

func (f driveFacts) state() planner.DriveState {
	switch {
	case f.view != nil:
		return f.view.State
	case held(f.accepted):
		return stateHeld
	}
	return ""
}

func (r *request) drive(f driveFacts) Drive {
	d := Drive{Metadata: MetadataOf(f.accepted), UsedBy: []DriveUser{}, Claims: []Claim{}, Copies: []Copy{}, Refused: r.refused(f.accepted)}
	if spec, ok := f.accepted.Object.Spec.(*schema.DriveSpec); ok {
		d.Spec = *spec
	}
	d.Status = DriveStatus{State: f.state(), Where: []string{}}
	v := f.view
	if v == nil {
		return d
	}
	d.Status = DriveStatus{
		State: v.State, Message: v.Message, Where: append([]string{}, v.Where...), UsedBytes: v.Used, Files: v.Files,
		Answers: v.Answers, MeasuredAt: v.MeasuredAt, Workers: len(v.UsedBy), ManagedBy: v.Managed,
	}
	for _, u := range v.UsedBy {
		if !r.sees(u.Run) {
			d.HiddenReferenceCount++
			continue
		}
		d.UsedBy = append(d.UsedBy, DriveUser{r.ref(u.Run), u.Worker, u.Machine, u.Source, u.Mode, u.State})
	}
	for _, c := range v.Claims {
		d.Claims = append(d.Claims, r.claim(c, v.UsedBy))
	}
	for _, c := range v.Copies {
		d.Copies = append(d.Copies, Copy{"", c.Machine, c.Folder, c.State, c.Bytes, c.Files, c.LastUsed, c.Filled})
	}
	return d
}

// seesWorker reports whether the caller sees the run of a claim's user.
func (r *request) seesWorker(worker string, users []planner.UserView) bool {
	return r.all() || slices.ContainsFunc(users, func(u planner.UserView) bool { return u.Worker == worker && r.sees(u.Run) })
}
