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
		if r.scope.covers(s.Object) {
			out.Pending = append(out.Pending, *s)
		}
	}
	for _, w := range r.Plan.Waits {
		if r.scope.covers(w.Run) {
			out.Waits = append(out.Waits, w)
		}
	}
	for _, h := range r.Plan.Holds {
		if r.scope.covers(h.Object) {
			out.Holds = append(out.Holds, h)
		}
	}
	for _, d := range r.Plan.Drift {
		if r.scope.covers(d.Object) {
			out.Drift = append(out.Drift, d)
		}
	}
	for _, list := range [][]schema.Diagnostic{r.Diagnostics, r.Plan.Notes} {
		for _, d := range list {
			if r.scope.covers(d.Object) {
				out.Diagnostics = append(out.Diagnostics, d)
			}
		}
	}
	return out, nil
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
		Reasons: append([]string{}, r.NotReady...), Machines: map[string]int{}, Runs: map[string]int{}, Objects: map[string]int{},
		Pending: len(r.Plan.Steps), Waits: len(r.Plan.Waits), Holds: len(r.Plan.Holds),
	}
	for kind, list := range r.index {
		s.Objects[kind.Word()] = len(list)
	}
	for _, o := range r.index[schema.KindMachine] {
		s.Machines[string(r.machine(o).State)]++
	}
	for _, key := range r.runKeys() {
		if v, ok := r.derived.Run(key); ok {
			s.Runs[string(v.Phase)]++
		}
	}
	for _, d := range r.Diagnostics {
		if d.Severity == schema.SeverityError {
			s.Errors++
		}
	}
	return s, nil
}
