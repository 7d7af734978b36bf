package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	cuejson "cuelang.org/go/encoding/json"
	"cuelang.org/go/encoding/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema/load"
	"astraeus.io/astraeus/statusapi"
	apitoken "astraeus.io/astraeus/statusapi/token"
)

func TestMain(m *testing.M) {
	runHooks()
	testscript.Main(m, map[string]func(){"astraeus": main})
}

// The scripts are what a person types and sees. -update rewrites what is compared.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			for name, value := range map[string]string{
				"GIT_AUTHOR_NAME": "ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "ada",
				"GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
				"GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
			} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"commit": scriptCommit, "serveview": scriptServe, "exits": scriptExits, "validjson": scriptJSON, "fits": scriptFits, "awk": scriptAwk,
		},
	})
}

// scriptCommit makes everything in a directory a commit, and the directory a
// repository first where it is none: commit DIR [MESSAGE].
func scriptCommit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: commit DIR [MESSAGE]")
	}
	dir, message := ts.MkAbs(args[0]), strings.Join(append(args[1:], "change"), " ")
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		ts.Check(ts.Exec("git", "-C", dir, "init", "-q", "-b", "main"))
	}
	ts.Check(ts.Exec("git", "-C", dir, "add", "-A"))
	ts.Check(ts.Exec("git", "-C", dir, "commit", "-q", "--allow-empty", "-m", message))
}

// scriptServe serves the status API of a cluster in which the files of a directory
// are in force: serveview DIR [OBSERVED|- [TOKENS]]. It sets ASTRAEUS_SERVER.
func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: serveview DIR [OBSERVED|- [TOKENS]]")
	}
	loader := load.New(load.Options{})
	defer loader.Close()
	desired, err := loader.Load(context.Background(), os.DirFS(ts.MkAbs(args[0])), load.Commit{ID: strings.Repeat("a", 40)})
	ts.Check(err)
	in := planner.Input{Desired: desired, Now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), Seed: "script"}
	if len(args) > 1 && args[1] != "-" {
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &in.Observed))
	}
	first := planner.Plan(in)
	in.Accepted, in.Placed = planner.Apply(in.Accepted, in.Placed, first.Decisions)
	view := &statusapi.View{Input: in, Plan: planner.Plan(in), Commit: desired.Commit, Events: first.Decisions.Events, Diagnostics: desired.Diagnostics}
	o := statusapi.Options{Source: viewOf{view}}
	if len(args) > 2 {
		o.Tokens, err = apitoken.Open(ts.MkAbs(args[2]))
		ts.Check(err)
	}
	h := statusapi.NewHandler(o)
	server := httptest.NewServer(h)
	ts.Defer(func() { h.Close(); server.Close() })
	ts.Setenv("ASTRAEUS_SERVER", server.URL)
}

type viewOf struct{ view *statusapi.View }

func (v viewOf) Changed() <-chan struct{} { return nil }

func (v viewOf) View(context.Context) (*statusapi.View, error) { return v.view, nil }

// scriptExits runs a program that must end with a code: exits CODE PROGRAM ARG….
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ProcessState.String()
		code = strings.TrimPrefix(code, "exit status ")
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != args[0] {
		ts.Fatalf("%s ended with %s, not %s", args[1], code, args[0])
	}
}

// scriptJSON checks that files are JSON, one value each: validjson FILE….
func scriptJSON(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		if !json.Valid([]byte(ts.ReadFile(name))) {
			ts.Fatalf("%s is not JSON", name)
		}
	}
}

// scriptAwk checks that a table can be split on blanks: every line of stdout but
// the last column has as many fields as the header: awk COLUMNS.
func scriptAwk(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	want := len(strings.Fields(lines[0]))
	for _, line := range lines {
		if n := len(strings.Fields(line)); n < want {
			ts.Fatalf("%d fields instead of %d: %s", n, want, line)
		}
	}
}

// scriptFits checks JSON against a JSON schema: fits SCHEMA FILE.
func scriptFits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: fits SCHEMA FILE")
	}
	err := fits(ts.ReadFile(args[0]), ts.ReadFile(args[1]))
	if neg == (err == nil) {
		ts.Fatalf("%s and %s: %v", args[0], args[1], err)
	}
}

func fits(schemaText, text string) error {
	ctx := cuecontext.New()
	file, err := jsonschema.Extract(ctx.CompileString(schemaText), &jsonschema.Config{StrictFeatures: true})
	if err != nil {
		return err
	}
	value, err := cuejson.Extract("value.json", []byte(text))
	if err != nil {
		return err
	}
	return ctx.BuildFile(file).Unify(ctx.BuildExpr(value)).Validate(cue.Concrete(true))
}
