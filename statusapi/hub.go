package statusapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of watches.
const (
	maxWatchers      = 4096
	maxTokenWatchers = 1024 // of one token
	// A feed keeps so much of what changed, for those who read slowly or come back.
	maxFrames     = 4096
	maxFrameBytes = 16 << 20
	// gather is the shortest time from one look to the next: a lone change is told at
	// once, a burst together.
	gather = 20 * time.Millisecond
	// linger is how long a feed waits for a watcher to come back.
	linger = time.Minute
)

// hub keeps the feeds of all watches up to date, with one look at each state for
// all who see the same.
type hub struct {
	h    *Handler
	done chan struct{} // closed by close

	mu       sync.Mutex
	feeds    map[string]*feed
	watchers map[string]int // by token, "" for none
	running  bool
	closed   bool
}

func newHub(h *Handler) *hub {
	return &hub{h: h, done: make(chan struct{}), feeds: map[string]*feed{}, watchers: map[string]int{}}
}

func (b *hub) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
}

// join finds or makes the feed of a question, and brings it up to date. leave must
// be called.
func (b *hub) join(ctx context.Context, q *question) (f *feed, leave func(), err error) {
	current, err := b.h.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	total := 0
	for _, n := range b.watchers {
		total += n
	}
	who := q.caller.entry.ID
	if b.closed || total >= maxWatchers || who != "" && b.watchers[who] >= maxTokenWatchers {
		return nil, nil, problem(http.StatusServiceUnavailable, codeBusy, "too many watches at once")
	}
	key := q.feedKey()
	f = b.feeds[key]
	if f == nil || f.problem() != nil {
		f = newFeed(q)
	}
	f.look(b.h, current)
	if err := f.problem(); err != nil {
		return nil, nil, err
	}
	b.feeds[key] = f
	f.listeners++
	b.watchers[who]++
	if !b.running {
		b.running = true
		go b.run()
	}
	return f, func() { b.leave(f, who) }, nil
}

func (b *hub) leave(f *feed, who string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.listeners--
	f.idle = b.h.now()
	if b.watchers[who]--; b.watchers[who] == 0 {
		delete(b.watchers, who)
	}
}

// count is how many watch.
func (b *hub) count() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.watchers {
		n += k
	}
	return n
}

// run looks at each new state for every feed, until no feed is left.
func (b *hub) run() {
	tick := time.NewTicker(linger / 4)
	defer tick.Stop()
	for {
		changed := b.h.source.Changed()
		feeds := b.alive()
		if feeds == nil {
			return
		}
		looked := time.Now()
		// A source that fails for a while has nothing to tell.
		if current, err := b.h.current(context.Background()); err == nil {
			for _, f := range feeds {
				f.look(b.h, current)
			}
		}
		select {
		case <-b.done:
			return
		case <-tick.C:
			continue
		case <-changed:
		}
		pause := time.NewTimer(gather - time.Since(looked))
		select {
		case <-b.done:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// alive are the feeds that somebody listens to or may come back to; with none the
// hub stands still.
func (b *hub) alive() (feeds []*feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, f := range b.feeds {
		if f.listeners == 0 && b.h.now().Sub(f.idle) > linger || b.closed {
			delete(b.feeds, key)
			continue
		}
		feeds = append(feeds, f)
	}
	b.running = len(feeds) > 0
	return feeds
}

// feedKey names a question: those who ask the same and see the same share a feed.
func (q *question) feedKey() string {
	return strings.Join([]string{q.caller.grant(), strings.Join(q.prefix, "/"), q.pattern, strings.Join(q.args, "/"), q.query.Encode()}, "\x00")
}

// feed is what changes in the answer to one question.
type feed struct {
	q   *question
	tag string // begins the ids of its frames: another feed's mean nothing here

	listeners int       // the hub's
	idle      time.Time // the hub's

	mu     sync.Mutex
	at     *request // the newest look
	items  []*item
	byID   map[string]*item
	failed error
	frames [][]byte // what changed lately, the oldest first
	bytes  int
	next   uint64        // the number of the next frame
	wake   chan struct{} // closed at a change
}

func newFeed(q *question) *feed {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return &feed{q: q, tag: hex.EncodeToString(random[:]), next: 1, wake: make(chan struct{})}
}

func (f *feed) problem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// collection is what the feed's items are of.
func (f *feed) collection() *collection {
	if f.q.collection != nil {
		return f.q.collection
	}
	return alone
}

// alone presents the one answer of a question that is no list.
var alone = &collection{
	word: "alone", manner: func(*request, any) string { return "-" },
	body: func(_ *request, facts any) any { return json.RawMessage(facts.(*rendered).json) },
}

// look compares a state with the one before and notes what changed.
func (f *feed) look(h *Handler, s *state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil || f.at != nil && f.at.number >= s.number {
		return
	}
	r, items, err := f.answer(h, s)
	if err != nil {
		f.fail(err)
		return
	}
	byID := make(map[string]*item, len(items))
	for _, it := range items {
		byID[it.id] = it
	}
	if f.at != nil {
		for _, it := range items {
			f.compare(r, it, f.byID[it.id])
		}
		if !f.collection().log {
			for _, old := range f.items {
				if byID[old.id] == nil {
					f.note("removed", old.id, nil)
				}
			}
		}
	}
	f.at, f.items, f.byID = r, items, byID
}

// answer is the question's answer in a state, as items. What is not found is nothing.
func (f *feed) answer(h *Handler, s *state) (*request, []*item, error) {
	r, err := f.q.of(context.Background(), s)
	if err != nil {
		return nil, nil, err
	}
	if f.q.collection != nil {
		items, err := r.list(f.q.collection)
		return r, items, err
	}
	body, err := f.q.answer(h, r, f.q.args)
	if p := (*Problem)(nil); errors.As(err, &p) && p.Status == http.StatusNotFound {
		return r, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	made, ok := body.(*rendered)
	if !ok {
		if made, err = render(body); err != nil {
			return nil, nil, err
		}
	}
	return r, []*item{{facts: made}}, nil
}

// compare notes an item that is new or reads otherwise.
func (f *feed) compare(r *request, it, old *item) {
	c := f.collection()
	if old == it && c.manner(r, it.facts) != "-" {
		return
	}
	body, err := c.render(r, it)
	if err != nil {
		f.fail(err)
		return
	}
	what := "added"
	if old != nil {
		was, err := c.render(f.at, old)
		if err == nil && was.tag == body.tag {
			return
		}
		what = "changed"
	}
	f.note(what, it.id, body)
}

// note adds a frame and wakes those who listen.
func (f *feed) note(what, id string, body *rendered) {
	frame := message(what, f.id(f.next), id, body)
	f.frames, f.bytes, f.next = append(f.frames, frame), f.bytes+len(frame), f.next+1
	for len(f.frames) > 1 && (len(f.frames) > maxFrames || f.bytes > maxFrameBytes) {
		f.bytes -= len(f.frames[0])
		f.frames = f.frames[1:]
	}
	f.signal()
}

func (f *feed) signal() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// fail ends the watch: the question has no answer any more.
func (f *feed) fail(err error) {
	f.failed = err
	f.signal()
}

// id names a frame.
func (f *feed) id(number uint64) string { return f.tag + "-" + strconv.FormatUint(number, 10) }

// message is one server-sent event.
func message(what, id, item string, body *rendered) []byte {
	var out bytes.Buffer
	out.WriteString("id: " + id + "\nevent: " + what + "\ndata: ")
	name, _ := json.Marshal(item) // a string
	out.WriteString(`{"id":`)
	out.Write(name)
	if body != nil {
		out.WriteString(`,"item":`)
		out.Write(body.json)
	}
	out.WriteString("}\n\n")
	return out.Bytes()
}

// since is the number of the frame that follows one that a client had; ok is false
// when what lies between is not kept.
func (f *feed) since(last string) (next uint64, ok bool) {
	tag, text, _ := strings.Cut(last, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	if tag != f.tag || err != nil {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next = number + 1
	return next, next <= f.next && next >= f.next-uint64(len(f.frames))
}

// whole is everything now, and the number of the frame that follows.
func (f *feed) whole() (r *request, items []*item, next uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at, f.items, f.next
}

// from are the frames from a number on. ok is false for a reader that was too slow:
// they are gone.
func (f *feed) from(number uint64) (frames [][]byte, wake <-chan struct{}, failed error, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.next - uint64(len(f.frames))
	if number < first {
		return nil, nil, f.failed, false
	}
	return f.frames[number-first:], f.wake, f.failed, true
}
