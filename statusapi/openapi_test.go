package statusapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write openapi.json anew")

const (
	longPath  = "/api/v1/orgs/{org}/workspaces/{workspace}/clusters/{cluster}/api"
	apiTitle  = "Astraeus status API"
	aboutThis = "What a cluster is doing. Nothing can be changed here: writes go through the git repository. " +
		"Lists come in pages (limit, continue) of one moment; with watch=1 the answer is a stream of server-sent events: " +
		"reset and everything there is (added), synced, then each change (added, changed, removed), or problem and the end. " +
		"A client that comes back with Last-Event-ID gets what it missed, or a reset."
)

// D-92: openapi.json describes every route with the types of its bodies.
func TestOpenAPI(t *testing.T) {
	made, err := json.MarshalIndent(describeAPI(t), "", " ")
	require.NoError(t, err)
	made = append(made, '\n')
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", made, 0o644))
	}
	if !bytes.Equal(made, document) && !*update {
		t.Fatal("openapi.json is not what the routes and types say: go test ./statusapi -run TestOpenAPI -update")
	}
	doc, err := openapi3.NewLoader().LoadFromData(made)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	if *update {
		return // what is served is the one that was linked
	}
	h := serve(t, fixed{view: cluster()})
	require.JSONEq(t, string(made), ask(t, h, http.MethodGet, "/openapi.json").Body.String())
}

func describeAPI(t *testing.T) node {
	t.Helper()
	d := newDescriber(t)
	d.schemas = node{}
	paths := node{}
	for i := range operations {
		op := &operations[i]
		pattern := strings.ReplaceAll(op.pattern, "...}", "}")
		paths["/"+pattern] = node{"get": d.operation(op)}
		if op.wide {
			paths["/"+pattern].(node)["servers"] = []any{node{"url": "/v1"}}
		}
	}
	d.of(reflect.TypeFor[Changed]())
	d.of(reflect.TypeFor[Notice]())
	problemRef := d.of(reflect.TypeFor[Problem]())
	ready := d.of(reflect.TypeFor[Readiness]())
	top := []any{node{"url": "/"}}
	paths["/healthz"] = node{"servers": top, "get": plainOperation("The program runs", node{"type": "object", "properties": node{"status": node{"const": "ok"}}, "required": []any{"status"}})}
	readyz := plainOperation("The controller works", ready)
	readyz["responses"].(node)["503"] = node{"description": "It does not, and why", "content": jsonOf(ready)}
	paths["/readyz"] = node{"servers": top, "get": readyz}
	paths["/openapi.json"] = node{"servers": top, "get": plainOperation("This document", node{"type": "object"})}
	paths["/metrics"] = node{"servers": top, "get": node{
		"summary": "Counters and gauges for Prometheus; needs the whole cluster's scope", "responses": node{
			"200": node{"description": "Text for Prometheus", "content": node{"text/plain": node{"schema": node{"type": "string"}}}},
			"4XX": problemResponse(),
		},
	}}
	return node{
		"openapi": "3.1.0", "info": node{"title": apiTitle, "version": "v1", "description": aboutThis},
		"servers": []any{
			node{"url": "/v1", "description": "All that the caller sees, by <namespace>.<name>"},
			node{"url": longPath, "description": "One workspace, by local names", "variables": node{
				"org": node{"default": "acme"}, "workspace": node{"default": "research"}, "cluster": node{"default": "main"},
			}},
		},
		"security": []any{node{"token": []any{}}, node{}}, "paths": paths,
		"components": node{
			"schemas":         d.schemas,
			"responses":       node{"Problem": node{"description": "An RFC 9457 problem with the documents' code", "content": node{"application/problem+json": node{"schema": problemRef}}}},
			"securitySchemes": node{"token": node{"type": "http", "scheme": "bearer", "description": "A token of `astraeus token create`. Without a token file the API listens on loopback only and lets everybody in."}},
		},
	}
}

func jsonOf(schema node) node { return node{"application/json": node{"schema": schema}} }

func problemResponse() node { return node{"$ref": "#/components/responses/Problem"} }

func plainOperation(summary string, body node) node {
	return node{
		"summary": summary, "security": []any{},
		"responses": node{"200": node{"description": summary, "content": jsonOf(body)}, "304": node{"description": "The caller has it (If-None-Match)"}, "4XX": problemResponse()},
	}
}

// words of path parameters.
var pathWords = map[string]string{
	"name": "The object's name, or <namespace>.<name> outside of a workspace's path", "kind": "drive, run, machine, …",
	"id": "A commit's whole id; of explain: kind/name, a worker or a step",
}

func (d *describer) operation(op *operation) node {
	content := jsonOf(d.of(reflect.TypeOf(op.body)))
	parameters := []any{}
	for part := range strings.SplitSeq(op.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			parameters = append(parameters, parameter("path", name, pathWords[name], node{"type": "string"}))
		}
	}
	for _, name := range op.parameters() {
		parameters = append(parameters, op.queryParameter(name))
	}
	if op.watch {
		content["text/event-stream"] = node{"schema": node{"type": "string", "description": "Data of added, changed and removed is a Changed, of reset and synced a Notice, of problem a Problem."}}
		parameters = append(parameters, parameter("header", "Last-Event-ID", "Of a watch: go on after this message", node{"type": "string"}))
	}
	parameters = append(parameters, parameter("header", "If-None-Match", "Answer 304 when the body still has this ETag", node{"type": "string"}))
	return node{
		"summary": op.summary, "parameters": parameters,
		"responses": node{
			"200": node{"description": op.summary, "content": content, "headers": node{"ETag": node{"description": "Strong, over the body", "schema": node{"type": "string"}}}},
			"304": node{"description": "The caller has it"},
			"4XX": problemResponse(), "5XX": problemResponse(),
		},
	}
}

func (op *operation) queryParameter(name string) node {
	switch name {
	case "limit":
		return parameter("query", name, "At most so many items", node{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit})
	case "continue":
		return parameter("query", name, "The next page: what the page before said; 410 when that moment is not kept any more", node{"type": "string"})
	case "watch":
		return parameter("query", name, "Follow changes as server-sent events", node{"const": "1"})
	case labelFilter:
		return parameter("query", name, op.collection.filters[name].doc, node{"type": "array", "items": node{"type": "string"}})
	}
	return parameter("query", name, op.collection.filters[name].doc, node{"type": "string"})
}

func parameter(in, name, doc string, schema node) node {
	p := node{"in": in, "name": name, "description": strings.ToUpper(doc[:1]) + doc[1:], "schema": schema}
	if in == "path" {
		p["required"] = true
	}
	return p
}

// strict closes every object of the document, so that a field that it does not
// name is found: clients are told that more may come. Servers are left to located.
func strict(n any) {
	switch n := n.(type) {
	case map[string]any:
		delete(n, "servers")
		if n["properties"] != nil && n["additionalProperties"] == nil {
			n["additionalProperties"] = false
		}
		for _, child := range n {
			strict(child)
		}
	case []any:
		for _, child := range n {
			strict(child)
		}
	}
}

// checker finds what openapi.json says of a path, and the schemas of its answers.
type checker struct {
	router  routers.Router
	schemas *jsonschema.Compiler
	mu      sync.Mutex
	made    map[string]*jsonschema.Schema
}

const documentURL = "http://127.0.0.1/openapi.json"

var check = sync.OnceValues(func() (*checker, error) {
	var raw map[string]any
	if err := json.Unmarshal(document, &raw); err != nil {
		return nil, err
	}
	strict(raw)
	data, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	schemas := jsonschema.NewCompiler()
	schemas.AssertFormat()
	return &checker{router: router, schemas: schemas, made: map[string]*jsonschema.Schema{}}, schemas.AddResource(documentURL, raw)
})

// schema is the JSON schema at a pointer into the document.
func (c *checker) schema(pointer ...string) (*jsonschema.Schema, error) {
	for i, part := range pointer {
		pointer[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
	}
	at := documentURL + "#/" + strings.ReplaceAll(strings.Join(pointer, "/"), "{", "%7B")
	at = strings.ReplaceAll(at, "}", "%7D")
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.made[at]; s != nil {
		return s, nil
	}
	s, err := c.schemas.Compile(at)
	c.made[at] = s
	return s, err
}

// requireDescribed fails when an answer is not as openapi.json says. Paths that no
// route has are answered with a problem.
func requireDescribed(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	c, err := check()
	require.NoError(t, err)
	media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	if r.Method != http.MethodGet || w.Code == http.StatusNotModified || media == "text/event-stream" {
		return
	}
	if w.Code >= 400 && media == "application/problem+json" {
		c.fits(t, r, w, "components", "schemas", "Problem")
		return
	}
	at := r.Clone(t.Context())
	at.URL.Path, at.URL.RawPath, at.URL.Host, at.URL.Scheme = located(r.URL.Path), "", "", ""
	route, _, err := c.router.FindRoute(at)
	require.NoError(t, err, "%s is answered and not described", r.URL)
	answers := route.Operation.Responses.Map()
	status := strconv.Itoa(w.Code)
	require.Contains(t, answers, status, r.URL)
	require.Contains(t, answers[status].Value.Content, media, r.URL)
	if media == "application/json" {
		c.fits(t, r, w, "paths", route.Path, "get", "responses", status, "content", media, "schema")
	}
}

func (c *checker) fits(t testing.TB, r *http.Request, w *httptest.ResponseRecorder, pointer ...string) {
	t.Helper()
	s, err := c.schema(pointer...)
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	require.NoError(t, err)
	if err := s.Validate(value); err != nil {
		t.Fatalf("%s: %.2000s\nis not described: %s", r.URL, w.Body, err)
	}
}

// located is a path as the document names it: without the prefix that its servers
// give, and with one segment for what {id...} stands for.
func located(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if _, rest, ok := splitPrefix(parts); ok {
		parts = rest
	}
	if parts[0] == "explain" && len(parts) > 1 {
		parts = []string{parts[0], strings.Join(parts[1:], "_")}
	}
	return "/" + strings.Join(parts, "/")
}
