package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/schema/load"
)

func fmtCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:      "fmt",
		Usage:     "format files of a repository in place",
		ArgsUsage: "[FILE|DIR…]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "check", Usage: "change nothing; exit with 1 when a file is not formatted"}},
		Action: func(c *cli.Context) error {
			paths := c.Args().Slice()
			if len(paths) == 0 {
				paths = []string{"."}
			}
			files, err := formattable(paths)
			if err != nil {
				return err
			}
			return env.format(files, c.Bool("check"))
		},
	}
}

// format prints the name of every file that is not formatted, and rewrites it
// unless it is only to check. A file that cannot be parsed does not stop the rest.
func (e *environment) format(files []string, check bool) error {
	var failed []error
	changed := 0
	for _, name := range files {
		old, err := os.ReadFile(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		formatted, err := load.Format(filepath.ToSlash(name), old)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if bytes.Equal(old, formatted) {
			continue
		}
		changed++
		fmt.Fprintln(e.stdout, name)
		if !check {
			if err := rewrite(name, formatted); err != nil {
				failed = append(failed, err)
			}
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if check && changed > 0 {
		return exitWith(exitError)
	}
	return nil
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
// are of a repository's formats. Symbolic links are not followed.
func formattable(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && name != path && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			case d.Type().IsRegular() && slices.Contains(formattableSuffixes, filepath.Ext(name)):
				out = append(out, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
