package dnszone

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Client is what a machine knows of a worker that asks, by the worker's address.
type Client struct {
	Namespace string
	// Egress is the run's policy (N-5); nil, or one whose default is not "deny",
	// allows every name. Its Cluster holds namespaces here, or "*" for every
	// workspace of the org; its own namespace is always allowed. Its Names are
	// "example.org" for that name alone or "*.example.org" for all below it.
	Egress *schema.Egress
}

// restricted reports whether the client may not resolve everything.
func (c *Client) restricted() bool {
	return c != nil && c.Egress != nil && c.Egress.Default == "deny"
}

// AllowsNamespace reports whether the client may resolve a namespace's names (N-5).
func (c *Client) AllowsNamespace(ns string) bool {
	if !c.restricted() || strings.EqualFold(ns, c.Namespace) {
		return true
	}
	return slices.ContainsFunc(c.Egress.Cluster, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, ns)
	})
}

// AllowsName reports whether the client may resolve a name by its policy's Names
// (N-5). name has no dot at its end.
func (c *Client) AllowsName(name string) bool {
	if !c.restricted() {
		return true
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(c.Egress.Names, func(allowed string) bool {
		allowed = strings.ToLower(strings.TrimSuffix(allowed, "."))
		if parent, below := strings.CutPrefix(allowed, "*."); below {
			return strings.HasSuffix(name, "."+parent)
		}
		return allowed == "*" || name == allowed
	})
}
