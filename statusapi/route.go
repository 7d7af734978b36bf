package statusapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"astraeus.io/astraeus/schema"
)

// request is one question about one state.
type request struct {
	*state
	ctx   context.Context
	scope scope
	query url.Values
	name  string // of the object asked for, "" for a list
}

// scope is the workspace that the documents' long path names; the zero scope is
// the whole cluster.
type scope struct{ org, workspace, namespace string }

func (s scope) whole() bool { return s.namespace == "" }

func (s scope) covers(key schema.Key) bool { return s.whole() || key.Namespace == s.namespace }

// route answers a path. wide routes are about the whole cluster and do not exist
// below a workspace.
type route struct {
	list func(*request) (any, error)
	one  func(*request) (any, error)
	wide bool
}

var routes = map[string]route{
	"drives":            {list: listDrives, one: oneDrive},
	"datavolumes":       {list: listDrives, one: oneDrive},
	"runs":              {list: listRuns, one: oneRun},
	"machines":          {list: listMachines, one: oneMachine},
	"mounts":            {list: listMounts},
	"datavolume-claims": {list: listMounts},
	"volumes":           {list: listVolumes, one: oneVolume},
	"events":            {list: listEvents},
	"plan":              {list: onePlan},
	"status":            {list: oneStatus, wide: true},
	"workspaces":        {list: listWorkspaces, wide: true},
	"accepted":          {list: oneAccepted, wide: true},
	"observed":          {list: oneObserved, wide: true},
}

// segmentsOf splits an escaped path and refuses what could mean two things:
// empty and dot segments, and slashes or control characters in disguise.
func segmentsOf(escaped string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(strings.TrimPrefix(escaped, "/"), "/") {
		text, err := url.PathUnescape(part)
		if err != nil || text == "" || text == "." || text == ".." || strings.ContainsFunc(text, unsafeRune) {
			return nil, notFound("path")
		}
		out = append(out, text)
	}
	return out, nil
}

func unsafeRune(r rune) bool { return r == '/' || r == '\\' || r < ' ' || r == 0x7f }

func (h *Handler) route(w http.ResponseWriter, r *http.Request, segments []string) error {
	switch {
	case len(segments) == 1 && segments[0] == "healthz":
		return respond(w, r, map[string]string{"status": "ok"})
	case len(segments) == 1 && segments[0] == "readyz":
		return h.readyz(w, r)
	}
	// A path that cannot exist costs no look at the state.
	prefix, rest, ok := splitPrefix(segments)
	if !ok {
		return notFound("path")
	}
	answer, ok := answerOf(rest, prefix == nil)
	if !ok {
		return notFound("path")
	}
	current, err := h.current(r.Context())
	if err != nil {
		return err
	}
	req := &request{state: current, ctx: r.Context(), query: r.URL.Query()}
	if prefix != nil {
		if req.scope, err = current.scopeOf(prefix); err != nil {
			return err
		}
	}
	if len(rest) == 2 {
		req.name = rest[1]
	}
	body, err := answer(req)
	if err != nil {
		return err
	}
	return respond(w, r, body)
}

// answerOf is what answers a path below its prefix; whole says that it has none.
func answerOf(rest []string, whole bool) (func(*request) (any, error), bool) {
	switch rest[0] {
	case "objects":
		return objectRoute(rest)
	case "explain":
		// An id may have slashes: kind/name, run/name/worker.
		return func(r *request) (any, error) { return explain(r, strings.Join(rest[1:], "/")) }, len(rest) > 1 && len(rest) <= 4
	case "commits":
		return func(r *request) (any, error) { return oneCommit(r, rest[1]) }, len(rest) == 2 && whole
	}
	to := routes[rest[0]]
	if to.wide && !whole {
		return nil, false
	}
	switch {
	case len(rest) == 1:
		return to.list, to.list != nil
	case len(rest) == 2:
		return to.one, to.one != nil
	}
	return nil, false
}

// splitPrefix takes "/v1/…" (prefix nil) or the documents' long path, after
// which "v1" may be left out as in their examples. prefix is org, workspace, cluster.
func splitPrefix(seg []string) (prefix, rest []string, ok bool) {
	if len(seg) >= 2 && seg[0] == "v1" {
		return nil, seg[1:], true
	}
	const long = 9 // api v1 orgs O workspaces W clusters C api
	if len(seg) <= long || seg[0] != "api" || seg[1] != "v1" || seg[2] != "orgs" || seg[4] != "workspaces" ||
		seg[6] != "clusters" || seg[8] != "api" {
		return nil, nil, false
	}
	prefix, rest = []string{seg[3], seg[5], seg[7]}, seg[long:]
	if rest[0] == "v1" {
		rest = rest[1:]
	}
	return prefix, rest, len(rest) > 0
}

func (s *state) scopeOf(prefix []string) (scope, error) {
	org, name, cluster := prefix[0], prefix[1], prefix[2]
	ws := s.Input.Accepted.Objects[schema.Key{Kind: schema.KindWorkspace, Namespace: org, Name: name}]
	if ws != nil && ws.Object == nil {
		ws = nil
	}
	// One text for all three, so that nothing is learnt from which was wrong.
	if ws == nil || cluster != s.cluster {
		return scope{}, notFound("workspace")
	}
	ns := schema.Namespace(s.cluster, org, name)
	if spec, ok := ws.Object.Spec.(*schema.WorkspaceSpec); ok && spec.Namespace != "" {
		ns = spec.Namespace
	}
	return scope{org: org, workspace: name, namespace: ns}, nil
}

// find resolves the request's name to an accepted object: "<namespace>.<name>"
// or, where it is unique, the name alone; below a workspace the local name only.
func (r *request) find(kind schema.Kind) (*schema.AcceptedObject, error) {
	var found []*schema.AcceptedObject
	for _, o := range r.index[kind] {
		key := o.Object.Key
		if !r.scope.covers(key) {
			continue
		}
		if r.scope.whole() && key.Scoped() == r.name {
			return o, nil
		}
		if key.Name == r.name {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, notFound(kind.Word())
	}
	keys := make([]schema.Key, len(found))
	for i, o := range found {
		keys[i] = o.Object.Key
	}
	return nil, ambiguous(keys)
}

func ambiguous(keys []schema.Key) *Problem {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.Scoped()
	}
	return problem(http.StatusConflict, codeAmbiguous, "the name is in several workspaces: "+strings.Join(names, ", "))
}
