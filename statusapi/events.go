package statusapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

var events = &collection{
	word: "events", log: true,
	entries: func(s *state) []entry {
		out := make([]entry, len(s.Events))
		for i, e := range s.Events {
			out[i] = entry{id: eventID(e), key: e.Object, ref: e}
		}
		// Those of one moment stay in the order in which they were written.
		slices.SortStableFunc(out, func(a, b entry) int { return a.ref.(schema.Event).At.Compare(b.ref.(schema.Event).At) })
		return out
	},
	facts: func(_ *state, e entry) any { return e.ref.(schema.Event) },
	body: func(r *request, facts any) any {
		e := facts.(schema.Event)
		e.Message = r.say(e.Object.Namespace, e.Message)
		return e
	},
	manner: func(r *request, facts any) string {
		if e := facts.(schema.Event); r.say(e.Object.Namespace, e.Message) != e.Message {
			return "-"
		}
		return "same"
	},
	filters: map[string]filter{
		"object": {
			doc: "only events of this object: kind/name",
			fits: func(r *request, facts any, value string) bool {
				key, err := r.keyOf(value)
				return err == nil && facts.(schema.Event).Object == key
			},
			check: func(r *request, value string) error {
				_, err := r.keyOf(value)
				return err
			},
		},
		"since": {
			doc: "only events from this time on: 2026-01-02T15:04:05Z",
			fits: func(_ *request, facts any, value string) bool {
				at, err := timeOf("since", value)
				return err == nil && !facts.(schema.Event).At.Before(at)
			},
			check: func(_ *request, value string) error {
				_, err := timeOf("since", value)
				return err
			},
		},
		"type":      byWordOf("only events of this type", func(_ *request, e schema.Event) string { return e.Type }),
		"machine":   byWordOf("only events on this machine", func(_ *request, e schema.Event) string { return e.Machine }),
		"workspace": byWorkspace(func(e schema.Event) schema.Key { return e.Object }),
	},
}

// eventID tells events apart: by the moment, and what they say.
func eventID(e schema.Event) string {
	sum := sha256.Sum256([]byte(e.Object.String() + "\x00" + e.Type + "\x00" + e.Machine + "\x00" + e.Message))
	return e.At.UTC().Format("20060102T150405.000000000") + "-" + hex.EncodeToString(sum[:4])
}

// keyOf reads kind/name as the request means it.
func (r *request) keyOf(text string) (schema.Key, error) {
	word, name, ok := strings.Cut(text, "/")
	if !ok || name == "" {
		return schema.Key{}, problem(http.StatusBadRequest, codeBadRequest, "object must be kind/name")
	}
	return r.resolve(word, name)
}
