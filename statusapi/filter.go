package statusapi

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

const labelFilter = "label"

// filtersOf are the filters of a request's query.
func (r *request) filtersOf(c *collection) (url.Values, error) {
	out := url.Values{}
	for name, f := range c.filters {
		for _, value := range r.query[name] {
			if f.check != nil {
				if err := f.check(r, value); err != nil {
					return nil, err
				}
			}
			out.Add(name, value)
		}
	}
	return out, nil
}

// byWordOf keeps what a word of its facts equals, in whatever case.
func byWordOf[T any](doc string, word func(*request, T) string) filter {
	return filter{doc: doc, fits: func(r *request, facts any, value string) bool {
		return strings.EqualFold(word(r, facts.(T)), value)
	}}
}

// anyOf keeps what has a word among several.
func anyOf[T any](doc string, words func(*request, T) []string) filter {
	return filter{doc: doc, fits: func(r *request, facts any, value string) bool {
		for _, word := range words(r, facts.(T)) {
			if word == value {
				return true
			}
		}
		return false
	}}
}

// byLabel keeps what has a label: "key" or "key=value".
func byLabel[T any](object func(T) *schema.Object) filter {
	return filter{
		doc: "only what has this label: key or key=value; may be repeated",
		fits: func(_ *request, facts any, value string) bool {
			o := object(facts.(T))
			if o == nil {
				return false
			}
			key, want, both := strings.Cut(value, "=")
			have, there := o.Metadata.Labels[key]
			return there && (!both || have == want)
		},
		check: func(_ *request, value string) error {
			if key, _, _ := strings.Cut(value, "="); key == "" {
				return problem(http.StatusBadRequest, codeBadRequest, "label must be key or key=value")
			}
			return nil
		},
	}
}

// byOwner keeps what belongs to a user.
func byOwner[T any](object func(T) *schema.Object) filter {
	return anyOf("only what this user owns", func(_ *request, facts T) []string {
		if o := object(facts); o != nil {
			return []string{o.Metadata.Owner}
		}
		return nil
	})
}

// byWorkspace keeps what is in a workspace: its name, org/name, or its namespace.
func byWorkspace[T any](key func(T) schema.Key) filter {
	return anyOf("only what is in this workspace: its name, org/name or namespace", func(r *request, facts T) []string {
		o := r.objectOf(key(facts))
		return []string{o.Workspace, o.Org + "/" + o.Workspace, o.Key.Namespace}
	})
}

// timeOf reads a time of a query.
func timeOf(name, value string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}, problem(http.StatusBadRequest, codeBadRequest, name+" must be a time like 2026-01-02T15:04:05Z")
	}
	return at, nil
}
