package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

func statusCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "sum up what the cluster is doing",
		Flags: []cli.Flag{serverFlag(), outputFlag("table", view.ReadFormats)},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			out, server, err := reading(env, c, view.NewDescribe)
			if err != nil {
				return err
			}
			var s statusapi.Status
			if err := server.get(c.Context, nil, &s, "v1", "status"); err != nil {
				return err
			}
			var p statusapi.Plan
			if err := server.get(c.Context, nil, &p, "v1", "plan"); err != nil {
				return err
			}
			names, err := server.names(c.Context)
			if err != nil {
				return err
			}
			return out.Describe(statusDetail(s, p, names))
		},
	}
}

// statusValue is a status for programs, with what is held and waits.
type statusValue struct {
	statusapi.Status
	HeldBack []schema.Hold `json:"held_back"`
	Waiting  []schema.Wait `json:"waiting"`
}

// mostNamed is how many holds and waits status names.
const mostNamed = 20

func statusDetail(s statusapi.Status, p statusapi.Plan, names view.Names) view.Detail {
	ready := "yes"
	if !s.Ready {
		ready = joinNonEmpty(": ", "no", strings.Join(s.Reasons, "; "))
	}
	head := view.Short(s.Head)
	if s.Head != s.Commit {
		head += " (newest " + view.Short(s.Commit) + ")"
	}
	return view.Detail{
		Ref: "cluster/" + s.Cluster, Value: statusValue{s, p.Holds, p.Waits},
		Fields: []view.Field{
			{Name: "Cluster", Value: s.Cluster}, {Name: "Ready", Value: ready}, {Name: "Commit", Value: head},
			{Name: "Machines", Value: counts(s.Machines)}, {Name: "Runs", Value: counts(s.Runs)}, {Name: "Objects", Value: counts(s.Objects)},
			{Name: "Steps", Value: fmt.Sprintf("%d pending", s.Pending)}, {Name: "Waits", Value: fmt.Sprint(s.Waits)},
			{Name: "Held back", Value: fmt.Sprint(s.Holds)}, {Name: "Errors", Value: fmt.Sprint(s.Errors)},
		},
		Tables: []view.Table{holdsTable(p.Holds, names), waitsTable(p.Waits, names)},
	}
}

func holdsTable(holds []schema.Hold, names view.Names) view.Table {
	t := view.Table{Title: "Held back", Header: []string{"KIND", "OBJECT", "CODE", "FILE", "WHY"}}
	for i, h := range holds {
		if i == mostNamed {
			t.Rows = append(t.Rows, []string{"", "", "", "", fmt.Sprintf("and %d more; -o json has all", len(holds)-i)})
			break
		}
		t.Rows = append(t.Rows, []string{h.Object.Kind.Word(), names.Name(h.Object), string(h.Code), h.Pos.String(), h.Message})
	}
	return t
}

func waitsTable(waits []schema.Wait, names view.Names) view.Table {
	t := view.Table{Title: "Waiting", Header: []string{"RUN", "WORKER", "WHY"}}
	for i, w := range waits {
		if i == mostNamed {
			t.Rows = append(t.Rows, []string{"", "", fmt.Sprintf("and %d more; -o json has all", len(waits)-i)})
			break
		}
		t.Rows = append(t.Rows, []string{names.Name(w.Run), w.Worker, w.Summary()})
	}
	return t
}

// counts is "3 Up, 1 Down", in the order of the words.
func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[name], name))
		}
	}
	return strings.Join(parts, ", ")
}
