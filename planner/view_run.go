package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// Run is the view of an accepted or still placed run; ok is false when there is none.
func (v *View) Run(key schema.Key) (r RunView, ok bool) {
	a, pl, placed := v.accepted[key], schema.Placement{}, false
	pl, placed = v.placed[key]
	if !inForce(a) && !placed {
		return RunView{}, false
	}
	r = RunView{Key: key, Phase: RunWaiting, UID: pl.RunUID, Generation: pl.Generation, Attempt: pl.Attempt}
	if inForce(a) {
		r.UID, r.Generation = a.UID, a.Generation
		if a.Refused != nil {
			hold := a.Refused.Hold
			r.Refused = &hold
		}
	}
	if w, waits := v.waits[waitID{key, ""}]; waits {
		r.Reasons, r.Summary = slices.Clone(w.Reasons), w.Summary()
	}
	if !placed {
		for _, slot := range slotsOf(key.Name, a.Object.Spec.(*schema.RunSpec)) {
			r.Workers = append(r.Workers, WorkerView{Name: slot.Name, Group: slot.Group, Rank: slot.Rank, Index: slot.Index})
		}
		return r, true
	}
	for i := range pl.Workers {
		r.Workers = append(r.Workers, v.worker(&pl, &pl.Workers[i]))
	}
	r.Phase = v.phase(a, &pl, r.Workers)
	if r.Summary == "" {
		r.Summary = firstSummary(r.Workers)
	}
	return r, true
}

func (v *View) worker(pl *schema.Placement, w *schema.PlacedWorker) WorkerView {
	out := WorkerView{Name: w.Name, Group: w.Group, Rank: w.Rank, Index: w.Index, Machine: w.Machine, Address: addressOf(v.pass.machines[w.Machine], pl, w),
		GPUs: slices.Clone(w.GPUs), Outcome: cloneOutcome(w.Outcome)}
	if w.Outcome != nil {
		out.State = w.Outcome.State
		return out
	}
	out.State = v.workerState(w.Machine, idOfPlaced(pl, w))
	if wait, waits := v.waits[waitID{pl.Run, w.Name}]; waits {
		out.Reasons, out.Summary = slices.Clone(wait.Reasons), wait.Summary()
	}
	return out
}

func firstSummary(list []WorkerView) string {
	for _, w := range list {
		if w.Summary != "" {
			return w.Summary
		}
	}
	return ""
}

func (v *View) phase(a *schema.AcceptedObject, pl *schema.Placement, workers []WorkerView) RunPhase {
	states := map[schema.WorkerState]int{}
	for _, w := range workers {
		states[w.State]++
	}
	switch {
	case pl.Outcome == schema.RunSucceeded:
		return RunSucceeded
	case pl.Outcome == schema.RunFailed:
		return RunFailed
	case !inForce(a) || a.UID != pl.RunUID:
		return RunStopping
	case states[schema.WorkerLost] > 0:
		return RunLost
	case v.pass.now.Before(pl.NotBefore):
		return RunRestarting
	case states[schema.WorkerStopping] > 0, states[schema.WorkerStuck] > 0:
		return RunStopping
	case states[schema.WorkerRunning]+states[schema.WorkerSucceeded] == len(workers):
		return RunRunning
	}
	return RunPreparing
}
