package statusapi

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Workspace says which namespace a workspace's objects are in.
type Workspace struct {
	Org       string       `json:"org"`
	Name      string       `json:"name"`
	Namespace string       `json:"namespace"`
	UID       string       `json:"uid,omitempty"`
	Refused   *schema.Hold `json:"refused,omitempty"`
}

func listWorkspaces(r *request) (any, error) {
	out := []Workspace{}
	seen := map[string]bool{}
	for _, o := range r.index[schema.KindWorkspace] {
		w := Workspace{Org: o.Object.Key.Namespace, Name: o.Object.Key.Name, UID: o.UID, Refused: refusedHold(o)}
		w.Namespace = schema.Namespace(r.cluster, w.Org, w.Name)
		if spec, ok := o.Object.Spec.(*schema.WorkspaceSpec); ok && spec.Namespace != "" {
			w.Namespace = spec.Namespace
		}
		seen[w.Namespace] = true
		out = append(out, w)
	}
	// A workspace that is gone may have objects still, whose removal is held.
	for _, list := range r.index {
		for _, o := range list {
			if key := o.Object.Key; key.Kind.InWorkspace() && !seen[key.Namespace] {
				seen[key.Namespace] = true
				out = append(out, Workspace{Org: o.Object.Org, Name: o.Object.Workspace, Namespace: key.Namespace})
			}
		}
	}
	order := func(w Workspace) string { return w.Org + "\x00" + w.Name + "\x00" + w.Namespace }
	slices.SortFunc(out, func(a, b Workspace) int { return strings.Compare(order(a), order(b)) })
	return page(r.query, out, order)
}
