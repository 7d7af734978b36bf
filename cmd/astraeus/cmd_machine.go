package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

func machineCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:        "machine",
		Usage:       "prepare a machine for the cluster",
		Action:      noSubcommand,
		Subcommands: []*cli.Command{machineInitCommand(env)},
	}
}

// noSubcommand answers a group of commands without a known one.
func noSubcommand(c *cli.Context) error {
	known := names(c.Command.Subcommands)
	if !c.Args().Present() {
		return fmt.Errorf("%s does nothing alone; give one of: %s", c.Command.Name, strings.Join(known, ", "))
	}
	return unknownWord("command", c.Command.Name+" "+c.Args().First(), suggestion(c.Args().First(), known))
}

func machineInitCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "init",
		Usage: "choose where this machine keeps data, and write its file for the repository",
		Description: "Run it on the machine: it lists the disks, marks the one that fits best, and asks in a terminal. Elsewhere\n" +
			"--data-dir or --no-data-dir answers; with neither, nothing is chosen. Nothing on the machine is changed.\n" +
			"The file belongs in orgs/ORG/machines/ of the repository.",
		Flags: append(fileFlags(),
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the machine; default is the host's name"},
			&cli.StringFlag{Name: "address", Usage: "`IP` at which other machines reach it; default is its only address"},
			&cli.StringFlag{Name: "engine", Usage: "what runs its workers: containerd (default) or process"},
			&cli.StringFlag{Name: "data-dir", Usage: "keep copies of drives in `DIR`"},
			&cli.BoolFlag{Name: "no-data-dir", Usage: "keep no copies on this machine"},
			&cli.StringFlag{Name: "max-space", Usage: "let copies take `SIZE` at most, like 500G; default is no limit"},
		),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			h, err := host.New(host.Options{})
			if err != nil {
				return err
			}
			defer h.Close()
			hostname, _ := os.Hostname() // without one, --name is asked for
			stdin, isFile := env.stdin.(*os.File)
			init := machineInit{env: env, machine: h, hostname: hostname, ask: isFile && isTerminal(stdin)}
			return init.run(c)
		},
	}
}

// fileFlags say where a command writes a file for the repository.
func fileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Usage: "write the file to `FILE`; default is standard output"},
		&cli.BoolFlag{Name: "force", Usage: "write over a file that is there"},
	}
}

// writeDeclaration writes a file for the repository: to standard output, or to
// --out, never over another one without --force.
func (e *environment) writeDeclaration(c *cli.Context, text []byte) error {
	name := c.String("out")
	if name == "" {
		_, err := e.stdout.Write(text)
		return err
	}
	if c.Bool("force") {
		if err := writeFile(name, text); err != nil {
			return err
		}
		return os.Chmod(name, 0o644)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already; --force writes over it", name)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// thisMachine is what machine init asks of the host; host.Host is the real one.
type thisMachine interface {
	Filesystems(context.Context) ([]schema.Filesystem, error)
	FilesystemOf(ctx context.Context, path string) (schema.Filesystem, error)
	Addresses(context.Context) ([]string, error)
}

// machineInit is D-33's command.
type machineInit struct {
	env      *environment
	machine  thisMachine
	hostname string
	ask      bool // there is a person to ask
}

func (m machineInit) run(c *cli.Context) error {
	if c.String("data-dir") != "" && c.Bool("no-data-dir") {
		return errors.New("--data-dir and --no-data-dir contradict each other")
	}
	spec := schema.MachineSpec{Engine: schema.EngineKind(c.String("engine"))}
	switch spec.Engine {
	case "", schema.EngineContainerd, schema.EngineProcess:
	default:
		return fmt.Errorf("--engine %q: want containerd or process", spec.Engine)
	}
	short, _, _ := strings.Cut(strings.ToLower(m.hostname), ".")
	name := cmp.Or(c.String("name"), short)
	if problem := schema.NameProblem(name); problem != "" {
		return fmt.Errorf("the machine cannot be named %q: %s; give --name", name, problem)
	}
	var err error
	if spec.Address, err = m.address(c); err != nil {
		return err
	}
	disks, err := m.machine.Filesystems(c.Context)
	if err != nil {
		return err
	}
	if err := m.list(disks); err != nil {
		return err
	}
	if spec.DataLocation, err = m.choose(c, name, disks); err != nil {
		return err
	}
	text, err := declaration(schema.KindMachine, name, spec)
	if err != nil {
		return err
	}
	return m.env.writeDeclaration(c, text)
}

// address is the one that was given, or the machine's only one.
func (m machineInit) address(c *cli.Context) (string, error) {
	have, err := m.machine.Addresses(c.Context)
	if err != nil {
		return "", err
	}
	want := c.String("address")
	if want == "" {
		if len(have) == 1 {
			return have[0], nil
		}
		if len(have) > 1 {
			fmt.Fprintf(m.env.stderr, "note: this machine has several addresses (%s); the first that it reports is used unless --address names one\n", strings.Join(have, ", "))
		}
		return "", nil
	}
	for _, a := range have {
		if a == want {
			return want, nil
		}
	}
	return "", fmt.Errorf("this machine does not have the address %q; it has: %s", want, strings.Join(have, ", "))
}

// list shows the disks in plain words, numbered, on standard error: the file goes
// to standard output.
func (m machineInit) list(disks []schema.Filesystem) error {
	l := view.Listing{
		Empty:   "no disks were found",
		Columns: []view.Column{{Name: "NO"}, {Name: "MOUNT_POINT"}, {Name: "FREE"}, {Name: "TOTAL"}, {Name: "DISK"}},
	}
	for i, d := range disks {
		l.Rows = append(l.Rows, view.Row{Cells: []string{
			strconv.Itoa(i + 1), d.MountPoint, bytesCell(d.FreeBytes), bytesCell(d.TotalBytes), diskWords(d),
		}})
	}
	list, err := view.NewList("table", view.Out{Writer: m.env.stderr})
	if err != nil {
		return err
	}
	return list.List(l)
}

// diskWords is a disk in plain words (D-33).
func diskWords(d schema.Filesystem) string {
	words := []string{string(d.Medium)}
	for _, w := range []struct {
		yes  bool
		text string
	}{
		{d.Shared && d.Medium != schema.MediumShared, "shared"}, {d.Shared, "not for a data location"}, {d.System, "the system disk"},
		{d.ReadOnly, "read-only"}, {d.TotalBytes < 0, "does not answer"}, {d.Recommended, "recommended"},
	} {
		if w.yes {
			words = append(words, w.text)
		}
	}
	return strings.Join(words, ", ")
}

// defaultFolder is where copies go on a disk (D-33).
func defaultFolder(d schema.Filesystem) string {
	if d.MountPoint == "/" {
		return "/var/lib/astraeus"
	}
	return path.Join(d.MountPoint, "astraeus")
}

// choose finds the data location: as given, as answered, or none.
func (m machineInit) choose(c *cli.Context, name string, disks []schema.Filesystem) (*schema.DataLocationSpec, error) {
	dir, space := c.String("data-dir"), c.String("max-space")
	switch {
	case c.Bool("no-data-dir") && space != "":
		return nil, errors.New("--max-space needs a data directory, and --no-data-dir wants none")
	case c.Bool("no-data-dir"):
		return nil, nil
	case dir != "":
		return m.location(c.Context, name, disks, dir, space)
	case m.ask:
		return m.question(c.Context, name, disks, space)
	case space != "":
		return nil, errors.New("--max-space needs --data-dir")
	}
	fmt.Fprintln(m.env.stderr, "note: no data location was chosen; give --data-dir DIR, or --no-data-dir to say so")
	return nil, nil
}

// location checks a folder by D-31, with links followed too, and its limit.
func (m machineInit) location(ctx context.Context, name string, disks []schema.Filesystem, dir, space string) (*schema.DataLocationSpec, error) {
	if problem := schema.AbsolutePathProblem(dir); problem != "" {
		return nil, fmt.Errorf("data directory %q: %s", dir, problem)
	}
	dir = schema.CleanPath(dir)
	problem, warning := planner.DataLocationProblem(name, disks, dir)
	if problem == "" {
		// What the path leads to, not what it is called: a link may lead to shared storage.
		real, err := m.machine.FilesystemOf(ctx, dir)
		if err != nil {
			return nil, err
		}
		problem = realProblem(name, disks, real, dir)
	}
	if problem != "" {
		return nil, errors.New(problem)
	}
	limit := int64(0)
	if space != "" {
		var err error
		if limit, err = schema.ParseSize(space); err != nil {
			return nil, fmt.Errorf("largest space: %w", err)
		}
	}
	if warning != "" {
		fmt.Fprintln(m.env.stderr, "warning: "+warning)
	}
	return &schema.DataLocationSpec{Path: dir, MaxBytes: limit}, nil
}

// realProblem is D-31's for the filesystem that a folder turns out to be on: one
// that the machine does not report, like /proc, is none to keep data on.
func realProblem(name string, disks []schema.Filesystem, real schema.Filesystem, dir string) string {
	reported := slices.ContainsFunc(disks, func(d schema.Filesystem) bool {
		return d.MountPoint == real.MountPoint || d.ID != "" && d.ID == real.ID
	})
	at := []schema.Filesystem{}
	if reported {
		real.MountPoint = "/"
		at = append(at, real)
	}
	problem, _ := planner.DataLocationProblem(name, at, dir)
	if problem == "" && real.ReadOnly {
		problem = dir + " is on a read-only filesystem"
	}
	return problem
}

// question asks until an answer can be used. At the end of input nothing is chosen.
func (m machineInit) question(ctx context.Context, name string, disks []schema.Filesystem, space string) (*schema.DataLocationSpec, error) {
	in := bufio.NewReader(io.LimitReader(m.env.stdin, 64<<10))
	recommended := "none"
	for _, d := range disks {
		if d.Recommended {
			recommended = defaultFolder(d)
		}
	}
	for {
		fmt.Fprintf(m.env.stderr, "Where should this machine keep copies of drives? A number, a directory, or none [%s]: ", view.Plain(recommended))
		line, err := in.ReadString('\n')
		if err != nil && line == "" {
			return nil, errors.New("no answer: nothing was chosen and nothing written")
		}
		answer := cmp.Or(strings.TrimSpace(line), recommended)
		if answer == "none" {
			return nil, nil
		}
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(disks) {
			answer = defaultFolder(disks[n-1])
		}
		limit := space
		if limit == "" {
			fmt.Fprint(m.env.stderr, "Largest space for copies, like 500G; Enter for no limit: ")
			line, _ := in.ReadString('\n') // the end of input is no limit
			limit = strings.TrimSpace(line)
		}
		location, err := m.location(ctx, name, disks, answer, limit)
		if err == nil {
			return location, nil
		}
		fmt.Fprintln(m.env.stderr, view.Plain(err.Error()))
	}
}
