package statusapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Explanation is everything there is to say of an object, a step or a worker: where
// it was declared, what of it is in force, where it is, what is done and left to
// do, and why it waits, with all reasons and machines.
type Explanation struct {
	ID     string     `json:"id"`
	Object schema.Key `json:"object"`
	Worker string     `json:"worker,omitempty"` // the one that was asked for
	Step   string     `json:"step,omitempty"`   // the id of the one that was asked for
	States []string   `json:"states"`
	// Accepted is what is in force; nil when nothing is.
	Accepted *ExplainedVersion `json:"accepted"`
	// Refused is the change that is not let through, nil when there is none (G-9).
	Refused    *ExplainedRefusal  `json:"refused"`
	ManagedBy  schema.Key         `json:"managed_by,omitzero"`
	Owns       []schema.Key       `json:"owns,omitempty"`
	Placements []ExplainedPlace   `json:"placements"`
	Steps      []ExplainedStep    `json:"steps"`
	Waits      []ExplainedWait    `json:"waits"`
	Drift      []schema.Drift     `json:"drift"`
	Failures   []ExplainedFailure `json:"failures"`
	// Events are the newest of the object, the oldest first.
	Events []schema.Event `json:"events"`
}

// ExplainedVersion is a spec in force.
type ExplainedVersion struct {
	UID        string            `json:"uid"`
	Generation int64             `json:"generation"`
	Commit     schema.CommitInfo `json:"commit"`
	schema.Pos
}

// ExplainedRefusal is a change that is held back. Differs names the fields in
// which it is another than what is in force; Removal says that it takes the object away.
type ExplainedRefusal struct {
	Commit  string      `json:"commit"`
	Hold    schema.Hold `json:"hold"`
	Removal bool        `json:"removal,omitempty"`
	Differs []string    `json:"differs,omitempty"`
	schema.Pos
}

// ExplainedPlace is one worker and its machine.
type ExplainedPlace struct {
	Run     schema.Key         `json:"run"`
	Worker  string             `json:"worker"`
	Machine string             `json:"machine,omitempty"`
	State   schema.WorkerState `json:"state,omitempty"`
	Since   time.Time          `json:"since,omitzero"`
	Outcome *schema.Outcome    `json:"outcome,omitempty"`
}

// ExplainedWait is a wait with every reason, one a machine where it is about machines.
type ExplainedWait struct {
	Run     schema.Key      `json:"run"`
	Worker  string          `json:"worker,omitempty"`
	Summary string          `json:"summary"`
	Reasons []schema.Reason `json:"reasons"`
}

// ExplainedFailure is a step that a machine tries again.
type ExplainedFailure struct {
	Machine string `json:"machine"`
	schema.Failure
}

// maxExplainedEvents is how many events an explanation repeats.
const maxExplainedEvents = 20

// explain answers for kind/name, run/worker, run/name/worker, a step's id or a
// worker's name.
func explain(_ *Handler, r *request, args []string) (any, error) {
	id := args[0]
	x := &explanation{request: r, out: Explanation{
		ID: id, Placements: []ExplainedPlace{}, Steps: []ExplainedStep{}, Waits: []ExplainedWait{}, Drift: []schema.Drift{},
		Failures: []ExplainedFailure{}, Events: []schema.Event{},
	}}
	if err := x.find(id); err != nil {
		return nil, err
	}
	if err := x.fill(); err != nil {
		return nil, err
	}
	return x.out, nil
}

// explanation is one while it is made.
type explanation struct {
	*request
	out     Explanation
	step    *schema.Step
	objects map[schema.Key]bool // the object, and what it owns
}

// find reads an id.
func (x *explanation) find(id string) error {
	word, rest, slash := strings.Cut(id, "/")
	if !slash {
		return x.findWord(word)
	}
	kind, known := schema.KindOfWord(word)
	if !known {
		return x.findWorker(word, rest)
	}
	run, worker, more := strings.Cut(rest, "/")
	if more && kind == schema.KindRun {
		return x.findWorker(run, worker)
	}
	key, err := x.resolve(word, rest)
	if err == nil && len(x.states(key)) == 0 {
		err = notFound(kind.Word())
	}
	x.out.Object = key
	return err
}

func (x *explanation) findWorker(run, worker string) error {
	key, err := x.resolve(schema.KindRun.Word(), run)
	if err != nil {
		return err
	}
	v, ok := x.derived().Run(key)
	if !ok || !slices.ContainsFunc(v.Workers, func(w planner.WorkerView) bool { return w.Name == worker }) {
		return notFound("worker")
	}
	x.out.Object, x.out.Worker = key, worker
	return nil
}

// shortestStep is how much of a step's id must be given.
const shortestStep = 6

// findWord takes a step's id or its beginning, or a worker's name.
func (x *explanation) findWord(word string) error {
	var steps []*schema.Step
	for _, s := range x.Plan.Steps {
		if x.sees(s.Object) && (s.ID == word || len(word) >= shortestStep && strings.HasPrefix(s.ID, word)) {
			steps = append(steps, s)
		}
	}
	if len(steps) > 1 {
		return problem(http.StatusConflict, codeAmbiguous, "several steps begin with "+word)
	}
	if len(steps) == 1 {
		x.step, x.out.Step, x.out.Object, x.out.Worker = steps[0], steps[0].ID, steps[0].Object, steps[0].Args.Worker
		return nil
	}
	var runs []schema.Key
	for _, key := range x.runKeys() {
		v, _ := x.derived().Run(key)
		if slices.ContainsFunc(v.Workers, func(w planner.WorkerView) bool { return w.Name == word }) {
			runs = append(runs, key)
		}
	}
	switch len(runs) {
	case 0:
		return problem(http.StatusNotFound, codeNotFound, "no step and no worker is called "+word+"; a step that is done is not in the plan any more")
	case 1:
		x.out.Object, x.out.Worker = runs[0], word
		return nil
	}
	return ambiguous(runs)
}

func (x *explanation) fill() error {
	key := x.out.Object
	x.out.States = append([]string{}, x.states(key)...)
	x.objects = map[schema.Key]bool{key: true}
	for _, list := range x.kinds {
		for _, o := range list {
			if o.Object.ManagedBy == key && x.seesObject(o.Object) {
				x.objects[o.Object.Key] = true
				x.out.Owns = append(x.out.Owns, o.Object.Key)
			}
		}
	}
	slices.SortFunc(x.out.Owns, schema.CompareKeys)
	if err := x.declared(); err != nil {
		return err
	}
	x.places()
	x.steps()
	x.waits()
	x.failures()
	for _, d := range x.Plan.Drift {
		if x.about(d.Object, d.Machine) {
			d.Message = x.say(d.Object.Namespace, d.Message)
			x.out.Drift = append(x.out.Drift, d)
		}
	}
	for _, e := range x.Events {
		if e.Object == key {
			e.Message = x.say(key.Namespace, e.Message)
			x.out.Events = append(x.out.Events, e)
		}
	}
	x.out.Events = x.out.Events[max(0, len(x.out.Events)-maxExplainedEvents):]
	return nil
}

// about reports whether something about an object on a machine belongs here.
func (x *explanation) about(object schema.Key, machine string) bool {
	key := x.out.Object
	return x.objects[object] || key.Kind == schema.KindMachine && key.Name == machine && x.sees(object)
}

// declared says what is in force and what is not let through.
func (x *explanation) declared() error {
	o := x.Input.Accepted.Objects[x.out.Object]
	if o == nil {
		return nil
	}
	if o.UID != "" && o.Object != nil {
		info := schema.CommitInfo{ID: o.Commit}
		records, err := x.history(x.out.Object)
		if err != nil {
			return err
		}
		for _, r := range records {
			declares := r.Type == schema.RecordAccepted || r.Type == schema.RecordChanged || r.Type == schema.RecordMoved
			if declares && r.Generation == o.Generation && (r.UID == o.UID || r.UID == "") {
				info = r.Commit
			}
		}
		x.out.Accepted = &ExplainedVersion{UID: o.UID, Generation: o.Generation, Commit: info, Pos: o.Object.Origin}
		x.out.ManagedBy = o.Object.ManagedBy
	}
	if o.Refused != nil {
		r := &ExplainedRefusal{Commit: o.Refused.Commit, Hold: x.hold(o.Refused.Hold), Removal: o.Refused.Candidate == nil, Pos: o.Refused.Hold.Pos}
		if c := o.Refused.Candidate; c != nil {
			r.Pos = c.Origin
			if o.Object != nil {
				r.Differs = differences(o.Object, c)
			}
		}
		x.out.Refused = r
	}
	return nil
}

// places lists the workers of runs, and for a drive or a machine those that use it.
func (x *explanation) places() {
	for _, key := range x.runKeys() {
		v, ok := x.derived().Run(key)
		if !ok {
			continue
		}
		since := x.since(key)
		for _, w := range v.Workers {
			if !x.hasPlace(key, w) {
				continue
			}
			x.out.Placements = append(x.out.Placements, ExplainedPlace{
				Run: key, Worker: w.Name, Machine: w.Machine, State: w.State, Since: since[w.Name], Outcome: w.Outcome,
			})
		}
	}
	if v, ok := x.derived().Drive(x.out.Object); ok && x.out.Object.Kind == schema.KindDrive {
		for _, u := range v.UsedBy {
			if !x.sees(u.Run) {
				continue
			}
			x.out.Placements = append(x.out.Placements, ExplainedPlace{
				Run: u.Run, Worker: u.Worker, Machine: u.Machine, State: schema.WorkerState(u.State), Since: x.since(u.Run)[u.Worker],
			})
		}
	}
}

// since is when each worker of a run was placed.
func (x *explanation) since(run schema.Key) map[string]time.Time {
	out := map[string]time.Time{}
	for _, w := range x.Input.Placed[run].Workers {
		out[w.Name] = w.Since
	}
	return out
}

func (x *explanation) hasPlace(run schema.Key, w planner.WorkerView) bool {
	if x.out.Object.Kind == schema.KindMachine {
		return w.Machine == x.out.Object.Name
	}
	return x.objects[run] && (x.out.Worker == "" || x.out.Worker == w.Name)
}

// waits lists the waits of the runs, and those that name the drive or machine.
func (x *explanation) waits() {
	for _, w := range x.Plan.Waits {
		if !x.sees(w.Run) || !x.waitsFor(w) {
			continue
		}
		w = x.wait(w)
		out := ExplainedWait{Run: w.Run, Worker: w.Worker, Summary: w.Summary(), Reasons: w.Reasons}
		// Grouped reasons name ten machines; here each has its own.
		if w.Worker == "" && x.objects[w.Run] {
			if all := planner.Explain(x.Input, w.Run); len(all) > 0 {
				out.Reasons = x.reasons(w.Run.Namespace, all)
			}
		}
		x.out.Waits = append(x.out.Waits, out)
	}
}

func (x *explanation) waitsFor(w schema.Wait) bool {
	key := x.out.Object
	if x.objects[w.Run] {
		return x.out.Worker == "" || w.Worker == "" || w.Worker == x.out.Worker
	}
	for _, r := range w.Reasons {
		switch key.Kind {
		case schema.KindDrive:
			if w.Run.Namespace == key.Namespace && r.Args.Drive == key.Name {
				return true
			}
		case schema.KindMachine:
			if r.Machine == key.Name || r.Args.Machine == key.Name || slices.Contains(r.Machines, key.Name) {
				return true
			}
		}
	}
	return false
}

func (x *explanation) failures() {
	steps := map[schema.Key]bool{}
	for _, s := range x.out.Steps {
		steps[s.Object] = true
	}
	for _, report := range x.Input.Observed.Machines {
		if report == nil {
			continue
		}
		for _, f := range report.Failures {
			if x.about(f.Object, report.Name) || steps[f.Object] && x.sees(f.Object) {
				f.Message = x.say(f.Object.Namespace, f.Message)
				x.out.Failures = append(x.out.Failures, ExplainedFailure{report.Name, f})
			}
		}
	}
}
