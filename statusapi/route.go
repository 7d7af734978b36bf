package statusapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// operation answers one kind of path, and says what openapi.json says of it.
type operation struct {
	// pattern is what follows /v1/: words, {name} for any one segment, and {id...} for
	// one to three.
	pattern string
	summary string
	// body is a value of the type that is answered.
	body any
	// wide ones are about the whole cluster and do not exist below a workspace.
	wide bool
	// collection is what a list lists.
	collection *collection
	answer     func(h *Handler, r *request, args []string) (any, error)
	// watch: the answer can be followed with ?watch=1.
	watch bool
	// heavy ones are worked out by few callers at a time.
	heavy bool
}

// operations is every route below /v1 and the documents' long path (D-92, V-10, G-11).
var operations = slices.Concat(
	objectOps("drives", "drive", drives, Drive{}), objectOps("datavolumes", "drive", drives, Drive{}),
	listAndOne("mounts", mounts, Claim{}, oneMount, MountDetail{}), listAndOne("datavolume-claims", mounts, Claim{}, oneMount, MountDetail{}),
	listAndOne("volumes", volumes, Volume{}, oneVolume, VolumeDetail{}),
	objectOps("runs", "run", runs, Run{}), objectOps("endpoints", "endpoint", endpoints, Endpoint{}),
	objectOps("machines", "machine", machines, Machine{}),
	[]operation{
		{pattern: "events", summary: "What happened, the oldest first", body: List[schema.Event]{}, collection: events, watch: true},
		{pattern: "workspaces", summary: "Workspaces and their namespaces", body: List[Workspace]{}, collection: workspaces, wide: true, watch: true},
		{pattern: "plan", summary: "What is pending, waiting and held", body: Plan{}, answer: simple(onePlan), watch: true},
		{pattern: "status", summary: "The cluster in numbers", body: Status{}, answer: simple(oneStatus), watch: true},
		{pattern: "accepted", summary: "Everything in force, to plan from", body: Accepted{}, answer: simple(oneAccepted), wide: true},
		{pattern: "observed", summary: "What machines report: the file of plan --observed", body: schema.Observed{}, answer: simple(oneObserved), wide: true},
		{pattern: "commits/{id}", summary: "What became of a commit, for a commit-status check", body: schema.CommitStatus{}, answer: oneCommit},
		{pattern: "objects/{kind}/{name}", summary: "What any object is, and is doing", body: Object{}, answer: oneObject, watch: true},
		{pattern: "objects/{kind}/{name}/history", summary: "An object's audit log, the oldest first", body: List[schema.Record]{}, answer: listHistory},
		{
			pattern: "explain/{id...}", summary: "Everything there is to say of an object, a step or a worker", body: Explanation{},
			answer: explain, heavy: true,
		},
	},
)

// objectOps are a list and its objects, which have the same body.
func objectOps[T any](word, what string, c *collection, body T) []operation {
	return []operation{
		{pattern: word, summary: "List " + word, body: List[T]{}, collection: c, watch: true},
		{
			pattern: word + "/{name}", summary: "One " + what, body: body, watch: true,
			answer: func(_ *Handler, r *request, args []string) (any, error) {
				r.name = args[0]
				return one(c, what)(r)
			},
		},
	}
}

// listAndOne are a list and its objects, of which more is said than in the list.
func listAndOne[T any](word string, c *collection, _ T, one func(*request) (any, error), body any) []operation {
	return []operation{
		{pattern: word, summary: "List " + word, body: List[T]{}, collection: c, watch: true},
		{
			pattern: word + "/{name}", summary: "One of " + word, body: body, watch: true,
			answer: func(_ *Handler, r *request, args []string) (any, error) {
				r.name = args[0]
				return one(r)
			},
		},
	}
}

func simple(answer func(*request) (any, error)) func(*Handler, *request, []string) (any, error) {
	return func(_ *Handler, r *request, _ []string) (any, error) { return answer(r) }
}

// byWord finds operations by the first word of their pattern.
var byWord = func() map[string][]*operation {
	out := map[string][]*operation{}
	for i := range operations {
		word, _, _ := strings.Cut(operations[i].pattern, "/")
		out[word] = append(out[word], &operations[i])
	}
	return out
}()

// maxRest is how many segments {id...} takes: kind/name, run/name/worker.
const maxRest = 3

// match fits a path's segments to the pattern; args are what the braces stand for.
func (o *operation) match(segments []string) (args []string, ok bool) {
	parts := strings.Split(o.pattern, "/")
	for i, part := range parts {
		switch {
		case strings.HasSuffix(part, "...}"):
			rest := segments[min(i, len(segments)):]
			return append(args, strings.Join(rest, "/")), len(rest) > 0 && len(rest) <= maxRest
		case i >= len(segments):
			return nil, false
		case part[0] == '{':
			args = append(args, segments[i])
		case part != segments[i]:
			return nil, false
		}
	}
	return args, len(parts) == len(segments)
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

// question is a path that was understood.
type question struct {
	*operation
	args   []string
	prefix []string // org, workspace and cluster of the documents' long path; nil for /v1
	query  url.Values
	caller caller
}

// understand reads a path and its query. A path that cannot exist costs no look at the state.
func understand(segments []string, rawQuery string, who caller) (*question, error) {
	prefix, rest, ok := splitPrefix(segments)
	if !ok {
		return nil, notFound("path")
	}
	q := &question{prefix: prefix, caller: who}
	for _, op := range byWord[rest[0]] {
		if args, fits := op.match(rest); fits && (prefix == nil || !op.wide) {
			q.operation, q.args = op, args
		}
	}
	if q.operation == nil {
		return nil, notFound("path")
	}
	var err error
	if q.query, err = url.ParseQuery(rawQuery); err != nil {
		return nil, problem(http.StatusBadRequest, codeBadRequest, "the query cannot be read")
	}
	return q, q.checkQuery()
}

// checkQuery refuses parameters that mean nothing here: a misspelt filter would
// otherwise let everything through.
func (q *question) checkQuery() error {
	allowed := q.parameters()
	for name, values := range q.query {
		if !slices.Contains(allowed, name) {
			return problem(http.StatusBadRequest, codeBadRequest, "unknown parameter "+name+"; known: "+strings.Join(allowed, ", "))
		}
		if len(values) > 1 && name != labelFilter {
			return problem(http.StatusBadRequest, codeBadRequest, name+" is there twice")
		}
	}
	if q.query.Has("watch") && q.query.Get("watch") != "1" {
		return problem(http.StatusBadRequest, codeBadRequest, "watch must be 1")
	}
	if q.watched() && (q.query.Has("limit") || q.query.Has("continue")) {
		return problem(http.StatusBadRequest, codeBadRequest, "a watch has no pages: leave limit and continue out")
	}
	return nil
}

// parameters are the names that a query may have.
func (o *operation) parameters() (names []string) {
	if o.collection != nil {
		names = append(o.collection.filterNames(), "limit", "continue")
	}
	if strings.HasSuffix(o.pattern, "/history") {
		names = append(names, "limit", "continue")
	}
	if o.watch {
		names = append(names, "watch")
	}
	return names
}

func (q *question) watched() bool { return q.query.Has("watch") }

// of is the question about a state.
func (q *question) of(ctx context.Context, s *state) (*request, error) {
	r := &request{state: s, caller: q.caller, ctx: ctx, actors: q.caller.actors(), query: q.query}
	if q.prefix != nil {
		if err := r.enter(q.prefix); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// answerOf is the body that answers a request.
func (h *Handler) answerOf(q *question, r *request) (any, error) {
	if q.collection == nil {
		return q.answer(h, r, q.args)
	}
	items, err := r.list(q.collection)
	if err != nil {
		return nil, err
	}
	filters, err := r.filtersOf(q.collection)
	if err != nil {
		return nil, err
	}
	return h.page(r, q.collection, q.collection.word+"?"+filters.Encode(), items)
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

func ambiguous(keys []schema.Key) *Problem {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.Scoped()
	}
	return problem(http.StatusConflict, codeAmbiguous, "the name is in several workspaces: "+strings.Join(names, ", "))
}
