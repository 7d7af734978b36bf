package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
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

	"endpoints": {listEndpoints, oneEndpoint},
	"names":     {listNames, nil},
}

// listerOf takes kinds as people write them: singular, plural, and the
// documents' other names.
func listerOf(word string) (lister, error) {
	switch strings.ToLower(word) {
	case "mount", "mounts", "claim", "claims", "datavolume-claims":
		return listers["mounts"], nil
	case "event", "events":
		return listers["events"], nil
	case "name", "names":
		return listers["names"], nil
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
	return &cli.StringFlag{Name: "workspace", Aliases: []string{"w"}, Usage: "only what is in the workspace `ORG/NAME`, or NAME where one org has it"}
}

func getCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "list objects and what they are doing",
		ArgsUsage: "KIND [NAME]",
		Flags:     []cli.Flag{serverFlag(), outputFlag("table", view.ReadFormats), workspaceFlag()},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) == 1 && strings.Contains(args[0], "/") { // KIND/NAME
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
			out, server, err := reading(env, c, view.NewList)
			if err != nil {
				return err
			}
			listing, err := l.list(c.Context, server)
			if err != nil {
				return err
			}
			wanted, err := env.wanted(c, server, args)
			if err != nil {
				return err
			}
			if listing, err = narrow(listing, wanted); err != nil {
				return err
			}
			return out.List(listing)
		},
	}
}

// wanted is which rows of a listing are asked for: those of a workspace, and of a
// name; "" for all.
type wanted struct{ kind, workspace, name string }

func (e *environment) wanted(c *cli.Context, server *client, args []string) (w wanted, err error) {
	w.kind = args[0]
	if c.IsSet("workspace") {
		if w.workspace, err = server.workspace(c.Context, c.String("workspace")); err != nil {
			return w, err
		}
	}
	if len(args) > 1 {
		w.name = args[1]
		if kind, ok := schema.KindOfWord(w.kind); ok {
			w.name, err = server.named(c.Context, kind, w.name)
		}
	}
	return w, err
}

// narrow keeps the rows that are wanted. Rows and items correspond.
func narrow(l view.Listing, w wanted) (view.Listing, error) {
	if w.workspace == "" && w.name == "" {
		return l, nil
	}
	if kind, ok := schema.KindOfWord(w.kind); ok && w.workspace != "" && !kind.InWorkspace() {
		return l, fmt.Errorf("a %s is in no workspace: leave --workspace out", kind.Word())
	}
	items, ok := l.Value.(items)
	if !ok {
		return l, errors.New("this kind cannot be narrowed")
	}
	out := view.Listing{Columns: l.Columns, Empty: l.Empty}
	kept := items.none()
	for i, row := range l.Rows {
		if (w.workspace == "" || row.Workspace == w.workspace) && (w.name == "" || refNamed(row.Ref, w.name)) {
			out.Rows = append(out.Rows, row)
			kept = kept.with(items, i)
		}
	}
	if w.name != "" && len(out.Rows) == 0 {
		return l, fmt.Errorf("%q not found", w.name)
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
			out, server, err := reading(env, c, view.NewDescribe)
			if err != nil {
				return err
			}
			known, _ := schema.KindOfWord(kind) // listerOf knows it
			if name, err = server.named(c.Context, known, name); err != nil {
				return err
			}
			detail, err := l.one(c.Context, server, name)
			if err != nil {
				return err
			}
			if detail, err = withEvents(c.Context, server, detail); err != nil {
				return err
			}
			return out.Describe(detail)
		},
	}
}

// eventsOfOne is how many of an object's events describe shows, the newest.
const eventsOfOne = 10

func withEvents(ctx context.Context, server *client, detail view.Detail) (view.Detail, error) {
	events, err := all[schema.Event](ctx, server, url.Values{"object": {detail.Ref}}, "v1", "events")
	if err != nil {
		return detail, err
	}
	table := view.Table{Title: "Events", Header: []string{"AT", "TYPE", "MACHINE", "MESSAGE"}}
	for _, e := range events[max(0, len(events)-eventsOfOne):] {
		table.Rows = append(table.Rows, []string{timeCell(&e.At), e.Type, e.Machine, e.Message})
	}
	detail.Tables = append(detail.Tables, table)
	return detail, nil
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
