package statusapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// Limits of the server. Answers are small and made from memory, so a caller that
// needs longer is stuck or hostile.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10
	// maxAnswers are made at a time, and so many of what takes long; others wait.
	maxAnswers = 64
	maxHeavy   = 2
	// maxWait is how long an answer may wait for its turn.
	maxWait = 5 * time.Second
)

const allowed = "GET, HEAD, OPTIONS"

// Options of NewHandler. Source is required.
type Options struct {
	Source Source
	// Tokens let callers in. Nil lets everybody in who reaches the server under a
	// loopback name: listen on loopback only then.
	Tokens Tokens
	// Metrics is what /metrics shows, with the API's own; nil for those alone.
	Metrics *prometheus.Registry
	// Version of the program, for /metrics.
	Version string
	Log     *slog.Logger
	// Now is time.Now by default.
	Now func() time.Time
}

// Handler serves the status API of one Source.
type Handler struct {
	source    Source
	tokens    Tokens
	log       *slog.Logger
	now       func() time.Time
	snapshots *snapshots
	hub       *hub
	metrics   *metrics
	answers   *semaphore.Weighted
	heavy     *semaphore.Weighted
	slowest   time.Duration // that a watcher may take to read what it was sent

	mu   sync.Mutex
	last *state // of the View seen last
}

// NewHandler makes a handler. Close ends its watches.
func NewHandler(o Options) *Handler {
	h := &Handler{source: o.Source, tokens: o.Tokens, log: o.Log, now: o.Now,
		slowest: slowest, answers: semaphore.NewWeighted(maxAnswers), heavy: semaphore.NewWeighted(maxHeavy)}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.now == nil {
		h.now = time.Now
	}
	h.snapshots = &snapshots{now: h.now, byID: map[string]*snapshot{}, newest: map[string]*snapshot{}}
	h.hub = newHub(h)
	h.metrics = newMetrics(h, o.Metrics, o.Version)
	return h
}

// Close ends every watch. Other answers go on.
func (h *Handler) Close() { h.hub.close() }

// NewServer is an http.Server for the handler with its limits set. Shutting it
// down ends the watches.
func NewServer(h *Handler) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	s.RegisterOnShutdown(h.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := h.now()
	seen := &recorder{ResponseWriter: w}
	seen.Header().Set("X-Content-Type-Options", "nosniff")
	route, err := h.serve(seen, r)
	if err != nil {
		writeProblem(seen, r, err)
		if known := (*Problem)(nil); !errors.As(err, &known) {
			h.log.Error("status request failed", "path", r.URL.Path, "error", err)
		}
	}
	h.metrics.answered(route, r.Method, seen.status, h.now().Sub(began))
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Routes beside those of operations, as metrics call them.
const (
	routeNone    = "none"
	routeHealth  = "healthz"
	routeReady   = "readyz"
	routeMetrics = "metrics"
	routeOpenAPI = "openapi.json"
)

// serve answers a request and says by which route, for metrics.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (route string, err error) {
	if h.tokens == nil && !localRequest(r) {
		return routeNone, problem(http.StatusMisdirectedRequest, codeMisdirected, "ask under a loopback address")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.Header().Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
		return routeNone, nil
	default:
		w.Header().Set("Allow", allowed)
		return routeNone, problem(http.StatusMethodNotAllowed, codeMethod, "the status API changes nothing; write to the git repository instead")
	}
	segments, err := segmentsOf(r.URL.EscapedPath())
	if err == nil && len(segments) == 1 {
		switch segments[0] {
		case routeHealth:
			return routeHealth, respond(w, r, map[string]string{"status": "ok"})
		case routeReady:
			return routeReady, h.readyz(w, r)
		case routeOpenAPI:
			return routeOpenAPI, serveOpenAPI(w, r)
		}
	}
	who, refused := h.admit(w, r)
	switch {
	case refused != nil: // before anything else, so that nothing is learnt of what there is
		return routeNone, refused
	case err != nil:
		return routeNone, err
	case len(segments) == 1 && segments[0] == routeMetrics && who.all():
		h.metrics.page.ServeHTTP(w, r)
		return routeMetrics, nil
	}
	q, err := understand(segments, r.URL.RawQuery, who)
	if err != nil {
		return routeNone, err
	}
	if q.watched() {
		return q.pattern + "?watch", h.watch(w, r, q)
	}
	return q.pattern, h.reply(w, r, q)
}

// reply answers a question from the newest state.
func (h *Handler) reply(w http.ResponseWriter, r *http.Request, q *question) error {
	leave, err := h.turn(r.Context(), q.operation)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		return err
	}
	body, err := h.body(r.Context(), q)
	leave()
	if err != nil {
		return err
	}
	return respond(w, r, body)
}

func (h *Handler) body(ctx context.Context, q *question) (any, error) {
	current, err := h.current(ctx)
	if err != nil {
		return nil, err
	}
	req, err := q.of(ctx, current)
	if err != nil {
		return nil, err
	}
	body, err := h.answerOf(q, req)
	if err != nil {
		return nil, err
	}
	if made, ok := body.(*rendered); ok {
		return made, nil
	}
	return render(body)
}

// turn waits until few enough answers are being made.
func (h *Handler) turn(ctx context.Context, op *operation) (leave func(), err error) {
	slots := h.answers
	if op.heavy {
		slots = h.heavy
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if slots.Acquire(ctx, 1) != nil {
		return nil, problem(http.StatusServiceUnavailable, codeBusy, "too many requests at once")
	}
	return func() { slots.Release(1) }, nil
}

// current is the source's state, derived anew only when the view changed.
func (h *Handler) current(ctx context.Context) (*state, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	view, err := h.source.View(ctx)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, codeUnavailable, err.Error())
	}
	if h.last == nil || h.last.View != view {
		h.last = newState(view, h.last)
	}
	return h.last, nil
}
