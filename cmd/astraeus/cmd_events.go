package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
)

// followEvery is how often --follow asks for what is new.
const followEvery = time.Second

// followOverlap is how far back it asks again: events of one pass are not
// written in the order of their stamps.
const followOverlap = time.Minute

func eventsCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "list what happened, to one object or to all",
		ArgsUsage: "[KIND/NAME]",
		Flags: []cli.Flag{
			serverFlag(), outputFlag("table", view.ReadFormats),
			&cli.StringFlag{Name: "since", Usage: "only events since `TIME`: 10m ago, or 2026-01-02T15:04:05Z"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with events as they happen, until Ctrl-C (table, json or name)"},
		},
		Action: func(c *cli.Context) error {
			query, err := eventsQuery(c, time.Now())
			if err != nil {
				return err
			}
			out, server, err := reading(env, c, view.NewList)
			if err != nil {
				return err
			}
			if word, name, ok := strings.Cut(query.Get("object"), "/"); ok {
				kind, _ := schema.KindOfWord(word) // eventsQuery knows it
				if name, err = server.named(c.Context, kind, name); err != nil {
					return err
				}
				query.Set("object", word+"/"+name)
			}
			if c.Bool("follow") {
				names, err := server.names(c.Context)
				if err != nil {
					return err
				}
				emit, err := env.emitter(c, names)
				if err != nil {
					return err
				}
				return follow(c.Context, server, query, followEvery, emit)
			}
			events, err := all[schema.Event](c.Context, server, query, "v1", "events")
			if err != nil {
				return err
			}
			names, err := server.names(c.Context)
			if err != nil {
				return err
			}
			listing, err := eventsListing(events, names)
			if err != nil {
				return err
			}
			return out.List(listing)
		},
	}
}

func eventsQuery(c *cli.Context, now time.Time) (url.Values, error) {
	query := url.Values{}
	if c.Args().Present() {
		kind, name, err := objectArgument(c.Args().Slice())
		if err != nil {
			return nil, err
		}
		query.Set("object", kind.Word()+"/"+name)
	}
	if text := c.String("since"); text != "" {
		at, err := sinceTime(text, now)
		if err != nil {
			return nil, err
		}
		query.Set("since", at.UTC().Format(time.RFC3339Nano))
	}
	return query, nil
}

// sinceTime reads a time, or how long ago it was.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--since %q: want a time like 2026-01-02T15:04:05Z, or how long ago, like 10m", text)
	}
	return at, nil
}

func eventsListing(events []schema.Event, names view.Names) (view.Listing, error) {
	value, err := itemsOf(events)
	l := view.Listing{Columns: eventColumns, Value: value, Empty: "no events"}
	for _, e := range events {
		l.Rows = append(l.Rows, eventRow(e, names))
	}
	return l, err
}

var eventColumns = []view.Column{{Name: "AT"}, {Name: "TYPE"}, {Name: "KIND"}, {Name: "OBJECT"}, {Name: "MACHINE"}, {Name: "COMMIT", Wide: true}, {Name: "MESSAGE"}}

func eventRow(e schema.Event, names view.Names) view.Row {
	message := e.Message
	if e.Count > 1 {
		message += fmt.Sprintf(" (%d times)", e.Count)
	}
	return view.Row{Ref: e.Object.String(), Workspace: names[e.Object.Namespace], Cells: []string{
		timeCell(&e.At), e.Type, e.Object.Kind.Word(), names.Name(e.Object), e.Machine, view.Short(e.Commit), message,
	}}
}

// emitter writes one event a line.
func (e *environment) emitter(c *cli.Context, names view.Names) (func(schema.Event) error, error) {
	out := e.out(c)
	switch format := c.String("output"); format {
	case "json":
		enc := json.NewEncoder(out)
		return func(ev schema.Event) error { return enc.Encode(ev) }, nil
	case "name":
		return func(ev schema.Event) error { _, err := fmt.Fprintln(out, view.Plain(ev.Object.String())); return err }, nil
	case "table", "wide":
		return func(ev schema.Event) error {
			cells := eventRow(ev, names).Cells
			for i := range cells {
				if cells[i] = view.Plain(cells[i]); cells[i] == "" {
					cells[i] = "-"
				}
			}
			if format == "table" {
				cells = append(cells[:5:5], cells[6])
			}
			_, err := fmt.Fprintln(out, strings.Join(cells, "  "))
			return err
		}, nil
	default:
		return nil, fmt.Errorf("--follow writes table, json or name, not %s", format)
	}
}

// follow emits events until the context ends, whose error it returns. A server
// that is away for a while is asked again; one that never answered is an error.
func follow(ctx context.Context, server *client, query url.Values, every time.Duration, emit func(schema.Event) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	start, _ := time.Parse(time.RFC3339Nano, query.Get("since")) // the zero time when there is none
	seen := map[schema.Event]bool{}
	answered := false
	var newest, since time.Time
	for {
		query.Del("continue")
		events, err := all[schema.Event](ctx, server, query, "v1", "events")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !answered {
			return err
		}
		answered = true
		for _, e := range events {
			e.At = e.At.UTC()
			if seen[e] {
				continue
			}
			seen[e] = true
			if e.At.After(newest) {
				newest = e.At
			}
			if err := emit(e); err != nil {
				return err
			}
		}
		if from := newest.Add(-followOverlap); from.After(since) && from.After(start) {
			since = from
			query.Set("since", from.Format(time.RFC3339Nano))
			for e := range seen {
				if e.At.Before(from) {
					delete(seen, e)
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
