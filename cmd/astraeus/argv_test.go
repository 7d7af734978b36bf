package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

func testEnvironment() (*environment, *bytes.Buffer, *bytes.Buffer) {
	env := osEnvironment()
	var out, err bytes.Buffer
	env.stdin, env.stdout, env.stderr = strings.NewReader(""), &out, &err
	env.getenv = func(string) string { return "" }
	return env, &out, &err
}

func TestArrange(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"astraeus", "astraeus"},
		{"astraeus validate --repo x", "astraeus validate --repo x"},
		{"astraeus get drives -o json", "astraeus get -o json drives"},
		{"astraeus get drives imagenet -o=json --server u", "astraeus get -o=json --server u drives imagenet"},
		{"astraeus --repo x validate", "astraeus validate --repo x"},
		{"astraeus validate --color never", "astraeus --color never validate"},
		{"astraeus plan --detailed-exitcode --ref r", "astraeus plan --detailed-exitcode --ref r"},
		{"astraeus get --color=never drives --nonsense x", "astraeus --color=never get --nonsense drives x"},
		{"astraeus get drives -- -o", "astraeus get -- drives -o"},
		{"astraeus plan --observed -", "astraeus plan --observed -"},
		{"astraeus fmt - x", "astraeus fmt - x"},
		{"astraeus describe drive/validate plan", "astraeus describe drive/validate plan"},
		{"astraeus get validate", "astraeus get validate"},
		{"astraeus --help", "astraeus --help"},
		{"astraeus plan --ref", "astraeus plan --ref"},
		{"astraeus nonsense --repo x", "astraeus --repo x nonsense"},
	} {
		env, _, _ := testEnvironment()
		require.Equal(t, c.want, strings.Join(arrange(newApp(env), strings.Fields(c.in)), " "), c.in)
	}
}

// arrange decides by a flag's name alone whether it takes a value.
func TestFlagsMeanTheSameEverywhere(t *testing.T) {
	env, _, _ := testEnvironment()
	app := newApp(env)
	seen := map[string]bool{}
	check := func(where string, flags []cli.Flag) {
		for _, f := range flags {
			takes := f.(cli.DocGenerationFlag).TakesValue()
			for _, name := range f.Names() {
				if old, ok := seen[name]; ok {
					require.Equal(t, old, takes, "--%s of %s", name, where)
				}
				seen[name] = takes
			}
		}
	}
	check("astraeus", app.Flags)
	var walk func([]*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, c := range commands {
			check(c.Name, c.Flags)
			walk(c.Subcommands)
		}
	}
	walk(app.Commands)
}

func FuzzArrange(f *testing.F) {
	f.Add("get drives -o json")
	f.Add("--color x -- --repo")
	f.Fuzz(func(t *testing.T, line string) {
		env, _, _ := testEnvironment()
		argv := append([]string{"astraeus"}, strings.Fields(line)...)
		got := arrange(newApp(env), argv)
		// No word is lost or made, but for the "--" that keeps arguments arguments.
		count := func(words []string) map[string]int {
			m := map[string]int{}
			for _, w := range words {
				m[w]++
			}
			return m
		}
		before, after := count(argv), count(got)
		for word, n := range before {
			if word != "--" {
				require.Equal(t, n, after[word], "%q in %q", word, got)
			}
		}
	})
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  []string
		not   []string
	}{
		{[]string{""}, []string{"validate", "plan", "get", "completion"}, []string{"--repo"}},
		{[]string{"pl"}, []string{"plan"}, nil},
		{[]string{"plan", "--"}, []string{"--base", "--observed", "--color"}, []string{"plan"}},
		{[]string{"plan", "--ref", ""}, nil, []string{"--base"}},
		{[]string{"get", ""}, []string{"drives", "runs", "events", "replica_groups"}, nil},
		{[]string{"get", "drives", ""}, nil, []string{"runs"}},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}, nil},
		{[]string{"apply", "--", ""}, nil, []string{"--ref"}},
	} {
		env, out, _ := testEnvironment()
		require.Equal(t, 0, run(t.Context(), env, append(append([]string{"astraeus"}, c.words...), completionFlag)))
		lines := strings.Fields(out.String())
		for _, w := range c.want {
			require.Contains(t, lines, w, "%q", c.words)
		}
		for _, w := range c.not {
			require.NotContains(t, lines, w, "%q", c.words)
		}
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"fetch https://user:hunter2@example.org/x": "fetch https://xxxxx@example.org/x",
		"fetch https://hunter2@example.org/x":      "fetch https://xxxxx@example.org/x",
		"ssh://git@example.org/x":                  "ssh://xxxxx@example.org/x",
		"a@b and http://example.org/@x":            "a@b and http://example.org/@x",
	} {
		require.Equal(t, want, redact(in))
	}
	for _, bad := range []string{"http://u:hunter2@127.0.0.1", "hunter2@127.0.0.1:1", "ftp://127.0.0.1", "", "http://", "::hunter2::"} {
		_, err := parseServerURL(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestColor(t *testing.T) {
	env, out, _ := testEnvironment()
	require.False(t, env.colored("auto", out))
	require.True(t, env.colored("always", out))
	env.terminal = func(io.Writer) bool { return true }
	require.True(t, env.colored("auto", out))
	require.False(t, env.colored("never", out))
	env.getenv = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	require.False(t, env.colored("auto", out))
	require.True(t, env.colored("always", out))
	env.getenv = func(name string) string { return map[string]string{"TERM": "dumb"}[name] }
	require.False(t, env.colored("auto", out))
}
