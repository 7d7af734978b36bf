package gitsource

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"sort"
	"strings"
)

// mask stands wherever a credential was.
const mask = "xxxxx"

// Secret is a string that no formatter or marshaler shows.
type Secret string

// String returns a mask, or "" when there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format writes the mask for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText gives the mask (used by JSON, YAML and slog).
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON gives the mask.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// Reveal returns the secret itself; for the call that needs it and nothing else.
func (s Secret) Reveal() string { return string(s) }

// redactor replaces credentials in foreign text, in plain and in every encoded form they travel in.
type redactor []string

// newRedactor knows the given secrets; empty ones are ignored. pairs are user:password pairs as sent in HTTP headers.
func newRedactor(secrets ...string) redactor {
	seen := map[string]bool{}
	var out redactor
	add := func(s string) {
		if s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, s := range secrets {
		if s == "" {
			continue
		}
		add(s)
		add(url.QueryEscape(s))
		add(url.PathEscape(s))
		add(url.UserPassword("", s).String()[1:])
		add(percentAll(s, false))
		add(percentAll(s, true))
		if q := fmt.Sprintf("%q", s); len(q) > 2 {
			add(q[1 : len(q)-1])
		}
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			add(enc.EncodeToString([]byte(s)))
			add(strings.TrimRight(enc.EncodeToString([]byte(s)), "="))
		}
		if un, err := url.PathUnescape(s); err == nil {
			add(un)
		}
	}
	// Longest first, so that a secret that contains another is replaced whole.
	sort.Slice(out, func(i, j int) bool { return len(out[i]) > len(out[j]) })
	return out
}

func percentAll(s string, lower bool) string {
	format := "%%%02X"
	if lower {
		format = "%%%02x"
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// text redacts s: the known secrets, and the user part of any URL in it (a server may echo one we never saw).
func (r redactor) text(s string) string {
	for _, secret := range r {
		s = strings.ReplaceAll(s, secret, mask)
	}
	return maskUserinfo(s)
}

// clean returns err with redacted text. The original is kept for errors.Is only.
func (r redactor) clean(err error) error {
	if err == nil {
		return nil
	}
	return &cleanError{text: r.text(err.Error()), cause: err}
}

// maskUserinfo replaces user:password in scheme://user:password@host anywhere in s.
func maskUserinfo(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		i += len("://")
		b.WriteString(s[:i])
		s = s[i:]
		end := strings.IndexAny(s, "/?# \t\r\n\"'`<>")
		if end < 0 {
			end = len(s)
		}
		if at := strings.LastIndexByte(s[:end], '@'); at >= 0 && s[:at] != "git" {
			b.WriteString(mask)
			s = s[at:]
		}
	}
}
