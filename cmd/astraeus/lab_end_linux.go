package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// mostInLastLine bounds the one line that sums a lab up.
const mostInLastLine = 5

// lastLine sums up what is reached, or what is not and why.
func (v *labView) lastLine(ctx context.Context) error {
	missing, err := v.missing(ctx)
	switch {
	case err != nil:
		return err
	case len(missing) == 0 && v.progress.Total() == 0:
		return v.print("\nReached: nothing was to be done.")
	case len(missing) == 0:
		return v.print("\nReached: %s done.", view.Count(v.progress.Done(), "step"))
	}
	if more := len(missing) - mostInLastLine; more > 0 {
		missing = append(missing[:mostInLastLine:mostInLastLine], fmt.Sprintf("and %d more", more))
	}
	return v.print("\nNot reached: %s.", view.Plain(strings.Join(missing, "; ")))
}

// missing says everything that is not as declared and will not come by itself.
func (v *labView) missing(ctx context.Context) (list []string, err error) {
	state, err := v.lab.Source().View(ctx)
	if err != nil {
		return nil, err
	}
	if files := filesWithErrors(v.last.Diagnostics); len(files) > 0 {
		verb := "have"
		if len(files) == 1 {
			verb = "has"
		}
		list = append(list, fmt.Sprintf("%s %s errors: %s", view.Count(len(files), "file"), verb, strings.Join(files, ", ")))
	}
	for _, hold := range v.last.Plan.Holds {
		list = append(list, "held back: "+view.HoldLine(hold, v.names))
	}
	for _, run := range failedRuns(state) {
		list = append(list, v.names.Object(run.Run)+" has failed"+howFailed(run))
	}
	for _, wait := range v.last.Plan.Waits {
		list = append(list, "waits: "+view.WaitLine(wait, v.names))
	}
	return list, nil
}

func filesWithErrors(list []schema.Diagnostic) []string {
	files := map[string]bool{}
	for _, d := range list {
		if d.Severity == schema.SeverityError {
			files[d.File] = true
		}
	}
	return slices.Sorted(maps.Keys(files))
}

// failedRuns are the declared runs that have failed for good.
func failedRuns(state *statusapi.View) (list []schema.Placement) {
	for key, p := range state.Input.Placed {
		o := state.Input.Accepted.Objects[key]
		if p.Outcome == schema.RunFailed && o != nil && o.UID == p.RunUID {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b schema.Placement) int { return schema.CompareKeys(a.Run, b.Run) })
	return list
}

// howFailed is ": train-0 ended with exit code 3 (why)".
func howFailed(p schema.Placement) string {
	for _, w := range p.Workers {
		if w.Outcome == nil || w.Outcome.State != schema.WorkerFailed {
			continue
		}
		text := ": " + w.Name + " ended"
		if w.Outcome.ExitCode != nil {
			text += fmt.Sprintf(" with exit code %d", *w.Outcome.ExitCode)
		}
		if w.Outcome.Reason != "" {
			text += " (" + w.Outcome.Reason + ")"
		}
		return text
	}
	return ""
}

// code is 0 only when all is as declared.
func (v *labView) code() int {
	missing, err := v.missing(context.Background())
	switch {
	case schema.HasErrors(v.last.Diagnostics):
		return exitInvalid
	case len(missing) > 0 || err != nil:
		return exitPartly
	}
	return exitOK
}

// unreached says why a lab that ran out of time has not converged.
func (v *labView) unreached(ctx context.Context) error {
	_, why := v.last.Converged(true)
	for _, wait := range v.last.Plan.Waits {
		if line := view.WaitLine(wait, v.names); !v.waits[line] { // said already
			v.say("  … %s", line)
		}
	}
	state, err := v.lab.Source().View(ctx)
	if err != nil {
		return err
	}
	for _, m := range state.Input.Observed.Machines {
		if m.State != schema.MachineUp {
			v.say("  … machine %s is %s; its agent said last: %s", m.Name, m.State, view.Plain(v.lab.LastWords(m.Name)))
		}
	}
	v.say("lab: not reached in time: %s", why)
	return nil
}
