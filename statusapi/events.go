package statusapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

type numbered struct {
	schema.Event
	id string
}

// stampID makes a token of a moment; several things of one moment are told apart by their order.
func stampID(at time.Time, seen map[string]int) string {
	stamp := at.UTC().Format("20060102T150405.000000000")
	seen[stamp]++
	return fmt.Sprintf("%s-%06d", stamp, seen[stamp])
}

// wantedObject is ?object=kind/name, zero for all.
func (r *request) wantedObject() (schema.Key, error) {
	text := r.query.Get("object")
	if text == "" {
		return schema.Key{}, nil
	}
	word, name, ok := strings.Cut(text, "/")
	if !ok || name == "" {
		return schema.Key{}, problem(http.StatusBadRequest, codeBadRequest, "object must be kind/name")
	}
	return r.resolve(word, name)
}

// since is ?since=, zero for the beginning.
func (r *request) since() (time.Time, error) {
	text := r.query.Get("since")
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, problem(http.StatusBadRequest, codeBadRequest, "since must be a time like 2026-01-02T15:04:05Z")
	}
	return at, nil
}

// listEvents lists events, the oldest first; ?object=drive/ws-….x chooses one
// object's, ?since= those from a time on.
func listEvents(r *request) (any, error) {
	want, err := r.wantedObject()
	if err != nil {
		return nil, err
	}
	since, err := r.since()
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	var events []numbered
	for _, e := range r.Events {
		if !r.scope.covers(e.Object) || want != (schema.Key{}) && e.Object != want || e.At.Before(since) {
			continue
		}
		events = append(events, numbered{e, stampID(e.At, seen)})
	}
	slices.SortStableFunc(events, func(a, b numbered) int { return a.At.Compare(b.At) })
	cut, err := page(r.query, events, func(e numbered) string { return e.id })
	if err != nil {
		return nil, err
	}
	list := List[schema.Event]{Items: []schema.Event{}, Continue: cut.Continue}
	for _, e := range cut.Items {
		list.Items = append(list.Items, e.Event)
	}
	return list, nil
}
