package main

import (
	"github.com/urfave/cli/v2"
)

func applyCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "apply",
		Usage: "bring a commit into force and wait until the cluster has converged",
		Description: "apply leads the cluster for as long as it runs, and is refused while serve does.\n" +
			"The first Ctrl-C lets the steps that machines were told to do finish; the second stops at once.",
		Flags: append(controllerFlags("warn"),
			outputFlag("table", []string{"table", "json"}),
			&cli.DurationFlag{Name: "timeout", Usage: "stop waiting after `DURATION` (exit code 6); 0 waits for ever"},
			&cli.BoolFlag{Name: "auto-approve", Usage: "delete data without asking; the deletion budget still holds"},
		),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return env.apply(c)
		},
	}
}
