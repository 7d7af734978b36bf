package statusapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"astraeus.io/astraeus/statusapi/token"
)

// caller is who asks.
type caller struct {
	// trusted: there are no tokens, and whoever reaches the loopback address sees all.
	trusted bool
	entry   token.Entry
}

// all reports whether the caller sees the whole cluster uncut.
func (c caller) all() bool { return c.trusted || c.entry.Role == token.ClusterReader }

// grant names what the caller sees, for caches.
func (c caller) grant() string {
	if c.all() {
		return "all"
	}
	return c.entry.Grant()
}

// Tokens lets callers in; *token.File is one.
type Tokens interface {
	// Check is what a token lets its bearer see. Errors: token.ErrUnknown,
	// token.ErrExpired, token.ErrFile.
	Check(text string, now time.Time) (token.Entry, error)
	// Holds reports whether an entry that was let in still is.
	Holds(e token.Entry, now time.Time) bool
}

// admit finds out who asks. Errors are 401 problems, or a 503 while the tokens
// cannot be read.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) (caller, error) {
	if h.tokens == nil {
		return caller{trusted: true}, nil
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="astraeus"`)
		return caller{}, problem(http.StatusUnauthorized, codeUnauthorized, "give a token: Authorization: Bearer TOKEN")
	}
	scheme, text, _ := strings.Cut(given[0], " ")
	if len(given) > 1 || !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", `Bearer realm="astraeus", error="invalid_request"`)
		return caller{}, problem(http.StatusUnauthorized, codeUnauthorized, "give one token: Authorization: Bearer TOKEN")
	}
	entry, err := h.tokens.Check(strings.TrimLeft(text, " "), h.now())
	switch {
	case err == nil:
		return caller{entry: entry}, nil
	case errors.Is(err, token.ErrFile):
		h.log.Error("nobody is let in", "error", err)
		return caller{}, problem(http.StatusServiceUnavailable, codeUnavailable, "tokens cannot be checked now")
	}
	// Whether a token is wrong, was revoked or has expired is the bearer's to know only
	// when it was right.
	w.Header().Set("WWW-Authenticate", `Bearer realm="astraeus", error="invalid_token"`)
	detail := "the token is not valid"
	if errors.Is(err, token.ErrExpired) {
		detail = "the token has expired"
	}
	return caller{}, problem(http.StatusUnauthorized, codeUnauthorized, detail)
}

// still reports whether a caller that was let in may go on listening.
func (h *Handler) still(c caller) bool {
	return c.trusted || h.tokens != nil && h.tokens.Holds(c.entry, h.now())
}
