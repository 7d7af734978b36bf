package statusapi

import (
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

// runKeys are the accepted runs and those that are only placed still.
func (r *request) runKeys() []schema.Key {
	set := map[schema.Key]bool{}
	for _, o := range r.index[schema.KindRun] {
		set[o.Object.Key] = true
	}
	for key, p := range r.Input.Placed {
		if !p.Vacant() {
			set[key] = true
		}
	}
	var out []schema.Key
	for _, key := range sortedKeys(set) {
		if r.scope.covers(key) {
			out = append(out, key)
		}
	}
	return out
}

func listRuns(r *request) (any, error) {
	var out []Run
	for _, key := range r.runKeys() {
		out = append(out, r.run(key))
	}
	return page(r.query, out, func(v Run) string { return v.Metadata.order() })
}

func oneRun(r *request) (any, error) {
	var named []schema.Key
	for _, key := range r.runKeys() {
		if r.scope.whole() && key.Scoped() == r.name {
			return r.run(key), nil
		}
		if key.Name == r.name {
			named = append(named, key)
		}
	}
	if len(named) == 1 {
		return r.run(named[0]), nil
	}
	if len(named) > 1 {
		return nil, ambiguous(named)
	}
	return nil, notFound("run")
}

func (r *request) run(key schema.Key) Run {
	out := Run{Metadata: Metadata{Name: key.Name, Namespace: key.Namespace}}
	if p, ok := r.Input.Placed[key]; ok {
		out.Metadata.Org, out.Metadata.Workspace, out.Metadata.UID = p.Org, p.Workspace, p.RunUID
		out.Spec = p.Spec
	}
	if o := shown(r.Input.Accepted.Objects[key]); o != nil {
		out.Metadata, out.Refused = MetadataOf(o), refusedHold(o)
		out.Spec, _ = o.Object.Spec.(*schema.RunSpec)
	}
	out.Status = RunStatus{Reasons: []schema.Reason{}, Workers: []RunWorker{}}
	v, ok := r.derived.Run(key)
	if !ok {
		if out.Refused != nil {
			out.Status.Phase = stateHeld
		}
		return out
	}
	out.Status.Phase, out.Status.Attempt, out.Status.Summary = v.Phase, v.Attempt, v.Summary
	out.Status.Reasons = append(out.Status.Reasons, v.Reasons...)
	for _, w := range v.Workers {
		out.Status.Workers = append(out.Status.Workers, RunWorker{
			Name: w.Name, Group: w.Group, Rank: w.Rank, Machine: w.Machine, Address: w.Address, State: w.State,
			GPUs: w.GPUs, Outcome: w.Outcome, Summary: w.Summary, Reasons: w.Reasons,
		})
	}
	return out
}
