package statusapi

import (
	"encoding/json"
	"net/http"
)

// Readiness is the body of /readyz.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// readyz is 200 when the controller works and 503 with the reasons when not.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) error {
	body := Readiness{Ready: true, Reasons: []string{}}
	if view, err := h.source.View(r.Context()); err != nil {
		body.Reasons = append(body.Reasons, err.Error())
	} else {
		body.Reasons = append(body.Reasons, view.NotReady...)
	}
	if len(body.Reasons) == 0 {
		return respond(w, r, body)
	}
	body.Ready = false
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, r, http.StatusServiceUnavailable, append(data, '\n'))
	return nil
}
