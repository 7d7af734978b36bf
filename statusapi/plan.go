package statusapi

import (
	"astraeus.io/astraeus/schema"
)

// Plan is what the newest pass decided and what is still to be done.
type Plan struct {
	Commit  string         `json:"commit"`
	Head    string         `json:"head"`    // the newest commit that is in force
	Pending []schema.Step  `json:"pending"` // steps that machines have not shown as done
	Waits   []schema.Wait  `json:"waits"`
	Holds   []schema.Hold  `json:"holds"`
	Drift   []schema.Drift `json:"drift"`
	// Diagnostics are the commit's problems and the planner's notes.
	Diagnostics []schema.Diagnostic `json:"diagnostics"`
}

func onePlan(r *request) (any, error) {
	out := Plan{
		Commit: r.Commit, Head: r.Input.Accepted.Head, Pending: []schema.Step{}, Waits: []schema.Wait{}, Holds: []schema.Hold{},
		Drift: []schema.Drift{}, Diagnostics: []schema.Diagnostic{},
	}
	for _, s := range r.Plan.Steps {
		if r.sees(s.Object) {
			out.Pending = append(out.Pending, r.step(*s))
		}
	}
	for _, w := range r.Plan.Waits {
		if r.sees(w.Run) {
			out.Waits = append(out.Waits, r.wait(w))
		}
	}
	for _, h := range r.Plan.Holds {
		if r.sees(h.Object) {
			out.Holds = append(out.Holds, r.hold(h))
		}
	}
	for _, d := range r.Plan.Drift {
		if r.sees(d.Object) {
			d.Message = r.say(d.Object.Namespace, d.Message)
			out.Drift = append(out.Drift, d)
		}
	}
	for _, list := range [][]schema.Diagnostic{r.Diagnostics, r.Plan.Notes} {
		for _, d := range list {
			if r.seesDiagnostic(d) {
				d.Message, d.Hint = r.say(d.Object.Namespace, d.Message), r.say(d.Object.Namespace, d.Hint)
				out.Diagnostics = append(out.Diagnostics, d)
			}
		}
	}
	return out, nil
}

// seesDiagnostic goes by the object or, for a file of which none could be read, by
// the place of the file.
func (r *request) seesDiagnostic(d schema.Diagnostic) bool {
	if d.Object != (schema.Key{}) {
		return r.sees(d.Object)
	}
	return r.seesFile(d.File)
}

// step is a step as the request may read it.
func (r *request) step(s schema.Step) schema.Step {
	s.Why.Message = r.say(s.Object.Namespace, s.Why.Message)
	return s
}

// wait is a wait as the request may read it.
func (r *request) wait(w schema.Wait) schema.Wait {
	w.Reasons = r.reasons(w.Run.Namespace, w.Reasons)
	return w
}

func (r *request) reasons(namespace string, list []schema.Reason) []schema.Reason {
	out := append([]schema.Reason{}, list...)
	for i := range out {
		a := &out[i].Args
		a.Text, a.Why = r.say(namespace, a.Text), r.say(namespace, a.Why)
	}
	return out
}

// Status sums the cluster up.
type Status struct {
	Cluster  string         `json:"cluster"`
	Commit   string         `json:"commit"`
	Head     string         `json:"head"`
	Ready    bool           `json:"ready"`
	Reasons  []string       `json:"reasons"`
	Machines map[string]int `json:"machines"` // by state
	Runs     map[string]int `json:"runs"`     // by phase
	Objects  map[string]int `json:"objects"`  // by kind
	Pending  int            `json:"pending"`
	Waits    int            `json:"waits"`
	Holds    int            `json:"holds"`
	Errors   int            `json:"errors"` // of the newest commit
}

func oneStatus(r *request) (any, error) {
	s := Status{
		Cluster: r.cluster, Commit: r.Commit, Head: r.Input.Accepted.Head, Ready: len(r.NotReady) == 0,
		Reasons: []string{}, Machines: map[string]int{}, Runs: map[string]int{}, Objects: map[string]int{},
	}
	if r.all() {
		s.Reasons = append(s.Reasons, r.NotReady...) // they name repositories and other controllers
	}
	for kind, list := range r.kinds {
		for _, o := range list {
			if r.uncut() || r.seesObject(o.Object) {
				s.Objects[kind.Word()]++
			}
		}
	}
	for _, o := range r.kinds[schema.KindMachine] {
		if r.seesObject(o.Object) {
			s.Machines[string(machineFacts{o, r.reports[o.Object.Key.Name]}.state())]++
		}
	}
	for _, key := range r.runKeys() {
		if v, ok := r.derived().Run(key); ok {
			s.Runs[string(v.Phase)]++
		}
	}
	s.Pending = count(r.Plan.Steps, func(x *schema.Step) bool { return r.sees(x.Object) })
	s.Waits = count(r.Plan.Waits, func(x schema.Wait) bool { return r.sees(x.Run) })
	s.Holds = count(r.Plan.Holds, func(x schema.Hold) bool { return r.sees(x.Object) })
	s.Errors = count(r.Diagnostics, func(d schema.Diagnostic) bool { return d.Severity == schema.SeverityError && r.seesDiagnostic(d) })
	return s, nil
}

func count[T any](list []T, counts func(T) bool) (n int) {
	for _, x := range list {
		if counts(x) {
			n++
		}
	}
	return n
}
