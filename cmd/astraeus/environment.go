package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// environment is the outside world as a command sees it; tests make their own.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	loader         *loader
	// terminal reports whether a writer is a terminal.
	terminal func(io.Writer) bool
}

func osEnvironment() *environment {
	return &environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv,
		loader: newLoader(),
		terminal: func(w io.Writer) bool {
			f, ok := w.(*os.File)
			return ok && isTerminal(f)
		},
	}
}

var colorModes = []string{"auto", "always", "never"}

// colored decides on colour for one writer: --color wins, then NO_COLOR (set to
// anything), then whether it is a terminal.
func (e *environment) colored(mode string, w io.Writer) bool {
	switch mode {
	case "always":
		return true
	case "never":
		return false
	}
	return e.getenv("NO_COLOR") == "" && !strings.EqualFold(e.getenv("TERM"), "dumb") && e.terminal(w)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
