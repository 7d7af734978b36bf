package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// What the flag package says; its texts name every flag with one hyphen.
var (
	undefinedFlag = regexp.MustCompile(`^flag provided but not defined: -(.+)$`)
	bareFlag      = regexp.MustCompile(`^flag needs an argument: -(.+)$`)
	badFlagValue  = regexp.MustCompile(`^invalid (?:boolean )?value "(.*)" for (?:flag )?-([^:]+): (.*)$`)
)

// usageError explains a flag that cannot be used, without printing the whole help.
func usageError(c *cli.Context, err error, _ bool) error {
	known := slices.Concat(c.Command.Flags, globalFlags())
	if m := undefinedFlag.FindStringSubmatch(err.Error()); m != nil {
		name := strings.TrimLeft(m[1], "-")
		var names []string
		for _, f := range known {
			names = append(names, f.Names()...)
		}
		near := suggestion(name, names)
		if near != "" {
			near = asTyped(near)
		}
		return unknownWord("flag", asTyped(name), near)
	}
	if m := bareFlag.FindStringSubmatch(err.Error()); m != nil {
		return errors.New("flag needs an argument: " + asTyped(m[1]))
	}
	if m := badFlagValue.FindStringSubmatch(err.Error()); m != nil {
		return badValue(known, m[1], m[2], m[3])
	}
	return err
}

// asTyped is a flag as people write it: "-o", "--output".
func asTyped(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func badValue(known []cli.Flag, value, name, why string) error {
	i := slices.IndexFunc(known, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i >= 0 {
		if _, isDuration := known[i].(*cli.DurationFlag); isDuration {
			why = "want a duration, as 90s or 5m"
			if value != "" && strings.Trim(value, "0123456789.") == "" {
				why = "give a unit, as in " + value + "s"
			}
		}
	}
	return fmt.Errorf("%s %q: %s", asTyped(name), value, why)
}
