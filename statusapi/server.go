package statusapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Limits of the server. Answers are small and made from memory, so a caller that
// needs longer is stuck or hostile.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10
)

const allowed = "GET, HEAD, OPTIONS"

// Handler serves the status API of one Source.
type Handler struct {
	source Source
	log    *slog.Logger

	mu   sync.Mutex
	last *state // of the View seen last
}

// NewHandler serves source. log may be nil.
func NewHandler(source Source, log *slog.Logger) *Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Handler{source: source, log: log}
}

// NewServer is an http.Server for the handler with its limits set.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Listen opens a TCP listener on a loopback address and refuses any other.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("status address %q: %w", address, err)
	}
	if !loopbackHost(host) {
		return nil, fmt.Errorf("status address %q: the status API has no authentication yet and listens on loopback only", address)
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", address)
}

// loopbackHost takes "localhost" and loopback IP literals; a name that merely
// resolves to loopback today is not one of them.
func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := h.serve(w, r); err != nil {
		writeProblem(w, r, err)
		if known := (*Problem)(nil); !errors.As(err, &known) {
			h.log.Error("status request failed", "path", r.URL.Path, "error", err)
		}
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	if !localRequest(r) {
		return problem(http.StatusMisdirectedRequest, codeMisdirected, "ask under a loopback address")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.Header().Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		w.Header().Set("Allow", allowed)
		return problem(http.StatusMethodNotAllowed, codeMethod, "the status API changes nothing; write to the git repository instead")
	}
	segments, err := segmentsOf(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	return h.route(w, r, segments)
}

// localRequest refuses names other than loopback's: a page on a name that was
// made to resolve here would otherwise read everything.
func localRequest(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopbackHost(host)
}

// current is the source's state, derived anew only when the view changed.
func (h *Handler) current(ctx context.Context) (*state, error) {
	view, err := h.source.View(ctx)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, codeUnavailable, err.Error())
	}
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	if last != nil && last.View == view {
		return last, nil
	}
	fresh := newState(view)
	h.mu.Lock()
	h.last = fresh
	h.mu.Unlock()
	return fresh, nil
}
