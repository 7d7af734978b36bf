package statusapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"
)

const (
	// heartbeat is how often a quiet watch says that it lives, and looks whether its
	// token still does.
	heartbeat = 15 * time.Second
	// slowest is how long a watcher may take to read what it was sent.
	slowest = 10 * time.Second
	// chunk is how much is written at a time.
	chunk = 64 << 10
)

// Changed is the data of the messages "added", "changed" and "removed" of a watch.
// ID tells the things of a list apart; it is "" where the answer is one thing. Item
// is the body, absent from "removed".
type Changed struct {
	ID   string          `json:"id"`
	Item json.RawMessage `json:"item,omitempty"`
}

// Notice is the data of the messages "reset" and "synced".
type Notice struct {
	// Reason of a reset: why what the client has must be forgotten.
	Reason string `json:"reason,omitempty"`
}

// watch answers with server-sent events: "reset" and everything there is, or what
// changed since Last-Event-ID; "synced"; then each change. "problem" ends it.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, q *question) error {
	f, leave, err := h.hub.join(r.Context(), q)
	if err != nil {
		return err
	}
	defer leave()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	s := &stream{h: h, w: w, control: http.NewResponseController(w), feed: f}
	_ = s.control.SetReadDeadline(time.Time{}) // the request was read; what follows is ours
	err = s.begin(r.Header.Get("Last-Event-ID"))
	if err == nil {
		err = s.follow(r, q.caller)
	}
	if errors.Is(err, errSlow) {
		h.metrics.dropped.Inc()
	}
	return nil // the headers are sent: the end of the stream is all that can be said
}

// stream is one watcher's connection.
type stream struct {
	h       *Handler
	w       http.ResponseWriter
	control *http.ResponseController
	feed    *feed
	next    uint64
	buffer  []byte
}

var errSlow = errors.New("the watcher does not read")

// begin brings the watcher up to date: by what it missed, or with everything.
func (s *stream) begin(last string) error {
	if next, ok := s.feed.since(last); ok {
		s.next = next
		if err := s.catchUp(); err != nil {
			return err
		}
		return s.say("synced", Notice{})
	}
	reason := "this is the beginning"
	if last != "" {
		reason = "what happened since is not known any more"
	}
	r, items, next := s.feed.whole()
	s.next = next
	s.add(notice("reset", "", Notice{Reason: reason}))
	c := s.feed.collection()
	for _, it := range items {
		body, err := c.render(r, it)
		if err != nil {
			return err
		}
		// Without an id: a client that breaks off here begins again.
		s.add(message("added", "", it.id, body))
		if len(s.buffer) >= chunk {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.say("synced", Notice{})
}

// follow sends changes until the client or the server goes, or the caller may not
// look any more.
func (s *stream) follow(r *http.Request, who caller) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		frames, wake, failed, ok := s.feed.from(s.next)
		switch {
		case !ok:
			return errSlow
		case !s.h.still(who):
			return s.end(problem(http.StatusUnauthorized, codeUnauthorized, "the token is not valid"))
		case failed != nil:
			return s.end(failed)
		}
		if len(frames) > 0 {
			if err := s.catchUp(); err != nil {
				return err
			}
			continue
		}
		select {
		case <-wake:
		case <-beat.C:
			s.add([]byte(": \n\n"))
			if err := s.flush(); err != nil {
				return err
			}
		case <-r.Context().Done():
			return nil
		case <-s.h.hub.done:
			return nil
		}
	}
}

// catchUp sends the frames that there are.
func (s *stream) catchUp() error {
	frames, _, _, ok := s.feed.from(s.next)
	if !ok {
		return errSlow
	}
	for _, frame := range frames {
		s.add(frame)
		s.next++
		if len(s.buffer) >= chunk {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

func (s *stream) add(data []byte) { s.buffer = append(s.buffer, data...) }

// say sends a notice, whose id stands for all that was sent so far.
func (s *stream) say(what string, n any) error {
	s.add(notice(what, s.feed.id(s.next-1), n))
	return s.flush()
}

// end says why the watch is over.
func (s *stream) end(err error) error {
	p := (*Problem)(nil)
	if !errors.As(err, &p) {
		p = problem(http.StatusInternalServerError, codeInternal, "")
	}
	s.add(notice("problem", "", p))
	return s.flush()
}

func notice(what, id string, data any) []byte {
	body, _ := json.Marshal(data) // of the few types above
	return []byte("id: " + id + "\nevent: " + what + "\ndata: " + string(body) + "\n\n")
}

// flush writes what was added. A client that does not take it in time is dropped.
func (s *stream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.h.slowest))
	_, err := s.w.Write(s.buffer)
	s.buffer = s.buffer[:0]
	if err == nil {
		err = s.control.Flush()
	}
	_ = s.control.SetWriteDeadline(time.Time{}) // silence is no slowness
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return err
}
