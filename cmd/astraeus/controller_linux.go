package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/control"
	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// logger writes JSON, or text where a person reads it.
func (e *environment) logger(c *cli.Context) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, fmt.Errorf("--log-level: unknown level %q", c.String("log-level"))
	}
	options := &slog.HandlerOptions{Level: level}
	if e.terminal(e.stderr) {
		return slog.New(slog.NewTextHandler(e.stderr, options)), nil
	}
	return slog.New(slog.NewJSONHandler(e.stderr, options)), nil
}

// stateDir is the state directory, made where it is missing.
func (e *environment) stateDir(c *cli.Context) (string, error) {
	dir, err := e.statePath(c)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// clusterFile remembers the cluster's name, so that a controller starts while
// the repository is away.
const clusterFile = "cluster"

// clusterName is --cluster, the name that this state directory was first used
// for, or the one that the repository declares.
func clusterName(ctx context.Context, c *cli.Context, dir string, first func(context.Context) (*schema.Desired, error)) (string, error) {
	given, file := c.String("cluster"), filepath.Join(dir, clusterFile)
	data, err := os.ReadFile(file)
	used := strings.TrimSpace(string(data))
	switch {
	case err == nil && given != "" && given != used:
		return "", fmt.Errorf("--cluster %s: the state directory %s is of the cluster %s; give another --state", given, dir, used)
	case err == nil:
		return used, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case given != "":
		return given, writeFile(file, []byte(given+"\n"))
	}
	desired, err := first(ctx)
	if err != nil {
		return "", err
	}
	for key := range desired.Objects {
		if key.Kind == schema.KindCluster {
			return key.Name, writeFile(filepath.Join(dir, clusterFile), []byte(key.Name+"\n"))
		}
	}
	return "", errors.New("the repository declares no cluster: add cluster.cue, or give --cluster NAME")
}

func storeOptions(c *cli.Context, dir, cluster string) (store.Options, error) {
	o := store.Options{Cluster: cluster, Endpoints: c.StringSlice("etcd"), NewEpoch: c.Bool("new-epoch"), MarkFile: filepath.Join(dir, "store.mark")}
	if len(o.Endpoints) == 0 {
		o.Dir = filepath.Join(dir, "store")
		return o, nil
	}
	if c.String("etcd-ca") == "" && c.String("etcd-cert") == "" {
		return o, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if file := c.String("etcd-ca"); file != "" {
		if config.RootCAs, err = authorities(file); err != nil {
			return o, err
		}
	}
	if file := c.String("etcd-cert"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, c.String("etcd-key"))
		if err != nil {
			return o, fmt.Errorf("--etcd-cert: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	o.TLS = config
	return o, nil
}

// maxSocketPath is what a unix socket's address can hold.
const maxSocketPath = 107

// listen opens the link's listeners: a unix socket that only its owner may use,
// and a TCP address with certificates on both sides.
func listen(ctx context.Context, c *cli.Context, dir string, controller *control.Controller) error {
	path := socketPath(c, dir)
	if len(path) > maxSocketPath {
		return fmt.Errorf("the socket's path %s has more than %d bytes: give a shorter --link-socket", path, maxSocketPath)
	}
	// Left by a controller that crashed; the store's lock says that none lives.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, socket.Close())
	}
	controller.Listen(socket)
	address := c.String("link")
	if address == "" {
		return nil
	}
	for _, name := range []string{"link-cert", "link-key", "link-ca"} {
		if c.String(name) == "" {
			return fmt.Errorf("--link %s serves machines over the network, with certificates only: give --%s FILE", address, name)
		}
	}
	certificate, err := tls.LoadX509KeyPair(c.String("link-cert"), c.String("link-key"))
	if err != nil {
		return fmt.Errorf("--link-cert and --link-key: %w", err)
	}
	pool, err := authorities(c.String("link-ca"))
	if err != nil {
		return fmt.Errorf("--link-ca: %w", err)
	}
	tcp, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	controller.Listen(tcp, link.Credentials(certificate, pool))
	return nil
}

// controller puts a controller together from a command line. brake and opening may be nil.
func (e *environment) controller(c *cli.Context, dir, cluster string, source reconciler.Source, brake *control.Brake, opening func(*store.State) (schema.Decisions, error)) (*control.Controller, error) {
	log, err := e.logger(c)
	if err != nil {
		return nil, err
	}
	options, err := storeOptions(c, dir, cluster)
	if err != nil {
		return nil, err
	}
	o := control.Options{Source: source, Load: e.loader.files, Store: options, Address: advertised(c, socketPath(c, dir)), Log: log, Opening: opening}
	if brake != nil {
		o.Plan = brake.Plan
	}
	controller, err := control.Open(c.Context, o)
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("another controller uses %s: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	if err := listen(c.Context, c, dir, controller); err != nil {
		return nil, errors.Join(err, controller.Close())
	}
	return controller, nil
}

// advertised is never empty: by its address a leader is known to others.
func advertised(c *cli.Context, socket string) string {
	return cmp.Or(c.String("advertise"), c.String("link"), "unix:"+socket)
}
