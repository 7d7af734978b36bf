package statusapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Page sizes of a list.
const (
	defaultLimit = 500
	maxLimit     = 5000
)

// List is the body of every list.
type List[T any] struct {
	Items []T `json:"items"`
	// Continue asks for the rest when given back as ?continue=.
	Continue string `json:"continue,omitempty"`
}

// page cuts one page out of items, which are sorted by id. The token names the
// last id that was given out, so that it holds when items come and go.
func page[T any](query url.Values, items []T, id func(T) string) (List[T], error) {
	limit, after, err := pageArgs(query)
	if err != nil {
		return List[T]{}, err
	}
	start := 0
	if after != "" {
		start, _ = slices.BinarySearchFunc(items, after, func(item T, want string) int { return strings.Compare(id(item), want) })
		if start < len(items) && id(items[start]) == after {
			start++
		}
	}
	list := List[T]{Items: items[start:min(len(items), start+limit)]}
	if list.Items == nil {
		list.Items = []T{}
	}
	if start+limit < len(items) {
		list.Continue = base64.RawURLEncoding.EncodeToString([]byte(id(list.Items[limit-1])))
	}
	return list, nil
}

func pageArgs(query url.Values) (limit int, after string, err error) {
	limit = defaultLimit
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxLimit {
			return 0, "", problem(http.StatusBadRequest, codeBadRequest, "limit must be a number from 1 to "+strconv.Itoa(maxLimit))
		}
	}
	token, err := base64.RawURLEncoding.DecodeString(query.Get("continue"))
	if err != nil {
		return 0, "", problem(http.StatusBadRequest, codeBadRequest, "continue is not a token of this API")
	}
	return limit, string(token), nil
}

func sortedKeys[T any](m map[schema.Key]T) []schema.Key {
	keys := make([]schema.Key, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, schema.CompareKeys)
	return keys
}
