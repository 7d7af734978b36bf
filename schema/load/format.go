package load

import (
	"fmt"
	"path"

	"cuelang.org/go/cue/format"
)

// Format writes a file in its canonical form: CUE as `cue fmt` does. JSON and
// YAML are checked and returned as they are, because a rewrite would lose
// comments and order. The error is the first syntax error, with its place. CUE's
// formatter cannot be interrupted: it is for files of the person who asks.
func Format(name string, src []byte) ([]byte, error) {
	text, bad := sanitize(name, src)
	if bad != nil {
		return nil, bad
	}
	var err error
	switch path.Ext(name) {
	case ".cue":
		out, err := format.Source(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return out, nil
	case ".json":
		_, err = readJSON(name, text)
	case ".yaml", ".yml":
		_, err = readYAML(name, text)
	}
	if err != nil {
		return nil, err
	}
	return src, nil
}
