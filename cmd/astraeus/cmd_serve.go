package main

import (
	"time"

	"github.com/urfave/cli/v2"
)

// defaultStatusAddress is where serve answers and the reading commands ask by
// their own --server.
const defaultStatusAddress = "127.0.0.1:7600"

func serveCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "reconcile a cluster with a branch, continuously",
		Flags: append(controllerFlags("info"),
			&cli.StringFlag{Name: "status", Value: defaultStatusAddress, Usage: "serve the status API on `ADDRESS`; beyond loopback it needs TLS and tokens"},
			&cli.StringFlag{Name: "status-cert", Usage: "the status API's certificate, PEM `FILE`; read again when it changes"},
			&cli.StringFlag{Name: "status-key", Usage: "its key, PEM `FILE`"},
			&cli.StringFlag{Name: "tokens", Usage: "let callers in by the tokens in `FILE` (astraeus token create); read again when it changes"},
			&cli.DurationFlag{Name: "poll", Value: 30 * time.Second, Usage: "look for new commits every `DURATION`"},
		),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return env.serve(c)
		},
	}
}

// controllerFlags are what serve and apply have in common.
func controllerFlags(logLevel string) []cli.Flag {
	return []cli.Flag{
		repoFlag(), refFlag("follow the branch or tag `REF`; default is the checked-out branch"),
		&cli.StringFlag{Name: "state", Usage: "keep the store in `DIR`"},
		&cli.StringFlag{Name: "cluster", Usage: "`NAME` of the cluster; default is the one that the repository declares"},
		&cli.StringSliceFlag{Name: "etcd", Usage: "use the etcd at `URL` (repeatable) instead of an embedded one"},
		&cli.StringFlag{Name: "etcd-ca", Usage: "certificate authorities of etcd's servers, PEM `FILE`"},
		&cli.StringFlag{Name: "etcd-cert", Usage: "client certificate for etcd, PEM `FILE`"},
		&cli.StringFlag{Name: "etcd-key", Usage: "its key, PEM `FILE`"},
		&cli.BoolFlag{Name: "new-epoch", Usage: "begin a new epoch: for a store that was lost or restored; nothing is stopped or deleted before every machine has reported"},
		&cli.StringFlag{Name: "link-socket", Usage: "serve machines on the unix socket `PATH`; default is link.sock in the state directory"},
		&cli.StringFlag{Name: "link", Usage: "serve machines on the TCP `ADDRESS`, with mutual TLS"},
		&cli.StringFlag{Name: "link-ca", Usage: "certificate authorities of machines, PEM `FILE`"},
		&cli.StringFlag{Name: "link-cert", Usage: "the controller's certificate, PEM `FILE`"},
		&cli.StringFlag{Name: "link-key", Usage: "its key, PEM `FILE`"},
		&cli.StringFlag{Name: "advertise", Usage: "`ADDRESS` at which machines reach this controller; default is --link"},
		&cli.StringFlag{Name: "log-level", Value: logLevel, Usage: "least `LEVEL` of the log: debug, info, warn or error"},
	}
}
