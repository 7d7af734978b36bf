//go:build !linux

package main

import (
	"errors"

	"github.com/urfave/cli/v2"
)

func labHook() {}

func (e *environment) lab(*cli.Context) error {
	return errors.New("a lab needs Linux; validate, plan and the reading commands work here too")
}

// logsCommand is there where a lab can be.
func logsCommand(*environment) *cli.Command { return nil }
