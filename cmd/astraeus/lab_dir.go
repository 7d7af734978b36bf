package main

import (
	"errors"
	"path/filepath"

	"astraeus.io/astraeus/schema"
)

// labDir is where a lab keeps its things, in the current directory.
const labDir = ".lab"

// labDirectory is where the lab of a repository keeps its things: --dir, or
// .lab here, or where that lies in the repository a place of its own outside. What
// a lab writes would otherwise be files of the repository.
func (e *environment) labDirectory(given, repo string) (string, error) {
	if given != "" {
		return given, nil
	}
	if !schema.Covers(realPath(repo), realPath(labDir)) {
		return labDir, nil
	}
	if dir := e.labOutside(repo); dir != "" {
		return dir, nil
	}
	return "", errors.New("give --dir DIR outside the repository: there is no home directory")
}

// labOutside is the directory under the user's state folder that belongs to a
// repository, "" for a user who has no such folder.
func (e *environment) labOutside(repo string) string {
	state := e.getenv("XDG_STATE_HOME")
	if state == "" {
		if e.getenv("HOME") == "" {
			return ""
		}
		state = filepath.Join(e.getenv("HOME"), ".local", "state")
	}
	path := realPath(repo)
	return filepath.Join(state, "astraeus", "labs", filepath.Base(path)+"-"+schema.HashBytes([]byte(path))[:12])
}

// realPath is a path without symbolic links, as far as it exists.
func realPath(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(full); err == nil {
		return real
	}
	if above := filepath.Dir(full); above != full {
		return filepath.Join(realPath(above), filepath.Base(full))
	}
	return full
}
