package token

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func viewer() Entry { return Entry{Role: Viewer, Org: "acme", Workspaces: []string{"research"}} }

func add(t *testing.T, file string, e Entry) (Secret, Entry) {
	t.Helper()
	secret, entry, err := New(e)
	require.NoError(t, err)
	require.NoError(t, Update(file, func(list []Entry) ([]Entry, error) { return append(list, entry), nil }))
	return secret, entry
}

// a token is let in by its hash alone, and the file does not hold it.
func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	secret, entry := add(t, file, viewer())
	other, _ := add(t, file, Entry{Role: ClusterReader, Expires: noon})
	f, err := Open(file)
	require.NoError(t, err)
	got, err := f.Check(secret.Reveal(), noon)
	require.NoError(t, err)
	require.Equal(t, entry, got)
	require.True(t, f.Holds(got, noon))
	_, err = f.Check(other.Reveal(), noon.Add(-time.Second))
	require.NoError(t, err)
	_, err = f.Check(other.Reveal(), noon)
	require.ErrorIs(t, err, ErrExpired)

	text := secret.Reveal()
	for _, bad := range []string{"", "x", text[:len(text)-1], text + "0", " " + text, strings.ToUpper(text), "astr_" + entry.ID + "_" + strings.Repeat("0", 64),
		"astr_000000000000_" + text[len("astr_000000000000_"):], strings.Repeat("a", 1<<20), entry.Hash, entry.ID} {
		_, err := f.Check(bad, noon)
		require.ErrorIs(t, err, ErrUnknown, "%.80s", bad)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(data), text)
	require.NotContains(t, string(data), text[len("astr_000000000000_"):])
}

// A secret shows itself in no formatter.
func TestSecretHidesItself(t *testing.T) {
	secret, entry, err := New(viewer())
	require.NoError(t, err)
	encoded, err := json.Marshal(map[string]any{"token": secret})
	require.NoError(t, err)
	for _, shown := range []string{fmt.Sprint(secret), fmt.Sprintf("%v %+v %#v %s %q", secret, secret, secret, secret, secret), string(encoded), fmt.Sprintf("%+v", entry)} {
		require.NotContains(t, shown, secret.Reveal()[20:])
	}
	again, _, err := New(viewer())
	require.NoError(t, err)
	require.NotEqual(t, secret.Reveal(), again.Reveal())
}

// The file counts as it is now: what is added lets in, what is removed does not,
// and while it cannot be used nobody is let in.
func TestFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	first, entry := add(t, file, viewer())
	f, err := Open(file)
	require.NoError(t, err)
	second, _ := add(t, file, viewer())
	_, err = f.Check(second.Reveal(), noon)
	require.NoError(t, err)

	// In place, with a time of the past and the same size: only the bytes differ.
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := strings.Replace(string(data), entry.Hash, hashWord+strings.Repeat("0", 64), 1)
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
	_, err = f.Check(first.Reveal(), noon)
	require.ErrorIs(t, err, ErrUnknown)
	require.False(t, f.Holds(entry, noon))

	for name, text := range map[string]string{
		"empty": "", "no JSON": "tokens", "cut": changed[:len(changed)/2], "another version": `{"version":2,"tokens":[]}`, "more": changed + "{}",
		"unknown field": `{"version":1,"tokens":[],"more":1}`, "no role": `{"version":1,"tokens":[{"id":"` + entry.ID + `","hash":"` + entry.Hash + `"}]}`,
		"no hash": `{"version":1,"tokens":[{"id":"` + entry.ID + `","role":"cluster-reader"}]}`,
		"twice":   `{"version":1,"tokens":[` + strings.Repeat(`{"id":"`+entry.ID+`","hash":"`+entry.Hash+`","role":"cluster-reader"},`, 1) + `{"id":"` + entry.ID + `","hash":"` + entry.Hash + `","role":"cluster-reader"}]}`,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = f.Check(second.Reveal(), noon)
		require.ErrorIs(t, err, ErrFile, name)
		_, err = Open(file)
		require.Error(t, err, name)
	}
	require.NoError(t, os.WriteFile(file, data, 0o600))
	_, err = f.Check(second.Reveal(), noon)
	require.NoError(t, err, "whole again")
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(file, 0o666))
		_, err = f.Check(second.Reveal(), noon)
		require.ErrorContains(t, err, "chmod 600")
	}
	require.NoError(t, os.Remove(file))
	_, err = f.Check(second.Reveal(), noon)
	require.ErrorIs(t, err, ErrFile)
}

// Many programs add tokens at once and none is lost.
func TestUpdateTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { add(t, file, viewer()) })
	}
	all.Wait()
	list, err := Read(file)
	require.NoError(t, err)
	require.Len(t, list, 8)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestEntriesThatDoNotFit(t *testing.T) {
	for want, e := range map[string]Entry{
		"unknown role":        {Role: "king"},
		"leave org":           {Role: ClusterReader, Org: "acme"},
		"needs an org":        {Role: Viewer, Workspaces: []string{"research"}},
		"needs a workspace":   {Role: Editor, Org: "acme"},
		"leave workspaces":    {Role: OrgAdmin, Org: "acme", Workspaces: []string{"research"}},
		"say which user":      {Role: Member, Org: "acme", Workspaces: []string{"research"}},
		"cannot be a name":    {Role: Viewer, Org: "acme", Workspaces: []string{"a|b"}},
		"without a name":      {Role: Viewer, Org: "acme", Workspaces: []string{""}},
		"\"a/b\" cannot be":   {Role: OrgAdmin, Org: "a/b"},
		"\"x,y\" cannot be a": {Role: Member, Org: "acme", Workspaces: []string{"research"}, User: "x,y"},
	} {
		_, _, err := New(e)
		require.ErrorContains(t, err, want)
	}
}

// Nothing but a token is taken for one. // R-1
func FuzzToken(f *testing.F) {
	secret, _, err := New(viewer())
	require.NoError(f, err)
	f.Add(secret.Reveal())
	f.Add("astr__")
	f.Add("astr_0123456789ab_" + strings.Repeat("f", 64))
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := idOf(text); ok && (len(text) != tokenSize || !strings.HasPrefix(text, prefix+id+"_")) {
			t.Fatalf("%q was taken for a token", text)
		}
	})
}

// Whatever the file holds, it is refused or consistent.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"tokens":[]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"id":"0123456789ab","hash":"sha256:` + strings.Repeat("0", 64) + `","role":"cluster-reader"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse(data)
		if err != nil {
			return
		}
		for _, e := range list {
			if e.check() != nil || len(e.ID) != 2*idBytes {
				t.Fatalf("%s: %+v was let through", data, e)
			}
		}
	})
}
