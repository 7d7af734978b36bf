package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Namespace is a workspace's default namespace: "ws-" and the first 12 hex
// digits of SHA-256 over "<cluster>/<org>/<workspace>" (kinds.md).
func Namespace(cluster, org, workspace string) string {
	sum := sha256.Sum256([]byte(cluster + "/" + org + "/" + workspace))
	return "ws-" + hex.EncodeToString(sum[:])[:12]
}

// DefaultCluster stands for the cluster's name where no Cluster is declared.
const DefaultCluster = "default"

// MaxLabel is the longest DNS label (D-8, N-9).
const MaxLabel = 63

// NameProblem says what is wrong with a name of D-8 (lowercase letters, digits,
// hyphens; no dot; at most 63), or "" when nothing is.
func NameProblem(name string) string {
	switch {
	case name == "":
		return "a name is needed"
	case len(name) > MaxLabel:
		return fmt.Sprintf("a name has at most %d characters, this one has %d", MaxLabel, utf8.RuneCountInString(name))
	case strings.Contains(name, "."):
		return "a name cannot contain a dot"
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return "a name does not start or end with a hyphen"
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
			return fmt.Sprintf("a name has lowercase letters, digits and hyphens only, not %s", strconv.QuoteRune(r))
		}
	}
	return ""
}

// DNSNameProblem says why a name cannot be a DNS label (N-9: letters, digits,
// "-", "_"; at most 63; no leading or trailing "-"), or "".
func DNSNameProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > MaxLabel:
		return fmt.Sprintf("it is longer than %d characters", MaxLabel)
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return "it starts or ends with a hyphen"
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return fmt.Sprintf("it contains %s", strconv.QuoteRune(r))
		}
	}
	return ""
}

// VolumeNameProblem says what is wrong with a volume's name (V-2), or "".
func VolumeNameProblem(name string) string {
	switch {
	case name == "":
		return "a name is needed"
	case !utf8.ValidString(name):
		return "a name must be valid UTF-8"
	case utf8.RuneCountInString(name) > 128:
		return "a volume's name has at most 128 characters"
	case strings.TrimSpace(name) != name:
		return "a volume's name has no space at its start or end"
	case strings.Contains(name, "/"):
		return `a volume's name cannot contain "/"`
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return "a volume's name cannot contain control characters"
		}
	}
	return ""
}

// WorkerName is "<run>-<i>", or "<run>-<group>-<i>" for a worker of a group (N-2).
func WorkerName(run, group string, index int) string {
	if group == "" {
		return run + "-" + strconv.Itoa(index)
	}
	return run + "-" + group + "-" + strconv.Itoa(index)
}
