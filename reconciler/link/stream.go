package link

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

// stream is one machine's connection.
type stream struct {
	link.ServerStream
	name        string
	incarnation string
	wake        chan struct{}    // a newer assignment may be there
	put         chan struct{}    // closed when a newer stream of the same agent replaces it
	has         map[string]bool  // content that the machine keeps
	sequence    int64            // of the newest report
	zone        *schema.ZoneHave // names that the machine holds, or will when it has read what was sent; nil: it serves none
	parts       *link.Receiver
	held        heldParts
	acked       int64 // the newest report of which the machine was told that it came
	sent        mark  // the newest assignment that was sent, under the server's lock
}

// mark is an assignment's place in the order of X-4.
type mark struct{ epoch, revision int64 }

func (m mark) is(a *schema.Assignment) bool { return m == mark{a.Epoch, a.Revision} }

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Connect implements link.Server. It returns when the stream is over, with a
// status that tells the machine why.
func (s *Server) Connect(raw link.ServerStream) error {
	name, err := identify(raw.Context())
	if err != nil {
		return err
	}
	t, err := s.leading()
	if err != nil {
		return err
	}
	ups := receive(raw)
	hello, err := s.hello(raw, ups, t, name)
	if err != nil {
		return err
	}
	st := &stream{
		ServerStream: raw, name: name, incarnation: hello.Incarnation,
		wake: make(chan struct{}, 1), put: make(chan struct{}), has: map[string]bool{},
	}
	for _, hash := range hello.Blobs {
		st.has[hash] = true
	}
	welcome, err := s.welcome(t, st, hello)
	if err != nil {
		return err
	}
	if err := s.attach(t, st); err != nil {
		return err
	}
	defer s.detach(t, st)
	return s.converse(t, st, ups, welcome)
}

// welcome says what of the machine's report is known already.
func (s *Server) welcome(t *term, st *stream, hello *schema.Hello) (*schema.Welcome, error) {
	s.mu.Lock()
	known, recall := t.Known[st.name], t.Adopting
	s.mu.Unlock()
	parts, have, err := link.NewReceiver(known, hello.Parts)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	st.parts = parts
	return &schema.Welcome{Have: have, Recall: recall}, nil
}

func (s *Server) leading() (*term, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return nil, notLeader(s.leader)
	}
	return s.term, nil
}

// up is a message, or why there are no more.
type up struct {
	*schema.Up
	err error
}

// receive reads messages until the stream ends, which its handler's return makes sure of.
func receive(raw link.ServerStream) <-chan up {
	ups := make(chan up)
	go func() {
		for {
			m, err := raw.Recv()
			select {
			case ups <- up{m, err}:
			case <-raw.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return ups
}

// hello waits for the first message and checks it.
func (s *Server) hello(raw link.ServerStream, ups <-chan up, t *term, name string) (*schema.Hello, error) {
	late := time.NewTimer(s.opt.HelloTimeout)
	defer late.Stop()
	var first up
	select {
	case first = <-ups:
	case <-late.C:
		return nil, status.Error(codes.DeadlineExceeded, "no hello came")
	case <-t.over:
		return nil, s.ended()
	case <-raw.Context().Done():
		return nil, raw.Context().Err()
	}
	switch {
	case first.err != nil:
		return nil, first.err
	case first.Hello == nil:
		return nil, status.Error(codes.InvalidArgument, "the first message is not a hello")
	}
	h := first.Hello
	switch {
	case h.Version != schema.AssignmentVersion:
		return nil, status.Errorf(codes.FailedPrecondition, "the machine speaks version %d, this controller speaks %d",
			h.Version, schema.AssignmentVersion)
	case h.Machine != name:
		return nil, status.Errorf(codes.PermissionDenied, "machine %q cannot speak for %q", name, h.Machine)
	case h.Incarnation == "":
		return nil, status.Error(codes.InvalidArgument, "the hello has no incarnation")
	}
	return h, s.admit(t, h)
}

func (s *Server) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return notLeader(s.leader)
}

// attach makes a stream its machine's. A second stream of the same agent
// replaces the first, whose connection died unnoticed; one of another agent is
// turned away as long as the first lives.
func (s *Server) attach(t *term, st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t {
		return notLeader(s.leader)
	}
	m := s.machines[st.name]
	if m == nil {
		m = &machine{}
		s.machines[st.name] = m
	}
	if old := m.stream; old != nil {
		if old.incarnation != st.incarnation {
			m.clash = s.opt.Now()
			s.opt.Log.Warn(twoAgents, "machine", st.name)
			s.move()
			return status.Errorf(codes.AlreadyExists, "%s: another agent is connected as machine %q", twoAgents, st.name)
		}
		st.sequence = old.sequence
		close(old.put)
	}
	m.stream, m.heard = st, s.opt.Now()
	st.poke()
	s.move()
	return nil
}

func (s *Server) detach(t *term, st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[st.name]; s.term == t && m != nil && m.stream == st {
		m.stream = nil
		s.move()
	}
}

// converse runs an attached stream.
func (s *Server) converse(t *term, st *stream, ups <-chan up, welcome *schema.Welcome) error {
	sent := make(chan error, 1)
	go func() { sent <- s.send(t, st, welcome) }()
	for {
		select {
		case u := <-ups:
			switch {
			case errors.Is(u.err, io.EOF):
				return nil
			case u.err != nil:
				return u.err
			}
			if err := s.heard(t, st, u.Up); err != nil {
				return err
			}
		case err := <-sent:
			if err != nil {
				return err
			}
			sent = nil // the stream is over; another case says why
		case <-st.put:
			return status.Error(codes.Aborted, "a newer stream of this agent took over")
		case <-t.over:
			return s.ended()
		case <-st.Context().Done():
			return st.Context().Err()
		}
	}
}

// heard takes one message. Reports that are not newer than the last are dropped.
func (s *Server) heard(t *term, st *stream, u *schema.Up) error {
	if u.Hello != nil {
		return status.Error(codes.InvalidArgument, "a second hello")
	}
	var report *schema.MachineReport
	var held *Held
	var err error
	switch {
	case u.Held != nil:
		held, err = st.held.take(u.Held)
	case u.Report != nil:
		report, err = st.parts.Take(u.Report)
	}
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if report != nil && report.Name != "" && report.Name != st.name {
		return status.Errorf(codes.PermissionDenied, "machine %q cannot speak for %q", st.name, report.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[st.name]
	if s.term != t || m == nil || m.stream != st {
		return nil // put off meanwhile; the select sees why
	}
	m.heard = s.opt.Now()
	if u.Zone != nil {
		st.zone = u.Zone
		st.poke()
	}
	if held != nil {
		t.held[st.name] = *held
		s.move()
	}
	if report != nil {
		s.reported(t, st, report)
	}
	return nil
}

// reported takes a whole report, under the lock.
func (s *Server) reported(t *term, st *stream, r *schema.MachineReport) {
	if r.Incarnation != st.incarnation || r.Sequence <= st.sequence {
		s.opt.Log.Debug("an older report was dropped", "machine", st.name, "sequence", r.Sequence)
		return
	}
	r.Name, st.sequence = st.name, r.Sequence
	if answers(t.targets[st.name]) {
		st.poke()
	}
	if !st.parts.News() {
		return // a heartbeat
	}
	s.reports[st.name], t.Known[st.name] = r, r
	s.signal()
}

// send brings the newest assignment down whenever it differs from the last one
// sent. A machine that does not read blocks this goroutine and no other.
func (s *Server) send(t *term, st *stream, welcome *schema.Welcome) error {
	if err := st.Send(&schema.Down{Time: s.opt.Now(), Welcome: welcome}); err != nil {
		return err
	}
	for {
		select {
		case <-st.wake:
		case <-st.put:
			return nil
		case <-t.over:
			return nil
		case <-st.Context().Done():
			return nil
		}
		s.mu.Lock()
		a, blobs := t.targets[st.name], t.blobs
		news := a != nil && !st.sent.is(a)
		if news {
			st.sent = mark{a.Epoch, a.Revision}
		}
		s.mu.Unlock()
		if news {
			if err := s.sendOne(st, a, blobs); err != nil {
				return err
			}
		}
		if err := s.acknowledge(st, a); err != nil {
			return err
		}
		if err := s.sendNames(t, st); err != nil {
			return err
		}
	}
}

// acknowledge says that a report came where workers are stopped without that.
func (s *Server) acknowledge(st *stream, a *schema.Assignment) error {
	s.mu.Lock()
	newest := st.sequence
	s.mu.Unlock()
	if newest == st.acked || !answers(a) {
		return nil
	}
	st.acked = newest
	return st.Send(&schema.Down{Heard: newest})
}

// answers: the machine has workers that end unless it knows that it is heard.
func answers(a *schema.Assignment) bool {
	return a != nil && slices.ContainsFunc(a.Workers, func(w schema.WorkerTarget) bool { return w.StopIfAwayAfter > 0 })
}

// sendNames brings the machine's zone up to date once it has said what it holds.
func (s *Server) sendNames(t *term, st *stream) error {
	s.mu.Lock()
	have, org, zones := st.zone, t.orgs[st.name], t.zones
	s.mu.Unlock()
	if have == nil || org == "" || zones == nil {
		return nil
	}
	update := zones.For(org, *have)
	if update == nil {
		return nil
	}
	if err := s.sendZone(st, update); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.zone == have { // else the machine has asked anew meanwhile
		st.zone = &schema.ZoneHave{ZoneVersion: update.To, Org: update.Org}
	}
	return nil
}

// sendZone sends an update in one message, or in pieces where it is large.
func (s *Server) sendZone(st *stream, update *schema.ZoneUpdate) error {
	data, err := update.JSON()
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if len(data) <= s.opt.ChunkBytes {
		return st.Send(&schema.Down{Zone: update})
	}
	for part := range slices.Chunk(data, s.opt.ChunkBytes) {
		down := &schema.Down{ZonePart: part}
		if data = data[len(part):]; len(data) == 0 {
			down.ZoneEnd = true
		}
		if err := st.Send(down); err != nil {
			return err
		}
	}
	return nil
}

// sendOne sends what the machine lacks in chunks, the assignment with the last one
// . The machine keeps what its newest assignment names, and so do we count.
func (s *Server) sendOne(st *stream, a *schema.Assignment, blobs map[string][]byte) error {
	down, size := &schema.Down{Time: s.opt.Now()}, 0
	had := st.has
	st.has = map[string]bool{}
	for _, hash := range a.BlobHashes() {
		st.has[hash] = true
		if had[hash] {
			continue
		}
		data, ok := blobs[hash]
		if !ok {
			return status.Error(codes.Internal, fmt.Sprintf("the content of %s is missing", hash))
		}
		if size > 0 && size+len(data) > s.opt.ChunkBytes {
			if err := st.Send(down); err != nil {
				return err
			}
			down, size = &schema.Down{}, 0
		}
		if down.Blobs == nil {
			down.Blobs = map[string][]byte{}
		}
		down.Blobs[hash], size = data, size+len(data)
	}
	down.Assignment = a
	return st.Send(down)
}
