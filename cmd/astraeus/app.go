package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
)

// run carries out one command line and returns its exit code.
func run(ctx context.Context, env *environment, argv []string) int {
	defer env.loader.close()
	app := newApp(env)
	if len(argv) > 1 && argv[len(argv)-1] == completionFlag {
		complete(env.stdout, app, argv[1:len(argv)-1])
		return exitOK
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	// A second Ctrl-C ends the program at once, unless a command listens for it.
	context.AfterFunc(ctx, stop)
	err := app.RunContext(ctx, arrange(app, argv))
	if err != nil {
		report(env, err)
	}
	return codeOf(ctx, err)
}

// report prints an error, once, on standard error. One without text was already
// told by a view.
func report(env *environment, err error) {
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	for line := range strings.Lines(redact(err.Error())) {
		fmt.Fprintln(env.stderr, "astraeus: "+view.Plain(strings.TrimRight(line, "\n")))
	}
}

func newApp(env *environment) *cli.App {
	app := &cli.App{
		Name:           "astraeus",
		Usage:          "runs, drives and machines of a cluster, declared in a git repository",
		Version:        buildVersion(),
		Reader:         env.stdin,
		Writer:         env.stdout,
		ErrWriter:      env.stderr,
		Suggest:        true,
		Flags:          globalFlags(),
		Commands:       commands(env),
		Before:         checkGlobals,
		Action:         noCommand,
		OnUsageError:   usageError,
		ExitErrHandler: func(*cli.Context, error) {}, // run decides the exit code
	}
	for _, c := range app.Commands {
		prepare(c)
	}
	return app
}

// checkGlobals refuses values of the flags that every command has.
func checkGlobals(c *cli.Context) error {
	if mode := c.String("color"); !slices.Contains(colorModes, mode) {
		return fmt.Errorf("--color %q: want %s", mode, strings.Join(colorModes, ", "))
	}
	return nil
}

// prepare gives every command the same answer to a flag that it does not know.
func prepare(c *cli.Command) {
	if c.OnUsageError == nil {
		c.OnUsageError = usageError
	}
	// "help" would otherwise be taken away from a command's arguments.
	c.HideHelpCommand = true
	if len(c.Subcommands) == 0 {
		c.Description = strings.TrimPrefix(c.Description+"\n\n"+exitHelp(c.Name), "\n\n")
	}
	if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "server") }) {
		c.Flags = append(c.Flags, accessFlags()...)
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

func commands(env *environment) []*cli.Command {
	list := []*cli.Command{
		validateCommand(env), planCommand(env), applyCommand(env), serveCommand(env), labCommand(env),
		approveCommand(env), syncCommand(env), epochCommand(env), tokenCommand(env),
		statusCommand(env), logsCommand(env), getCommand(env), describeCommand(env), explainCommand(env), resolveCommand(env), eventsCommand(env), waitCommand(env),
		historyCommand(env), machineCommand(env), newCommand(env), fmtCommand(env), versionCommand(env), completionCommand(env),
	}
	return slices.DeleteFunc(list, func(c *cli.Command) bool { return c == nil })
}

func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "color", Value: "auto", Usage: "colour: `WHEN` " + strings.Join(colorModes, ", ")},
		&cli.StringFlag{Name: "diagnostics", Value: "text", Usage: "`FORMAT` of diagnostics: text, json, github or sarif"},
	}
}

// noCommand answers a command line without a (known) command.
func noCommand(c *cli.Context) error {
	if !c.Args().Present() {
		if err := cli.ShowAppHelp(c); err != nil {
			return err
		}
		return exitWith(exitError)
	}
	return unknownWord("command", c.Args().First(), suggestion(c.Args().First(), names(c.App.Commands)))
}

func names(commands []*cli.Command) (out []string) {
	for _, c := range commands {
		if !c.Hidden {
			out = append(out, c.Names()...)
		}
	}
	return out
}

func unknownWord(what, word, near string) error {
	text := fmt.Sprintf("unknown %s %q", what, word)
	if near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return errors.New(text)
}

// suggestion is the known word nearest to a mistyped one, "" when none is near.
func suggestion(word string, known []string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if d := editDistance(word, k); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// noArgs refuses arguments of commands that take none, so that none is ignored.
func noArgs(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("%s takes no argument, got %q", c.Command.Name, c.Args().First())
	}
	return nil
}

func (e *environment) out(c *cli.Context) view.Out { return e.viewOf(c, e.stdout) }
func (e *environment) err(c *cli.Context) view.Out { return e.viewOf(c, e.stderr) }

func (e *environment) viewOf(c *cli.Context, w io.Writer) view.Out {
	return view.Out{Writer: w, Color: e.colored(c.String("color"), w)}
}
