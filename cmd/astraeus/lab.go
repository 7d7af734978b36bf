package main

import (
	"time"

	"github.com/urfave/cli/v2"
)

func labCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "lab",
		Usage: "run the whole cluster of a repository on this computer, without root",
		Description: "Starts a controller and one agent for each machine of the repository, in namespaces of their own.\n" +
			"Prints the plan, progress, what workers print, and what came of it; follows edits of the files until Ctrl-C.\n" +
			"With --once it ends when nothing more comes by itself; the last line says what is not reached, and why.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "repo", Value: ".", Usage: "the `DIR` whose files are desired"},
			&cli.StringFlag{Name: "dir", Usage: "the `DIR` that holds all that the lab makes; default .lab, or a place in the state folder when that would lie in the repository"},
			&cli.BoolFlag{Name: "once", Usage: "end when everything is reached"},
			&cli.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "how long --once may take; 0 is for ever"},
			&cli.StringFlag{Name: "status", Value: "127.0.0.1:0", Usage: "loopback `ADDRESS` of the status API"},
			&cli.StringFlag{Name: "log-level", Value: "warn", Usage: "`LEVEL` of the controller's log: debug, info, warn, error"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return env.lab(c)
		},
	}
}
