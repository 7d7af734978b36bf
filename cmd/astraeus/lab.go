package main

import "github.com/urfave/cli/v2"

// labHook runs in a process that the lab re-executed, and does not return there.
func labHook() {}

// labCommand is the lab's verb, nil while this build has none.
func labCommand() *cli.Command { return nil }
