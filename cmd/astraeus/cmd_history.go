package main

import (
	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
)

func historyCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "history",
		Usage:     "list what became of an object: commits, holds, approvals, placements, evictions",
		ArgsUsage: "KIND/NAME",
		Description: "The audit log is kept longer than events and outlives its object, which is then named KIND/NAMESPACE.NAME.\n" +
			"Approvals are in the history of the cluster. Authors are what commits say; nobody has verified them.",
		Flags: []cli.Flag{serverFlag(), outputFlag("table", view.ReadFormats)},
		Action: func(c *cli.Context) error {
			kind, name, err := objectArgument(c.Args().Slice())
			if err != nil {
				return err
			}
			out, server, err := reading(env, c, view.NewList)
			if err != nil {
				return err
			}
			if name, err = server.named(c.Context, kind, name); err != nil {
				return err
			}
			records, err := all[schema.Record](c.Context, server, nil, "v1", "objects", kind.Word(), name, "history")
			if err != nil {
				return err
			}
			listing, err := historyListing(records)
			if err != nil {
				return err
			}
			return out.List(listing)
		},
	}
}

// objectArgument reads KIND/NAME, or KIND NAME, and refuses unknown kinds (G-2).
func objectArgument(args []string) (kind schema.Kind, name string, err error) {
	word, name, err := kindAndName(args)
	if err != nil {
		return "", "", err
	}
	kind, ok := schema.KindOfWord(word)
	if !ok {
		return "", "", unknownWord("kind", word, suggestion(word, kindWords()))
	}
	return kind, name, nil
}

func historyListing(records []schema.Record) (view.Listing, error) {
	value, err := itemsOf(records)
	l := view.Listing{
		Value: value, Empty: "nothing is recorded",
		Columns: []view.Column{
			{Name: "AT"}, {Name: "TYPE"}, {Name: "GENERATION"}, {Name: "COMMIT"}, {Name: "MACHINE"}, {Name: "UID", Wide: true}, {Name: "MESSAGE"},
		},
	}
	for _, r := range records {
		generation := ""
		if r.Generation > 0 {
			generation = numberCell(&r.Generation)
		}
		by := ""
		if r.By != "" {
			by = "by " + r.By
		}
		l.Rows = append(l.Rows, view.Row{Ref: r.Object.String(), Cells: []string{
			timeCell(&r.At), string(r.Type), generation, view.Short(r.Commit.ID), r.Machine, r.UID,
			joinNonEmpty("; ", string(r.Code), r.Message, by, joinNonEmpty(": ", r.Commit.By(), r.Commit.Subject)),
		}})
	}
	return l, err
}
