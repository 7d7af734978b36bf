package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	apitoken "astraeus.io/astraeus/statusapi/token"
)

// tokenLife is how long a token is valid when nobody says otherwise.
const tokenLife = 90 * 24 * time.Hour

func tokenCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "token",
		Usage: "make, list and revoke tokens for the status API",
		Subcommands: []*cli.Command{
			{
				Name:  "create",
				Usage: "print a new token, once, and add its hash to the file that serve reads",
				Description: "A member sees its own runs and volumes, a viewer, editor or admin all of its workspaces, an org-admin its org,\n" +
					"and a cluster-reader everything, which plan --server needs. Where a workspace lists its members, the user's role there\n" +
					"counts, and the token's role is the most that it gives.",
				Flags: []cli.Flag{
					tokensFlag(),
					&cli.StringFlag{Name: "role", Required: true, Usage: "what it lets its bearer see, a `ROLE`: " + roleNames()},
					&cli.StringFlag{Name: "org", Usage: "the `ORG` that it is for"},
					&cli.StringSliceFlag{Name: "workspace", Aliases: []string{"w"}, Usage: "a `NAME` of a workspace of the org (repeatable)"},
					&cli.StringFlag{Name: "user", Usage: "the `USER` who bears it"},
					&cli.DurationFlag{Name: "expires", Value: tokenLife, Usage: "valid for `DURATION`; 0 for ever"},
				},
				Action: func(c *cli.Context) error { return env.createToken(c, time.Now()) },
			},
			{
				Name: "list", Usage: "list tokens: what they let see, never the tokens",
				Flags:  []cli.Flag{tokensFlag(), outputFlag("table", view.ReadFormats)},
				Action: func(c *cli.Context) error { return env.listTokens(c, time.Now()) },
			},
			{
				Name: "revoke", Usage: "take tokens out of the file: they are refused from then on", ArgsUsage: "ID...",
				Flags:  []cli.Flag{tokensFlag()},
				Action: env.revokeTokens,
			},
		},
	}
}

func tokensFlag() cli.Flag {
	return &cli.StringFlag{Name: "tokens", Required: true, Usage: "the `FILE` that is given to serve --tokens"}
}

func roleNames() string {
	words := make([]string, len(apitoken.Roles))
	for i, r := range apitoken.Roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

func (e *environment) createToken(c *cli.Context, now time.Time) error {
	if err := noArgs(c); err != nil {
		return err
	}
	entry := apitoken.Entry{
		Role: apitoken.Role(c.String("role")), Org: c.String("org"), Workspaces: c.StringSlice("workspace"), User: c.String("user"),
		Created: now.UTC().Truncate(time.Second),
	}
	switch life := c.Duration("expires"); {
	case life < 0:
		return errors.New("--expires is negative")
	case life > 0:
		entry.Expires = entry.Created.Add(life)
	}
	secret, entry, err := apitoken.New(entry)
	if err != nil {
		return err
	}
	add := func(list []apitoken.Entry) ([]apitoken.Entry, error) { return append(list, entry), nil }
	if err := apitoken.Update(c.String("tokens"), add); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "token %s: it is shown once, keep it in a file that only its bearer reads\n", entry.ID)
	_, err = fmt.Fprintln(e.stdout, secret.Reveal())
	return err
}

// tokenRow is a token for programs: all but its hash.
type tokenRow struct {
	ID         string        `json:"id"`
	Role       apitoken.Role `json:"role"`
	Org        string        `json:"org,omitempty"`
	Workspaces []string      `json:"workspaces,omitempty"`
	User       string        `json:"user,omitempty"`
	Created    time.Time     `json:"created,omitzero"`
	Expires    time.Time     `json:"expires,omitzero"`
	Expired    bool          `json:"expired"`
}

func (e *environment) listTokens(c *cli.Context, now time.Time) error {
	if err := noArgs(c); err != nil {
		return err
	}
	out, err := view.NewList(c.String("output"), e.out(c))
	if err != nil {
		return err
	}
	entries, err := apitoken.Read(c.String("tokens"))
	if err != nil {
		return err
	}
	rows := make([]tokenRow, len(entries))
	l := view.Listing{Empty: "no tokens", Columns: []view.Column{
		{Name: "ID"}, {Name: "ROLE"}, {Name: "ORG"}, {Name: "WORKSPACES"}, {Name: "USER"}, {Name: "EXPIRES"}, {Name: "CREATED", Wide: true},
	}}
	for i, t := range entries {
		rows[i] = tokenRow{t.ID, t.Role, t.Org, t.Workspaces, t.User, t.Created, t.Expires, t.Expired(now)}
		expires := "never"
		if !t.Expires.IsZero() {
			expires = timeCell(&t.Expires)
		}
		if t.Expired(now) {
			expires += " (expired)"
		}
		l.Rows = append(l.Rows, view.Row{Ref: "token/" + t.ID, Cells: []string{
			t.ID, string(t.Role), t.Org, strings.Join(t.Workspaces, ","), t.User, expires, timeCell(&t.Created),
		}})
	}
	if l.Value, err = itemsOf(rows); err != nil {
		return err
	}
	return out.List(l)
}

func (e *environment) revokeTokens(c *cli.Context) error {
	ids := c.Args().Slice()
	if len(ids) == 0 {
		return errors.New("give the ids of the tokens to revoke; token list shows them")
	}
	err := apitoken.Update(c.String("tokens"), func(list []apitoken.Entry) ([]apitoken.Entry, error) {
		for _, id := range ids {
			i := slices.IndexFunc(list, func(t apitoken.Entry) bool { return t.ID == id })
			if i < 0 {
				return nil, fmt.Errorf("no token has the id %q; nothing was revoked", id)
			}
			list = slices.Delete(list, i, i+1)
		}
		return list, nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%d token(s) revoked\n", len(ids))
	return err
}
