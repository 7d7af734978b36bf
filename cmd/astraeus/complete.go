package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionFlag ends a command line that a shell wants completed. cli/v2 has
// completion of its own, but runs the command when "--" is what is completed.
const completionFlag = "--generate-completion"

// argumentWords are what the first argument of a command may be.
var argumentWords = map[string]func() []string{
	"get": kindWords, "describe": kindWords, "explain": kindWords, "events": kindWords, "wait": kindWords, "history": kindWords,
	"completion": func() []string { return slices.Sorted(maps.Keys(completionScripts)) },
}

// complete prints candidates for the last word of a command line, which may be
// empty. It runs nothing.
func complete(w io.Writer, app *cli.App, words []string) {
	if len(words) == 0 {
		return
	}
	last, words := words[len(words)-1], words[:len(words)-1]
	tokens, rest := tokenize(words, valueFlags(app))
	if rest != nil {
		return // after "--": no flag and no command any more
	}
	flags, commands := app.Flags, app.Commands
	name, args := "", 0
	for i, t := range tokens {
		if t.flag != "" {
			if i == len(tokens)-1 && len(t.text) == 1 && valueFlags(app)[t.flag] && !strings.Contains(t.text[0], "=") {
				return // a value is wanted, and the shell knows files
			}
			continue
		}
		if c := find(commands, t.text[0]); c != nil && args == 0 {
			name, commands, flags = c.Name, c.Subcommands, append(slices.Clone(flags), c.Flags...)
			continue
		}
		args++
	}
	for _, candidate := range candidates(name, args, last, flags, commands) {
		fmt.Fprintln(w, candidate)
	}
}

func candidates(name string, args int, last string, flags []cli.Flag, commands []*cli.Command) (out []string) {
	switch {
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			out = append(out, "--"+f.Names()[0])
		}
		out = append(out, "--help")
	case args > 0:
	case len(commands) > 0:
		out = names(commands)
	case argumentWords[name] != nil:
		out = argumentWords[name]()
	}
	return out
}
