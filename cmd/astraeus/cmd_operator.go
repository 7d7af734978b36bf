package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema/link"
)

// operatorTimeout bounds a call: an approval waits for one write.
const operatorTimeout = 30 * time.Second

func operatorFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "state", Usage: "find the controller's socket in its state directory `DIR`"},
		&cli.StringFlag{Name: "link-socket", Usage: "the controller's unix socket `PATH`; default is link.sock in the state directory"},
		&cli.StringFlag{Name: "link", Usage: "the leading controller's TCP `ADDRESS`, with an operator's certificate"},
		&cli.StringFlag{Name: "link-ca", Usage: "certificate authorities of the controller, PEM `FILE`"},
		&cli.StringFlag{Name: "link-cert", Usage: "the operator's certificate, PEM `FILE`"},
		&cli.StringFlag{Name: "link-key", Usage: "its key, PEM `FILE`"},
	}
}

func approveCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "let a commit through where the cluster asks for it (sync: approve)",
		ArgsUsage: "COMMIT",
		Description: "COMMIT is the id of the newest commit, its first seven digits or more; status names it while it waits.\n" +
			"The controller is asked on its own unix socket, or with an operator's certificate at --link.",
		Flags: operatorFlags(),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("give one commit to approve")
			}
			return env.operate(c, func(ctx context.Context, conn *grpc.ClientConn) error {
				commit, err := link.Approve(ctx, conn, c.Args().First())
				if err == nil {
					_, err = fmt.Fprintln(env.stdout, "approved", commit)
				}
				return err
			})
		},
	}
}

func syncCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "sync",
		Usage: "have the controller look for new commits now",
		Flags: operatorFlags(),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return env.operate(c, func(ctx context.Context, conn *grpc.ClientConn) error { return link.Sync(ctx, conn) })
		},
	}
}

// operate calls the leading controller.
func (e *environment) operate(c *cli.Context, call func(context.Context, *grpc.ClientConn) error) error {
	conn, err := e.dialController(c)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(c.Context, operatorTimeout)
	defer cancel()
	name := e.getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	err = call(metadata.AppendToOutgoingContext(ctx, link.OperatorHeader, name), conn)
	// What the controller says is for a person; gRPC's own words are not.
	if said, ok := status.FromError(errors.Unwrap(err)); ok && err != nil {
		return fmt.Errorf("the controller: %s", said.Message())
	}
	return err
}

func (e *environment) dialController(c *cli.Context) (*grpc.ClientConn, error) {
	address := c.String("link")
	if address == "" {
		path, err := e.controllerSocket(c)
		if err != nil {
			return nil, err
		}
		dial := func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return grpc.NewClient("passthrough:///controller", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	}
	pair, err := tls.LoadX509KeyPair(c.String("link-cert"), c.String("link-key"))
	if err != nil {
		return nil, fmt.Errorf("--link needs --link-cert and --link-key: %w", err)
	}
	pool, err := authorities(c.String("link-ca"))
	if err != nil {
		return nil, fmt.Errorf("--link needs --link-ca: %w", err)
	}
	return grpc.NewClient(strings.TrimPrefix(address, "tcp:"), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool,
	})))
}

// controllerSocket is where the controller of a state directory listens.
func (e *environment) controllerSocket(c *cli.Context) (string, error) {
	path := c.String("link-socket")
	if path == "" {
		dir, err := e.statePath(c)
		if err != nil {
			return "", err
		}
		path = socketPath(c, dir)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no controller listens at %s: give --state, --link-socket or --link", path)
	}
	return path, nil
}
