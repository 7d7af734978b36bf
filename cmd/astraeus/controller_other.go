//go:build !linux

package main

import (
	"errors"
	"runtime"

	"github.com/urfave/cli/v2"
)

var errLinuxOnly = errors.New("the controller is not built for " + runtime.GOOS + ": run it on Linux")

func (*environment) serve(*cli.Context) error { return errLinuxOnly }
func (*environment) apply(*cli.Context) error { return errLinuxOnly }
