package statusapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// respond writes a value as JSON with a strong ETag, or 304 when the caller has it.
func respond(w http.ResponseWriter, r *http.Request, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	body = append(body, '\n')
	tag := etag(body)
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	writeBody(w, r, http.StatusOK, body)
	return nil
}

func writeBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a caller that went away needs no answer
	}
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

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
