package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
)

func resolveCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "resolve",
		Usage:     "say what a name is answered with, and why not",
		ArgsUsage: "NAME",
		Description: "NAME is looked up as a worker or a machine would: a worker's short names by its search list, a machine's as they are.\n" +
			"It is computed from what the controller knows; a machine that is away answers from the zone that it last got.",
		Flags: []cli.Flag{
			serverFlag(), outputFlag("table", view.ReadFormats),
			&cli.StringFlag{Name: "from", Required: true, Usage: "`MACHINE|WORKER` that asks: gpu-01, train-0, or ORG/WORKSPACE/WORKER where several have the name"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || c.Args().First() == "" {
				return errors.New("give one name to look up, for example train-0")
			}
			out, server, err := reading(env, c, view.NewDescribe)
			if err != nil {
				return err
			}
			spaces, err := server.names(c.Context)
			if err != nil {
				return err
			}
			v, err := server.look(c.Context)
			if err != nil {
				return err
			}
			r, err := v.Resolve(c.Args().First(), scopedWorker(c.String("from"), spaces))
			if err != nil {
				return err
			}
			return out.Describe(resolveDetail(r, spaces))
		},
	}
}

// scopedWorker takes ORG/WORKSPACE/WORKER to the namespace's.
func scopedWorker(from string, spaces view.Names) string {
	at := strings.LastIndex(from, "/")
	if at < 0 {
		return from
	}
	for _, ns := range slices.Sorted(maps.Keys(spaces)) {
		if spaces[ns] == from[:at] {
			return ns + "." + from[at+1:]
		}
	}
	return from
}

func resolveDetail(r planner.Resolution, spaces view.Names) view.Detail {
	asker, server := "machine "+r.Machine, r.Server
	if r.Worker != "" {
		asker = fmt.Sprintf("worker %s on %s", spaces.Scoped(r.Worker), r.Machine)
	}
	if server == "" {
		server = "the resolver of machine " + r.Machine
	}
	tried := view.Table{Title: "Tried", Header: []string{"NAME", "RESULT", "ADDRESSES", "WHY"}}
	for _, t := range r.Tried {
		tried.Rows = append(tried.Rows, []string{t.Name, t.Result, strings.Join(t.Addresses, ","), t.Why})
	}
	return view.Detail{Ref: r.Name, Value: r, Tables: []view.Table{tried}, Fields: []view.Field{
		{Name: "Name", Value: r.Name}, {Name: "From", Value: asker}, {Name: "Asks", Value: server}, {Name: "Result", Value: r.Result},
		{Name: "Addresses", Value: strings.Join(r.Addresses, ", ")}, {Name: "Why", Value: r.Why},
	}}
}
