package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Exit codes of commands that could not be run, as shells give them.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// commandError says why a command could not be run.
type commandError struct {
	code   int
	reason string
}

func (e *commandError) Error() string { return e.reason }

// workerEnv adds the defaults and what the engine decides; the last of several
// entries with one key wins.
func workerEnv(env []string, gpus []int) []string {
	list := make([]string, len(gpus))
	for i, g := range gpus {
		list[i] = strconv.Itoa(g)
	}
	all := append([]string{"PATH=" + defaultPath, "HOME=/root"}, env...)
	all = append(all, "CUDA_VISIBLE_DEVICES="+strings.Join(list, ","), "ASTRAEUS_GPUS="+strings.Join(list, ","))
	at := map[string]int{}
	var out []string
	for _, e := range all {
		key, _, _ := strings.Cut(e, "=")
		if i, ok := at[key]; ok {
			out[i] = e
			continue
		}
		at[key] = len(out)
		out = append(out, e)
	}
	return out
}

func getenv(env []string, key string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			return v
		}
	}
	return ""
}

// findCommand looks a command up as a shell does: by PATH, or as a path from
// the working directory when it has a slash.
func findCommand(command, workDir string, env []string) (string, error) {
	if info, err := os.Stat(workDir); err != nil || !info.IsDir() {
		return "", &commandError{exitNotRunnable, "working directory not found: " + workDir}
	}
	var candidates []string
	if strings.Contains(command, "/") {
		candidates = []string{command}
	} else {
		for _, dir := range filepath.SplitList(getenv(env, "PATH")) {
			candidates = append(candidates, filepath.Join(dir, command))
		}
	}
	var denied error
	for _, c := range candidates {
		if !filepath.IsAbs(c) {
			c = filepath.Join(workDir, c)
		}
		err := checkExecutable(c)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			denied = fmt.Errorf("%s: %w", c, err)
		}
	}
	if denied != nil {
		return "", &commandError{exitNotRunnable, "command cannot be run: " + denied.Error()}
	}
	return "", &commandError{exitNotFound, "command not found: " + command}
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err) // the path is in the message already
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// explainExec says why the kernel refused to run a file that is there.
func explainExec(path string, err error) *commandError {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &commandError{exitNotFound, "command cannot be run: " + path + ": its interpreter or loader is not found"}
	case errors.Is(err, unix.ENOEXEC):
		return &commandError{exitNotRunnable, "command cannot be run: " + path + ": not a program for this machine, and no #! line"}
	default:
		return &commandError{exitNotRunnable, fmt.Sprintf("command cannot be run: %s: %v", path, err)}
	}
}
