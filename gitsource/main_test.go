package gitsource

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for _, kv := range []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
	} {
		k, v, _ := strings.Cut(kv, "=")
		_ = os.Setenv(k, v)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		os.Exit(code)
	}))
}

func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// repo is a repository driven by the real git.
type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB) *repo {
	r := &repo{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) git(args ...string) string { return r.gitIn("", args...) }

func (r *repo) gitIn(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(r.t, err, "git %v: %s", args, stderr.String())
	return strings.TrimSpace(string(out))
}

func (r *repo) write(path, text string) {
	r.t.Helper()
	full := filepath.Join(r.dir, path)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(r.t, os.WriteFile(full, []byte(text), 0o644))
}

// commit writes one file and commits it; the commit's hash is returned.
func (r *repo) commit(path, text string) string {
	r.t.Helper()
	r.write(path, text)
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "change "+path)
	return r.git("rev-parse", "HEAD")
}

// object stores raw bytes without any check.
func (r *repo) object(typ, data string) plumbing.Hash {
	r.t.Helper()
	dir := filepath.Join(r.dir, ".git", "objects")
	kind, err := plumbing.ParseObjectType(typ)
	require.NoError(r.t, err)
	h, err := writeLoose(dir, kind, []byte(data))
	require.NoError(r.t, err)
	return h
}

// commitTree makes the raw tree entries the content of main.
func (r *repo) commitTree(entries ...rawEntry) {
	r.t.Helper()
	tree := r.object("tree", string(encodeTree(entries)))
	h := r.object("commit", "tree "+tree.String()+"\nauthor A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n\nraw\n")
	r.git("update-ref", "refs/heads/main", h.String())
}

func (r *repo) open(opt Options) *Source {
	r.t.Helper()
	opt.URL = r.dir
	return openTest(r.t, opt)
}

func openTest(t testing.TB, opt Options) *Source {
	t.Helper()
	if opt.CacheDir == "" {
		opt.CacheDir = t.TempDir()
	}
	s, err := Open(testCtx(t), opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func fetch(t testing.TB, s *Source) *Snapshot {
	t.Helper()
	snap, err := s.Fetch(testCtx(t))
	require.NoError(t, err)
	return snap
}
