package runtime

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxID leaves room for suffixes within the 255 bytes of a file name.
const maxID = 200

// SystemDirs are the top directories that a worker shares read-only with the
// machine; nothing can be created in them. Nothing in them is data or a secret:
// no /home, /root, /var, /mnt, /srv, /opt.
var SystemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// kernelDirs are the top directories whose content an engine makes itself.
var kernelDirs = []string{"proc", "dev", "sys"}

// ValidID reports whether id can name a worker: 1 to 200 characters out of
// [a-z0-9.-], the first one a letter or digit.
func ValidID(id string) bool {
	if id == "" || len(id) > maxID || id[0] == '.' || id[0] == '-' {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// Validate checks what can be checked without the machine. The error wraps
// ErrInvalid and names the field.
func (s *Spec) Validate() error {
	for _, check := range []func() error{s.checkPlain, s.checkMounts, s.checkFiles} {
		if err := check(); err != nil {
			return fmt.Errorf("%w %s: %w", ErrInvalid, s.ID, err)
		}
	}
	return nil
}

func (s *Spec) checkPlain() error {
	switch {
	case !ValidID(s.ID):
		return fmt.Errorf("id %q: want 1 to %d of [a-z0-9.-], the first a letter or digit", s.ID, maxID)
	case s.Command == "":
		return fmt.Errorf("the command is empty")
	case s.LogDir == "" || !path.IsAbs(s.LogDir):
		return fmt.Errorf("log directory %q: want an absolute path", s.LogDir)
	case s.WorkDir != "" && !cleanAbs(s.WorkDir):
		return fmt.Errorf("working directory %q: want an absolute path, clean of dots", s.WorkDir)
	case s.StopIfAway < 0 || s.StopIfAway > 0 && s.Contact == nil:
		return fmt.Errorf("stop if away %s: want a contact and no negative time", s.StopIfAway)
	case s.CPU < 0 || s.MemoryBytes < 0:
		return fmt.Errorf("limits: cpu %g, memory %d: negative", s.CPU, s.MemoryBytes)
	case strings.ContainsRune(s.Command, 0):
		return fmt.Errorf("the command holds a NUL character")
	}
	for _, e := range s.Env {
		if key, _, ok := strings.Cut(e, "="); !ok || key == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("environment: an entry is not KEY=value")
		}
	}
	for _, a := range s.Args {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("an argument holds a NUL character")
		}
	}
	return nil
}

func (s *Spec) checkMounts() error {
	seen := map[string]bool{}
	for _, m := range s.Mounts {
		if err := checkTarget(m.Target); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
		if m.Target == "/etc" {
			return fmt.Errorf("mount %s: it is made by the engine; only mounts below it are possible", m.Target)
		}
		if m.Source == nil {
			return fmt.Errorf("mount %s: no source descriptor", m.Target)
		}
		if seen[m.Target] {
			return fmt.Errorf("mount %s: used twice", m.Target)
		}
		seen[m.Target] = true
	}
	return nil
}

// checkFiles also refuses files inside mounts: placing them would write into
// the user's data.
func (s *Spec) checkFiles() error {
	seen := map[string]bool{}
	for _, f := range s.Files {
		if err := checkTarget(f.Path); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
		if seen[f.Path] {
			return fmt.Errorf("file %s: given twice", f.Path)
		}
		seen[f.Path] = true
		for _, m := range s.Mounts {
			if Within(f.Path, m.Target) || Within(m.Target, f.Path) {
				return fmt.Errorf("file %s: collides with the mount %s", f.Path, m.Target)
			}
		}
	}
	return nil
}

func checkTarget(p string) error {
	if !cleanAbs(p) {
		return fmt.Errorf("want an absolute path, clean of dots")
	}
	if p == "/" {
		return fmt.Errorf("the root cannot be replaced")
	}
	top, _, _ := strings.Cut(p[1:], "/")
	if slices.Contains(SystemDirs, top) {
		return fmt.Errorf("it is inside the machine's read-only directory /%s", top)
	}
	if slices.Contains(kernelDirs, top) {
		return fmt.Errorf("it is inside /%s, which is the worker's own", top)
	}
	return nil
}

func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}

// Within reports whether the clean absolute path p is dir or lies below it.
func Within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
