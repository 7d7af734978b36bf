package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// apply leads the cluster until a commit is reached as far as it can be.
func (e *environment) apply(c *cli.Context) (err error) {
	out, err := view.NewApply(c.String("output"), e.out(c), e.err(c), e.terminal(e.stderr))
	if err != nil {
		return err
	}
	saved, err := e.savedArgument(c)
	if err != nil {
		return err
	}
	repo, err := e.repository(c)
	if err != nil {
		return err
	}
	defer repo.close()
	commit, desired, err := e.usableCommit(c, repo, saved)
	if err != nil {
		return err
	}
	dir, err := e.stateDir(c)
	if err != nil {
		return err
	}
	cluster, err := clusterName(c.Context, c, dir, func(context.Context) (*schema.Desired, error) { return desired, nil })
	if err != nil {
		return err
	}
	a := &applying{brake: control.NewBrake(), out: out, commit: commit.Snapshot.Commit, saved: saved}
	a.controller, err = e.controller(c, dir, cluster, commit, a.brake, saved.opening(cluster, opening(a.commit)))
	if errors.Is(err, store.ErrLocked) && saved == nil {
		return e.approveInstead(c, a.commit, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.controller.Close()) }()
	if err := saved.mayUse(c.Context, a.controller, cluster); err != nil {
		return err
	}
	if err := e.mayApply(c, a.controller, commit, desired, saved); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "apply: machines connect at %s\n", machinesAt(c, dir))
	return a.run(c.Context, c.Duration("timeout"))
}

// usableCommit is commitToApply's, if it has no errors; its diagnostics are told.
func (e *environment) usableCommit(c *cli.Context, repo *repository, saved *savedPlan) (control.Fixed, *schema.Desired, error) {
	problems, err := view.NewDiagnostics(c.String("diagnostics"), buildVersion(), e.err(c))
	if err != nil {
		return control.Fixed{}, nil, err
	}
	commit, desired, err := e.commitToApply(c, repo, saved)
	if err == nil {
		err = problems.Diagnostics(desired.Diagnostics)
	}
	if err == nil && schema.HasErrors(desired.Diagnostics) {
		err = exitWith(exitInvalid)
	}
	return commit, desired, err
}

// commitToApply reads the saved plan's commit, the one at --ref, or the
// checked-out branch's.
func (e *environment) commitToApply(c *cli.Context, repo *repository, saved *savedPlan) (control.Fixed, *schema.Desired, error) {
	source, err := repo.open(c.Context)
	if err != nil {
		return control.Fixed{}, nil, err
	}
	var snapshot *gitsource.Snapshot
	rev := c.String("ref")
	if saved != nil {
		rev = saved.Document.Inputs.Commit
	}
	if rev != "" {
		snapshot, err = source.At(c.Context, rev)
	} else {
		snapshot, err = source.Fetch(c.Context)
	}
	if err != nil {
		return control.Fixed{}, nil, err
	}
	desired, err := e.loader.files(c.Context, snapshot.FS(), snapshot.Commit, snapshot.Time)
	return control.Fixed{Repository: source, Snapshot: snapshot}, desired, err
}

// mayApply refuses to compete with another controller, and asks before data is
// deleted.
func (e *environment) mayApply(c *cli.Context, controller *control.Controller, commit control.Fixed, desired *schema.Desired, saved *savedPlan) error {
	leader, err := controller.Store.LeaderAddress(c.Context)
	if err != nil {
		return err
	}
	if leader != "" {
		return fmt.Errorf("a controller at %s leads this cluster: it applies what its branch says", leader)
	}
	state, err := controller.Store.Load(c.Context)
	if err != nil || c.Bool("auto-approve") {
		return err
	}
	input := storedInput(state)
	input.Desired, input.Now, input.Seed = desired, time.Now(), "apply"
	if head := state.Accepted.Head; head != "" && head != desired.Commit {
		follows, err := commit.IsAncestor(c.Context, head, desired.Commit)
		if err != nil {
			return err
		}
		input.Rewritten = !follows
	}
	if deletes := saved.unseen(dataDeleted(input, planner.Plan(input))); len(deletes) > 0 {
		return e.confirm(deletes, namesIn(input))
	}
	return nil
}

// dataDeleted names the copies that a plan deletes, those included that a machine
// may have which has not said what it holds: they go as soon as it does.
func dataDeleted(input planner.Input, plan schema.Plan) (deletes []deletion) {
	for _, step := range plan.Steps {
		if step.Action == schema.ActionDeleteCopy {
			deletes = append(deletes, deletionOf(*step))
		}
	}
	heard := map[string]bool{}
	for _, m := range input.Observed.Machines {
		heard[m.Name] = m.Copies != nil
	}
	var silent []string
	for key, o := range input.Accepted.Objects {
		spec, isMachine := specOf(o).(*schema.MachineSpec)
		// Without a data location there is no copy (D-32).
		if isMachine && spec.DataLocation != nil && !heard[key.Name] {
			silent = append(silent, key.Name)
		}
	}
	slices.Sort(silent)
	for _, t := range plan.Decisions.Bury {
		for _, machine := range silent {
			deletes = append(deletes, deletion{t.Key, machine, true})
		}
	}
	return deletes
}

// deletion is a copy that would be deleted; maybe, because its machine has not
// said what it holds.
type deletion struct {
	drive   schema.Key
	machine string
	maybe   bool
}

func deletionOf(step schema.Step) deletion { return deletion{step.Object, step.Machine, false} }

func (d deletion) text(names view.Names) string {
	text := names.Object(d.drive) + " on " + d.machine
	if d.maybe {
		text += ", if it has a copy there"
	}
	return text
}

func specOf(o *schema.AcceptedObject) schema.Spec {
	if o == nil || o.Object == nil {
		return nil
	}
	return o.Object.Spec
}

// confirm names the data that would be deleted and asks. Without a terminal there
// is nobody to ask.
func (e *environment) confirm(deletes []deletion, names view.Names) error {
	fmt.Fprintln(e.stderr, "This deletes data:")
	for _, what := range deletes {
		fmt.Fprintln(e.stderr, "  ! "+view.Plain(what.text(names)))
	}
	stdin, isFile := e.stdin.(*os.File)
	if !isFile || !isTerminal(stdin) {
		return errors.New("data would be deleted: look at the plan, then give --auto-approve")
	}
	fmt.Fprint(e.stderr, "Type yes to go on: ")
	answer, _ := bufio.NewReader(e.stdin).ReadString('\n') // at the end of input there is no yes
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was applied")
	}
	return nil
}

// applying is one apply while it runs.
type applying struct {
	controller *control.Controller
	brake      *control.Brake
	out        view.Apply
	commit     string
	saved      *savedPlan // nil for none
	progress   control.Progress
	last       reconciler.Status
}

// run leads until the commit is reached, time is up, or it is interrupted.
func (a *applying) run(parent context.Context, timeout time.Duration) error {
	// The command's own context ends at the first Ctrl-C; the controller goes on
	// until the running steps are done.
	ctx, stop := context.WithCancel(context.WithoutCancel(parent))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- a.controller.Run(ctx) }()
	code, err := a.wait(parent, timeout, done)
	stop()
	if err := errors.Join(err, <-done); err != nil {
		return a.opened(err)
	}
	if code == exitInterrupted {
		again := "running the same apply again"
		if a.saved != nil {
			again = "apply --ref " + a.commit
		}
		return &exitStatus{exitInterrupted, fmt.Errorf("interrupted; %s goes on from here", again)}
	}
	converged, _ := a.last.Converged(false)
	err = a.out.Applied(view.Applied{
		Commit: a.commit, Converged: converged, Steps: a.progress.Done(), Holds: a.last.Plan.Holds, Waits: a.last.Plan.Waits,
		Names: a.names(),
	})
	if err != nil {
		return err
	}
	return exitWith(code)
}

// names of all that is in force or held.
func (a *applying) names() view.Names {
	v, err := a.controller.Source().View(context.Background())
	if err != nil {
		return nil // they are shown by their namespaces
	}
	return namesIn(v.Input)
}

// opened is an error of the whole apply; one of what is written first says all.
func (a *applying) opened(err error) error {
	var refused *reconciler.OpeningError
	switch {
	case !errors.As(err, &refused):
		return err
	case errors.Is(err, store.ErrUsed):
		return used(a.commit, time.Time{})
	}
	return refused.Err
}

// wait follows the controller until there is nothing more to wait for. When the
// controller ends by itself, its error stays in done.
func (a *applying) wait(parent context.Context, timeout time.Duration, done chan error) (code int, err error) {
	updates, cancel := a.controller.Reconciler.Subscribe()
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if parent.Err() != nil {
		return exitInterrupted, nil
	}
	var late <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	braked := false
	for {
		select {
		case err := <-done:
			done <- err
			return exitError, errors.New("the controller ended")
		case <-late:
			return exitWaiting, nil
		case <-signals:
			if braked || a.brake.Stop() == 0 {
				return exitInterrupted, nil
			}
			braked = true
			a.controller.Reconciler.Sync()
		case u := <-updates:
			over, err := a.note(u.Status, braked)
			if over || err != nil {
				return a.code(braked), err
			}
		}
	}
}

// note shows a status and says whether there is nothing more to wait for.
func (a *applying) note(s reconciler.Status, braked bool) (over bool, err error) {
	a.last = s
	a.progress.Note(s.Plan.Steps)
	err = a.out.Progress(view.Progress{
		At: time.Now(), Commit: a.commit, Done: a.progress.Done(), Total: a.progress.Total(), Waiting: len(s.Plan.Waits),
		Filling: a.filling(s.Plan.Steps), Machines: len(s.Machines), Away: away(s),
	})
	if braked {
		return len(s.Plan.Steps) == 0, err
	}
	converged, _ := s.Converged(false)
	return converged && (s.Head == a.commit || len(s.Plan.Holds) > 0), err
}

// away are the machines that are not connected.
func away(s reconciler.Status) (names []string) {
	for name, m := range s.Machines {
		if !m.Connected {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// filling is what grows at the moment.
func (a *applying) filling(steps []*schema.Step) (out []view.Filling) {
	v, err := a.controller.Source().View(context.Background())
	if err != nil {
		return nil
	}
	for _, step := range steps {
		if step.Action != schema.ActionFillCopy {
			continue
		}
		f := view.Filling{Drive: step.Object.Name, Machine: step.Machine}
		if spec, ok := specOf(v.Input.Accepted.Objects[step.Object]).(*schema.DriveSpec); ok {
			f.Want = spec.SizeHintBytes
		}
		for _, m := range v.Input.Observed.Machines {
			for _, c := range m.Copies {
				if m.Name == step.Machine && c.Drive == step.Object.Scoped() {
					f.Bytes = c.Bytes
				}
			}
		}
		out = append(out, f)
	}
	return out
}

func (a *applying) code(braked bool) int {
	switch {
	case braked:
		return exitInterrupted
	case len(a.last.Plan.Holds) > 0:
		return exitPartly
	}
	return exitOK
}
