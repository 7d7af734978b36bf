package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

func explainCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "say all there is to say of an object, a step, a worker or a commit",
		ArgsUsage: "ID",
		Description: "ID is KIND/NAME, RUN/WORKER or a worker's name, the id of a step (its first six digits or more), or a commit's whole id.\n" +
			"Where other commands sum up, explain lists every reason with every machine.",
		Flags: []cli.Flag{serverFlag(), outputFlag("table", view.ReadFormats)},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || strings.Trim(c.Args().First(), "/") == "" {
				return errors.New("give one thing to explain: KIND/NAME, RUN/WORKER, a step's id or a commit's")
			}
			out, server, err := reading(env, c, view.NewDescribe)
			if err != nil {
				return err
			}
			id := c.Args().First()
			if commitID(id) {
				var s schema.CommitStatus
				if err := server.get(c.Context, nil, &s, "v1", "commits", id); err != nil {
					return err
				}
				names, err := server.names(c.Context)
				if err != nil {
					return err
				}
				return out.Describe(commitDetail(s, names))
			}
			var x statusapi.Explanation
			parts := strings.Split(id, "/")
			if kind, ok := schema.KindOfWord(parts[0]); ok && len(parts) > 2 { // KIND/ORG/WORKSPACE/NAME
				name, err := server.named(c.Context, kind, strings.Join(parts[1:], "/"))
				if err != nil {
					return err
				}
				parts = []string{parts[0], name}
			}
			path := append([]string{"v1", "explain"}, parts...)
			if err := server.get(c.Context, nil, &x, path...); err != nil {
				return err
			}
			names, err := server.names(c.Context)
			if err != nil {
				return err
			}
			return out.Describe(explainDetail(x, names))
		},
	}
}

// commitID tells a commit from everything else that can be explained.
func commitID(id string) bool {
	return len(id) == 40 && strings.Trim(id, "0123456789abcdef") == ""
}

func commitDetail(s schema.CommitStatus, names view.Names) view.Detail {
	objects := view.Table{Title: "Objects", Header: []string{"STATE", "KIND", "OBJECT", "FILE", "CODE", "MESSAGE"}}
	for _, o := range s.Objects {
		objects.Rows = append(objects.Rows, []string{string(o.State), o.Object.Kind.Word(), names.Name(o.Object), o.Pos.String(), string(o.Code), o.Message})
	}
	more := ""
	if s.More > 0 {
		more = fmt.Sprintf("%d more objects are not listed", s.More)
	}
	return view.Detail{
		Ref: s.Commit.ID, Value: s,
		Fields: []view.Field{
			{Name: "Commit", Value: s.Commit.ID}, {Name: "State", Value: string(s.State)}, {Name: "By", Value: s.Commit.By()},
			{Name: "Subject", Value: s.Commit.Subject}, {Name: "Time", Value: timeCell(&s.Commit.Time)}, {Name: "Note", Value: more},
		},
		Tables: []view.Table{objects},
	}
}

func explainDetail(x statusapi.Explanation, names view.Names) view.Detail {
	ref := x.Object.String()
	if x.Worker != "" {
		ref += "/" + x.Worker
	}
	fields := []view.Field{
		{Name: "Object", Value: names.Object(x.Object)}, {Name: "Worker", Value: x.Worker}, {Name: "Step", Value: x.Step},
		{Name: "State", Value: strings.Join(x.States, ", ")},
	}
	if a := x.Accepted; a != nil {
		fields = append(fields,
			view.Field{Name: "Declared in", Value: a.Pos.String()},
			view.Field{Name: "In force", Value: fmt.Sprintf("generation %d, uid %s", a.Generation, a.UID)},
			view.Field{Name: "Commit", Value: joinNonEmpty("; ", a.Commit.ID, a.Commit.By(), a.Commit.Subject)})
	} else {
		fields = append(fields, view.Field{Name: "In force", Value: "nothing"})
	}
	if r := x.Refused; r != nil {
		what := "the change"
		if r.Removal {
			what = "the removal"
		}
		fields = append(fields,
			view.Field{Name: "Held back", Value: fmt.Sprintf("%s of commit %s, %s: %s", what, view.Short(r.Commit), r.Pos, holdText(&r.Hold))},
			view.Field{Name: "It differs in", Value: strings.Join(r.Differs, ", ")})
	}
	var owns []string
	for _, key := range x.Owns {
		owns = append(owns, names.Object(key))
	}
	fields = append(fields, view.Field{Name: "Managed by", Value: names.Object(x.ManagedBy)}, view.Field{Name: "Owns", Value: strings.Join(owns, ", ")})
	return view.Detail{Ref: ref, Fields: fields, Value: x, Tables: explainTables(x, names)}
}

func explainTables(x statusapi.Explanation, names view.Names) []view.Table {
	places := view.Table{Title: "Placement", Header: []string{"RUN", "WORKER", "MACHINE", "STATE", "SINCE", "OUTCOME"}}
	for _, p := range x.Placements {
		outcome := ""
		if p.Outcome != nil {
			outcome = joinNonEmpty(" ", string(p.Outcome.State), p.Outcome.Reason)
		}
		places.Rows = append(places.Rows, []string{names.Name(p.Run), p.Worker, p.Machine, string(p.State), timeCell(&p.Since), outcome})
	}
	steps := view.Table{Title: "Steps", Header: []string{"STATE", "ID", "AFTER", "MACHINE", "ACTION", "KIND", "OBJECT", "WHY"}}
	for _, s := range x.Steps {
		var after []string
		for _, id := range s.After {
			after = append(after, shortID(id))
		}
		from := ""
		if s.Args.From != "" {
			from = "from " + s.Args.From
		}
		why := joinNonEmpty(" ", s.Args.Worker, s.Args.Path, from)
		steps.Rows = append(steps.Rows, []string{
			string(s.State), shortID(s.ID), strings.Join(after, ","), s.Machine, string(s.Action), s.Object.Kind.Word(), names.Name(s.Object), joinNonEmpty("; ", why, s.Why.Message),
		})
	}
	waits := view.Table{Title: "Waits", Header: []string{"RUN", "WORKER", "MACHINE", "CODE", "REASON"}}
	for _, w := range x.Waits {
		for _, r := range w.Reasons {
			machine := r.Machine
			if machine == "" {
				machine = strings.Join(r.Machines, ",")
			}
			waits.Rows = append(waits.Rows, []string{names.Name(w.Run), w.Worker, machine, string(r.Code), r.Message()})
		}
	}
	failures := view.Table{Title: "Failing steps", Header: []string{"MACHINE", "ACTION", "KIND", "OBJECT", "ATTEMPTS", "SINCE", "NEXT_AT", "MESSAGE"}}
	for _, f := range x.Failures {
		failures.Rows = append(failures.Rows, []string{
			f.Machine, string(f.Action), f.Object.Kind.Word(), names.Name(f.Object), fmt.Sprint(f.Attempts), timeCell(&f.Since), timeCell(&f.NextAt), f.Message,
		})
	}
	drift := view.Table{Title: "Drift", Header: []string{"MACHINE", "KIND", "OBJECT", "MESSAGE"}}
	for _, d := range x.Drift {
		drift.Rows = append(drift.Rows, []string{d.Machine, d.Object.Kind.Word(), names.Name(d.Object), d.Message})
	}
	events := view.Table{Title: "Events", Header: []string{"AT", "TYPE", "MACHINE", "MESSAGE"}}
	for _, e := range x.Events {
		events.Rows = append(events.Rows, []string{timeCell(&e.At), e.Type, e.Machine, e.Message})
	}
	return []view.Table{places, steps, waits, failures, drift, events}
}

// shortID is enough of a step's id to explain it by.
func shortID(id string) string { return id[:min(len(id), 8)] }
