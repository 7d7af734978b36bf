package statusapi

import (
	"encoding/json"
	"net/http"
)

// Readiness is the body of /readyz.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reasons are told to whoever sees the whole cluster: they name repositories and
	// machines.
	Reasons []string `json:"reasons"`
}

// readyz is 200 when the controller works and 503 with the reasons when not. A
// probe needs no token for the yes or no.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) error {
	body := Readiness{Ready: true, Reasons: []string{}}
	var reasons []string
	if view, err := h.source.View(r.Context()); err != nil {
		reasons = append(reasons, err.Error())
	} else {
		reasons = view.NotReady
	}
	if len(reasons) == 0 {
		return respond(w, r, body)
	}
	body.Ready = false
	if h.tellsAll(r) {
		body.Reasons = reasons
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, r, http.StatusServiceUnavailable, data)
	return nil
}

// tellsAll reports whether a caller sees the whole cluster; no token is no error.
func (h *Handler) tellsAll(r *http.Request) bool {
	if h.tokens == nil {
		return true
	}
	who, err := h.admit(discard{}, r)
	return err == nil && who.all()
}

// discard takes headers that nobody reads.
type discard struct{ http.ResponseWriter }

func (discard) Header() http.Header { return http.Header{} }
