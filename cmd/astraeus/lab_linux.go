package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/cmd/astraeus/internal/lab"
	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// labHook runs in a process that the lab re-executed, and does not return there.
func labHook() { lab.MaybeStage() }

// outputLines is how much of each worker's output a lab shows at the end.
const outputLines = 20

func (e *environment) lab(c *cli.Context) (err error) {
	log, err := e.logger(c)
	if err != nil {
		return err
	}
	dir, err := e.labDirectory(c.String("dir"), c.String("repo"))
	if err != nil {
		return err
	}
	l, err := lab.Open(c.Context, lab.Options{
		Repo: c.String("repo"), Dir: dir, Status: c.String("status"),
		Load: e.loader.files, Schema: load.SchemaHash(), Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	show, err := e.labView(c, l, dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(c.Context), syscall.SIGTERM, os.Interrupt)
	defer stop()
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	done := make(chan error, 1)
	go func() { done <- l.Run(running) }()
	code, err := show.follow(ctx, c.Bool("once"), c.Duration("timeout"), done)
	stop() // a second Ctrl-C ends the program at once; the room notices and takes itself down
	end()
	if runErr := <-done; runErr != nil {
		return errors.Join(err, runErr)
	}
	return errors.Join(err, exitWith(code))
}

// labView shows a lab to a person.
type labView struct {
	lab      *lab.Lab
	env      *environment
	cli      *cli.Context
	dir      string
	names    view.Names
	problems view.Diagnostics
	meter    view.Apply
	lists    view.List

	progress  control.Progress
	last      reconciler.Status
	shown     string // what the tables said last, so that they are not repeated
	diagnosed string
}

func (e *environment) labView(c *cli.Context, l *lab.Lab, dir string) (*labView, error) {
	v := &labView{lab: l, env: e, cli: c, dir: dir}
	var errs [3]error
	v.problems, errs[0] = view.NewDiagnostics(c.String("diagnostics"), buildVersion(), e.err(c))
	v.meter, errs[1] = view.NewApply("table", e.out(c), e.err(c), e.terminal(e.stderr))
	v.lists, errs[2] = view.NewList("table", e.out(c))
	return v, errors.Join(errs[:]...)
}

// follow shows what happens until there is nothing more to wait for.
func (v *labView) follow(ctx context.Context, once bool, timeout time.Duration, done chan error) (int, error) {
	v.say("lab: status API at %s, everything else in %s", v.lab.Address, v.dir)
	updates, cancel := v.lab.Reconciler.Subscribe()
	defer cancel()
	var late <-chan time.Time
	if once && timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	planned := "" // the commit whose plan was shown
	for {
		select {
		case err := <-done:
			done <- err
			return exitError, errors.New("the lab ended")
		case <-ctx.Done():
			if once {
				return exitInterrupted, nil
			}
			v.say("lab: ending; machines, workers and mounts are taken down")
			return exitOK, nil
		case <-late:
			return exitWaiting, errors.Join(v.result(ctx), v.unreached(ctx))
		case plan := <-v.lab.Plans:
			planned, v.names = plan.Document.Inputs.Commit, view.NamesOf(plan.Objects)
			if err := v.showPlan(plan.Document); err != nil {
				return exitError, err
			}
		case u := <-updates:
			if err := v.note(u); err != nil {
				return exitError, err
			}
		}
		if planned == "" || planned != v.last.Plan.Commit {
			continue // the status is from before
		}
		if over, err := v.showReached(ctx, once); over {
			return v.code(), err
		}
	}
}

func (v *labView) showPlan(doc planner.PlanDocument) error {
	out, err := view.NewPlanOf("table", v.env.out(v.cli), view.PlanContext{Names: v.names})
	if err != nil {
		return err
	}
	return out.Plan(doc)
}

// showReached shows the result whenever there is nothing more to wait for; with
// --once that is the end.
func (v *labView) showReached(ctx context.Context, once bool) (over bool, err error) {
	if reached, _ := v.last.Converged(once); !reached {
		return false, nil
	}
	err = v.result(ctx)
	if ctx.Err() != nil {
		return false, nil // told to end meanwhile, which is no error
	}
	return once || err != nil, err
}

func (v *labView) code() int {
	switch {
	case schema.HasErrors(v.last.Diagnostics):
		return exitInvalid
	case len(v.last.Plan.Holds) > 0:
		return exitPartly
	}
	return exitOK
}

// note shows one update: problems of the files once, events, and how far it is.
func (v *labView) note(u reconciler.Update) error {
	v.last = u.Status
	if text := fmt.Sprint(u.Status.Commit, u.Status.Diagnostics); text != v.diagnosed {
		v.diagnosed = text
		if err := v.problems.Diagnostics(u.Status.Diagnostics); err != nil {
			return err
		}
	}
	for _, event := range u.Events {
		if event.Type != "Accepted" {
			v.say("  %s  %s", view.Plain(v.names.Object(event.Object)), view.Plain(event.Message))
		}
	}
	v.progress.Note(u.Status.Plan.Steps)
	if v.progress.Total() == 0 {
		return nil
	}
	return v.meter.Progress(view.Progress{At: time.Now(), Commit: u.Status.Commit, Done: v.progress.Done(),
		Total: v.progress.Total(), Waiting: len(u.Status.Plan.Waits)})
}

func (v *labView) say(format string, args ...any) {
	fmt.Fprintf(v.env.stderr, format+"\n", args...)
}

// unreached says why a lab that ran out of time has not converged.
func (v *labView) unreached(ctx context.Context) error {
	_, why := v.last.Converged(true)
	v.say("lab: not reached in time: %s", why)
	for _, wait := range v.last.Plan.Waits {
		v.say("  … %s", view.WaitLine(wait, v.names))
	}
	state, err := v.lab.Source().View(ctx)
	if err != nil {
		return err
	}
	for _, m := range state.Input.Observed.Machines {
		if m.State != schema.MachineUp {
			v.say("  … machine/%s is %s; its agent said last: %s", m.Name, m.State, view.Plain(v.lab.LastWords(m.Name)))
		}
	}
	return nil
}
