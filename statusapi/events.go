package statusapi

import (
	"fmt"
	"slices"

	"astraeus.io/astraeus/schema"
)

type numbered struct {
	schema.Event
	id string
}

// listEvents lists events, the oldest first; ?object=drive/ws-….x chooses one object's.
func listEvents(r *request) (any, error) {
	want := r.query.Get("object")
	seen := map[string]int{}
	var events []numbered
	for _, e := range r.Events {
		if !r.scope.covers(e.Object) || want != "" && e.Object.String() != want {
			continue
		}
		// Several events of one moment are told apart by their order.
		stamp := e.At.UTC().Format("20060102T150405.000000000")
		seen[stamp]++
		events = append(events, numbered{e, fmt.Sprintf("%s-%06d", stamp, seen[stamp])})
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
