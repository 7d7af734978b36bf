package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// People validate and plan on other systems than those that serve.
func TestBuildsElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("cross builds take a minute when nothing is cached")
	}
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			cmd := exec.Command("go", "vet", ".", "./view", "../../statusapi")
			cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			cmd = exec.Command("go", "build", "-o", os.DevNull, ".")
			cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			out, err = cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
