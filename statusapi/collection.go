package statusapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"astraeus.io/astraeus/schema"
)

// collection is what one list route lists. The functions are pure.
type collection struct {
	word string
	// entries lists everything there is, in the order of the list.
	entries func(*state) []entry
	// facts is what a body is made from. Equal facts make equal bodies, and are
	// compared by reflect.DeepEqual.
	facts func(*state, entry) any
	// body presents facts to a request.
	body func(*request, any) any
	// manner names what of a request a body depends on beside its facts; "-" is a
	// body that is made anew each time.
	manner  func(*request, any) string
	filters map[string]filter
	// log: entries only come. That an old one is not kept any more is no change.
	log bool
}

// filter reports whether facts fit a value of the query.
type filter struct {
	doc  string
	fits func(r *request, facts any, value string) bool
	// check refuses values that mean nothing; may be nil.
	check func(r *request, value string) error
}

// entry is one thing of a collection.
type entry struct {
	id     string     // unique in the collection
	key    schema.Key // decides who sees it
	object *schema.AcceptedObject
	ref    any // whatever facts needs beside
}

// item is an entry at one moment. States share the items of which nothing changed.
type item struct {
	id    string
	facts any

	mu     sync.Mutex
	bodies map[string]*rendered // by manner
}

// rendered is a body as it is sent.
type rendered struct {
	json []byte
	tag  [16]byte
}

// render writes a body out.
func render(body any) (*rendered, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &rendered{json: data, tag: [16]byte(sum[:16])}, nil
}

// maxManners is in how many ways an item's body is kept.
const maxManners = 4

// render is the item's body for a request.
func (c *collection) render(r *request, it *item) (*rendered, error) {
	manner := c.manner(r, it.facts)
	if manner == "-" {
		return render(c.body(r, it.facts))
	}
	it.mu.Lock()
	have := it.bodies[manner]
	it.mu.Unlock()
	if have != nil {
		return have, nil
	}
	made, err := render(c.body(r, it.facts))
	if err != nil {
		return nil, err
	}
	it.mu.Lock()
	defer it.mu.Unlock()
	if it.bodies == nil {
		it.bodies = map[string]*rendered{}
	}
	if len(it.bodies) < maxManners {
		it.bodies[manner] = made
	}
	return made, nil
}

// plainly is the manner of bodies that differ in how they name things only.
func plainly(r *request) string {
	if r.scope.whole() {
		return "whole"
	}
	return "local"
}

// table is a collection in one state. Items are made when they are first asked for.
type table struct {
	entries []entry
	at      map[string]int // by id
	byName  map[string][]int

	mu    sync.Mutex
	items []*item
	older *table // of the state before, for its items; dropped when it was looked through
	old   map[string]*item
}

// table is the collection in this state.
func (s *state) table(c *collection) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[c]
	if t != nil && t.at != nil {
		return t
	}
	fresh := &table{entries: c.entries(s), older: t}
	fresh.items = make([]*item, len(fresh.entries))
	fresh.at, fresh.byName = make(map[string]int, len(fresh.entries)), map[string][]int{}
	for i, e := range fresh.entries {
		fresh.at[e.id] = i
		if e.key.Name != "" {
			fresh.byName[e.key.Name] = append(fresh.byName[e.key.Name], i)
		}
	}
	s.tables[c] = fresh
	return fresh
}

// handOver gives a newer state what its items are compared with.
func (s *state) handOver(to *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, t := range s.tables {
		to.tables[c] = t.past()
	}
}

// past is a table as a newer one needs it: the items alone.
func (t *table) past() *table {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := &table{old: make(map[string]*item, len(t.items))}
	for id, it := range t.old {
		old.old[id] = it
	}
	for _, it := range t.items {
		if it != nil {
			old.old[it.id] = it
		}
	}
	return old
}

// item makes the i-th item, or takes the older state's when nothing of it changed.
func (t *table) item(s *state, c *collection, i int) *item {
	t.mu.Lock()
	it := t.items[i]
	t.mu.Unlock()
	if it != nil {
		return it
	}
	e := t.entries[i]
	it = &item{id: e.id, facts: c.facts(s, e)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.items[i] != nil {
		return t.items[i]
	}
	if t.older != nil {
		if was := t.older.old[e.id]; was != nil && reflect.DeepEqual(was.facts, it.facts) {
			it = was
		}
	}
	t.items[i] = it
	return it
}

// listing is what one request's list holds, in one state.
type listing struct {
	once  sync.Once
	items []*item
}

// list is the request's list. It is made once a state for all who see the same.
func (r *request) list(c *collection) ([]*item, error) {
	filters, err := r.filtersOf(c)
	if err != nil {
		return nil, err
	}
	key := c.word + "?" + filters.Encode() + "#" + r.sightID()
	r.mu.Lock()
	l := r.listings[key]
	if l == nil {
		l = &listing{}
		r.listings[key] = l
	}
	r.mu.Unlock()
	l.once.Do(func() { l.items = r.collect(c, filters) })
	return l.items, nil
}

func (r *request) collect(c *collection, filters map[string][]string) []*item {
	t := r.table(c)
	items := make([]*item, 0, len(t.entries))
	for i, e := range t.entries {
		if !r.seesEntry(e) {
			continue
		}
		it := t.item(r.state, c, i)
		if r.fits(c, it, filters) {
			items = append(items, it)
		}
	}
	return items
}

func (r *request) seesEntry(e entry) bool {
	if r.uncut() {
		return true
	}
	if e.object != nil {
		return r.seesObject(e.object.Object)
	}
	return r.sees(e.key)
}

func (r *request) fits(c *collection, it *item, filters map[string][]string) bool {
	for name, values := range filters {
		for _, value := range values {
			if !c.filters[name].fits(r, it.facts, value) {
				return false
			}
		}
	}
	return true
}

// joined is the body of a page: the items and, where more follow, how to ask for them.
func joined(bodies []*rendered, next string) *rendered {
	size := len(`{"items":[]}`) + len(next) + 16
	for _, b := range bodies {
		size += len(b.json) + 1
	}
	var out bytes.Buffer
	out.Grow(size)
	sum := sha256.New()
	out.WriteString(`{"items":[`)
	for i, b := range bodies {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(b.json)
		sum.Write(b.tag[:])
	}
	out.WriteByte(']')
	if next != "" {
		out.WriteString(`,"continue":"` + next + `"`) // base64
		sum.Write([]byte(next))
	}
	out.WriteByte('}')
	return &rendered{json: out.Bytes(), tag: [16]byte(sum.Sum(nil)[:16])}
}

// pick finds the entry that a request's name means, as find does.
func (r *request) pick(c *collection, what string) (*item, error) {
	t := r.table(c)
	if i, ok := t.at[r.name]; ok && r.scope.whole() && r.seesEntry(t.entries[i]) {
		return t.item(r.state, c, i), nil
	}
	var found []int
	for _, i := range t.byName[r.name] {
		if r.seesEntry(t.entries[i]) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return nil, notFound(what)
	case 1:
		return t.item(r.state, c, found[0]), nil
	}
	keys := make([]schema.Key, len(found))
	for i, at := range found {
		keys[i] = t.entries[at].key
	}
	return nil, ambiguous(keys)
}

// one answers for a single thing of a collection.
func one(c *collection, what string) func(*request) (any, error) {
	return func(r *request) (any, error) {
		it, err := r.pick(c, what)
		if err != nil {
			return nil, err
		}
		return c.render(r, it)
	}
}

// filterNames lists a collection's filters.
func (c *collection) filterNames() []string {
	names := make([]string, 0, len(c.filters))
	for name := range c.filters {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
