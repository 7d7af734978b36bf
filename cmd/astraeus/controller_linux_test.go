package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/cmd/astraeus/view"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// repository makes a git repository of files.
func repositoryOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	git(t, dir, "init", "-q", "-b", "main")
	commitAll(t, dir)
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=ada", "-c", "user.email=ada@example.org"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func commitAll(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "change")
}

const (
	clusterText = "kind: \"Cluster\"\nmetadata: name: \"lab\"\n"
	orgText     = "kind: \"Org\"\nmetadata: name: \"acme\"\n"
	machineText = "kind: \"Machine\"\nmetadata: name: \"gpu-01\"\nspec: {address: \"192.0.2.1\", engine: \"process\"}\n"
)

// astraeus is this program as a process of its own.
func astraeus(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = append([]string{"astraeus"}, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "ASTRAEUS_SERVER=")
	return cmd
}

// finish runs a command to its end.
func finish(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := astraeus(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return exitOf(t, cmd.Run()), out.String(), errs.String()
}

func exitOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// stateDirOf is short enough for a socket.
func stateDirOf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "astraeus")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// G-7, X-25, X-37
func TestApply(t *testing.T) {
	repo, state := repositoryOf(t, map[string]string{"cluster.cue": clusterText, "orgs/acme/org.cue": orgText}), stateDirOf(t)
	code, out, errs := finish(t, "apply", "--repo", repo, "--state", state)
	require.Equal(t, 0, code, errs)
	require.Regexp(t, `^ok: [0-9a-f]{12} applied, 0 steps\n$`, out)

	// Again: nothing to do, and the state directory knows its cluster.
	code, out, errs = finish(t, "apply", "--repo", repo, "--state", state, "-o", "json")
	require.Equal(t, 0, code, errs)
	var applied struct{ Converged bool }
	require.NoError(t, json.Unmarshal([]byte(out), &applied))
	require.True(t, applied.Converged)

	// A machine that nobody has heard is waited for: code 6 when time is up.
	write(t, repo, "orgs/acme/machines/gpu-01.cue", machineText)
	commitAll(t, repo)
	code, out, errs = finish(t, "apply", "--repo", repo, "--state", state, "--timeout", "300ms")
	require.Equal(t, 6, code, errs)
	require.Contains(t, out, "not converged yet")

	// Invalid: code 3, and nothing is applied.
	write(t, repo, "orgs/acme/machines/gpu-02.cue", strings.Replace(machineText, "address", "adress", 1))
	commitAll(t, repo)
	code, out, errs = finish(t, "apply", "--repo", repo, "--state", state)
	require.Equal(t, 3, code, errs)
	require.Empty(t, out)
	require.Contains(t, errs, "UNKNOWN_FIELD")

	// An older commit by its name; it does not follow the one in force, so it is held.
	code, _, errs = finish(t, "apply", "--repo", repo, "--state", state, "--ref", "main~2", "--timeout", "1s")
	require.Contains(t, []int{5, 6}, code, errs)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// The question before an apply also names machines that have not said what they
// hold: they lose their copies when they do (D-61).
func TestDataDeletedIsNamed(t *testing.T) {
	machine := func(location *schema.DataLocationSpec) *schema.AcceptedObject {
		return &schema.AcceptedObject{UID: "u", Object: &schema.Object{Spec: &schema.MachineSpec{DataLocation: location}}}
	}
	key := func(kind schema.Kind, name string) schema.Key { return schema.Key{Kind: kind, Name: name} }
	input := planner.Input{
		Accepted: schema.Accepted{Objects: map[schema.Key]*schema.AcceptedObject{
			key(schema.KindMachine, "heard"):  machine(&schema.DataLocationSpec{Path: "/d"}),
			key(schema.KindMachine, "silent"): machine(&schema.DataLocationSpec{Path: "/d"}),
			key(schema.KindMachine, "bare"):   machine(nil),
		}},
		Observed: schema.Observed{Machines: []*schema.MachineReport{{Name: "heard", Copies: []schema.Copy{}}, {Name: "silent"}}},
	}
	drive := schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "cache"}
	plan := schema.Plan{Steps: []*schema.Step{{Action: schema.ActionDeleteCopy, Object: drive, Machine: "heard"}}}
	require.Equal(t, []deletion{{drive, "heard", false}}, dataDeleted(input, plan))
	plan.Decisions.Bury = []schema.Tombstone{{Key: drive}}
	deletes := dataDeleted(input, plan)
	require.Len(t, deletes, 2)
	require.Equal(t, "drive acme/lab/cache on silent, if it has a copy there", deletes[1].text(view.Names{"ws-1": "acme/lab"}))
}

func TestApplyIsInterrupted(t *testing.T) {
	repo := repositoryOf(t, map[string]string{"cluster.cue": clusterText, "orgs/acme/org.cue": orgText, "orgs/acme/machines/gpu-01.cue": machineText})
	cmd := astraeus(t, "apply", "--repo", repo, "--state", stateDirOf(t))
	progress, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(progress)
	require.True(t, lines.Scan(), "progress says that it has begun")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(progress)
	require.NoError(t, err)
	require.Equal(t, 130, exitOf(t, cmd.Wait()), "%s\n%s", lines.Text(), rest)
}

func TestApplyNeedsCommits(t *testing.T) {
	plain := t.TempDir()
	code, _, errs := finish(t, "apply", "--repo", plain, "--state", stateDirOf(t))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "not a git repository")

	noCluster := repositoryOf(t, map[string]string{"orgs/acme/org.cue": orgText})
	code, _, errs = finish(t, "apply", "--repo", noCluster, "--state", stateDirOf(t))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "declares no cluster")
}

// served is a running serve.
type served struct {
	cmd *exec.Cmd
	url string
	log <-chan string // everything it said, when it ended
}

func serve(t *testing.T, args ...string) served {
	t.Helper()
	cmd := astraeus(t, append([]string{"serve", "--status", "127.0.0.1:0"}, args...)...)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	urls, all := make(chan string, 1), make(chan string, 1)
	go func() {
		var text strings.Builder
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Status string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				urls <- line.Status
			}
		}
		close(urls)
		all <- text.String()
	}()
	url, ok := <-urls
	if !ok {
		t.Fatalf("serve ended: %s", <-all)
	}
	return served{cmd, url, all}
}

func (s served) stop(t *testing.T, signal os.Signal) (int, string) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(signal))
	log := <-s.log
	return exitOf(t, s.cmd.Wait()), log
}

// ready waits until the controller works.
func (s served) ready(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		resp, err := client.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 20*time.Second, 5*time.Millisecond)
}

// G-8, G-10
func TestServe(t *testing.T) {
	repo, state := repositoryOf(t, map[string]string{"cluster.cue": clusterText, "orgs/acme/org.cue": orgText}), stateDirOf(t)
	s := serve(t, "--repo", repo, "--state", state)
	s.ready(t)
	code, out, errs := finish(t, "get", "orgs", "-o", "name", "--server", s.url)
	require.Equal(t, 0, code, errs)
	require.Equal(t, "org/acme\n", out)

	// A new commit comes into force by itself.
	write(t, repo, "orgs/acme/machines/gpu-01.cue", machineText)
	commitAll(t, repo)
	require.Eventually(t, func() bool {
		_, out, _ := finish(t, "get", "machines", "-o", "name", "--server", s.url)
		return out == "machine/gpu-01\n"
	}, 20*time.Second, 5*time.Millisecond)

	// The link's socket is its owner's alone, and only one controller runs here.
	info, err := os.Stat(filepath.Join(state, "link.sock"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	code, _, errs = finish(t, "apply", "--repo", repo, "--state", state)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "another controller uses")
	code, _, errs = finish(t, "apply", "--repo", repo, "--state", state, "--cluster", "other")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "--cluster other: the state directory "+state+" is of the cluster lab")

	code, log := s.stop(t, syscall.SIGTERM)
	require.Equal(t, 0, code, log)
	require.Contains(t, log, `"msg":"stopped"`)
	require.Contains(t, log, `"machines":"unix:`+state+`/link.sock"`)
	require.Regexp(t, `"msg":"commit planned","commit":"[0-9a-f]{40}","steps":0,"holds":\d+,"waits":0,"errors":0`, log)
	require.Contains(t, log, `"msg":"machines","connected":0,"declared":1`)

	// It starts again while the repository is away: an outage is not emptiness.
	require.NoError(t, os.Rename(filepath.Join(repo, ".git", "refs"), filepath.Join(repo, ".git", "refs.away")))
	s = serve(t, "--repo", repo, "--state", state)
	require.Eventually(t, func() bool {
		_, out, _ := finish(t, "get", "machines", "-o", "name", "--server", s.url)
		return out == "machine/gpu-01\n"
	}, 20*time.Second, 5*time.Millisecond)
	code, log = s.stop(t, os.Interrupt)
	require.Equal(t, 0, code, log)
}

func TestServeRefuses(t *testing.T) {
	repo := repositoryOf(t, map[string]string{"cluster.cue": clusterText})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--status", "0.0.0.0:0"}, "TLS only"},
		{[]string{"--log-level", "loud"}, "unknown level"},
		{[]string{"--link", "127.0.0.1:0"}, "--link 127.0.0.1:0 serves machines over the network, with certificates only: give --link-cert FILE"},
		{[]string{"--link-socket", "/" + strings.Repeat("x", 120)}, "shorter --link-socket"},
		{[]string{"--etcd", "http://ada:hunter2@127.0.0.1:1"}, "credentials"},
		{[]string{"extra"}, "serve takes no argument"},
	} {
		code, _, errs := finish(t, append([]string{"serve", "--status", "127.0.0.1:0", "--repo", repo, "--state", stateDirOf(t)}, c.args...)...)
		require.Equal(t, 1, code, "%v", c.args)
		require.Contains(t, errs, c.want)
		require.NotContains(t, errs, "hunter2")
	}
}
