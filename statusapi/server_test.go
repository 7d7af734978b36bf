package statusapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const long = "/api/v1/orgs/acme/workspaces/research/clusters/lab/api"

// everyPath is each route with a name that exists, in each of its forms.
func everyPath() []string {
	paths := []string{
		"/healthz", "/readyz", "/v1/drives/cache", "/v1/drives/ws-research.cache", "/v1/datavolumes/cache", "/v1/runs/train",
		"/v1/machines/gpu-01", "/v1/volumes/vol-3f9c2a1b8e4d6071", "/v1/volumes/my%20models",
		long + "/drives/imagenet", long + "/v1/drives/imagenet", long + "/runs/train", long + "/machines/gpu-01",
		long + "/volumes/vol-3f9c2a1b8e4d6071",
		"/v1/objects/drive/cache", "/v1/objects/drives/ws-research.cache/history", long + "/objects/drive/imagenet/history",
		"/v1/explain/drive/cache", "/v1/explain/machine/gpu-01", "/v1/explain/run/train/train-0", "/v1/explain/train/train-0",
		"/v1/explain/train-0", "/v1/explain/step-1", long + "/v1/explain/run/train", "/v1/commits/" + commitC0ffee,
	}
	for _, op := range operations {
		if strings.Contains(op.pattern, "{") {
			continue
		}
		paths = append(paths, "/v1/"+op.pattern)
		if !op.wide {
			paths = append(paths, long+"/"+op.pattern, long+"/v1/"+op.pattern)
		}
	}
	slices.Sort(paths)
	return paths
}

// Every route answers GET, HEAD and OPTIONS and refuses every other verb. // G-10, D-92
func TestEveryRouteByEveryVerb(t *testing.T) {
	view := cluster()
	before := schema.HashJSON(view.Input.Accepted.Objects)
	h := serve(t, fixed{view: view})
	for _, path := range everyPath() {
		get := ask(t, h, http.MethodGet, path)
		require.Equal(t, http.StatusOK, get.Code, "%s: %s", path, get.Body)
		require.Equal(t, "application/json", get.Header().Get("Content-Type"), path)

		head := ask(t, h, http.MethodHead, path)
		require.Equal(t, http.StatusOK, head.Code, path)
		require.Empty(t, head.Body.Bytes(), path)
		require.Equal(t, get.Header().Get("ETag"), head.Header().Get("ETag"), path)
		require.Equal(t, get.Header().Get("Content-Length"), head.Header().Get("Content-Length"), path)

		options := ask(t, h, http.MethodOptions, path)
		require.Equal(t, http.StatusNoContent, options.Code, path)
		require.Equal(t, allowed, options.Header().Get("Allow"), path)

		for _, verb := range []string{"POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "PROPFIND", "get", "X"} {
			for _, content := range contentTypes {
				r := newRequest(verb, path, "Content-Type", content, "X-HTTP-Method-Override", "GET")
				r.Body = io.NopCloser(strings.NewReader(`{"metadata":{"name":"x"}}`))
				w := serveTo(h, r)
				requireProblem(t, w, http.StatusMethodNotAllowed, codeMethod)
				require.Equal(t, allowed, w.Header().Get("Allow"), path)
			}
		}
		// A body changes nothing about a GET, whatever it says it is.
		for _, content := range contentTypes {
			r := newRequest(http.MethodGet, path, "Content-Type", content, "X-HTTP-Method-Override", "DELETE")
			r.Body = io.NopCloser(strings.NewReader("_method=DELETE&force=true"))
			w := serveTo(h, r)
			require.Equal(t, get.Body.String(), w.Body.String(), path)
		}
	}
	require.Equal(t, before, schema.HashJSON(view.Input.Accepted.Objects), "nothing changed")
}

var contentTypes = []string{
	"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/merge-patch+json",
	"application/octet-stream", "application/grpc", "",
}

func TestStrongETag(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	for _, path := range everyPath() {
		tag := ask(t, h, http.MethodGet, path).Header().Get("ETag")
		require.True(t, strings.HasPrefix(tag, `"`), "%s: %s", path, tag)
		for _, have := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			w := ask(t, h, http.MethodGet, path, "If-None-Match", have)
			require.Equal(t, http.StatusNotModified, w.Code, "%s %s", path, have)
			require.Empty(t, w.Body.Bytes())
			require.Equal(t, tag, w.Header().Get("ETag"))
		}
		require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, path, "If-None-Match", `"other"`).Code)
	}
	changed := cluster()
	changed.Events = nil
	other := serve(t, fixed{view: changed})
	require.NotEqual(t, ask(t, h, "GET", "/v1/events").Header().Get("ETag"), ask(t, other, "GET", "/v1/events").Header().Get("ETag"))
}

func TestPathTricks(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	for _, path := range []string{
		"/", "//", "/v1", "/v1/", "/v1/drives/", "//v1/drives", "/v1//drives", "/v2/drives", "/V1/drives", "/v1/Drives", "/drives",
		"/v1/drives/../machines", "/v1/drives/%2e%2e/machines", "/v1/./drives", "/v1/drives/%2e", "/v1/drives/..", "/v1/drives/cache/x",
		"/v1/drives/a%2fb", "/v1/drives/a%5cb", "/v1/drives/%00", "/v1/drives/%0a", "/v1/drives/nothing", "/v1/drives/ws-other.cache",
		"/v1/mounts/x", "/v1/events/x", "/v1/plan/x", "/v1/accepted/x", "/healthz/", "/healthz/x", "/readyz/x",
		long, long + "/", long + "/v1", long + "/accepted", long + "/observed", long + "/workspaces", long + "/healthz",
		long + "/drives/ws-research.cache", // names are local there
		"/api/v1/orgs/acme/workspaces/other/clusters/lab/api/drives", "/api/v1/orgs/other/workspaces/research/clusters/lab/api/drives",
		"/api/v1/orgs/acme/workspaces/research/clusters/other/api/drives", "/api/v1/orgs//workspaces/research/clusters/lab/api/drives",
		"/api/v1/orgs/acme/workspaces/%2e%2e/clusters/lab/api/drives", "/api/v2/orgs/acme/workspaces/research/clusters/lab/api/drives",
		strings.Replace(long, "/orgs/", "/org/", 1) + "/drives",
	} {
		requireProblem(t, ask(t, h, http.MethodGet, path), http.StatusNotFound, codeNotFound)
	}
}

func TestOnlyLoopbackNames(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:7600": 200, "localhost": 200, "LOCALHOST:1": 200, "[::1]:7600": 200, "[::1]": 200, "127.9.9.9": 200,
		"evil.example": 421, "evil.example:7600": 421, "192.0.2.1": 421, "localhost.evil.example": 421, "": 421, "0.0.0.0": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/drives", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}

// The server is reached over a real connection, with limits set. // G-10
func TestServer(t *testing.T) {
	l, err := Listen(t.Context(), Listening{Address: "127.0.0.1:0"})
	require.NoError(t, err)
	server := NewServer(serve(t, fixed{view: cluster()}))
	require.NotZero(t, server.ReadHeaderTimeout)
	require.NotZero(t, server.ReadTimeout)
	require.NotZero(t, server.WriteTimeout)
	require.NotZero(t, server.IdleTimeout)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + l.Addr().String() + "/v1/drives"

	resp, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	resp, err = client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)

	require.NoError(t, server.Shutdown(t.Context()))
	require.ErrorIs(t, <-done, http.ErrServerClosed)
}

func TestReadiness(t *testing.T) {
	view := cluster()
	view.NotReady = []string{"the store does not take writes"}
	h := serve(t, fixed{view: view})
	w := ask(t, h, http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.JSONEq(t, `{"ready":false,"reasons":["the store does not take writes"]}`, w.Body.String())
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/healthz").Code)

	broken := serve(t, fixed{err: errors.New("no state yet")})
	require.Equal(t, http.StatusServiceUnavailable, ask(t, broken, http.MethodGet, "/readyz").Code)
	require.Equal(t, http.StatusOK, ask(t, broken, http.MethodGet, "/healthz").Code)
	requireProblem(t, ask(t, broken, http.MethodGet, "/v1/drives"), http.StatusServiceUnavailable, codeUnavailable)
}

// changing is a Source whose view is a new one each time.
type changing struct{}

func (changing) View(context.Context) (*View, error) { return cluster(), nil }
func (changing) Changed() <-chan struct{}            { return nil }

// Answers are made from one view each, however many are asked for at once.
func TestManyAtOnce(t *testing.T) {
	h := serve(t, changing{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, path := range everyPath() {
				if w := ask(t, h, http.MethodGet, path); w.Code != http.StatusOK {
					t.Errorf("%s: %d", path, w.Code)
				}
			}
		})
	}
	all.Wait()
}

// No path or verb makes the handler do anything but answer in its own forms. // G-10
func FuzzServe(f *testing.F) {
	f.Add("GET", "/v1/drives/cache?limit=1&continue=eA")
	f.Add("DELETE", "/v1/drives/../..%2f%00")
	f.Add("GET", "/api/v1/orgs/acme/workspaces/research/clusters/lab/api/drives")
	h := serve(f, fixed{view: cluster()})
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: "127.0.0.1", Header: http.Header{}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		switch w.Code {
		case http.StatusOK, http.StatusNoContent, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusBadRequest, http.StatusConflict:
		default:
			t.Fatalf("%s %q: %d", method, target, w.Code)
		}
		if w.Code == http.StatusOK && method != http.MethodGet && method != http.MethodHead {
			t.Fatalf("%s %q was answered", method, target)
		}
	})
}
