package gitsource

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// gitDirs are the directories of a repository on this machine. They differ for a linked worktree.
type gitDirs struct {
	git    string // HEAD
	common string // objects, refs, packed-refs, config
}

// findRepo accepts a working directory with a .git directory or file, and a bare repository. Parent directories are
// not searched: the path given is the root of the desired state.
func findRepo(path string) (gitDirs, error) {
	info, err := os.Stat(path)
	if err != nil {
		return gitDirs{}, notRepo(err)
	}
	if !info.IsDir() {
		return gitDirs{}, fail(ErrNotRepository, "it is not a directory")
	}
	dot := filepath.Join(path, ".git")
	info, err = os.Stat(dot)
	switch {
	case err == nil && info.IsDir():
		return checkDirs(dot)
	case err == nil:
		target, err := readGitFile(dot)
		if err != nil {
			return gitDirs{}, err
		}
		return checkDirs(target)
	case errors.Is(err, fs.ErrNotExist):
		return checkDirs(path)
	default:
		return gitDirs{}, notRepo(err)
	}
}

// notRepo classifies a stat error: not there is not a repository, anything else (no permission, stale NFS handle) may
// heal.
func notRepo(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &classified{kind: ErrNotRepository, err: err}
	}
	return &classified{kind: ErrUnavailable, err: err}
}

func readGitFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", notRepo(err)
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir:")
	if target = strings.TrimSpace(target); !ok || target == "" {
		return "", fail(ErrNotRepository, "its .git file names no directory")
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return target, nil
}

func checkDirs(git string) (gitDirs, error) {
	dirs := gitDirs{git: git, common: git}
	if data, err := os.ReadFile(filepath.Join(git, "commondir")); err == nil {
		common := strings.TrimSpace(string(data))
		if !filepath.IsAbs(common) {
			common = filepath.Join(git, common)
		}
		dirs.common = common
	}
	for _, need := range []string{filepath.Join(dirs.git, "HEAD"), filepath.Join(dirs.common, "objects")} {
		if _, err := os.Stat(need); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return gitDirs{}, fail(ErrNotRepository, "it has no %s", filepath.Base(need))
			}
			return gitDirs{}, notRepo(err)
		}
	}
	return dirs, checkFormat(dirs.common)
}

// checkFormat refuses repositories whose objects or refs would be misread rather than not read.
func checkFormat(common string) error {
	data, err := os.ReadFile(filepath.Join(common, "config"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return notRepo(err)
	}
	cfg, err := config.ReadConfig(bytes.NewReader(data))
	if err != nil {
		return fail(ErrCorrupt, "its config cannot be read: %w", err)
	}
	ext := cfg.Raw.Section("extensions")
	if v := ext.Option("objectformat"); v != "" && !strings.EqualFold(v, "sha1") {
		return fail(ErrUnsupported, "object format %q", v)
	}
	if v := ext.Option("refstorage"); v != "" && !strings.EqualFold(v, "files") {
		return fail(ErrUnsupported, "ref storage %q", v)
	}
	return nil
}

// openDirs opens the storages of a repository on this machine: its own first, then those it borrows from.
func openDirs(dirs gitDirs, c cache.Object) ([]objectStore, *filesystem.Storage, error) {
	fsys := dotgit.NewRepositoryFilesystem(osfs.New(dirs.git), osfs.New(dirs.common))
	own := openStore(fsys, c, false)
	stores := []objectStore{{dir: filepath.Join(dirs.common, "objects"), st: own}}
	seen := map[string]bool{stores[0].dir: true}
	const maxAlternates = 16
	for i := 0; i < len(stores) && len(stores) < maxAlternates; i++ {
		more, err := alternates(stores[i].dir)
		if err != nil {
			return nil, nil, fail(ErrUnavailable, "alternates: %w", err)
		}
		for _, dir := range more {
			if !seen[dir] {
				seen[dir] = true
				st := openStore(osfs.New(filepath.Dir(dir)), c, false)
				stores = append(stores, objectStore{dir: dir, st: st})
			}
		}
	}
	return stores, own, nil
}

// alternates lists other object directories named "objects" that dir borrows from.
func alternates(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, line)
		}
		if filepath.Base(line) != "objects" {
			return nil, fmt.Errorf("%s is not an objects directory", line)
		}
		out = append(out, filepath.Clean(line))
	}
	return out, sc.Err()
}
