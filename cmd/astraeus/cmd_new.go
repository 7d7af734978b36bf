package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

func newCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:        "new",
		Usage:       "write a new object's file for the repository",
		Action:      noSubcommand,
		Subcommands: []*cli.Command{newDriveCommand(env), newVolumeCommand(env), newRunCommand(env), newGrantCommand(env)},
	}
}

func newDriveCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "drive",
		Usage:     "write a drive's file from a disk or shared filesystem that machines reported",
		ArgsUsage: "[NAME]",
		Description: "Without --from it lists what machines reported, in the form that --from takes: MACHINE:PATH, or the PATH of a\n" +
			"shared filesystem. PATH may lead below a mount point. The file belongs in orgs/ORG/workspaces/WS/drives/.",
		Flags: append(fileFlags(), serverFlag(), outputFlag("table", view.ReadFormats),
			&cli.StringFlag{Name: "from", Usage: "make the drive from `MACHINE:PATH`, or from a shared filesystem's PATH"},
			&cli.StringFlag{Name: "mount-path", Usage: "where workers see it: `PATH`; default is /NAME"},
			&cli.StringFlag{Name: "mode", Value: string(schema.ReadOnly), Usage: "`MODE` ReadOnly or ReadWrite"},
		),
		Action: func(c *cli.Context) error {
			server, err := env.server(c)
			if err != nil {
				return err
			}
			machines, err := all[statusapi.Machine](c.Context, server, nil, "v1", "machines")
			if err != nil {
				return err
			}
			if !c.IsSet("from") {
				return env.listPlaces(c, machines)
			}
			return env.newDrive(c, machines)
		},
	}
}

// place is a filesystem that a drive can be made from (D-93).
type place struct {
	From     string        `json:"from"` // as --from takes it
	Shared   bool          `json:"shared"`
	Machines []string      `json:"machines"`
	Medium   schema.Medium `json:"medium,omitempty"`
	Type     string        `json:"type"`
	Total    int64         `json:"total_bytes"`
	Free     int64         `json:"free_bytes"`
}

// placesOf lists shared filesystems once, with all machines that have them, and
// then each machine's disks.
func placesOf(machines []statusapi.Machine) (list []place) {
	shared := map[string]int{}
	var local []place
	for _, m := range machines {
		for _, d := range m.Disks {
			p := place{From: d.MountPoint, Shared: true, Machines: []string{m.Metadata.Name}, Medium: d.Medium, Type: d.Type, Total: d.TotalBytes, Free: d.FreeBytes}
			at, known := shared[d.MountPoint]
			switch {
			case !d.Shared:
				p.From, p.Shared = m.Metadata.Name+":"+d.MountPoint, false
				local = append(local, p)
			case known:
				list[at].Machines = append(list[at].Machines, m.Metadata.Name)
			default:
				shared[d.MountPoint] = len(list)
				list = append(list, p)
			}
		}
	}
	return append(list, local...)
}

func (e *environment) listPlaces(c *cli.Context, machines []statusapi.Machine) error {
	if c.Args().Present() {
		return errors.New("give --from MACHINE:PATH; without a name, what machines reported is listed")
	}
	out, err := view.NewList(c.String("output"), e.out(c))
	if err != nil {
		return err
	}
	places := placesOf(machines)
	value, err := itemsOf(places)
	if err != nil {
		return err
	}
	l := view.Listing{
		Value: value, Empty: "no machine has reported its disks yet",
		Columns: []view.Column{{Name: "FROM"}, {Name: "SHARED"}, {Name: "TYPE"}, {Name: "FREE"}, {Name: "TOTAL"}, {Name: "MACHINES"}, {Name: "MEDIUM"}},
	}
	for _, p := range places {
		l.Rows = append(l.Rows, view.Row{Ref: p.From, Cells: []string{
			p.From, yesNo(p.Shared), p.Type, bytesCell(p.Free), bytesCell(p.Total), strings.Join(p.Machines, ","), string(p.Medium),
		}})
	}
	return out.List(l)
}

func (e *environment) newDrive(c *cli.Context, machines []statusapi.Machine) error {
	if c.NArg() != 1 {
		return errors.New("give the new drive one name")
	}
	name := c.Args().First()
	if problem := schema.NameProblem(name); problem != "" {
		return fmt.Errorf("drive %q: %s", name, problem)
	}
	source, err := sourceFrom(c.String("from"), machines)
	if err != nil {
		return err
	}
	source.Mode = schema.Mode(c.String("mode"))
	if source.Mode != schema.ReadOnly && source.Mode != schema.ReadWrite {
		return fmt.Errorf("--mode %q: want ReadOnly or ReadWrite", source.Mode)
	}
	if source.MountPath = c.String("mount-path"); source.MountPath == "" {
		source.MountPath = "/" + name
	}
	if problem := schema.AbsolutePathProblem(source.MountPath); problem != "" {
		return fmt.Errorf("--mount-path %q: %s", source.MountPath, problem)
	}
	text, err := declaration(schema.KindDrive, name, schema.DriveSpec{Sources: []schema.DriveSource{source}})
	if err != nil {
		return err
	}
	if err := e.writeDeclaration(c, text); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "note: its workspace needs a grant of the org that covers %s\n", view.Plain(source.Path)) // D-20
	return nil
}

// sourceFrom finds the source that --from means. A path on a shared filesystem
// makes a shared source, measured by that machine; any other is that machine's own.
func sourceFrom(from string, machines []statusapi.Machine) (schema.DriveSource, error) {
	machine, path, named := strings.Cut(from, ":")
	if strings.HasPrefix(from, "/") {
		machine, path, named = "", from, false
	}
	if problem := schema.AbsolutePathProblem(path); problem != "" {
		return schema.DriveSource{}, fmt.Errorf("--from %q: %s; want MACHINE:PATH, or the path of a shared filesystem", from, problem)
	}
	path = schema.CleanPath(path)
	known := false
	for _, m := range machines {
		if named && m.Metadata.Name != machine {
			continue
		}
		known = true
		if m.Disks == nil && named {
			return schema.DriveSource{}, fmt.Errorf("machine %s has not reported its disks yet; wait until it is up, then try again", machine)
		}
		disk := diskOf(m.Disks, path)
		if disk == nil || !named && !disk.Shared {
			continue
		}
		// a data location is the agent's own.
		if l := m.Location; l != nil && schema.Overlaps(l.Path, path) {
			return schema.DriveSource{}, fmt.Errorf("%s overlaps the data location %s of machine %s", path, l.Path, m.Metadata.Name)
		}
		source := schema.DriveSource{Node: m.Metadata.Name, Path: path}
		if disk.Shared {
			source.NodeScope = schema.ScopeShared
		}
		return source, nil
	}
	switch {
	case named && !known:
		return schema.DriveSource{}, fmt.Errorf("machine %q not found", machine)
	case named:
		return schema.DriveSource{}, fmt.Errorf("%s is on no filesystem that machine %s reported", path, machine)
	}
	return schema.DriveSource{}, fmt.Errorf("%s is on no shared filesystem that a machine reported; a machine's own disk is MACHINE:PATH", path)
}

// diskOf is the filesystem that holds a path: the one mounted nearest above it.
func diskOf(disks []schema.Filesystem, path string) *schema.Filesystem {
	best := -1
	for i, d := range disks {
		if schema.Covers(d.MountPoint, path) && (best < 0 || len(d.MountPoint) > len(disks[best].MountPoint)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &disks[best]
}
