package nodeexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
)

// contactFile is runtime's contact with the boot id behind it.
const (
	contactFile   = "contact"
	contactBootAt = 16
)

// contact is when the leader last heard this machine, as far as the machine knows:
// not when it heard the leader, which may get nothing of what is sent to it. What the
// machine sent is heard once it is answered, and counts from when it was sent.
// The file outlives the agent, and the engine goes by it.
type contact struct {
	mu     sync.Mutex
	file   *os.File
	uptime func() time.Duration
	sent   []sentReport // not answered yet, oldest first
	last   time.Duration
}

type sentReport struct {
	sequence int64
	at       time.Duration
}

// mostUnanswered bounds what is remembered of a leader that answers nothing.
const mostUnanswered = 1000

// loadContact opens the contact of this boot. One of another boot is none.
func loadContact(dir, boot string, uptime func() time.Duration) (*contact, error) {
	file, err := os.OpenFile(filepath.Join(dir, contactFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	body, err := os.ReadFile(file.Name())
	if err == nil && (len(body) < contactBootAt || string(body[contactBootAt:]) != boot) {
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt([]byte(boot), contactBootAt)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrState, contactFile, err), file.Close())
	}
	c := &contact{file: file, uptime: uptime}
	if at, err := runtime.LastContact(file); err == nil && at <= uptime() {
		c.last = at
	}
	return c, nil
}

// now is the time at which something is sent that an answer will confirm.
func (c *contact) now() time.Duration { return c.uptime() }

// sending notes a report right before it is sent.
func (c *contact) sending(sequence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, sentReport{sequence, c.uptime()})
	if over := len(c.sent) - mostUnanswered; over > 0 {
		c.sent = append([]sentReport{}, c.sent[over:]...)
	}
}

// heard notes that the leader has a report, and so all that was sent before.
func (c *contact) heard(sequence int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at time.Duration
	for len(c.sent) > 0 && c.sent[0].sequence <= sequence {
		if c.sent[0].sequence == sequence {
			at = c.sent[0].at
		}
		c.sent = c.sent[1:]
	}
	return c.note(at)
}

// opened notes that the leader answered a hello that was sent at a time.
func (c *contact) opened(at time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = nil // of another stream: whether it came is not known
	return c.note(at)
}

// note writes a later contact. One that cannot be written is none: workers end
// sooner then.
func (c *contact) note(at time.Duration) error {
	if at <= c.last {
		return nil
	}
	if err := runtime.NoteContact(c.file, at); err != nil {
		return fmt.Errorf("the contact with the controller cannot be noted: %w", err)
	}
	c.last = at
	return nil
}

// away reports whether the machine had no contact for so long.
func (c *contact) away(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last == 0 || c.uptime()-c.last >= d
}
