package main

import (
	"errors"

	"github.com/urfave/cli/v2"
)

func serveCommand(env *environment) *cli.Command {
	return &cli.Command{Name: "serve", Usage: "reconcile a cluster with a branch, continuously",
		Action: func(c *cli.Context) error { return errors.New("serve is not built in yet") }}
}
