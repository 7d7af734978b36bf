package statusapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi/token"
)

// stage is a Source whose view a test changes.
type stage struct {
	mu      sync.Mutex
	view    *View
	err     error
	changed chan struct{}
}

func newStage(view *View) *stage { return &stage{view: view, changed: make(chan struct{})} }

func (s *stage) View(context.Context) (*View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.err
}

func (s *stage) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *stage) set(view *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = view
	close(s.changed)
	s.changed = make(chan struct{})
}

// with is a view with one object more, or another in its place.
func with(v *View, objects ...*schema.Object) *View {
	out := *v
	out.Input.Accepted.Objects = map[schema.Key]*schema.AcceptedObject{}
	for k, o := range v.Input.Accepted.Objects {
		out.Input.Accepted.Objects[k] = o
	}
	for k, o := range accept(objects...) {
		out.Input.Accepted.Objects[k] = o
	}
	return &out
}

func without(v *View, key schema.Key) *View {
	out := with(v)
	delete(out.Input.Accepted.Objects, key)
	return out
}

func inServing(o *schema.Object) *schema.Object {
	o.Workspace = "serving"
	return o
}

// listener is one watch over a real connection.
type listener struct {
	t    *testing.T
	body *bufio.Reader
	stop func()
	last string // id of the newest message
}

type heard struct {
	event string
	data  string
}

func listen(t *testing.T, server *httptest.Server, path, after string, header ...string) *listener {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	require.NoError(t, err)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := server.Client().Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, path)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	end := func() { stop(); _ = resp.Body.Close() }
	t.Cleanup(end)
	return &listener{t: t, body: bufio.NewReader(resp.Body), stop: end, last: after}
}

// next is the next message; io.EOF becomes an event of that name.
func (l *listener) next() (h heard) {
	l.t.Helper()
	for {
		line, err := l.body.ReadString('\n')
		if err != nil {
			return heard{event: "end"}
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); name {
		case "id":
			l.last = value
		case "event":
			h.event = value
		case "data":
			h.data = value
		case "":
			if h.event != "" {
				return h
			}
		}
	}
}

// until reads up to a message of a kind and returns the ids told on the way.
func (l *listener) until(event string) (ids []string) {
	l.t.Helper()
	for {
		h := l.next()
		if h.event == event {
			return ids
		}
		require.NotEqual(l.t, "end", h.event, "the stream ended before %s", event)
		var c Changed
		require.NoError(l.t, json.Unmarshal([]byte(h.data), &c))
		ids = append(ids, h.event+" "+c.ID)
	}
}

func (l *listener) expect(event, id string) Changed {
	l.t.Helper()
	h := l.next()
	require.Equal(l.t, event, h.event, h.data)
	var c Changed
	require.NoError(l.t, json.Unmarshal([]byte(h.data), &c))
	require.Equal(l.t, id, c.ID)
	return c
}

func httpServer(t *testing.T, h *Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config = NewServer(h)
	server.Start()
	t.Cleanup(func() { h.Close(); server.Close() })
	return server
}

// D-92: a watch begins with everything, and tells each change once.
func TestWatch(t *testing.T) {
	first := cluster()
	source := newStage(first)
	server := httpServer(t, serve(t, source))
	l := listen(t, server, "/v1/drives?watch=1", "")
	require.Equal(t, "reset", l.next().event)
	require.Equal(t, []string{"added ws-research.cache", "added ws-research.imagenet", "added ws-research.refused", "added ws-serving.imagenet"}, l.until("synced"))

	drive := placedDrive()
	source.set(with(first, inServing(object(schema.KindDrive, nsServing, "new", drive))))
	c := l.expect("added", "ws-serving.new")
	var d Drive
	require.NoError(t, json.Unmarshal(c.Item, &d))
	require.Equal(t, "new", d.Metadata.Name)

	bigger := placedDrive()
	bigger.SizeHintBytes = 5
	second := with(first, inServing(object(schema.KindDrive, nsServing, "new", bigger)))
	source.set(second)
	c = l.expect("changed", "ws-serving.new")
	require.Contains(t, string(c.Item), `"size_hint_bytes":5`)

	// What does not concern the list is not told; the next thing that is, is.
	source.set(with(second, object(schema.KindVolume, nsServing, "other", &schema.VolumeSpec{HostPath: "/data/x", Shared: true})))
	source.set(without(second, key(nsServing, "imagenet")))
	require.Nil(t, l.expect("removed", "ws-serving.imagenet").Item)

	// Below a workspace, and filtered, other things are told.
	scoped := listen(t, server, long+"/drives?watch=1&state=Available", "")
	scoped.next()
	require.Equal(t, []string{"added ws-research.cache", "added ws-research.imagenet"}, scoped.until("synced"))
}

// A client that comes back gets what it missed, and a reset when that is not known.
func TestWatchResumes(t *testing.T) {
	first := cluster()
	source := newStage(first)
	h := serve(t, source)
	server := httpServer(t, h)
	l := listen(t, server, "/v1/drives?watch=1", "")
	l.until("synced")
	l.stop()
	source.set(with(first, object(schema.KindDrive, nsServing, "missed", placedDrive())))
	back := listen(t, server, "/v1/drives?watch=1", l.last)
	require.Equal(t, []string{"added ws-serving.missed"}, back.until("synced"))
	at := back.last
	source.set(first)
	require.Equal(t, "removed", back.next().event)

	for name, after := range map[string]string{
		"made up": "0123456789abcdef-7", "of another list": strings.Replace(at, "-", "0-", 1), "not a number": strings.Split(at, "-")[0] + "-x",
		"the future": strings.Split(at, "-")[0] + "-99999", "negative": strings.Split(at, "-")[0] + "--1", "long": strings.Repeat("x", 4000),
	} {
		again := listen(t, server, "/v1/drives?watch=1", after)
		require.Equal(t, "reset", again.next().event, name)
		require.Len(t, again.until("synced"), 4, name)
		again.stop()
	}
	// A list of another shape does not take the id of this one.
	other := listen(t, server, long+"/drives?watch=1", at)
	require.Equal(t, "reset", other.next().event)
}

// One thing can be followed too, also before it is there and after it is gone.
func TestWatchOne(t *testing.T) {
	first := cluster()
	source := newStage(without(first, key(nsServing, "imagenet")))
	server := httpServer(t, serve(t, source))
	l := listen(t, server, "/v1/objects/drive/ws-serving.imagenet?watch=1", "")
	require.Equal(t, "reset", l.next().event)
	require.Empty(t, l.until("synced"))
	source.set(first)
	require.Contains(t, string(l.expect("added", "").Item), `"states":["Accepted","Available"]`)
	source.set(without(first, key(nsServing, "imagenet")))
	l.expect("removed", "")

	plan := listen(t, server, "/v1/plan?watch=1", "")
	require.Equal(t, "reset", plan.next().event)
	require.Equal(t, []string{"added "}, plan.until("synced"))
	next := cluster()
	next.Commit = "beef"
	source.set(next)
	require.Contains(t, string(plan.expect("changed", "").Item), `"commit":"beef"`)
}

// Events only come: that old ones are not kept is no news.
func TestWatchEvents(t *testing.T) {
	first := cluster()
	source := newStage(first)
	server := httpServer(t, serve(t, source))
	l := listen(t, server, "/v1/events?watch=1&object=drive/ws-research.cache", "")
	l.next()
	require.Len(t, l.until("synced"), 2)
	next := cluster()
	next.Events = append(next.Events[2:], schema.Event{At: noon.Add(time.Minute), Object: key(nsServing, "imagenet"), Type: "Held"},
		schema.Event{At: noon.Add(time.Minute), Object: key(nsResearch, "cache"), Type: "Held", Message: "x"})
	source.set(next)
	h := l.next()
	require.Equal(t, "added", h.event)
	require.Contains(t, h.data, `"message":"x"`)
}

// a watch ends when its token is revoked, and when the workspace is gone.
func TestWatchEndsWithItsToken(t *testing.T) {
	source := newStage(tenants())
	file := filepath.Join(t.TempDir(), "tokens.json")
	secret, entry, err := token.New(token.Entry{Role: token.Viewer, Org: "acme", Workspaces: []string{"research"}})
	require.NoError(t, err)
	put := func(list ...token.Entry) {
		require.NoError(t, token.Update(file, func([]token.Entry) ([]token.Entry, error) { return list, nil }))
	}
	put(entry)
	tokens, err := token.Open(file)
	require.NoError(t, err)
	h := NewHandler(Options{Source: source, Tokens: tokens})
	server := httpServer(t, h)
	bearer := []string{"Authorization", "Bearer " + secret.Reveal()}
	l := listen(t, server, "/v1/runs?watch=1", "", bearer...)
	l.until("synced")
	below := listen(t, server, long+"/runs?watch=1", "", bearer...)
	below.until("synced")

	source.set(without(tenants(), schema.Key{Kind: schema.KindWorkspace, Namespace: "acme", Name: "research"}))
	p := below.next()
	require.Equal(t, "problem", p.event)
	require.Contains(t, p.data, `"status":404`)
	require.Equal(t, "end", below.next().event)

	put()
	source.set(with(tenants()))
	for {
		h := l.next()
		if h.event == "problem" {
			require.Contains(t, h.data, `"status":401`)
			break
		}
		require.NotEqual(t, "end", h.event)
	}
	require.Equal(t, "end", l.next().event)
}

// A client that never reads is dropped and holds nothing up.
func TestSlowWatcherIsDropped(t *testing.T) {
	first := cluster()
	source := newStage(first)
	h := serve(t, source)
	f := newFeed(&question{operation: byWord["drives"][0], query: map[string][]string{}})
	current, err := h.current(t.Context())
	require.NoError(t, err)
	f.look(h, current)
	_, _, next := f.whole()
	f.mu.Lock()
	for range maxFrames + 1 {
		f.note("changed", "x", &rendered{json: []byte(`{}`)})
	}
	f.mu.Unlock()
	_, _, _, ok := f.from(next)
	require.False(t, ok, "what it did not read is gone")
	_, ok = f.since(f.id(next - 1))
	require.False(t, ok)
	require.LessOrEqual(t, len(f.frames), maxFrames)

	// Over a connection whose buffers are full, the write's deadline ends it.
	h.slowest = time.Millisecond
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	s := &stream{h: h, w: blocked{ours}, control: http.NewResponseController(blocked{ours}), feed: f, buffer: []byte("x")}
	require.ErrorIs(t, s.flush(), errSlow)
}

// blocked writes to a connection that nobody reads.
type blocked struct{ net.Conn }

func (blocked) Header() http.Header { return http.Header{} }
func (blocked) WriteHeader(int)     {}
func (blocked) Flush()              {}

// Watches are few enough, and end when the server does.
func TestWatchLimits(t *testing.T) {
	h := serve(t, newStage(cluster()))
	server := httpServer(t, h)
	l := listen(t, server, "/v1/drives?watch=1", "")
	l.until("synced")
	require.Equal(t, 1, h.hub.count())
	h.hub.mu.Lock()
	h.hub.watchers["many"] = maxWatchers
	h.hub.mu.Unlock()
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/runs?watch=1"), http.StatusServiceUnavailable, codeBusy)
	for _, bad := range []string{"/v1/drives?watch=0", "/v1/drives?watch=true", "/v1/drives?watch=1&limit=5", "/v1/accepted?watch=1", "/v1/explain/drive/cache?watch=1"} {
		requireProblem(t, ask(t, h, http.MethodGet, bad), http.StatusBadRequest, codeBadRequest)
	}
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/objects/thing/x?watch=1"), http.StatusServiceUnavailable, codeBusy)
	head := ask(t, h, http.MethodHead, "/v1/drives")
	require.Equal(t, http.StatusOK, head.Code)
	h.Close()
	_, err := io.ReadAll(l.body)
	require.NoError(t, err, "the stream ends in order")
	require.Equal(t, 0.0, testutil.ToFloat64(h.metrics.dropped))
}
