package statusapi

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// respond writes a value as JSON with a strong ETag, or 304 when the caller has it.
func respond(w http.ResponseWriter, r *http.Request, value any) error {
	body, ok := value.(*rendered)
	if !ok {
		var err error
		if body, err = render(value); err != nil {
			return err
		}
	}
	tag := `"` + hex.EncodeToString(body.tag[:]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Authorization")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	writeBody(w, r, http.StatusOK, body.json)
	return nil
}

// writeBody ends the body with a newline, for terminals.
func writeBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a caller that went away needs no answer
		_, _ = w.Write(newline)
	}
}

var newline = []byte("\n")

// matches compares as If-None-Match does: weakly, over a list, "*" for anything.
func matches(headers []string, tag string) bool {
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
			if part == tag || part == "*" {
				return true
			}
		}
	}
	return false
}
