package link

import (
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema"
)

// Claim is what a machine says of itself in its hello, whether it was let in or not.
type Claim struct {
	// ClusterUID is the cluster that the machine belongs to, "" for none yet.
	ClusterUID string
	// Epoch and Revision are the newest assignment that it has seen.
	Epoch, Revision int64
	At              time.Time
}

// Later reports whether the machine has seen a later assignment than a store at
// this epoch and revision can have made.
func (c Claim) Later(epoch, revision int64) bool {
	return c.Epoch > epoch || c.Epoch == epoch && c.Revision > revision
}

// Held is what a machine was assigned last, nil for nothing, with the content that
// it names as far as the machine has it. For reading only.
type Held struct {
	Assignment *schema.Assignment
	Blobs      map[string][]byte
	Ended      []schema.EndedWorker
}

// Claims returns the newest hello of every machine that came since Lead.
func (s *Server) Claims() map[string]Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return nil
	}
	return maps.Clone(s.term.claims)
}

// Held returns what machines have told of their last assignments since Lead, while
// the store is adopting.
func (s *Server) Held() map[string]Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return nil
	}
	return maps.Clone(s.term.held)
}

// Identify says whose machines are served from now on, and in which epoch, in a
// term that began without knowing it, or ends its adoption. Machines of another
// cluster are turned away.
func (s *Server) Identify(clusterUID string, epoch int64, adopting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.term
	if t == nil {
		return
	}
	t.ClusterUID, t.Epoch, t.Adopting = clusterUID, epoch, adopting
	for name, m := range s.machines {
		if pinned := t.claims[name].ClusterUID; m.stream != nil && pinned != "" && pinned != clusterUID {
			close(m.stream.put)
			m.stream = nil
			s.move()
		}
	}
}

// admit judges a hello by X-4 and keeps what it says.
func (s *Server) admit(t *term, h *schema.Hello) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t {
		return notLeader(s.leader)
	}
	c := Claim{h.ClusterUID, h.Epoch, h.Revision, s.opt.Now()}
	t.claims[h.Machine] = c
	foreign := h.ClusterUID != "" && t.ClusterUID != "" && h.ClusterUID != t.ClusterUID
	switch {
	case foreign:
		s.move()
		return status.Error(codes.FailedPrecondition, Foreign(h.ClusterUID, t.ClusterUID))
	case h.ClusterUID != "" && !t.Adopting && c.Later(t.Epoch, t.Revision):
		s.move()
		return status.Error(codes.FailedPrecondition, fmt.Sprintf("this controller's store is older than what the machine has seen: "+
			"epoch %d, revision %d, and the machine has seen epoch %d, revision %d. If the store was restored, "+
			"start the controller with --new-epoch", t.Epoch, t.Revision, c.Epoch, c.Revision))
	}
	return nil
}

// Foreign is what both sides say of a machine that belongs to another cluster.
func Foreign(machine, controller string) string {
	return fmt.Sprintf("the machine belongs to cluster %s, this is cluster %s: if this controller's store was lost, start it "+
		"with --new-epoch; if the machine is to change its cluster, stop its agent and remove its state directory", machine, controller)
}

// maxHeld bounds what a machine may tell of its last assignment.
const maxHeld = 256 << 20

// heldParts puts a machine's last assignment together.
type heldParts struct {
	blobs map[string][]byte
	size  int
}

// take gives the whole once it is there, nil before. Content that does not have
// its hash is left out.
func (p *heldParts) take(m *schema.Held) (*Held, error) {
	if p.blobs == nil {
		p.blobs = map[string][]byte{}
	}
	for hash, data := range m.Blobs {
		if p.size += len(data); p.size > maxHeld {
			return nil, fmt.Errorf("what the machine holds has more than %d bytes", maxHeld)
		}
		if schema.HashBytes(data) == hash {
			p.blobs[hash] = data
		}
	}
	if m.More {
		return nil, nil
	}
	held := &Held{m.Assignment, p.blobs, m.Ended}
	*p = heldParts{}
	return held, nil
}
