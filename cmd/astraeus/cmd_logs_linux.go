package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/internal/lab"
	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
)

func logsCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print what a run's workers, or one worker, printed in a running lab",
		ArgsUsage: "RUN|WORKER",
		Description: "Reads the files in the lab's directory, of the newest attempt. A run may be given as ORG/WORKSPACE/NAME.\n" +
			"Lines of several workers are prefixed with the worker's name.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "the lab's `DIR`; default is that of a lab started here"},
			&cli.BoolFlag{Name: "path", Usage: "print the files' names instead"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("give one run or worker")
			}
			return env.logs(c, c.Args().First())
		},
	}
}

// workerLog is where one worker's output is.
type workerLog struct{ worker, file string }

func (e *environment) logs(c *cli.Context, name string) error {
	file := filepath.Join(c.String("dir"), "address")
	text := ""
	if c.String("dir") == "" {
		text, file = e.labAddress("")
	} else if data, err := os.ReadFile(file); err == nil {
		text = strings.TrimSpace(string(data))
	}
	if text == "" {
		return errors.New("no lab runs here: start one, or give --dir DIR")
	}
	server, err := newClient(text, file, true)
	if err != nil {
		return err
	}
	list, err := logsOf(c.Context, server, filepath.Dir(file), strings.TrimPrefix(name, "run/"))
	if err != nil {
		return err
	}
	for _, l := range list {
		if c.Bool("path") {
			fmt.Fprintln(e.stdout, l.file)
		} else if err := e.printLog(l, len(list) > 1); err != nil {
			return err
		}
	}
	return nil
}

// logsOf are the logs of a run's workers, or of the one worker of a name.
func logsOf(ctx context.Context, server *client, dir, name string) ([]workerLog, error) {
	accepted, err := server.accepted(ctx)
	if err != nil {
		return nil, err
	}
	var list []workerLog
	runs := map[schema.Key]bool{}
	for _, p := range accepted.Placed {
		own := name == p.Run.Name || name == p.Run.Scoped() || name == p.Org+"/"+p.Workspace+"/"+p.Run.Name
		for _, w := range p.Workers {
			if own || w.Name == name {
				runs[p.Run] = true
				list = append(list, workerLog{w.Name, lab.LogFile(dir, p, w)})
			}
		}
	}
	switch len(runs) {
	case 0:
		return nil, fmt.Errorf("no run or worker %q has a place", name)
	case 1:
		return list, nil
	}
	return nil, fmt.Errorf("%q is in several workspaces: give ORG/WORKSPACE/NAME", name)
}

func (e *environment) printLog(l workerLog, prefix bool) error {
	file, err := os.Open(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(e.stderr, "%s has printed nothing yet\n", l.worker)
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if !prefix {
		_, err := io.Copy(e.stdout, file)
		return err
	}
	data, err := io.ReadAll(file) // an agent keeps at most some megabytes
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fmt.Fprintf(e.stdout, "%s | %s\n", l.worker, view.Plain(strings.TrimRight(line, "\n")))
	}
	return nil
}
