package schema

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

// DefaultAllowedPrefixes and DeniedPrefixes are V-4's lists: one place for
// validation and for the machine.
var (
	DefaultAllowedPrefixes = []string{"/data/", "/opt/", "/mnt/", "/workspace/"}
	DeniedPrefixes         = []string{
		"/etc", "/var/run", "/run", "/proc", "/sys", "/dev", "/boot", "/root", "/usr", "/bin", "/sbin", "/lib",
		"/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd",
	}
)

// CleanPath is path.Clean, leaving the empty path empty. Host paths are POSIX
// paths wherever the program runs.
func CleanPath(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

// cleanField cleans a path where it stands. It writes only what differs: specs
// share templates, and many readers look at them.
func cleanField(p *string) {
	if clean := CleanPath(*p); clean != *p {
		*p = clean
	}
}

// Covers reports whether parent covers p by whole segments (D-20): /mnt/data
// covers /mnt/data and /mnt/data/x, not /mnt/database. Both are absolute.
func Covers(parent, p string) bool {
	parent, p = CleanPath(parent), CleanPath(p)
	if parent == "/" {
		return strings.HasPrefix(p, "/")
	}
	return p == parent || strings.HasPrefix(p, parent+"/")
}

// Overlaps reports whether one path equals, lies in or contains the other.
func Overlaps(a, b string) bool { return Covers(a, b) || Covers(b, a) }

// AbsolutePathProblem says what is wrong with a host path of a source, grant or
// data location (absolute, without "." or ".."), or "".
func AbsolutePathProblem(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "the path must be absolute"
	}
	return segmentsProblem(p)
}

// RelativePathProblem says what is wrong with a folder inside a copy or a
// sub_path (relative, without "."/".."; may be empty), or "".
func RelativePathProblem(p string) string {
	if strings.HasPrefix(p, "/") {
		return "the path must be relative"
	}
	return segmentsProblem(p)
}

func segmentsProblem(p string) string {
	if len(p) > 1024 {
		return "the path has more than 1024 bytes"
	}
	for _, r := range p {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return "the path contains a control character or is not valid UTF-8"
		}
	}
	for seg := range strings.SplitSeq(p, "/") {
		if seg == "." || seg == ".." {
			return `the path must not contain "." or ".."`
		}
	}
	return ""
}

const refusedPathRunes = ":,;|&$<>*?'\"`\\"

// VolumePathProblem judges a volume's host_path by V-4 after cleaning, or "".
// allowed is the cluster's list (nil: the default), widened by the caller's grants.
func VolumePathProblem(p string, allowed, denied []string) string {
	if problem := volumePathShape(p); problem != "" {
		return problem
	}
	clean := CleanPath(p)
	for _, prefix := range slices.Concat(DeniedPrefixes, denied) {
		// By plain prefix on purpose: rather refuse /etc-data than let /etc/… through.
		if strings.HasPrefix(clean, prefix) {
			return fmt.Sprintf("the path is under the denied prefix %s", prefix)
		}
	}
	if allowed == nil {
		allowed = DefaultAllowedPrefixes
	}
	for _, prefix := range allowed {
		if Covers(prefix, clean) {
			return ""
		}
	}
	return fmt.Sprintf("the path is not under an allowed prefix (%s)", strings.Join(allowed, " "))
}

// ContainerPathProblem judges a container_path or mount_path by V-4's
// characters, or "". It must be absolute and not "/".
func ContainerPathProblem(p string) string {
	if problem := volumePathShape(p); problem != "" {
		return problem
	}
	if CleanPath(p) == "/" {
		return `the path cannot be "/"`
	}
	return ""
}

func volumePathShape(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "the path must be absolute"
	}
	if len(p) > 1024 {
		return "the path has more than 1024 bytes"
	}
	for _, r := range p {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return "the path contains a control character or is not valid UTF-8"
		}
		if strings.ContainsRune(refusedPathRunes, r) {
			return fmt.Sprintf("the path contains %q", r)
		}
	}
	return ""
}
