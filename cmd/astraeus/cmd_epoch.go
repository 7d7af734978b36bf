package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc"

	"astraeus.io/astraeus/schema/link"
)

func epochCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "epoch",
		Usage: "say what a new epoch waits for, or begin it without that",
		Description: "After `serve --new-epoch` nothing is stopped, deleted or started before every machine has reported.\n" +
			"This says who has not. With --begin the epoch begins without them: what runs there is not known, and may be\n" +
			"started a second time elsewhere.",
		Flags: append(operatorFlags(),
			&cli.BoolFlag{Name: "begin", Usage: "do not wait for what is missing"}),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return env.operate(c, func(ctx context.Context, conn *grpc.ClientConn) error {
				begin := c.Bool("begin")
				reply, err := link.Epoch(ctx, conn, begin)
				if err != nil {
					return err
				}
				text := "epoch %d of %d machines waits for:\n"
				if begin {
					text = "epoch %d of %d machines begins without:\n"
				}
				if len(reply.Missing) == 0 {
					text = "epoch %d of %d machines waits for nothing\n"
				}
				fmt.Fprintf(env.stdout, text, reply.Epoch, reply.Machines)
				for _, line := range reply.Missing {
					fmt.Fprintln(env.stdout, "  "+line)
				}
				return nil
			})
		},
	}
}
