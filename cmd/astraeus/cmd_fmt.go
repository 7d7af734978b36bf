package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/load"
)

func fmtCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "fmt",
		Usage:     "format files of a repository in place",
		ArgsUsage: "[FILE|DIR…]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "check", Usage: "change nothing; exit with 1 when a file is not formatted"}},
		Description: "CUE files are formatted. JSON and YAML files are checked, and left as they are: to write them anew\n" +
			"would lose comments and order. The names of files that were not formatted are printed.",
		Action: func(c *cli.Context) error {
			paths := c.Args().Slice()
			if len(paths) == 0 {
				paths = []string{"."}
			}
			return env.format(c.Context, paths, c.Bool("check"))
		},
	}
}

// formatting is one call of fmt.
type formatting struct {
	env     *environment
	check   bool
	failed  []error
	changed int
	checked int // files that are only checked
}

// format prints the name of every file that is not formatted, and rewrites it
// unless it is only to check. A file that cannot be used does not stop the rest.
func (e *environment) format(ctx context.Context, paths []string, check bool) error {
	f := &formatting{env: e, check: check}
	files, failed := formattable(paths)
	f.failed = failed
	for _, name := range files {
		if err := f.file(ctx, name); err != nil {
			f.failed = append(f.failed, err)
		}
	}
	if f.checked > 0 {
		fmt.Fprintf(e.stderr, "%s of JSON or YAML checked and left as written\n", view.Count(f.checked, "file"))
	}
	if len(f.failed) > 0 {
		return errors.Join(f.failed...)
	}
	if check && f.changed > 0 {
		return exitWith(exitError)
	}
	return nil
}

func (f *formatting) file(ctx context.Context, name string) error {
	if !slices.Contains(formattableSuffixes, filepath.Ext(name)) {
		fmt.Fprintf(f.env.stderr, "%s left alone: it is no .cue, .json or .yaml file\n", view.Plain(name))
		return nil
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	formatted, err := load.Format(filepath.ToSlash(name), old)
	if err != nil {
		return f.placed(ctx, name, old, err)
	}
	if filepath.Ext(name) != ".cue" {
		f.checked++
	}
	if bytes.Equal(old, formatted) {
		return nil
	}
	f.changed++
	fmt.Fprintln(f.env.stdout, name)
	if f.check {
		return nil
	}
	return rewrite(name, formatted)
}

// placed says where a file is broken. The formatter does not always know; loading
// it does.
func (f *formatting) placed(ctx context.Context, name string, data []byte, err error) error {
	dir, tempErr := os.MkdirTemp("", "astraeus-fmt-")
	if tempErr != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if os.WriteFile(filepath.Join(dir, "cluster"+filepath.Ext(name)), data, 0o600) != nil {
		return err
	}
	desired, loadErr := f.env.loader.files(ctx, os.DirFS(dir), "", time.Time{})
	if loadErr != nil {
		return err
	}
	for _, d := range desired.Diagnostics {
		if d.Severity == schema.SeverityError && d.Code == schema.CodeSyntax && d.Line > 0 {
			d.Pos.File = name
			return fmt.Errorf("%s: %s", d.Pos, d.Message)
		}
	}
	return err
}

// rewrite replaces a file in one piece and keeps its mode.
func rewrite(name string, data []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if err := writeFile(name, data); err != nil {
		return err
	}
	return os.Chmod(name, info.Mode().Perm())
}

var formattableSuffixes = []string{".cue", ".json", ".yaml", ".yml"}

// formattable lists files given by name, and those of directories as far as they
// are of a repository's formats. Symbolic links are not followed. What cannot be
// read is an error beside the rest.
func formattable(paths []string) (files []string, failed []error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error { // its errors are in failed
			switch {
			case err != nil:
				failed = append(failed, err)
			case d.IsDir() && name != path && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			case d.Type().IsRegular() && slices.Contains(formattableSuffixes, filepath.Ext(name)):
				files = append(files, name)
			}
			return nil
		})
	}
	return files, failed
}
