package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/cmd/astraeus/internal/lab"
	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/schema"
)

// labView shows a lab to a person.
type labView struct {
	lab      *lab.Lab
	env      *environment
	cli      *cli.Context
	dir      string
	logs     *lab.Logs
	problems view.Diagnostics
	meter    view.Apply
	lists    view.List

	names     view.Names
	last      reconciler.Status
	progress  control.Progress // of the commit that is worked on
	working   string           // that commit
	planned   string           // the commit whose plan was shown
	shownFor  string           // the commit whose result was shown
	rest      time.Time        // since when nothing is to be done, zero when something is
	tables    string           // what they said last, so that they are not repeated
	diagnosed string
	invalid   bool // the files had errors
	waits     map[string]bool
}

func (e *environment) labView(c *cli.Context, l *lab.Lab, dir string) (*labView, error) {
	v := &labView{lab: l, env: e, cli: c, dir: dir, logs: l.Logs()}
	var errs [3]error
	v.problems, errs[0] = view.NewDiagnostics(c.String("diagnostics"), buildVersion(), e.err(c))
	v.meter, errs[1] = view.NewApply("table", e.out(c), e.err(c), e.terminal(e.stderr))
	v.lists, errs[2] = view.NewList("table", e.out(c))
	return v, errors.Join(errs[:]...)
}

func (v *labView) say(format string, args ...any) {
	fmt.Fprintf(v.env.stderr, format+"\n", args...)
}

func (v *labView) print(format string, args ...any) error {
	_, err := fmt.Fprintf(v.env.stdout, format+"\n", args...)
	return err
}

func (v *labView) showPlan(plan lab.Planned) error {
	v.planned, v.names = plan.Document.Inputs.Commit, view.NamesOf(plan.Objects)
	out, err := view.NewPlanOf("table", v.env.out(v.cli), view.PlanContext{Names: v.names})
	if err != nil {
		return err
	}
	return out.Plan(plan.Document)
}

// note shows one update: problems of the files once, what happened, what waits
// now, and how far it is.
func (v *labView) note(u reconciler.Update) error {
	v.last = u.Status
	v.learnNames()
	if err := v.noteFiles(u.Status); err != nil {
		return err
	}
	for _, event := range u.Events {
		if event.Type != "Accepted" {
			v.say("  %s  %s", view.Plain(v.names.Object(event.Object)), view.Plain(event.Message))
		}
	}
	v.noteWaits(u.Status.Plan)
	if commit := u.Status.Plan.Commit; commit != v.working {
		v.working, v.progress = commit, control.Progress{}
	}
	v.progress.Note(u.Status.Plan.Steps)
	if len(u.Status.Plan.Steps) == 0 {
		return nil
	}
	return v.meter.Progress(view.Progress{At: time.Now(), Commit: u.Status.Commit, Done: v.progress.Done(),
		Total: v.progress.Total(), Waiting: len(v.waits)})
}

// learnNames takes the names of an earlier lab's objects before the first plan.
func (v *labView) learnNames() {
	if len(v.names) > 0 {
		return
	}
	if state, err := v.lab.Source().View(context.Background()); err == nil {
		v.names = namesIn(state.Input)
	}
}

// noteFiles tells the problems of the files when they change, and when they are mended.
func (v *labView) noteFiles(s reconciler.Status) error {
	text := fmt.Sprint(s.Commit, s.Diagnostics)
	if text == v.diagnosed {
		return nil
	}
	v.diagnosed = text
	if err := v.problems.Diagnostics(s.Diagnostics); err != nil {
		return err
	}
	invalid := schema.HasErrors(s.Diagnostics)
	if v.invalid && !invalid && s.Commit != "" {
		v.say("lab: the files have no errors any more")
	}
	if s.Commit != "" {
		v.invalid = invalid
	}
	return nil
}

// noteWaits tells a wait when it appears or changes, unless steps that are being
// done end it.
func (v *labView) noteWaits(plan schema.Plan) {
	now := map[string]bool{}
	for _, w := range plan.Waits {
		line := view.WaitLine(w, v.names)
		if view.Passing(w) {
			continue
		}
		if now[line] = true; !v.waits[line] {
			v.say("  … %s", line)
		}
	}
	v.waits = now
}

// outputs shows what workers printed since it was looked at last.
func (v *labView) outputs(ctx context.Context) error {
	state, err := v.lab.Source().View(ctx)
	if err != nil {
		return nil // the store was not read yet
	}
	for _, output := range v.logs.New(state.Input.Placed) {
		for _, line := range output.Lines {
			if err := v.print("%s | %s", view.Plain(output.Worker), view.Plain(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
