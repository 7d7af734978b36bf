package planner

import (
	"flag"
	"os"
	"testing"
)

// TestMain looks at more random clusters than rapid's 100: rare orders of events
// need them, and each takes about a millisecond. -rapid.checks still wins.
func TestMain(m *testing.M) {
	if f := flag.Lookup("rapid.checks"); f != nil {
		if err := f.Value.Set("1000"); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	fewForOne = 1 // small clusters are planned on all cores too
	os.Exit(m.Run())
}
