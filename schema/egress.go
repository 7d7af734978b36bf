package schema

import (
	"slices"
	"strings"
)

// EgressNameProblem says what is wrong with an entry of network.egress.names: a DNS
// name, "*." and one for every name below it, or "*" for all; "" when nothing is (N-5).
func EgressNameProblem(name string) string {
	if name == "*" {
		return ""
	}
	rest := strings.TrimSuffix(strings.TrimPrefix(name, "*."), ".")
	if rest == "" || len(rest) > 253 {
		return "it is empty or longer than 253 characters"
	}
	for label := range strings.SplitSeq(rest, ".") {
		if problem := DNSNameProblem(label); problem != "" {
			return problem
		}
	}
	return ""
}

// Allows reports whether a worker with this policy may look a name up; name is
// absolute, domain the cluster's. nil allows everything.
func (e *EgressTarget) Allows(name, domain string) bool {
	if e == nil {
		return true
	}
	name, domain = fold(name), fold(domain)
	if name == domain {
		return true // nobody's
	}
	if below, ours := strings.CutSuffix(name, "."+domain); ours {
		return slices.Contains(e.Namespaces, "*") || slices.Contains(e.Namespaces, below[strings.LastIndexByte(below, '.')+1:])
	}
	return slices.ContainsFunc(e.Names, func(allowed string) bool {
		allowed = fold(allowed)
		if parent, wild := strings.CutPrefix(allowed, "*."); wild {
			return strings.HasSuffix(name, "."+parent)
		}
		return name == allowed || allowed == "*"
	})
}

func fold(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
