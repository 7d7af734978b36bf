package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func applyCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "bring a commit into force and wait until the cluster has converged",
		ArgsUsage: "[PLAN]",
		Description: "PLAN is a file that plan --out saved: its commit is applied if nothing that the plan depends on has moved since\n" +
			"(exit code 4 says what has), and once only. Without it, the commit at --ref is.\n" +
			"apply leads the cluster for as long as it runs, and is refused while serve does.\n" +
			"Where serve runs and asks for approval, apply approves the commit instead.\n" +
			"The first Ctrl-C lets the steps that machines were told to do finish; the second stops at once.",
		Flags: append(controllerFlags("warn"),
			outputFlag("table", []string{"table", "json"}),
			&cli.DurationFlag{Name: "timeout", Usage: "stop waiting after `DURATION` (exit code 6); 0 waits for ever"},
			&cli.BoolFlag{Name: "auto-approve", Usage: "delete data without asking; the deletion budget still holds"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return fmt.Errorf("apply takes one saved plan, got also %q", c.Args().Get(1))
			}
			return env.apply(c)
		},
	}
}
