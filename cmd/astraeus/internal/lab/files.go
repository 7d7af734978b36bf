package lab

import "github.com/google/renameio/v2/maybe"

// writeAtomically replaces a file whole.
func writeAtomically(path string, data []byte) error { return maybe.WriteFile(path, data, 0o644) }
