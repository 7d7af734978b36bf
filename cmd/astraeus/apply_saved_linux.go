package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

// savedArgument reads the saved plan that apply was given, nil for none.
func (e *environment) savedArgument(c *cli.Context) (*savedPlan, error) {
	name := c.Args().First()
	if name == "" {
		return nil, nil
	}
	if c.IsSet("ref") {
		return nil, errors.New("a saved plan names its commit: leave --ref out")
	}
	if name == "-" {
		return readSavedPlan(e.stdin, "standard input")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readSavedPlan(file, name)
}

// stale ends an apply whose saved plan does not fit any more (exit code 4).
func stale(commit string, moved []string) error {
	return &exitStatus{exitStale, fmt.Errorf("the saved plan is stale; plan commit %s again. What moved:\n  %s", commit, strings.Join(moved, "\n  "))}
}

func used(commit string, at time.Time) error {
	when := ""
	if !at.IsZero() {
		when = " at " + at.UTC().Format(time.RFC3339)
	}
	return &exitStatus{exitStale, fmt.Errorf("the saved plan was applied already%s; apply --ref %s goes on with what is left of it", when, commit)}
}

// fits checks a saved plan against a state. Errors: it is of another
// cluster; it is stale, with what moved.
func (s *savedPlan) fits(cluster string, state *store.State) error {
	if s.Cluster != "" && s.Cluster != cluster {
		return fmt.Errorf("the plan was made for cluster %s, this is %s", s.Cluster, cluster)
	}
	if uid := s.Basis.ClusterUID; uid != "" && uid != state.Meta.ClusterUID {
		return fmt.Errorf("the plan was made for another cluster of that name (uid %s, this one's is %s)", uid, state.Meta.ClusterUID)
	}
	var moved []string
	in := s.Document.Inputs
	if now := load.SchemaHash(); in.Schema != now {
		moved = append(moved, "the schema that files are read by: this program is another version")
	}
	if in.Planner != planner.PlannerVersion {
		moved = append(moved, "the planner: this program is another version")
	}
	moved = append(moved, s.Basis.Moved(s.Basis.BasisNow(storedInput(state)))...)
	if len(moved) > 0 {
		return stale(in.Commit, moved)
	}
	return nil
}

// storedInput is what the store knows, as the planner looks at it.
func storedInput(state *store.State) planner.Input {
	in := planner.Input{Accepted: state.Accepted, Placed: state.Placed}
	for name, report := range state.Observed {
		own := *report
		own.Name, own.State = name, schema.MachineUp
		in.Observed.Machines = append(in.Observed.Machines, &own)
	}
	return in
}

// mayUse refuses a saved plan (nil for none) that was applied before or does not fit, in words for
// a person. What is written first is judged again under leadership.
func (s *savedPlan) mayUse(ctx context.Context, controller *control.Controller, cluster string) error {
	if s == nil {
		return nil
	}
	before, err := controller.Store.UsedPlan(ctx, s.Digest)
	if err != nil {
		return err
	}
	if before != nil {
		return used(before.Commit, before.At)
	}
	state, err := controller.Store.Load(ctx)
	if err != nil {
		return err
	}
	return s.fits(cluster, state)
}

// opening marks the plan as used, if it fits the state of the moment (G-7).
func (s *savedPlan) opening(cluster string, next func(*store.State) (schema.Decisions, error)) func(*store.State) (schema.Decisions, error) {
	if s == nil {
		return next
	}
	use := &schema.UsedPlan{Digest: s.Digest, Commit: s.Document.Inputs.Commit, Nonce: rand.Text(), At: time.Now().UTC()}
	return func(state *store.State) (schema.Decisions, error) {
		if err := s.fits(cluster, state); err != nil {
			return schema.Decisions{}, err
		}
		d, err := next(state)
		d.Used = use
		return d, err
	}
}

// unseen leaves out of deletions what a person saw in the saved plan.
func (s *savedPlan) unseen(deletes []deletion) (out []deletion) {
	if s == nil {
		return deletes
	}
	seen := map[deletion]bool{}
	for _, step := range s.Document.Steps {
		if step.Action == schema.ActionDeleteCopy {
			seen[deletionOf(step)] = true
		}
	}
	for _, d := range deletes {
		if !seen[d] {
			out = append(out, d)
		}
	}
	return out
}
