package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// N-5: what a policy with `default: deny` lets through.
func TestEgressAllows(t *testing.T) {
	e := &EgressTarget{Names: []string{"PyPI.org", "*.example.com"}, Namespaces: []string{"ws-111111111111"}}
	for name, allowed := range map[string]bool{
		"pypi.org": true, "pypi.org.": true, "files.pypi.org": false, "a.example.com": true, "a.b.example.com": true, "example.com": false,
		"badexample.com": false, "api.ws-111111111111.astraeus.local": true, "API.WS-111111111111.Astraeus.Local.": true,
		"ws-111111111111.astraeus.local": true, "api.ws-222222222222.astraeus.local": false, "astraeus.local": true, "local": false,
		"xastraeus.local": false,
	} {
		require.Equal(t, allowed, e.Allows(name, "astraeus.local"), name)
	}
	require.True(t, (&EgressTarget{Names: []string{"*"}}).Allows("x.org", "astraeus.local"))
	require.False(t, (&EgressTarget{Names: []string{"*"}}).Allows("api.ws-222222222222.astraeus.local", "astraeus.local"))
	require.True(t, (&EgressTarget{Namespaces: []string{"*"}}).Allows("api.ws-222222222222.astraeus.local", "astraeus.local"))
	var none *EgressTarget
	require.True(t, none.Allows("anything", "astraeus.local"))
	for name, good := range map[string]bool{"a.b": true, "*.a_b.c": true, "": false, "*.": false, "a..b": false, "a b": false, "-a.b": false, "*": true, "**": false} {
		require.Equal(t, good, EgressNameProblem(name) == "", name)
	}
}
