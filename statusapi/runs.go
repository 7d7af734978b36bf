package statusapi

import (
	"slices"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Run is a run's body.
type Run struct {
	Metadata Metadata        `json:"metadata"`
	Spec     *schema.RunSpec `json:"spec,omitempty"`
	Status   RunStatus       `json:"status"`
	Refused  *schema.Hold    `json:"refused,omitempty"`
}

// RunStatus says what a run is doing, and why it waits (D-59).
type RunStatus struct {
	Phase   planner.RunPhase `json:"phase"`
	Attempt int              `json:"attempt"`
	Summary string           `json:"summary,omitempty"`
	Reasons []schema.Reason  `json:"reasons"`
	Workers []RunWorker      `json:"workers"`
}

// RunWorker is one worker of a run.
type RunWorker struct {
	Name    string             `json:"name"`
	Group   string             `json:"group,omitempty"`
	Rank    int                `json:"rank"`
	Machine string             `json:"machine,omitempty"`
	Address string             `json:"address,omitempty"`
	State   schema.WorkerState `json:"state,omitempty"`
	GPUs    []int              `json:"gpus,omitempty"`
	Outcome *schema.Outcome    `json:"outcome,omitempty"`
	Summary string             `json:"summary,omitempty"`
	Reasons []schema.Reason    `json:"reasons,omitempty"`
}

// runFacts is what a run's body is made from.
type runFacts struct {
	key      schema.Key
	accepted *schema.AcceptedObject // nil for a run that is only placed still
	placed   *schema.Placement      // nil when it is not
	view     *planner.RunView       // nil when nothing of it is in force
}

func (f runFacts) object() *schema.Object {
	if f.accepted == nil {
		return nil
	}
	return f.accepted.Object
}

var runs = &collection{
	word: "runs",
	entries: func(s *state) []entry {
		accepted := entriesOf(schema.KindRun)(s)
		// A run whose removal is not done is placed still, and accepted no more.
		var more []schema.Key
		for key, p := range s.Input.Placed {
			if shown(s.accepted[key]) == nil && !p.Vacant() {
				more = append(more, key)
			}
		}
		for _, key := range more {
			accepted = append(accepted, entry{id: key.Scoped(), key: key})
		}
		if len(more) > 0 {
			slices.SortFunc(accepted, func(a, b entry) int { return schema.CompareKeys(a.key, b.key) })
		}
		return accepted
	},
	facts: func(s *state, e entry) any {
		f := runFacts{key: e.key, accepted: e.object}
		if p, ok := s.Input.Placed[e.key]; ok {
			f.placed = &p
		}
		if v, ok := s.derived().Run(e.key); ok {
			f.view = &v
		}
		return f
	},
	body: func(r *request, facts any) any { return r.run(facts.(runFacts)) },
	manner: func(r *request, facts any) string {
		if !r.all() && facts.(runFacts).explains() {
			return "-" // why it waits may name what the request does not see
		}
		return plainly(r)
	},
	filters: map[string]filter{
		"phase": byWordOf("only runs in this phase", func(_ *request, f runFacts) string { return string(f.phase()) }),
		"machine": anyOf("only runs with a worker on this machine", func(_ *request, f runFacts) (names []string) {
			if f.view != nil {
				for _, w := range f.view.Workers {
					names = append(names, w.Machine)
				}
			}
			return names
		}),
		"owner":     byOwner(runFacts.object),
		"workspace": byWorkspace(func(f runFacts) schema.Key { return f.key }),
		labelFilter: byLabel(runFacts.object),
	},
}

// explains reports whether the body has sentences.
func (f runFacts) explains() bool {
	if f.accepted != nil && f.accepted.Refused != nil {
		return true
	}
	return f.view != nil && (f.view.Summary != "" || len(f.view.Reasons) > 0 ||
		slices.ContainsFunc(f.view.Workers, func(w planner.WorkerView) bool { return w.Summary != "" || len(w.Reasons) > 0 }))
}

func (f runFacts) phase() planner.RunPhase {
	switch {
	case f.view != nil:
		return f.view.Phase
	case f.accepted != nil && f.accepted.Refused != nil:
		return stateHeld
	}
	return ""
}

// runKeys are the runs that the request sees.
func (r *request) runKeys() (keys []schema.Key) {
	for _, e := range r.table(runs).entries {
		if r.seesEntry(e) {
			keys = append(keys, e.key)
		}
	}
	return keys
}

func (r *request) run(f runFacts) Run {
	out := Run{Metadata: Metadata{Name: f.key.Name, Namespace: f.key.Namespace}}
	if p := f.placed; p != nil {
		out.Metadata.Org, out.Metadata.Workspace, out.Metadata.UID = p.Org, p.Workspace, p.RunUID
		out.Spec = p.Spec
	}
	if f.accepted != nil {
		out.Metadata, out.Refused = MetadataOf(f.accepted), r.refused(f.accepted)
		out.Spec, _ = f.accepted.Object.Spec.(*schema.RunSpec)
	}
	out.Status = RunStatus{Phase: f.phase(), Reasons: []schema.Reason{}, Workers: []RunWorker{}}
	v := f.view
	if v == nil {
		return out
	}
	ns := f.key.Namespace
	out.Status.Attempt, out.Status.Summary = v.Attempt, r.say(ns, v.Summary)
	out.Status.Reasons = r.reasons(ns, v.Reasons)
	for _, w := range v.Workers {
		out.Status.Workers = append(out.Status.Workers, RunWorker{
			Name: w.Name, Group: w.Group, Rank: w.Rank, Machine: w.Machine, Address: w.Address, State: w.State,
			GPUs: w.GPUs, Outcome: w.Outcome, Summary: r.say(ns, w.Summary), Reasons: r.reasons(ns, w.Reasons),
		})
	}
	return out
}
