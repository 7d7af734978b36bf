package gitsource

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Code says why an entry is not served.
type Code string

// Codes of problem entries.
const (
	CodeSymlink     Code = "SYMLINK"        // symbolic links are never followed
	CodeSubmodule   Code = "SUBMODULE"      // another repository inside this one
	CodeUnsafeName  Code = "UNSAFE_NAME"    // "..", a .git look-alike, control characters, backslash, not UTF-8 …
	CodeCaseTwin    Code = "CASE_TWIN"      // another name in the directory differs in case only
	CodeUnicodeTwin Code = "UNICODE_TWIN"   // another name in the directory has the same Unicode normal form
	CodeDuplicate   Code = "DUPLICATE_NAME" // the directory lists the same name twice
	CodeBadMode     Code = "BAD_MODE"       // not a file or directory of any kind git knows
	CodeSpecialFile Code = "SPECIAL_FILE"   // a device, socket or pipe (directories only)
	CodeUnreadable  Code = "UNREADABLE"     // no permission, or it changed while it was looked at (directories only)
	CodeTooDeep     Code = "TOO_DEEP"       // directories nested deeper than maxDepth
)

// Problem is an entry that is not followed or served. A directory that holds one is not a complete list (G-5).
type Problem struct {
	Path    string // slash-separated, unsafe bytes escaped: for people, not for opening
	Dir     string // the directory that lists it, always a servable path ("." is the root)
	Code    Code
	Message string // a sentence part for people, without the path
}

const (
	maxName  = 255 // bytes, as on common filesystems
	maxDepth = 64
)

// nameProblem says why a name must not be served, or "".
func nameProblem(name string) string {
	if plainName(name) {
		return ""
	}
	switch {
	case name == "":
		return "the name is empty"
	case name == "." || name == "..":
		return "the name points at a directory above or at itself"
	case len(name) > maxName:
		return "the name is longer than 255 bytes"
	case !utf8.ValidString(name):
		return "the name is not valid UTF-8"
	case strings.ContainsAny(name, `/\`):
		return "the name has a slash or backslash in it"
	case len(name) >= 2 && name[1] == ':' && isLetter(name[0]):
		return "the name starts with a drive letter"
	case strings.IndexFunc(name, hidden) >= 0:
		return "the name has control or invisible characters"
	case gitLookAlike(name):
		return "the name is taken for .git on some systems"
	}
	return ""
}

// plainName is the fast path for nearly all names: lowercase words, digits, "-", "_", and dots not in front.
func plainName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' {
		return false
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !(isLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// hidden: control, format (direction overrides, joiners), line and paragraph separators.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// gitLookAlike: names that HFS+ or NTFS resolve to .git (CVE-2014-9390, CVE-2019-1352).
func gitLookAlike(name string) bool {
	base, _, _ := strings.Cut(name, ":")
	base = strings.ToLower(norm.NFKC.String(strings.TrimRight(base, ". ")))
	return base == ".git" || base == "git~1"
}

// foldKey is equal for names that a case-insensitive or normalising filesystem takes for one.
func foldKey(name string) string {
	ascii := true
	for i := 0; i < len(name); i++ {
		if name[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(name)
	}
	// Fold may denormalise and normalising may unfold, so normalise on both sides.
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}

// twinCode tells two different names with one foldKey apart.
func twinCode(a, b string) Code {
	if a == b {
		return CodeDuplicate
	}
	if norm.NFC.String(a) == norm.NFC.String(b) {
		return CodeUnicodeTwin
	}
	return CodeCaseTwin
}

// printable makes a name safe to show: everything a terminal or parser could trip over is escaped.
func printable(name string) string {
	if name == "" {
		return `""`
	}
	q := strconv.Quote(name)
	return strings.ReplaceAll(q[1:len(q)-1], "/", `\x2f`)
}
