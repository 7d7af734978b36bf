package statusapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func TestPaging(t *testing.T) {
	h := serve(t, fixed{view: cluster()})
	var got []string
	query := url.Values{"limit": {"1"}}
	for range 10 {
		list := body[List[Drive]](t, h, "/v1/drives?"+query.Encode())
		got = append(got, names(list)...)
		if list.Continue == "" {
			break
		}
		query.Set("continue", list.Continue)
	}
	require.Equal(t, []string{"ws-research.cache", "ws-research.imagenet", "ws-research.refused", "ws-serving.imagenet"}, got)
	require.Len(t, body[List[Drive]](t, h, "/v1/drives?limit=5000").Items, 4)
	for _, bad := range []string{
		"limit=0", "limit=-1", "limit=x", "limit=5001", "limit=99999999999999999999", "limit=1e3", "limit=", "limit=+1+", "limit=0x10", "limit=1&limit=2",
		"limt=1", "continue=&continue=", "%zz=1", "limit=%zz", "limit=1;continue=x",
	} {
		requireProblem(t, ask(t, h, http.MethodGet, "/v1/drives?"+bad), http.StatusBadRequest, codeBadRequest)
	}
	p := requireProblem(t, ask(t, h, http.MethodGet, "/v1/drives?lable=x"), http.StatusBadRequest, codeBadRequest)
	require.Equal(t, "unknown parameter lable; known: label, machine, state, workspace, limit, continue, watch", p.Detail)
}

// The pages of a list are of one moment: what comes and goes meanwhile is neither
// missed nor told twice.
func TestPagesAreOfOneMoment(t *testing.T) {
	first := cluster()
	source := newStage(first)
	h := serve(t, source)
	list := body[List[Drive]](t, h, "/v1/drives?limit=2")
	require.Equal(t, []string{"ws-research.cache", "ws-research.imagenet"}, names(list))
	token := list.Continue
	require.Equal(t, token, body[List[Drive]](t, h, "/v1/drives?limit=2").Continue, "the same list has the same token")

	source.set(with(without(without(first, key(nsResearch, "refused")), key(nsResearch, "cache")), object(schema.KindDrive, nsResearch, "aaa", placedDrive())))
	rest := body[List[Drive]](t, h, "/v1/drives?continue="+token)
	require.Equal(t, []string{"ws-research.refused", "ws-serving.imagenet"}, names(rest))
	require.Empty(t, rest.Continue)
	require.Equal(t, []string{"ws-research.aaa", "ws-research.imagenet"}, names(body[List[Drive]](t, h, "/v1/drives?limit=2")))
}

// Tokens that are stale, made up, or of another list or caller.
func TestContinueTokens(t *testing.T) {
	now := noon
	h := NewHandler(Options{Source: fixed{view: cluster()}, Now: func() time.Time { return now }})
	t.Cleanup(h.Close)
	token := body[List[Drive]](t, h, "/v1/drives?limit=1").Continue
	at, ok := parsePosition(token)
	require.True(t, ok)
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, bad := range []string{
		"%21%21", "x", encode(""), encode("1"), encode("1.." + "1"), encode("2." + at.snapshot + ".1"), encode("1." + at.snapshot + ".-1"),
		encode("1." + at.snapshot + ".0"), encode("1." + at.snapshot + ".01"), encode("1." + at.snapshot + ".99999999999999999999"), token + "A",
		encode("1." + at.snapshot + ".9999"), strings.Repeat("A", 4096), encode("1." + at.snapshot + ".1.1"), token[:len(token)-1],
	} {
		requireProblem(t, ask(t, h, http.MethodGet, "/v1/drives?continue="+bad), http.StatusBadRequest, codeBadRequest)
	}
	// A right token for another list, for the same one filtered, and from another place.
	for _, path := range []string{"/v1/runs", "/v1/drives?state=Held", long + "/drives", "/v1/events"} {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		requireProblem(t, ask(t, h, http.MethodGet, path+sep+"continue="+token), http.StatusBadRequest, codeBadRequest)
	}
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/v1/datavolumes?continue="+token).Code, "two names of one list")

	gone := encode("1." + strings.Repeat("0", 32) + ".1")
	p := requireProblem(t, ask(t, h, http.MethodGet, "/v1/drives?continue="+gone), http.StatusGone, codeExpired)
	require.Contains(t, p.Detail, "read it again from the start")
	now = now.Add(snapshotIdle)
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/drives?continue="+token), http.StatusGone, codeExpired)
}

// Lists that nobody reads on are not kept for ever, however many are begun.
func TestSnapshotsAreBounded(t *testing.T) {
	now := noon
	s := &snapshots{now: func() time.Time { return now }, byID: map[string]*snapshot{}, newest: map[string]*snapshot{}}
	items := []*item{{id: "a"}, {id: "b"}}
	first := s.keep("list 0", items)
	for i := range 10 * maxSnapshots {
		now = now.Add(time.Millisecond)
		s.keep(fmt.Sprintf("list %d", i+1), items)
	}
	require.LessOrEqual(t, len(s.byID), maxSnapshots)
	require.LessOrEqual(t, len(s.newest), maxSnapshots)
	require.Equal(t, 2*len(s.byID), s.items)
	_, ok := s.find(first)
	require.False(t, ok)
	now = now.Add(snapshotIdle)
	last := s.keep("the last", make([]*item, maxSnapshotItems+1))
	require.Len(t, s.byID, 1)
	_, ok = s.find(last)
	require.True(t, ok, "the newest is kept whatever its size")
}

func TestFilters(t *testing.T) {
	view := cluster()
	labelled := object(schema.KindDrive, nsResearch, "labelled", placedDrive())
	labelled.Metadata.Labels = map[string]string{"tier": "hot", "team": "a"}
	h := serve(t, fixed{view: with(view, labelled)})
	for path, want := range map[string]int{
		"/v1/drives?state=held": 1, "/v1/drives?state=Available": 4, "/v1/drives?machine=gpu-01": 3, "/v1/drives?machine=gpu-9": 0,
		"/v1/drives?workspace=research": 4, "/v1/drives?workspace=acme/serving": 1, "/v1/drives?workspace=ws-serving": 1, "/v1/drives?workspace=x": 0,
		"/v1/drives?label=tier": 1, "/v1/drives?label=tier%3Dhot": 1, "/v1/drives?label=tier%3Dcold": 0, "/v1/drives?label=tier&label=team%3Da": 1, "/v1/drives?label=tier&label=team%3Db": 0,
		"/v1/runs?phase=waiting": 1, "/v1/runs?owner=ada": 1, "/v1/runs?owner=eve": 0, "/v1/runs?machine=gpu-01": 0,
		"/v1/volumes?shared=true": 1, "/v1/volumes?shared=false": 0, "/v1/volumes?node_id=gpu-01": 0,
		"/v1/machines?state=up": 1, "/v1/machines?state=Down": 0, "/v1/workspaces?org=acme": 2, "/v1/workspaces?org=x": 0,
		"/v1/events?type=Removed": 1, "/v1/events?machine=x": 0, "/v1/events?workspace=serving": 1, "/v1/events?since=2026-01-02T12:00:01Z": 1,
		"/v1/endpoints?ready=true": 0, "/v1/mounts?state=Bound&client=x": 0,
	} {
		require.Len(t, body[List[any]](t, h, path).Items, want, path)
	}
	for _, bad := range []string{"/v1/drives?label=", "/v1/drives?label=%3Dx", "/v1/events?since=yesterday", "/v1/events?object=x", "/v1/events?object=thing/x", "/v1/runs?state=Up", "/v1/plan?limit=1", "/v1/drives/cache?state=Held"} {
		requireProblem(t, ask(t, h, http.MethodGet, bad), http.StatusBadRequest, codeBadRequest)
	}
	requireProblem(t, ask(t, h, http.MethodGet, "/v1/events?object=drive/nothing"), http.StatusNotFound, codeNotFound)
}

// Items are shared by states as long as nothing of them changed.
func TestItemsAreShared(t *testing.T) {
	first := cluster()
	one := newState(first, nil)
	whole := func(s *state) []*item {
		r := &request{state: s, caller: caller{trusted: true}, query: url.Values{}}
		items, err := r.list(drives)
		require.NoError(t, err)
		return items
	}
	before := whole(one)
	two := newState(with(first, object(schema.KindDrive, nsResearch, "more", placedDrive())), one)
	after := whole(two)
	require.Len(t, after, len(before)+1)
	for _, it := range before {
		// A held object has no accepted one: what is shown of it is made anew, and equal.
		require.True(t, slices.Contains(after, it), it.id)
	}
	// A report that says something else of one drive makes one new item.
	third := cluster()
	third.Input.Accepted.Objects = two.Input.Accepted.Objects
	third.Input.Observed.Machines[0].Copies[0].Bytes = 1 << 40
	three := newState(third, two)
	require.Same(t, two.index, three.index)
	changed := 0
	for i, it := range whole(three) {
		if it != after[i] {
			changed++
			require.Equal(t, "ws-research.cache", it.id)
		}
	}
	require.Equal(t, 1, changed)
}

// Nothing but what String wrote is read as a position.
func FuzzPosition(f *testing.F) {
	f.Add(position{strings.Repeat("0", 32), 7}.String())
	f.Add("MS4wMDAwLjE")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parsePosition(text)
		if ok && (p.String() != text || p.offset <= 0) {
			t.Fatalf("%q was read as %+v", text, p)
		}
	})
}

// A path is one list of clean words, or not found.
func FuzzPath(f *testing.F) {
	f.Add("/v1/drives/%2e%2e/x")
	f.Add(long + "/drives")
	f.Add("/v1/explain/run/a/b")
	f.Fuzz(func(t *testing.T, escaped string) {
		segments, err := segmentsOf(escaped)
		if err != nil {
			return
		}
		for _, s := range segments {
			if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\\\x00\n") {
				t.Fatalf("%q has the segment %q", escaped, s)
			}
		}
		_, _ = understand(segments, "limit=1", caller{trusted: true})
	})
}
