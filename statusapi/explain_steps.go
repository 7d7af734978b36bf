package statusapi

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// StepState says how far a step is.
type StepState string

// A step is done when the machine's report shows its effect; nothing else
// is remembered. One that is left is released to its machine, or withheld until
// another machine's part shows.
const (
	StepDone     StepState = "done"
	StepReleased StepState = "released"
	StepWithheld StepState = "withheld"
)

// ExplainedStep is a step, done or left. A done one has no id: it is in no plan.
type ExplainedStep struct {
	State StepState `json:"state"`
	schema.Step
}

// steps lists what is done and what is left for the object, with everything that
// comes before it on whatever machine.
func (x *explanation) steps() {
	released := map[string]bool{}
	for _, target := range x.Plan.Targets {
		for _, s := range target.Steps {
			released[s.ID] = true
		}
	}
	wanted := x.wanted()
	left := map[stepKey]bool{}
	var todo []ExplainedStep
	for _, s := range x.Plan.Steps {
		left[keyOfStep(*s)] = true
		if !wanted[s.ID] {
			continue
		}
		state := StepWithheld
		if released[s.ID] {
			state = StepReleased
		}
		todo = append(todo, ExplainedStep{state, x.request.step(*s)})
	}
	for _, s := range x.effects() {
		if !left[keyOfStep(s)] {
			x.out.Steps = append(x.out.Steps, ExplainedStep{StepDone, s})
		}
	}
	x.out.Steps = append(x.out.Steps, todo...)
}

// wanted are the ids of the steps to show: the object's own, or the one asked for
// with those that wait for it, and all that they come after.
func (x *explanation) wanted() map[string]bool {
	byID := map[string]*schema.Step{}
	var ids []string
	for _, s := range x.Plan.Steps {
		byID[s.ID] = s
		switch {
		case x.step != nil:
			if s.ID == x.step.ID || slices.Contains(s.After, x.step.ID) {
				ids = append(ids, s.ID)
			}
		case x.about(s.Object, s.Machine) && (x.out.Worker == "" || s.Args.Worker == x.out.Worker):
			ids = append(ids, s.ID)
		}
	}
	wanted := map[string]bool{}
	for len(ids) > 0 {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		s := byID[id]
		if s == nil || wanted[id] || !x.sees(s.Object) {
			continue
		}
		wanted[id] = true
		ids = append(ids, s.After...)
	}
	return wanted
}

// stepKey is what makes two steps the same piece of work.
type stepKey struct {
	machine string
	action  schema.Action
	object  schema.Key
	source  int
	with    string // the client of an export, the worker of a start
}

func keyOfStep(s schema.Step) stepKey {
	k := stepKey{machine: s.Machine, action: s.Action, object: s.Object, source: s.Args.Source}
	switch s.Action {
	case schema.ActionExport:
		k.with = s.Args.To
	case schema.ActionStartWorker:
		k.with = s.Args.Worker
	}
	return k
}

// effects are the steps whose effect the machines report, for the workers and
// drives that the explanation is about.
func (x *explanation) effects() (done []schema.Step) {
	names := make([]string, 0, len(x.Plan.Targets))
	for name := range x.Plan.Targets {
		names = append(names, name)
	}
	slices.Sort(names)
	uses := x.uses()
	for _, name := range names {
		report := x.reports[name]
		if report == nil {
			continue
		}
		e := effect{x: x, machine: name, target: x.Plan.Targets[name], report: report, uses: uses}
		e.drives()
		e.workers()
		done = append(done, e.done...)
	}
	return done
}

// use is a source of a drive on a machine: the one a worker is on.
type use struct {
	drive   schema.Key
	machine string
}

// uses are the drives of the workers that the explanation is about.
func (x *explanation) uses() map[use]bool {
	out := map[use]bool{}
	for name, target := range x.Plan.Targets {
		for _, w := range target.Workers {
			if x.shows(w) {
				for _, m := range w.Mounts {
					out[use{m.Drive, name}] = true
				}
			}
		}
	}
	return out
}

func (x *explanation) shows(w schema.WorkerTarget) bool {
	return x.step == nil && x.objects[w.Run] && (x.out.Worker == "" || x.out.Worker == w.Name)
}

// effect looks at one machine.
type effect struct {
	x       *explanation
	machine string
	target  *schema.Assignment
	report  *schema.MachineReport
	uses    map[use]bool
	done    []schema.Step
}

// wants reports whether a drive on a machine is of interest.
func (e *effect) wants(drive schema.Key, machine string) bool {
	return e.x.step == nil && (e.x.objects[drive] && drive.Kind == schema.KindDrive || e.uses[use{drive, machine}])
}

func (e *effect) add(action schema.Action, object schema.Key, args schema.StepArgs) {
	e.done = append(e.done, schema.Step{Machine: e.machine, Action: action, Object: object, Args: args})
}

func (e *effect) drives() {
	for _, d := range e.target.Dirs {
		there := slices.ContainsFunc(e.report.Paths, func(p schema.PathState) bool { return p.UID == d.UID && p.Source == d.Source && p.Exists })
		if there && d.Create && e.wants(d.Drive, e.machine) {
			e.add(schema.ActionCreateDir, d.Drive, schema.StepArgs{UID: d.UID, Source: d.Source, Path: d.Path})
		}
	}
	for _, c := range e.target.Copies {
		i := slices.IndexFunc(e.report.Copies, func(r schema.Copy) bool {
			return (r.UID == c.UID || r.UID == "" && r.Drive == c.Drive.Scoped()) && (r.State == "" || r.State == schema.CopyPresent)
		})
		if i < 0 || !e.wants(c.Drive, e.machine) {
			continue
		}
		args := schema.StepArgs{UID: c.UID, Path: e.report.Copies[i].Folder}
		e.add(schema.ActionCreateCopy, c.Drive, args)
		if c.FillGeneration > 0 && e.report.Copies[i].FilledGeneration == c.FillGeneration {
			e.add(schema.ActionFillCopy, c.Drive, args)
		}
	}
	for _, t := range e.target.Exports {
		there := slices.ContainsFunc(e.report.Exports, func(r schema.Export) bool {
			return r.UID == t.UID && r.Source == t.Source && (r.To == t.Client || slices.Contains(t.Addresses, r.Client))
		})
		if there && e.wants(t.Drive, t.Client) {
			e.add(schema.ActionExport, t.Drive, schema.StepArgs{UID: t.UID, Source: t.Source, Path: t.Path, To: t.Client})
		}
	}
	for _, t := range e.target.Mounts {
		i := slices.IndexFunc(e.report.Mounts, func(r schema.Mount) bool {
			return r.UID == t.UID && r.Source == t.Source && r.State == schema.MountBound
		})
		if i >= 0 && e.wants(t.Drive, e.machine) {
			e.add(schema.ActionMount, t.Drive, schema.StepArgs{UID: t.UID, Source: t.Source, From: t.From, Transport: e.report.Mounts[i].Transport})
		}
	}
}

func (e *effect) workers() {
	for _, t := range e.target.Workers {
		there := slices.ContainsFunc(e.report.Workers, func(r schema.Worker) bool {
			return r.RunUID == t.RunUID && r.Generation == t.Generation && r.Attempt == t.Attempt && r.Name == t.Name
		})
		if there && e.x.shows(t) {
			e.add(schema.ActionStartWorker, t.Run, schema.StepArgs{UID: t.RunUID, Worker: t.Name, Generation: t.Generation, Attempt: t.Attempt})
		}
	}
}
