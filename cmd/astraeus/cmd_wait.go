package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// waitEvery is how often wait looks.
const waitEvery = 250 * time.Millisecond

// waitStates are the states that an object of a kind can be waited for.
func waitStates(kind schema.Kind) []string {
	states := []string{statusapi.StateAccepted, statusapi.StateHeld, statusapi.StateDeleted}
	switch kind {
	case schema.KindRun:
		for _, p := range []planner.RunPhase{
			planner.RunWaiting, planner.RunPreparing, planner.RunRunning, planner.RunRestarting, planner.RunStopping,
			planner.RunLost, planner.RunSucceeded, planner.RunFailed,
		} {
			states = append(states, string(p))
		}
	case schema.KindDrive:
		states = append(states, string(planner.DriveAvailable), string(planner.DriveUnreachable), statusapi.StateDeleting)
	case schema.KindMachine:
		states = append(states, string(schema.MachineUp), string(schema.MachineDown), string(schema.MachineUnknown))
	}
	return states
}

func waitCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait until an object is in a state",
		ArgsUsage: "KIND/NAME",
		Description: "Every object can be Accepted, Held or Deleted; runs, drives and machines have the states that get shows, too.\n" +
			"The exit code is 6 when time is up, and 1 at once when a run that should succeed has failed.",
		Flags: []cli.Flag{
			serverFlag(),
			&cli.StringFlag{Name: "for", Usage: "the `STATE` to wait for", Required: true},
			&cli.DurationFlag{Name: "timeout", Usage: "stop waiting after `DURATION` (exit code 6); 0 waits for ever"},
		},
		Action: func(c *cli.Context) error {
			kind, name, err := objectArgument(c.Args().Slice())
			if err != nil {
				return err
			}
			state, err := waitState(kind, c.String("for"))
			if err != nil {
				return err
			}
			server, err := env.server(c)
			if err != nil {
				return err
			}
			if name, err = server.named(c.Context, kind, name); err != nil {
				return err
			}
			w := waiting{server: server, kind: kind, name: name, state: state}
			if err := w.until(c.Context, c.Duration("timeout"), waitEvery); err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.stdout, "%s/%s is %s\n", kind.Word(), name, state)
			return err
		},
	}
}

// waitState is a state as it is spelt, however it was typed.
func waitState(kind schema.Kind, text string) (string, error) {
	states := waitStates(kind)
	i := slices.IndexFunc(states, func(s string) bool { return strings.EqualFold(s, text) })
	if i < 0 {
		return "", fmt.Errorf("%w; a %s can be %s", unknownWord("state", text, suggestion(text, states)), kind.Word(), strings.Join(states, ", "))
	}
	return states[i], nil
}

// waiting is one wait.
type waiting struct {
	server *client
	kind   schema.Kind
	name   string
	state  string
	last   string // what it was when last looked at
}

// until looks until the state is there. Errors: time is up (exit code 6), that the
// state cannot come any more, or that the server never answered.
func (w *waiting) until(ctx context.Context, timeout, every time.Duration) error {
	var late <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		there, err := w.look(ctx)
		var refused *statusapi.Problem
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case there && err == nil:
			return nil
		case err != nil && (first || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return &exitStatus{exitWaiting, fmt.Errorf("%s/%s is not %s after %s: it is %s", w.kind.Word(), w.name, w.state, timeout, w.last)}
		case <-tick.C:
		}
	}
}

// errRunFailed: what was waited for cannot come any more.
var errRunFailed = &statusapi.Problem{Title: "the run has Failed", Status: http.StatusConflict}

func (w *waiting) look(ctx context.Context) (there bool, err error) {
	var o statusapi.Object
	err = w.server.get(ctx, nil, &o, "v1", "objects", w.kind.Word(), w.name)
	var refused *statusapi.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		w.last = "not there"
		return w.state == statusapi.StateDeleted, nil
	}
	if err != nil {
		return false, err
	}
	w.last = strings.Join(o.States, ", ")
	if w.state == string(planner.RunSucceeded) && slices.Contains(o.States, string(planner.RunFailed)) {
		return false, errRunFailed
	}
	return slices.Contains(o.States, w.state), nil
}
