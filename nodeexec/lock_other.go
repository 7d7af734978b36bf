//go:build !unix

package nodeexec

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir opens the lock file; there is no agent to run on these systems, so
// that the file is only there for the program to compile.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("agent: state directory: %w", err)
	}
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
}
