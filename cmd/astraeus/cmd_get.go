package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
)

// lister reads one kind of thing from a status API.
type lister struct {
	list func(context.Context, *client) (view.Listing, error)
	// one is the detail of the named thing; nil when there is nothing more to say.
	one func(context.Context, *client, string) (view.Detail, error)
}

// listers by the word that get and describe take. Kinds that are not here are
// read from /v1/accepted.
var listers = map[string]lister{
	"drives":   {listDrives, oneDrive},
	"runs":     {listRuns, oneRun},
	"machines": {listMachines, oneMachine},
	"volumes":  {listVolumes, oneVolume},
	"mounts":   {listMounts, nil},
	"events":   {listEvents, nil},
}

// listerOf takes kinds as people write them: singular, plural, and the
// documents' other names.
func listerOf(word string) (lister, error) {
	switch strings.ToLower(word) {
	case "mount", "mounts", "claim", "claims", "datavolume-claims":
		return listers["mounts"], nil
	case "event", "events":
		return listers["events"], nil
	}
	kind, ok := schema.KindOfWord(word)
	if !ok {
		return lister{}, unknownWord("kind", word, suggestion(word, kindWords()))
	}
	if l, ok := listers[kind.Word()+"s"]; ok {
		return l, nil
	}
	return acceptedLister(kind), nil
}

func kindWords() []string {
	words := slices.Collect(maps.Keys(listers))
	for _, kind := range schema.Kinds {
		if word := kind.Word() + "s"; !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return words
}

func outputFlag(value string, formats []string) cli.Flag {
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Value: value,
		Usage: "`FORMAT` of the result: " + strings.Join(formats, ", "),
	}
}

func workspaceFlag() cli.Flag {
	return &cli.StringFlag{Name: "workspace", Aliases: []string{"w"}, Usage: "only objects of the workspace `ORG/NAME`"}
}

func getCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "list objects and what they are doing",
		ArgsUsage: "KIND [NAME]",
		Flags:     []cli.Flag{serverFlag(), outputFlag("table", view.ReadFormats), workspaceFlag()},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) == 1 && strings.Contains(args[0], "/") {
				kind, name, _ := strings.Cut(args[0], "/")
				args = []string{kind, name}
			}
			if len(args) == 0 || len(args) > 2 {
				return fmt.Errorf("get takes a kind and perhaps a name; kinds: %s", strings.Join(kindWords(), ", "))
			}
			l, err := listerOf(args[0])
			if err != nil {
				return err
			}
			out, err := view.NewList(c.String("output"), env.out(c))
			if err != nil {
				return err
			}
			server, err := env.server(c)
			if err != nil {
				return err
			}
			listing, err := l.list(c.Context, server)
			if err != nil {
				return err
			}
			if listing, err = narrow(listing, c.String("workspace"), args[1:]); err != nil {
				return err
			}
			return out.List(listing)
		},
	}
}

// narrow keeps the rows of a workspace and of a name. Rows and items correspond.
func narrow(l view.Listing, workspace string, name []string) (view.Listing, error) {
	if workspace == "" && len(name) == 0 {
		return l, nil
	}
	keep := func(row view.Row) bool {
		if workspace != "" && (len(row.Cells) == 0 || row.Cells[0] != workspace) {
			return false
		}
		return len(name) == 0 || refNamed(row.Ref, name[0])
	}
	items, ok := l.Value.(items)
	if !ok {
		return l, errors.New("this kind cannot be narrowed")
	}
	out := view.Listing{Columns: l.Columns, Empty: l.Empty}
	kept := items.none()
	for i, row := range l.Rows {
		if keep(row) {
			out.Rows = append(out.Rows, row)
			kept = kept.with(items, i)
		}
	}
	if len(name) > 0 && len(out.Rows) == 0 {
		return l, fmt.Errorf("%q not found", name[0])
	}
	out.Value = kept
	return out, nil
}

// refNamed compares "drive/ws-….x" with "x", "ws-….x" or the whole.
func refNamed(ref, name string) bool {
	if ref == name {
		return true
	}
	_, scoped, _ := strings.Cut(ref, "/")
	_, local, _ := strings.Cut(scoped, ".")
	return scoped == name || local == name
}

func describeCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "describe",
		Usage:     "show one object at length",
		ArgsUsage: "KIND/NAME",
		Flags:     []cli.Flag{serverFlag(), outputFlag("table", view.ReadFormats)},
		Action: func(c *cli.Context) error {
			kind, name, err := kindAndName(c.Args().Slice())
			if err != nil {
				return err
			}
			l, err := listerOf(kind)
			if err != nil {
				return err
			}
			if l.one == nil {
				return fmt.Errorf("there is nothing more to say about one of the %s; use get", kind)
			}
			out, err := view.NewDescribe(c.String("output"), env.out(c))
			if err != nil {
				return err
			}
			server, err := env.server(c)
			if err != nil {
				return err
			}
			detail, err := l.one(c.Context, server, name)
			if err != nil {
				return err
			}
			return out.Describe(detail)
		},
	}
}

func kindAndName(args []string) (kind, name string, err error) {
	if len(args) == 1 {
		kind, name, _ = strings.Cut(args[0], "/")
	} else if len(args) == 2 {
		kind, name = args[0], args[1]
	}
	if kind == "" || name == "" {
		return "", "", errors.New("give one object as KIND/NAME, for example drive/imagenet")
	}
	return kind, name, nil
}
