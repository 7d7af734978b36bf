package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/schema"
)

func newVolumeCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name: "volume", Usage: "write a volume's file, with an id that stays over renames", ArgsUsage: "NAME",
		Description: "A volume registers a directory that exists already: nothing is made on any machine. The file belongs in\n" +
			"orgs/ORG/workspaces/WS/volumes/.",
		Flags: append(fileFlags(), ownerFlag(),
			&cli.StringFlag{Name: "host-path", Usage: "the directory on the machines: `PATH`", Required: true},
			&cli.BoolFlag{Name: "shared", Usage: "every machine has it at that path"},
			&cli.StringFlag{Name: "node", Usage: "the `MACHINE` that has it, where it is not shared"},
			&cli.Int64Flag{Name: "capacity-gb", Usage: "a number for people, 0 for none: `GB`"},
			&cli.StringFlag{Name: "description", Usage: "what it is: `TEXT`"},
		),
		Action: func(c *cli.Context) error {
			name, err := newName(c, schema.KindVolume, schema.VolumeNameProblem)
			if err != nil {
				return err
			}
			spec := schema.VolumeSpec{HostPath: c.String("host-path"), Shared: c.Bool("shared"), NodeID: c.String("node"),
				CapacityGB: c.Int64("capacity-gb"), Description: c.String("description")}
			if problem := schema.ContainerPathProblem(spec.HostPath); problem != "" {
				return fmt.Errorf("--host-path %q: %s", spec.HostPath, problem)
			}
			if spec.Shared == (spec.NodeID != "") {
				return errors.New("give either --shared, or --node with the machine that has the directory")
			}
			spec.Normalize()
			id, err := randomVolumeID()
			if err != nil {
				return err
			}
			return env.newObject(c, schema.KindVolume, schema.Metadata{Name: name, ID: id, Owner: c.String("owner")}, spec)
		},
	}
}

func newRunCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "write a run's file to begin with", ArgsUsage: "NAME",
		Description: "The file belongs in orgs/ORG/workspaces/WS/runs/.",
		Flags: append(fileFlags(), ownerFlag(),
			&cli.StringFlag{Name: "image", Usage: "what runs: `IMAGE`"},
			&cli.StringFlag{Name: "command", Usage: "the program: `PATH`", Value: "/bin/sh"},
			&cli.IntFlag{Name: "machines", Usage: "workers, each on a machine of its own: `N`", Value: 1},
			&cli.IntFlag{Name: "gpus", Usage: "GPUs of all workers together: `N`"},
		),
		Action: func(c *cli.Context) error {
			name, err := newName(c, schema.KindRun, schema.DNSNameProblem)
			if err != nil {
				return err
			}
			machines, gpus := c.Int("machines"), c.Int("gpus")
			if machines < 1 || gpus < 0 || gpus%max(machines, 1) != 0 {
				return fmt.Errorf("--machines %d --gpus %d: want at least one machine, and GPUs that divide evenly over them", machines, gpus)
			}
			task := &schema.TaskTemplate{Image: c.String("image"), Command: c.String("command")}
			task.RequestedResources.Machines, task.RequestedResources.GPURequests.Count = machines, gpus
			return env.newObject(c, schema.KindRun, schema.Metadata{Name: name, Owner: c.String("owner")}, schema.RunSpec{TaskTemplate: task})
		},
	}
}

func newGrantCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name: "grant", Usage: "write the file of a grant of host paths to a workspace", ArgsUsage: "NAME",
		Description: "The file belongs in orgs/ORG/grants/.",
		Flags: append(fileFlags(),
			&cli.StringFlag{Name: "workspace", Usage: "who may use the paths: `WS`", Required: true},
			&cli.StringSliceFlag{Name: "host-path", Usage: "a whole folder on the machines: `PATH`, may be repeated", Required: true},
			&cli.StringFlag{Name: "mode", Value: string(schema.ReadWrite), Usage: "`MODE` ReadWrite, or ReadOnly as a ceiling"},
		),
		Action: func(c *cli.Context) error {
			name, err := newName(c, schema.KindHostPathGrant, schema.NameProblem)
			if err != nil {
				return err
			}
			spec := schema.HostPathGrantSpec{Workspace: c.String("workspace"), Paths: c.StringSlice("host-path"), Mode: schema.Mode(c.String("mode"))}
			if spec.Mode != schema.ReadOnly && spec.Mode != schema.ReadWrite {
				return fmt.Errorf("--mode %q: want ReadOnly or ReadWrite", spec.Mode)
			}
			for _, path := range spec.Paths {
				if problem := schema.AbsolutePathProblem(path); problem != "" {
					return fmt.Errorf("--host-path %q: %s", path, problem)
				}
			}
			spec.Normalize()
			return env.newObject(c, schema.KindHostPathGrant, schema.Metadata{Name: name}, spec)
		},
	}
}

func ownerFlag() cli.Flag {
	return &cli.StringFlag{Name: "owner", Usage: "the `USER` whose it is; needed where the workspace lists its members"}
}

// newName is the one name that a new object is given.
func newName(c *cli.Context, kind schema.Kind, problem func(string) string) (string, error) {
	if c.NArg() != 1 {
		return "", fmt.Errorf("give the new %s one name", kind.Word())
	}
	if text := problem(c.Args().First()); text != "" {
		return "", fmt.Errorf("%s %q: %s", kind.Word(), c.Args().First(), text)
	}
	return c.Args().First(), nil
}

func (e *environment) newObject(c *cli.Context, kind schema.Kind, meta schema.Metadata, spec any) error {
	text, err := declarationOf(kind, meta, spec)
	if err != nil {
		return err
	}
	return e.writeDeclaration(c, text)
}

// randomVolumeID is a new volume's id (V-2).
func randomVolumeID() (string, error) {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	return "vol-" + hex.EncodeToString(id[:]), nil
}
