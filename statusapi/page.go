package statusapi

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Page sizes of a list.
const (
	defaultLimit = 500
	maxLimit     = 5000
)

// List is the body of every list.
type List[T any] struct {
	Items []T `json:"items"`
	// Continue asks for the rest when given back as ?continue=.
	Continue string `json:"continue,omitempty"`
}

// Bounds of the lists that are kept for those who read them page by page.
const (
	maxSnapshots     = 128
	maxSnapshotItems = 4 << 20
	snapshotIdle     = 5 * time.Minute
)

// snapshots keeps the lists of which a first page was given out, so that the
// pages that follow are of the same moment.
type snapshots struct {
	now func() time.Time

	mu     sync.Mutex
	byID   map[string]*snapshot
	newest map[string]*snapshot // by what was asked
	items  int
}

type snapshot struct {
	id    string
	asked string // route, filters and what the caller sees
	items []*item
	used  time.Time
}

// keep is the id of a list. A list that did not change keeps its id.
func (s *snapshots) keep(asked string, items []*item) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if was := s.newest[asked]; was != nil && slices.Equal(was.items, items) {
		was.used = now
		return was.id
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	kept := &snapshot{id: hex.EncodeToString(random[:]), asked: asked, items: items, used: now}
	s.byID[kept.id], s.newest[asked], s.items = kept, kept, s.items+len(items)
	s.drop(now, kept)
	return kept.id
}

// drop forgets what nobody used for a while and, over the bounds, what was used
// least lately.
func (s *snapshots) drop(now time.Time, keep *snapshot) {
	all := make([]*snapshot, 0, len(s.byID))
	for _, one := range s.byID {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *snapshot) int { return a.used.Compare(b.used) })
	for _, one := range all {
		over := len(s.byID) > maxSnapshots || s.items > maxSnapshotItems
		if one == keep || !over && now.Sub(one.used) < snapshotIdle {
			continue
		}
		delete(s.byID, one.id)
		s.items -= len(one.items)
		if s.newest[one.asked] == one {
			delete(s.newest, one.asked)
		}
	}
}

// find is a list that is still kept.
func (s *snapshots) find(id string) (*snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.byID[id]
	if !ok || s.now().Sub(one.used) >= snapshotIdle {
		return nil, false
	}
	one.used = s.now()
	return one, true
}

// position is where a page begins: so many items into a list that is kept.
type position struct {
	snapshot string
	offset   int
}

const positionVersion = "1"

func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(positionVersion + "." + p.snapshot + "." + strconv.Itoa(p.offset)))
}

// maxToken bounds what is decoded.
const maxToken = 128

// parsePosition reads what String writes, and nothing else.
func parsePosition(text string) (position, bool) {
	if len(text) > maxToken {
		return position{}, false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return position{}, false
	}
	parts := strings.Split(string(data), ".")
	if len(parts) != 3 || parts[0] != positionVersion || len(parts[1]) != 32 {
		return position{}, false
	}
	offset, err := strconv.Atoi(parts[2])
	p := position{parts[1], offset}
	return p, err == nil && offset > 0 && p.String() == text
}

func badContinue() *Problem {
	return problem(http.StatusBadRequest, codeBadRequest, "continue is not a token of this list")
}

// pageArgs reads limit and continue.
func pageArgs(query url.Values) (limit int, from *position, err error) {
	limit = defaultLimit
	if query.Has("limit") {
		limit, err = strconv.Atoi(query.Get("limit"))
		if err != nil || limit < 1 || limit > maxLimit {
			return 0, nil, problem(http.StatusBadRequest, codeBadRequest, "limit must be a number from 1 to "+strconv.Itoa(maxLimit))
		}
	}
	if query.Has("continue") {
		p, ok := parsePosition(query.Get("continue"))
		if !ok {
			return 0, nil, badContinue()
		}
		from = &p
	}
	return limit, from, nil
}

// page cuts one page out of a request's list. The pages of a list are all of the
// moment of the first; when that is not kept any more, the answer is 410.
func (h *Handler) page(r *request, c *collection, asked string, items []*item) (*rendered, error) {
	limit, from, err := pageArgs(r.query)
	if err != nil {
		return nil, err
	}
	asked += "#" + r.sightID()
	id, start := "", 0
	if from != nil {
		kept, ok := h.snapshots.find(from.snapshot)
		switch {
		case !ok:
			return nil, problem(http.StatusGone, codeExpired, "the list has moved on: read it again from the start")
		case kept.asked != asked || from.offset >= len(kept.items):
			return nil, badContinue()
		}
		id, start, items = kept.id, from.offset, kept.items
	}
	end := min(len(items), start+limit)
	next := ""
	if end < len(items) {
		if id == "" {
			id = h.snapshots.keep(asked, items)
		}
		next = position{id, end}.String()
	}
	bodies := make([]*rendered, 0, end-start)
	for _, it := range items[start:end] {
		b, err := c.render(r, it)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, b)
	}
	return joined(bodies, next), nil
}
