package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"astraeus.io/astraeus/cmd/astraeus/view"
)

// version and commit may be set by the linker; otherwise the build's own
// information counts.
var version, commit string

func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// buildCommit is the commit that the program was built from, "" when nobody knows.
func buildCommit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	id, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	if id == "" {
		return ""
	}
	return view.Short(id) + changed
}

func versionCommand(env *environment) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the program's version",
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			_, err := fmt.Fprintf(env.stdout, "astraeus %s commit %s %s %s/%s\n",
				buildVersion(), cmp.Or(buildCommit(), "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
