package process

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// cgroups makes one cgroup v2 directory a worker, below one directory of this
// engine. The zero value makes none.
type cgroups struct {
	dir         string
	controllers map[string]bool // usable in the workers' directories
}

// newCgroups finds out what the machine allows; that it allows nothing is no
// error: killing pid 1 of a worker's pid namespace ends its tree as well.
func newCgroups(parent, stateDir string) (cgroups, error) {
	if parent == "" {
		var err error
		if parent, err = ownCgroup(); err != nil {
			return cgroups{}, err
		}
	}
	sum := sha256.Sum256([]byte(stateDir))
	dir := filepath.Join(parent, fmt.Sprintf("astraeus-%x", sum[:6]))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return cgroups{}, err
	}
	if err := unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK); err != nil {
		return cgroups{}, fmt.Errorf("%s: %w", dir, err)
	}
	sweepCgroups(dir)
	g := cgroups{dir: dir, controllers: map[string]bool{}}
	for _, c := range []string{"cpu", "memory"} {
		on := []byte("+" + c)
		if writeCgroup(parent, "cgroup.subtree_control", on) == nil && writeCgroup(dir, "cgroup.subtree_control", on) == nil {
			g.controllers[c] = true
		}
	}
	return g, nil
}

// sweepCgroups removes what workers that ended unwatched have left; rmdir
// refuses directories with processes in them.
func sweepCgroups(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroup(filepath.Join(dir, entry.Name()))
		}
	}
}

// ownCgroup gives the directory of this process's cgroup v2, also where v1
// hierarchies are mounted beside it.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2"))
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(b), "\n") {
		path, ok := strings.CutPrefix(line, "0::")
		if !ok {
			continue
		}
		for _, m := range mounts {
			if rel, err := filepath.Rel(m.Root, path); err == nil && filepath.IsLocal(rel) {
				return filepath.Join(m.Mountpoint, rel), nil
			}
		}
	}
	return "", errors.New("no cgroup v2 hierarchy is mounted")
}

// make creates a worker's directory with its limits; "" when there are no
// cgroups. It says what could not be limited.
func (g cgroups) make(id string, cpu float64, memory int64) (dir string, unlimited []string) {
	if cpu > 0 && !g.controllers["cpu"] {
		unlimited = append(unlimited, "cpu")
	}
	if memory > 0 && !g.controllers["memory"] {
		unlimited = append(unlimited, "memory")
	}
	if g.dir == "" {
		return "", unlimited
	}
	dir = filepath.Join(g.dir, id)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", append(unlimited, err.Error())
	}
	if cpu > 0 && g.controllers["cpu"] {
		const period = 100_000 // microseconds
		quota := strconv.FormatInt(max(1000, int64(cpu*period)), 10)
		if err := writeCgroup(dir, "cpu.max", []byte(quota+" "+strconv.Itoa(period))); err != nil {
			unlimited = append(unlimited, err.Error())
		}
	}
	if memory > 0 && g.controllers["memory"] {
		if err := writeCgroup(dir, "memory.max", []byte(strconv.FormatInt(memory, 10))); err != nil {
			unlimited = append(unlimited, err.Error())
		}
	}
	return dir, unlimited
}

func writeCgroup(dir, name string, value []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0) // never O_CREAT
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	return errors.Join(err, f.Close())
}

// killCgroup ends every process of a worker at once. Best effort: the caller
// kills pid 1 as well.
func killCgroup(dir string) {
	if dir != "" {
		_ = writeCgroup(dir, "cgroup.kill", []byte("1"))
	}
}

// ranOutOfMemory reports whether the kernel killed something of the worker for
// its memory limit.
func ranOutOfMemory(dir string) bool {
	if dir == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(dir, "memory.events"))
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(b), "\n") {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}

// leaving bounds the wait for a process that has ended and is still being taken
// out of its cgroup: a pidfd tells of its end a moment earlier.
const leaving = 100 * time.Millisecond

// removeCgroup is best effort: a directory with processes in it, or below it, stays.
func removeCgroup(dir string) {
	if dir == "" {
		return
	}
	for until := time.Now().Add(leaving); errors.Is(unix.Rmdir(dir), unix.EBUSY); time.Sleep(time.Millisecond) {
		if !emptyCgroup(dir) || time.Now().After(until) {
			return
		}
	}
}

// emptyCgroup reports whether a cgroup lists no process and has none below it.
func emptyCgroup(dir string) bool {
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil || len(procs) > 0 {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, fs.DirEntry.IsDir)
}
