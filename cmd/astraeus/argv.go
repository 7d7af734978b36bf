package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange puts flags where cli/v2 looks for them. Left alone, it takes every
// flag that stands after an argument for another argument, without a word. Each
// flag goes to the innermost command that knows it, so that it may stand
// anywhere; one that nobody knows stays with the innermost command, which
// refuses it by name. Everything after "--" is an argument.
func arrange(app *cli.App, argv []string) []string {
	if len(argv) == 0 {
		return argv
	}
	tokens, rest := tokenize(argv[1:], valueFlags(app))
	levels := []level{{name: argv[0], flags: app.Flags, commands: app.Commands}}
	var flags []token
	var args []string
	for _, t := range tokens {
		if t.flag != "" {
			flags = append(flags, t)
			continue
		}
		if len(args) == 0 {
			if c := find(levels[len(levels)-1].commands, t.text[0]); c != nil {
				levels = append(levels, level{name: t.text[0], flags: c.Flags, commands: c.Subcommands})
				continue
			}
		}
		args = append(args, t.text[0])
	}
	for _, f := range flags {
		at := len(levels) - 1
		for i, l := range slices.Backward(levels) {
			if knows(l.flags, f.flag) {
				at = i
				break
			}
		}
		levels[at].words = append(levels[at].words, f.text...)
	}
	var out []string
	for _, l := range levels {
		out = append(append(out, l.name), l.words...)
	}
	if n := len(flags); n > 0 && flags[n-1].bare {
		return bareLine(levels, flags[n-1])
	}
	args = append(args, rest...)
	if slices.ContainsFunc(args, isFlag) {
		out = append(out, "--")
	}
	return append(out, args...)
}

// bareLine is a command line that ends with a flag whose value is missing: an
// argument that follows would be taken for it.
func bareLine(levels []level, flag token) (out []string) {
	for _, l := range levels {
		out = append(out, l.name)
		if knows(l.flags, flag.flag) {
			return append(out, flag.text...)
		}
	}
	return append(out, flag.text...)
}

// level is one command of the path and the flag words that belong to it.
type level struct {
	name     string
	flags    []cli.Flag
	commands []*cli.Command
	words    []string
}

// token is a flag with its value, or (flag empty) one argument.
type token struct {
	flag string
	text []string
	bare bool // it takes a value and has none
}

func tokenize(words []string, takesValue map[string]bool) (tokens []token, rest []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			return tokens, words[i+1:]
		}
		if !isFlag(word) {
			tokens = append(tokens, token{text: []string{word}})
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		t := token{flag: name, text: []string{word}}
		if takesValue[name] && !hasValue {
			if i+1 < len(words) {
				i++
				t.text = append(t.text, words[i])
			} else {
				t.bare = true
			}
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// isFlag takes "-" alone for an argument: it is the usual name of standard input.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// valueFlags says of every flag name whether it takes a value. A name means the
// same in every command; a test keeps it so.
func valueFlags(app *cli.App) map[string]bool {
	out := map[string]bool{}
	note := func(flags []cli.Flag) {
		for _, f := range flags {
			d, ok := f.(cli.DocGenerationFlag)
			for _, name := range f.Names() {
				out[name] = ok && d.TakesValue()
			}
		}
	}
	var walk func([]*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, c := range commands {
			note(c.Flags)
			walk(c.Subcommands)
		}
	}
	note(app.Flags)
	walk(app.Commands)
	return out
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func knows(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}
