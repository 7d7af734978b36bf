package main

import (
	"context"
	"os"
)

func main() {
	// A re-executed child is something else than the command line and must become
	// that before anything else happens.
	runHooks()
	os.Exit(run(context.Background(), osEnvironment(), os.Args))
}
