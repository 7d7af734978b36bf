package main

import (
	"errors"

	"github.com/urfave/cli/v2"
)

func applyCommand(env *environment) *cli.Command {
	return &cli.Command{Name: "apply", Usage: "bring a commit into force and wait until the cluster has converged",
		Action: func(c *cli.Context) error { return errors.New("apply is not built in yet") }}
}
