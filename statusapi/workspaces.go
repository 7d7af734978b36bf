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

var workspaces = &collection{
	word: "workspaces",
	entries: func(s *state) []entry {
		var out []entry
		seen := map[string]bool{}
		for _, o := range s.kinds[schema.KindWorkspace] {
			ns := s.namespaceOf(o)
			seen[ns] = true
			w := Workspace{Org: o.Object.Key.Namespace, Name: o.Object.Key.Name, Namespace: ns, UID: o.UID}
			out = append(out, entry{id: workspaceOrder(w), key: o.Object.Key, object: o, ref: w})
		}
		// A workspace that is gone may have objects still, whose removal is held.
		for ns, at := range s.places {
			if !seen[ns] {
				w := Workspace{Org: at.org, Name: at.workspace, Namespace: ns}
				key := schema.Key{Kind: schema.KindWorkspace, Namespace: at.org, Name: at.workspace}
				out = append(out, entry{id: workspaceOrder(w), key: key, ref: w})
			}
		}
		slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.id, b.id) })
		return out
	},
	facts: func(_ *state, e entry) any { return workspaceFacts{e.ref.(Workspace), e.object} },
	body: func(r *request, facts any) any {
		f := facts.(workspaceFacts)
		f.Refused = r.refused(f.accepted)
		return f.Workspace
	},
	manner: func(r *request, _ any) string {
		if r.all() {
			return "all"
		}
		return "-"
	},
	filters: map[string]filter{
		"org": byWordOf("only workspaces of this org", func(_ *request, f workspaceFacts) string { return f.Org }),
	},
}

type workspaceFacts struct {
	Workspace
	accepted *schema.AcceptedObject
}

func workspaceOrder(w Workspace) string { return w.Org + "\x00" + w.Name + "\x00" + w.Namespace }
