package conform

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

var checkTests = []test{
	{"tcp", one(tcpCheck)},
	{"http", one(httpCheck)},
}

func checkAt(address string, port int, path string) schema.CheckTarget {
	return schema.CheckTarget{Address: address, Port: port, HTTPPath: path, Timeout: schema.Duration(200 * time.Millisecond)}
}

// tcpCheck: whoever accepts passes, also when it says nothing (N-1).
func tcpCheck(t *testing.T, m *Machine) {
	address, port := m.Listen(0)
	must(t, m.Check(t.Context(), checkAt(address, port, "")))
	address, port = m.Closed()
	require.EqualError(t, m.Check(t.Context(), checkAt(address, port, "")), fmt.Sprintf("%s:%d: connection refused", address, port))
}

// httpCheck: 2xx and 3xx pass, redirects are not followed (N-1).
func httpCheck(t *testing.T, m *Machine) {
	for status, passes := range map[int]bool{200: true, 204: true, 302: true, 404: false, 503: false} {
		address, port := m.Listen(status)
		err := m.Check(t.Context(), checkAt(address, port, "/healthz?deep=1"))
		if passes {
			must(t, err)
			continue
		}
		require.EqualError(t, err, fmt.Sprintf("%s:%d: HTTP %d", address, port, status))
	}
	address, port := m.Listen(0)
	require.EqualError(t, m.Check(t.Context(), checkAt(address, port, "/")), fmt.Sprintf("%s:%d: no answer within 200ms", address, port))
	address, port = m.Closed()
	require.EqualError(t, m.Check(t.Context(), checkAt(address, port, "/")), fmt.Sprintf("%s:%d: connection refused", address, port))
}
