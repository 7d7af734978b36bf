package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/lab"
	"astraeus.io/astraeus/schema/load"
)

// labHook runs in a process that the lab re-executed, and does not return there.
func labHook() { lab.MaybeStage() }

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
		Load: e.loader.files, Schema: load.SchemaHash(), Version: buildVersion(), Log: log,
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

const (
	// outputEvery is how often new output of workers is looked for.
	outputEvery = 200 * time.Millisecond
	// restBeforeTables is how long a lab that follows its files must be at rest
	// before it shows its tables: runs that are about to end are shown ended.
	restBeforeTables = 2 * time.Second
)

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
	look := time.NewTicker(outputEvery)
	defer look.Stop()
	for {
		var err error
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
			err = v.showPlan(plan)
		case u := <-updates:
			err = v.note(u)
		case <-look.C:
			err = v.outputs(ctx)
		}
		if err != nil {
			return exitError, err
		}
		if over, err := v.showReached(ctx, once); over {
			return v.code(), err
		}
	}
}

// showReached shows the result when there is nothing more to wait for; with
// --once that is the end. Without, it is shown once a commit, when all has come
// to rest.
func (v *labView) showReached(ctx context.Context, once bool) (over bool, err error) {
	if v.planned == "" || v.planned != v.last.Plan.Commit {
		return false, nil // the status is from before
	}
	ended, _ := v.last.Converged(true)
	reached, _ := v.last.Converged(false)
	switch {
	case !reached:
		v.rest = time.Time{}
		return false, nil
	case v.rest.IsZero():
		v.rest = time.Now()
	}
	if once && !ended || v.shownFor == v.planned || !ended && time.Since(v.rest) < restBeforeTables {
		return false, nil
	}
	err = v.result(ctx)
	if err == nil {
		err = v.lastLine(ctx)
	}
	if ctx.Err() != nil {
		return false, nil // told to end meanwhile, which is no error
	}
	v.shownFor = v.planned
	return once || err != nil, err
}
