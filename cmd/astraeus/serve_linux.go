package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/gitsource"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
	apitoken "astraeus.io/astraeus/statusapi/token"
)

// shutdownTimeout is how long answers that are being written may take at the end.
const shutdownTimeout = 5 * time.Second

// serve runs a controller until it is told to stop.
func (e *environment) serve(c *cli.Context) (err error) {
	source, err := gitsource.Open(c.Context, gitsource.Options{
		URL: c.String("repo"), Ref: c.String("ref"), Poll: c.Duration("poll"), Auth: e.gitAuth(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	dir, err := e.stateDir(c)
	if err != nil {
		return err
	}
	cluster, err := clusterName(c.Context, c, dir, func(ctx context.Context) (*schema.Desired, error) {
		snapshot, err := source.Fetch(ctx)
		if err != nil {
			return nil, err
		}
		return e.loader.files(ctx, snapshot.FS(), snapshot.Commit, snapshot.Time)
	})
	if err != nil {
		return err
	}
	// Before the store is opened: an address in use is found out in no time.
	listener, tokens, err := statusListener(c)
	if err != nil {
		return err
	}
	controller, err := e.controller(c, dir, cluster, reconciler.Git(source), nil, nil)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, controller.Close()) }()
	return e.runServer(c, dir, controller, listener, tokens)
}

// statusListener opens where the status API is served, and the tokens that let
// callers in: nil for everybody on this machine.
func statusListener(c *cli.Context) (net.Listener, statusapi.Tokens, error) {
	var tokens statusapi.Tokens
	if file := c.String("tokens"); file != "" {
		known, err := apitoken.Open(file)
		if err != nil {
			return nil, nil, fmt.Errorf("--tokens: %w", err)
		}
		tokens = known
	}
	listener, err := statusapi.Listen(c.Context, statusapi.Listening{
		Address: c.String("status"), Cert: c.String("status-cert"), Key: c.String("status-key"), Tokens: tokens != nil,
	})
	return listener, tokens, err
}

// statusURL is where a status API is asked.
func statusURL(c *cli.Context, listener net.Listener) string {
	if c.String("status-cert") != "" {
		return "https://" + listener.Addr().String()
	}
	return "http://" + listener.Addr().String()
}

// runServer runs controller and status API until SIGTERM or Ctrl-C, which is no
// error, or until one of them fails.
func (e *environment) runServer(c *cli.Context, dir string, controller *control.Controller, listener net.Listener, tokens statusapi.Tokens) error {
	log, err := e.logger(c)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM)
	defer stop()
	server := statusapi.NewServer(statusapi.NewHandler(statusapi.Options{
		Source: controller.Source(), Tokens: tokens, Metrics: controller.Metrics(), Version: buildVersion(), Log: log,
	}))
	log.Info("serving", "status", statusURL(c, listener), "machines", machinesAt(c, dir), "version", buildVersion(), "pid", os.Getpid())
	updates, cancel := controller.Reconciler.Subscribe()
	defer cancel()
	go logUpdates(log, updates)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return controller.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("status API: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		return server.Shutdown(ending)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// machinesAt is where machines reach a controller.
func machinesAt(c *cli.Context, dir string) string {
	at := "unix:" + socketPath(c, dir)
	if address := c.String("link"); address != "" {
		at += " and " + address + " with certificates"
	}
	return at
}

// logUpdates tells of each commit that was planned what came of it, and of
// machines that came or went, until the channel is closed.
func logUpdates(log *slog.Logger, updates <-chan reconciler.Update) {
	commit, machines := "", [2]int{}
	for u := range updates {
		s := u.Status
		if s.Commit != "" && s.Commit != commit && s.Plan.Commit == s.Commit {
			commit = s.Commit
			errors := 0
			for _, d := range s.Diagnostics {
				if d.Severity == schema.SeverityError {
					errors++
				}
			}
			log.Info("commit planned", "commit", commit, "steps", len(s.Plan.Steps), "holds", len(s.Plan.Holds), "waits", len(s.Plan.Waits), "errors", errors)
		}
		if now := [2]int{len(s.Machines) - len(away(s)), len(s.Machines)}; now != machines {
			machines = now
			log.Info("machines", "connected", now[0], "declared", now[1])
		}
	}
}
