package gitsource

import (
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// URL is where a repository is. It redacts its credentials in every formatter and marshaler.
type URL struct {
	scheme string // "file", "http", "https", "ssh"
	user   string
	pass   Secret
	host   string // with port
	path   string // file: a path of this system; else the path on the server
	scp    bool   // written user@host:path, so path is relative to the login directory unless it starts with "/"
}

// ParseURL reads a path, a file://, http://, https:// or ssh:// URL, or user@host:path. Errors (ErrURL) never quote
// the input.
func ParseURL(s string) (URL, error) {
	if s == "" {
		return URL{}, fail(ErrURL, "it is empty")
	}
	if !utf8.ValidString(s) || strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return URL{}, fail(ErrURL, "it has control characters or is not UTF-8")
	}
	if i := strings.Index(s, "://"); i > 0 {
		return parseSchemeURL(s, strings.ToLower(s[:i]))
	}
	if isSCP(s) {
		return parseSCP(s)
	}
	return URL{scheme: "file", path: s}, nil
}

func parseSchemeURL(s, scheme string) (URL, error) {
	switch scheme {
	case "file", "http", "https", "ssh":
	default:
		return URL{}, fail(ErrURL, "scheme is not file, http, https or ssh")
	}
	u, err := url.Parse(s)
	if err != nil {
		// url.Error quotes the input; say what is wrong in our own words.
		return URL{}, fail(ErrURL, "it cannot be parsed")
	}
	if scheme == "file" {
		return fileURL(u)
	}
	out := URL{scheme: scheme, host: strings.ToLower(u.Host), path: u.Path}
	if u.User != nil {
		out.user = u.User.Username()
		pass, _ := u.User.Password()
		out.pass = Secret(pass)
	}
	if strings.IndexFunc(out.path+out.user, unicode.IsControl) >= 0 || !utf8.ValidString(out.path) {
		return URL{}, fail(ErrURL, "it has encoded control characters")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return URL{}, fail(ErrURL, "it has a query or fragment")
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") {
		return URL{}, fail(ErrURL, "it has no usable host")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return URL{}, fail(ErrURL, "its port is not a number from 1 to 65535")
		}
	}
	return out, nil
}

func fileURL(u *url.URL) (URL, error) {
	if u.User != nil || u.Host != "" && !strings.EqualFold(u.Host, "localhost") {
		return URL{}, fail(ErrURL, "a file URL has no host or user")
	}
	p := u.Path
	if runtime.GOOS == "windows" && len(p) > 2 && p[0] == '/' && p[2] == ':' {
		p = p[1:]
	}
	if p == "" || strings.IndexFunc(p, unicode.IsControl) >= 0 || !utf8.ValidString(p) {
		return URL{}, fail(ErrURL, "a file URL needs a path without control characters")
	}
	return URL{scheme: "file", path: filepath.FromSlash(p)}, nil
}

// isSCP follows git: a colon before the first slash. One letter before it is a Windows drive.
func isSCP(s string) bool {
	colon := strings.IndexByte(s, ':')
	slash := strings.IndexAny(s, `/\`)
	return colon > 1 && (slash < 0 || colon < slash)
}

func parseSCP(s string) (URL, error) {
	login, path, _ := strings.Cut(s, ":")
	out := URL{scheme: "ssh", scp: true, path: path, host: login}
	if at := strings.LastIndexByte(login, '@'); at >= 0 {
		out.user, out.host = login[:at], strings.ToLower(login[at+1:])
	}
	// A second colon is git's "helper::address", which runs a program.
	if out.host == "" || path == "" || path[0] == ':' || strings.HasPrefix(out.host, "-") || strings.ContainsAny(out.host, "@[]?#% ") {
		return URL{}, fail(ErrURL, "user@host:path needs a host and a path")
	}
	return out, nil
}

// Local tells that the repository is a directory of this machine.
func (u URL) Local() bool { return u.scheme == "file" }

// String is the URL without credentials: the user part is masked ("git@" is not a secret).
func (u URL) String() string {
	if u.scheme == "file" {
		return u.path
	}
	user := ""
	if u.user != "" || u.pass != "" {
		user = mask + "@"
		if u.scheme == "ssh" && u.pass == "" {
			user = u.user + "@"
		}
	}
	if u.scp {
		return user + u.host + ":" + u.path
	}
	return u.scheme + "://" + user + u.host + (&url.URL{Path: u.path}).EscapedPath()
}

// GoString is String.
func (u URL) GoString() string { return u.String() }

// Format writes String for every verb.
func (u URL) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		_, _ = fmt.Fprintf(f, "%q", u.String())
		return
	}
	_, _ = f.Write([]byte(u.String()))
}

// MarshalText gives String.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// identity is what names the repository without saying who reads it: the key of its cache.
func (u URL) identity() string {
	return u.scheme + "\x00" + u.host + "\x00" + u.path
}

// secrets of the URL. With no password, an http user name is a token.
func (u URL) secrets() []string {
	out := []string{string(u.pass)}
	if u.pass == "" && (u.scheme == "http" || u.scheme == "https") {
		out = append(out, u.user)
	}
	return out
}

// hostPort splits the host; the port is the scheme's own when none is given.
func (u URL) hostPort() (string, int) {
	p := &url.URL{Host: u.host}
	if n, err := strconv.Atoi(p.Port()); err == nil {
		return p.Hostname(), n
	}
	return p.Hostname(), map[string]int{"ssh": 22, "http": 80, "https": 443}[u.scheme]
}
