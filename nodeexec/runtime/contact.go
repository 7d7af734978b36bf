package runtime

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
)

// ReasonAway is the Reason of a worker that the engine ended because the machine
// had no controller for Spec.StopIfAway.
const ReasonAway = "stopped while the machine had no controller"

// AwayGrace is how long such a worker has to end by itself before it is killed.
const AwayGrace = 30 * time.Second

// A contact is a file in which an agent notes when a controller last heard the
// machine, by the boot clock, which goes on while the machine sleeps and which every
// process reads alike. What ends workers reads it through a descriptor that it was
// given, so that nothing depends on the agent being alive. It is not synced:
// after a reboot no worker is left, and the boot clock is another.

// NoteContact writes the time of the newest contact.
func NoteContact(f *os.File, at time.Duration) error {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at))
	binary.BigEndian.PutUint64(b[8:], ^uint64(at))
	_, err := f.WriteAt(b[:], 0)
	return err
}

// ErrNoContact: the file says nothing that can be relied on.
var ErrNoContact = errors.New("no contact is noted")

// LastContact reads the time of the newest contact. ErrNoContact is for a file that is
// empty or damaged; what cannot be read is no contact either.
func LastContact(f *os.File) (time.Duration, error) {
	var b [16]byte
	if n, err := f.ReadAt(b[:], 0); n < len(b) {
		return 0, errors.Join(ErrNoContact, err)
	}
	at := binary.BigEndian.Uint64(b[:8])
	if at != ^binary.BigEndian.Uint64(b[8:]) {
		return 0, ErrNoContact
	}
	return time.Duration(at), nil
}

// Away reports whether a worker's machine had no controller for too long, by the boot
// clock. A contact that lies ahead is of another boot, and none.
func (s *Spec) Away(now time.Duration) bool {
	if s.StopIfAway <= 0 {
		return false
	}
	at, err := LastContact(s.Contact)
	return err != nil || at > now || now-at >= s.StopIfAway
}
