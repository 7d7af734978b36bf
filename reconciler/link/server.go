package link

import (
	"cmp"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/link"
)

// Options of New; zero values are defaults.
type Options struct {
	Log *slog.Logger
	// Now is a monotonic clock. Default time.Now.
	Now func() time.Time
	// HelloTimeout is how long a new stream may stay silent. Default 10 s.
	HelloTimeout time.Duration
	// ChunkBytes is how much content goes in one message. Default 1 MB.
	ChunkBytes int
}

// Server is the controller's end of all streams. It is safe for concurrent use.
type Server struct {
	opt      Options
	changed  chan struct{}
	operator Operator // nil: operators are not served

	mu       sync.Mutex
	term     *term // nil while another leads
	leader   string
	machines map[string]*machine
	reports  map[string]*schema.MachineReport // not taken yet
	moved    bool                             // a machine came or went since Take
}

// Term is what a leader begins with.
type Term struct {
	// ClusterUID is whose machines are served. "" while a lost store does not know it:
	// then machines of any one cluster are.
	ClusterUID string
	// Epoch and Revision are the store's: a machine that has seen a later assignment is
	// turned away, for the store is older than the machine.
	Epoch, Revision int64
	// Adopting: the store was lost or restored. Machines are asked what they were
	// assigned, and whatever they have seen is no reason to turn them away.
	Adopting bool
	// Known are the newest reports that are known of machines, for reading only: what a
	// machine would report just so is not sent again.
	Known map[string]*schema.MachineReport
}

// term is one time of leading. Its streams end with it.
type term struct {
	Term    // Known is the server's own map
	over    chan struct{}
	targets map[string]*schema.Assignment
	blobs   map[string][]byte
	orgs    map[string]string // of machines
	zones   Zones             // nil: nothing is sent of names yet
	claims  map[string]Claim
	held    map[string]Held
}

// Zones says what machines are sent of names (N-3). It is called from many goroutines.
type Zones interface {
	// For is what a machine of the org is sent that holds have; nil for nothing. It
	// is not changed afterwards.
	For(org string, have schema.ZoneHave) *schema.ZoneUpdate
}

// machine is what is known of one machine in this term.
type machine struct {
	stream *stream
	heard  time.Time
	clash  time.Time // when a second agent with this name was last turned away
}

// New makes a server that leads nothing yet.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.HelloTimeout = cmp.Or(o.HelloTimeout, 10*time.Second)
	o.ChunkBytes = cmp.Or(o.ChunkBytes, 1<<20)
	s := &Server{opt: o, changed: make(chan struct{}, 1)}
	s.forget()
	return s
}

// GRPCOptions are the options that a gRPC server for this service wants: dead
// connections are noticed in 20 s, and machines may ask as often as every 5 s.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(link.MaxMessage),
	}
}

// Register adds the services to a gRPC server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	link.Register(registrar, s)
	if s.operator != nil {
		link.RegisterOperator(registrar, desk{s})
	}
}

// Serve serves machines on a listener until the returned stop is called. Options
// carry the credentials (Credentials); without any, only unix sockets and
// in-memory listeners can name a machine.
func (s *Server) Serve(listener net.Listener, options ...grpc.ServerOption) (stop func()) {
	server := grpc.NewServer(append(GRPCOptions(), options...)...)
	s.Register(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil {
			s.opt.Log.Error("the link's listener failed", "error", err)
		}
	}()
	return func() {
		server.Stop()
		<-done
	}
}

// Lead begins to serve machines of a cluster. What was known of machines before is forgotten.
func (s *Server) Lead(t Term) {
	known := make(map[string]*schema.MachineReport, len(t.Known))
	maps.Copy(known, t.Known)
	t.Known = known
	s.end("", &term{Term: t, over: make(chan struct{}), claims: map[string]Claim{}, held: map[string]Held{}})
}

// Follow stops serving: every stream is closed, and machines are sent to the
// leader's address, "" when nobody knows it.
func (s *Server) Follow(leader string) { s.end(leader, nil) }

func (s *Server) end(leader string, next *term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != nil {
		close(s.term.over)
		s.forget()
	}
	s.term, s.leader = next, leader
}

func (s *Server) forget() {
	s.machines, s.reports, s.moved = map[string]*machine{}, map[string]*schema.MachineReport{}, false
}

// Publish makes these the machines' assignments, all at once; blobs hold what
// they name by hash. Neither is changed afterwards by anyone. Each connected
// machine whose assignment is another one than it was sent gets it, with the
// content that it lacks; a machine without one keeps the last.
func (s *Server) Publish(targets map[string]*schema.Assignment, blobs map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return
	}
	s.term.targets, s.term.blobs = targets, blobs
	for name, m := range s.machines {
		if a := targets[name]; m.stream != nil && a != nil && !m.stream.sent.is(a) {
			m.stream.poke()
		}
	}
	for _, a := range targets {
		s.term.Revision = max(s.term.Revision, a.Revision)
	}
}

// PublishNames makes zones what machines are sent of names, from now on in this
// term; orgs says whose names each machine gets, one that is not in it none (N-6).
// Call it again whenever zones has something new.
func (s *Server) PublishNames(orgs map[string]string, zones Zones) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return
	}
	s.term.orgs, s.term.zones = orgs, zones
	for _, m := range s.machines {
		if m.stream != nil {
			m.stream.poke()
		}
	}
}

// Changed signals that a report came in, or a machine came or went. Signals are
// merged.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// move notes, under the lock, that a machine came or went.
func (s *Server) move() {
	s.moved = true
	s.signal()
}

func (s *Server) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Take returns the newest report of each machine that sent one since the last
// call, by name, and whether a machine came or went. Reports are for reading only:
// they share what did not change with the one before.
func (s *Server) Take() (reports []*schema.MachineReport, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		reports = append(reports, r)
	}
	moved, s.moved = s.moved, false
	clear(s.reports)
	slices.SortFunc(reports, func(a, b *schema.MachineReport) int { return cmp.Compare(a.Name, b.Name) })
	return reports, moved
}

// Presence is what is known of a machine since Lead.
type Presence struct {
	Connected bool
	// Heard is when it last sent something, by the monotonic clock; zero for never.
	Heard time.Time
	// Problem is what is wrong with its connection: "two agents with one name".
	Problem string
}

// Machines returns every machine heard since Lead.
func (s *Server) Machines() map[string]Presence {
	now := s.opt.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Presence, len(s.machines))
	for name, m := range s.machines {
		p := Presence{Connected: m.stream != nil, Heard: m.heard}
		if !m.clash.IsZero() && now.Sub(m.clash) < clashShown {
			p.Problem = twoAgents
		}
		out[name] = p
	}
	return out
}

const (
	twoAgents  = "two agents with one name"
	clashShown = time.Minute
)

func notLeader(leader string) error {
	if leader == "" {
		return status.Error(codes.FailedPrecondition, "not leader, and no leader is known yet")
	}
	return status.Error(codes.FailedPrecondition, "not leader, try "+leader)
}
