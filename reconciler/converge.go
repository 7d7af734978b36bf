package reconciler

import (
	"fmt"
	"maps"
	"slices"

	"astraeus.io/astraeus/schema"
)

const notPlanned = "nothing was planned yet"

// convergence judges X-37 after a pass.
type convergence struct {
	leading *leading
	plan    schema.Plan
	info    Pass
	status  *Status
}

// why says what is missing to be converged, "" for nothing.
func (c convergence) why(once bool) string {
	switch found := c.leading.found; {
	case found.err != nil:
		return "the newest commit is not in use: " + found.err.Error()
	case found.desired == nil:
		return "no commit was loaded yet"
	case !c.leading.judged:
		return "commit " + found.desired.Commit + " was not compared with the one in force yet"
	case c.status.Pending != "":
		return "commit " + c.status.Pending + " waits for approval"
	case c.info.Decided:
		return "decisions were just written"
	case len(c.plan.Steps) > 0:
		return stepsLeft(c.plan.Steps)
	}
	if why := c.machines(); why != "" {
		return why
	}
	return c.runs(once)
}

func stepsLeft(steps []*schema.Step) string {
	if len(steps) == 1 {
		return "1 step left: " + stepText(*steps[0])
	}
	return fmt.Sprintf("%d steps left, the first is %s", len(steps), stepText(*steps[0]))
}

func stepText(s schema.Step) string {
	return fmt.Sprintf("%s %s on %s", s.Action, s.Object, s.Machine)
}

// machines: one that may still come up, or works by an older assignment, is in flight.
func (c convergence) machines() string {
	for _, name := range slices.Sorted(maps.Keys(c.status.Machines)) {
		m := c.status.Machines[name]
		switch {
		case m.State == schema.MachineUnknown && c.status.MassDown == 0:
			return "machine " + name + " was not heard yet"
		case m.State == schema.MachineUp && m.Applied < m.Assigned:
			return "machine " + name + " has not taken its newest assignment yet"
		}
	}
	return ""
}

// endsByItself lists the waits that end without a change from outside. The rest
// needs a person, a machine coming back, or another run's end.
var endsByItself = map[schema.ReasonCode]bool{
	schema.ReasonNotReported: true, schema.ReasonUnknownResources: true, schema.ReasonBackoff: true,
	schema.ReasonStopping: true, schema.ReasonMounting: true, schema.ReasonFilling: true,
	schema.ReasonCreatingCopy: true, schema.ReasonCreatingDir: true, schema.ReasonStarting: true,
	schema.ReasonStepFailed: true,
}

// runs: each has ended, or runs, or waits for something that does not come by itself.
func (c convergence) runs(once bool) string {
	waits := map[schema.Key]bool{}
	for _, w := range c.plan.Waits {
		if slices.ContainsFunc(w.Reasons, func(r schema.Reason) bool { return endsByItself[r.Code] }) {
			return fmt.Sprintf("%s waits: %s", w.Run, w.Summary())
		}
		waits[w.Run] = true
	}
	running := c.running()
	placed := c.leading.state.Placed
	for _, key := range slices.SortedFunc(maps.Keys(placed), schema.CompareKeys) {
		p := placed[key]
		always := p.Spec != nil && p.Spec.RestartPolicy == schema.RestartAlways
		switch {
		case p.Vacant() || p.Outcome != "" || waits[key]:
		case once && !always:
			return key.String() + " has not ended"
		default:
			for _, w := range p.Workers {
				if w.Outcome == nil && !running[workerID{p.RunUID, p.Generation, p.Attempt, w.Name, w.Machine}] {
					return fmt.Sprintf("%s: %s is not running yet", key, w.Name)
				}
			}
		}
	}
	return c.unplaced(waits)
}

// unplaced: an accepted run that neither has a place nor says why is not decided yet.
func (c convergence) unplaced(waits map[schema.Key]bool) string {
	objects := c.leading.state.Accepted.Objects
	for _, key := range slices.SortedFunc(maps.Keys(objects), schema.CompareKeys) {
		if key.Kind != schema.KindRun || objects[key].UID == "" {
			continue
		}
		if p := c.leading.state.Placed[key]; p.Vacant() && !waits[key] {
			return key.String() + " has no place yet"
		}
	}
	return ""
}

type workerID struct {
	runUID     string
	generation int64
	attempt    int
	name       string
	machine    string
}

func (c convergence) running() map[workerID]bool {
	out := map[workerID]bool{}
	for name, r := range c.leading.reports {
		for _, w := range r.Workers {
			if w.State == schema.WorkerRunning {
				out[workerID{w.RunUID, w.Generation, w.Attempt, w.Name, name}] = true
			}
		}
	}
	return out
}
