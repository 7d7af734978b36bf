package gitsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"/srv/repo":                         "/srv/repo",
		"./repo":                            "./repo",
		"file:///srv/a%20b":                 "/srv/a b",
		"https://Example.org/a/b.git":       "https://example.org/a/b.git",
		"https://tok@example.org/a":         "https://xxxxx@example.org/a",
		"https://u:p%40ss@example.org:84/a": "https://xxxxx@example.org:84/a",
		"ssh://git@example.org:2222/a":      "ssh://git@example.org:2222/a",
		"ssh://git:pw@example.org/a":        "ssh://xxxxx@example.org/a",
		"git@example.org:a/b.git":           "git@example.org:a/b.git",
		`C:\repo`:                           `C:\repo`,
	} {
		u, err := ParseURL(in)
		require.NoError(t, err, in)
		require.Equal(t, want, u.String())
	}
	for _, in := range []string{
		"", "git://h/p", "ext::sh -c evil", "ext::x://y", "https://", "https:///x", "https://-evil/x", "http://h:99999/x", "a\x00b", "https://h/%00",
		"https://h/a?token=hunter22", "https://h/a#x", "file://host/x", "https://u:hunter22@h:port/x", "a\nb", "-x@:y", "\xff", "user@-host:x",
	} {
		_, err := ParseURL(in)
		require.ErrorIs(t, err, ErrURL, in)
		require.NotContains(t, err.Error(), "hunter22")
	}
}

func everyForm(v any) string {
	js, _ := json.Marshal(v)
	return fmt.Sprintf("%v %+v %#v %s %q %d %x", v, v, v, v, v, v, v) + fmt.Sprint(v, &v) + string(js)
}

func TestSecretForms(t *testing.T) {
	u, err := ParseURL("https://user:hunter22@example.org/x")
	require.NoError(t, err)
	for _, v := range []any{
		Secret("hunter22"), u, &u, Auth{Password: "hunter22", SSHKeyPassphrase: "hunter22"}, Options{Auth: Auth{Password: "hunter22"}},
		struct{ U URL }{u}, []Secret{"hunter22"}, map[string]Secret{"a": "hunter22"},
	} {
		text := everyForm(v)
		require.NotContains(t, text, "hunter22")
		require.NotContains(t, text, fmt.Sprintf("%x", "hunter22"))
	}
	require.Equal(t, "hunter22", Secret("hunter22").Reveal())
}

func TestRedactor(t *testing.T) {
	secret := "p@ss w/rd+%é"
	r := newRedactor(secret)
	for _, form := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), percentAll(secret, true), percentAll(secret, false), fmt.Sprintf("%q", secret),
		"https://u:" + url.UserPassword("u", secret).String()[2:] + "@h/",
	} {
		err := r.wrap("fetch", "https://h/", fmt.Errorf("oops %s oops", form))
		for e := err; e != nil; e = errors.Unwrap(e) {
			require.NotContains(t, e.Error(), "w/rd", form)
			require.NotContains(t, e.Error(), "%2Frd", form)
			require.NotContains(t, e.Error(), "rd", form)
		}
	}
	require.Equal(t, "see https://xxxxx@h/p and ssh://git@h", redactor{}.text("see https://who:what@h/p and ssh://git@h"))
}

// No URL or token, however encoded, shows in what String and errors say.
func FuzzRedaction(f *testing.F) {
	f.Add("user", "hunter22", "example.org", "/a b")
	f.Add("", "t%6fken", "[::1]:80", "/")
	f.Add("u@x", "a:b/c@d?e", "h", "x")
	f.Fuzz(func(t *testing.T, user, pass, host, path string) {
		if len(pass) < 6 || strings.Contains("https://xxxxx@"+host+path, pass) || strings.Contains(mask+mask, pass) {
			return
		}
		raw := (&url.URL{Scheme: "https", User: url.UserPassword(user, pass), Host: host, Path: path}).String()
		u, err := ParseURL(raw)
		if err != nil {
			if strings.Contains(err.Error(), pass) && !strings.Contains(ErrURL.Error()+"it has control characters or is not UTF-8", pass) &&
				!strings.Contains("it has no usable host it cannot be parsed its port is not a number from 1 to 65535 it has encoded control characters", pass) {
				t.Fatalf("error %q", err)
			}
			return
		}
		if shown := everyForm(u); strings.Contains(shown, pass) && !strings.Contains(everyForm(URL{scheme: u.scheme, host: u.host, path: u.path, user: "u"}), pass) {
			t.Fatalf("shown %q", shown)
		}
		r := newRedactor(u.secrets()...)
		for _, form := range []string{string(u.pass), url.QueryEscape(string(u.pass)), url.PathEscape(string(u.pass)), raw} {
			if got := r.text("cannot read '" + form + "'"); strings.Contains(got, string(u.pass)) {
				t.Fatalf("%q in %q", u.pass, got)
			}
		}
	})
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://a@b/c", "git@h:p", "file:///x", "C:\\x", "ssh://h:1/x", "::", "a:b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURL(s)
		if err != nil {
			return
		}
		if !u.Local() && strings.HasPrefix(u.host, "-") {
			t.Fatalf("host %q", u.host)
		}
		_ = everyForm(u)
	})
}
