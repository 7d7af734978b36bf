package statusapi

import (
	"encoding/json"
	"errors"
	"net/http"
)

// Problem is an RFC 9457 answer; Code is the documents' code.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Codes of the API's own problems.
const (
	codeNotFound     = "NOT_FOUND"
	codeUnauthorized = "UNAUTHORIZED"
	codeExpired      = "EXPIRED"
	codeBusy         = "BUSY"
	codeAmbiguous    = "AMBIGUOUS_NAME"
	codeMethod       = "METHOD_NOT_ALLOWED"
	codeBadRequest   = "BAD_REQUEST"
	codeMisdirected  = "MISDIRECTED"
	codeUnavailable  = "UNAVAILABLE"
	codeInternal     = "INTERNAL"
)

func problem(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func notFound(what string) *Problem {
	return problem(http.StatusNotFound, codeNotFound, what+" not found")
}

func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		// What went wrong inside is the log's business, not the caller's.
		p = problem(http.StatusInternalServerError, codeInternal, "")
	}
	body, _ := json.Marshal(p)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	writeBody(w, r, p.Status, body)
}
