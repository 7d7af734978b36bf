package gitsource

import (
	"context"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// server serves a repository with git's own http backend, on loopback.
type server struct {
	*httptest.Server
	lists, packs atomic.Int64 // requests for refs and for packs

	mu    sync.Mutex
	fail  int // answer every request with this status
	user  string
	pass  string
	block chan struct{} // refs are answered when this is closed
	seen  chan struct{} // gets a value when a request for refs came
}

func serve(t testing.TB, r *repo) *server {
	path, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	h := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	s := &server{seen: make(chan struct{}, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { s.handle(h, w, req) }))
	t.Cleanup(s.Close)
	return s
}

func (s *server) handle(h http.Handler, w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	fail, user, pass, block := s.fail, s.user, s.pass, s.block
	s.mu.Unlock()
	refs := strings.HasSuffix(req.URL.Path, "/info/refs")
	if refs {
		s.lists.Add(1)
		s.seen <- struct{}{}
		if block != nil {
			<-block
		}
	} else {
		s.packs.Add(1)
	}
	gotUser, gotPass, _ := req.BasicAuth()
	if fail == 0 && pass != "" && (gotUser != user || gotPass != pass) {
		fail = http.StatusUnauthorized
	}
	if fail != 0 {
		// A server that echoes what it got, as some do.
		http.Error(w, "denied for "+gotUser+":"+gotPass+" "+req.Header.Get("Authorization"), fail)
		return
	}
	h.ServeHTTP(w, req)
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// url with user info before the host; the repository is the .git directory.
func (s *server) url(userinfo string) string {
	if userinfo != "" {
		userinfo += "@"
	}
	return "http://" + userinfo + strings.TrimPrefix(s.URL, "http://") + "/.git"
}

func waitSeen(ctx context.Context, t testing.TB, s *server) {
	t.Helper()
	select {
	case <-s.seen:
	case <-ctx.Done():
		t.Fatal("no request came")
	}
}

func serveFunc(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
