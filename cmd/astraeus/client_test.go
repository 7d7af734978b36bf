package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list whose moment is gone is read again from the start, and not for ever.
func TestAllBeginsAgain(t *testing.T) {
	gone := 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("continue") == "":
			fmt.Fprint(w, `{"items":["a","b"],"continue":"next"}`)
		case gone > 0:
			gone--
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"code":"EXPIRED","status":410,"detail":"the list has moved on"}`)
		default:
			fmt.Fprint(w, `{"items":["c"]}`)
		}
	}))
	t.Cleanup(server.Close)
	base, err := parseServerURL(server.URL)
	require.NoError(t, err)
	c := &client{base: base, http: server.Client()}
	items, err := all[string](t.Context(), c, nil, "v1", "things")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, items)
	gone = 100
	_, err = all[string](t.Context(), c, nil, "v1", "things")
	require.ErrorContains(t, err, "the list has moved on")
	require.Equal(t, 100-maxRestarts-1, gone)
}
