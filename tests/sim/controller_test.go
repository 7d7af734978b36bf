package sim

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"astraeus.io/astraeus/reconciler"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/schema"
)

// controller is one controller process and its end of the link.
type controller struct {
	w      *world
	name   string
	rec    *reconciler.Reconciler
	leader *memLeader
	term   *reconciler.ByHand // nil while it does not lead
	plan   schema.Plan        // of the newest pass
	pass   reconciler.Pass

	serving bool
	begun   link.Term
	claims  map[string]link.Claim
	held    map[string]link.Held
	targets map[string]*schema.Assignment
	blobs   map[string][]byte
	streams map[string]*stream
	heard   map[string]link.Presence
	reports map[string]*schema.MachineReport
	moved   bool
}

// stream is a machine's connection. What is on its way is lost when it ends.
type stream struct {
	c           *controller
	m           *machine
	incarnation string
	sequence    int64
	has         map[string]bool
	sent        order // the newest assignment sent
	up          []*schema.MachineReport
	down        []*schema.Down
	cut         time.Time // since when nothing gets through; zero for open
}

func newController(w *world, name string) *controller {
	c := &controller{}
	c.start(w, name)
	return c
}

// start makes the process anew.
func (c *controller) start(w *world, name string) {
	*c = controller{w: w, name: name}
	c.reset()
	rec, err := reconciler.New(reconciler.Config{
		Source: w.repo, Store: noStore{}, Link: c, Address: name, Now: func() time.Time { return w.now },
		Load: func(_ context.Context, _ fs.FS, commit string, _ time.Time) (*schema.Desired, error) {
			return w.repo.commits[commit].desired, nil
		},
		Seed: func() string { return strconv.FormatUint(w.rng.Uint64(), 16) },
	})
	if err != nil {
		panic(err)
	}
	c.rec = rec
}

// noStore is for a controller whose terms are made by hand.
type noStore struct{}

func (noStore) Campaign(context.Context, string) (reconciler.Leader, error) { return nil, errStore }
func (noStore) WatchLeader(context.Context, func(string)) error             { return errStore }

func (c *controller) reset() {
	c.claims, c.held = map[string]link.Claim{}, map[string]link.Held{}
	c.streams, c.heard, c.reports = map[string]*stream{}, map[string]link.Presence{}, map[string]*schema.MachineReport{}
	c.targets, c.blobs, c.moved = nil, nil, false
}

// lead begins a term, in which the process that died, if one did, is a new one.
func (c *controller) lead() {
	c.leader = c.w.store.campaign(c.name)
	term, err := c.rec.ByHand(context.Background(), c.leader)
	if err != nil {
		panic(err)
	}
	c.term = term
	c.w.tracef("%s leads", c.name)
}

// end ends the term; died says that it ends without a word.
func (c *controller) end(why string, died bool) {
	if c.term == nil {
		return
	}
	c.w.tracef("%s leads no longer: %s", c.name, why)
	c.w.count("term ends: " + why)
	c.term.End()
	c.term = nil
	c.leader.Resign(context.Background())
	if died {
		c.start(c.w, c.name)
	}
}

// runPass runs one pass and looks at what came of it.
func (c *controller) runPass() {
	plan, pass, over := c.term.Pass(context.Background())
	switch {
	case errors.Is(pass.Err, errCrash):
		c.end("it died while it wrote", true)
	case over != nil:
		c.end(over.Error(), false)
	case pass.Err != nil:
		c.w.tracef("%s passes: %v", c.name, pass.Err)
	default:
		c.plan, c.pass = plan, pass
		c.w.count("pass")
		c.w.tracePass(c)
		c.w.checkPlan(&plan)
	}
}

func (c *controller) fetch() {
	if err := c.term.Fetch(context.Background()); err != nil {
		c.w.tracef("%s fetches: %v", c.name, err)
	}
}

func (c *controller) note() {
	if err := c.term.Note(context.Background()); errors.Is(err, errCrash) {
		c.end("it died while it wrote reports", true)
	}
}

// Lead implements reconciler.Link.
func (c *controller) Lead(t link.Term) {
	c.close()
	c.serving, c.begun = true, t
}

// Identify implements reconciler.Link.
func (c *controller) Identify(uid string, epoch int64, adopting bool) {
	if c.begun.Adopting && !adopting {
		c.w.count("epoch begins")
		c.w.tracef("epoch %d begins", epoch)
	}
	c.begun.ClusterUID, c.begun.Epoch, c.begun.Adopting = uid, epoch, adopting
}

// Claims implements reconciler.Link.
func (c *controller) Claims() map[string]link.Claim { return maps.Clone(c.claims) }

// Held implements reconciler.Link.
func (c *controller) Held() map[string]link.Held { return maps.Clone(c.held) }

// Follow implements reconciler.Link.
func (c *controller) Follow(string) {
	c.close()
	c.serving = false
}

func (c *controller) close() {
	for _, name := range slices.Sorted(maps.Keys(c.streams)) {
		c.streams[name].close("the controller closed it")
	}
	c.reset()
}

// Publish implements reconciler.Link.
func (c *controller) Publish(targets map[string]*schema.Assignment, blobs map[string][]byte) {
	if c.begun.Adopting {
		c.w.failf("%s publishes while it adopts", c.name)
	}
	c.targets, c.blobs = targets, blobs
	for _, a := range targets {
		c.begun.Revision = max(c.begun.Revision, a.Revision)
	}
	for _, name := range slices.Sorted(maps.Keys(c.streams)) {
		c.streams[name].send()
	}
}

// PublishNames implements reconciler.Link.
func (c *controller) PublishNames(map[string]string, link.Zones) {}

// Changed implements reconciler.Link.
func (c *controller) Changed() <-chan struct{} { return nil }

// Take implements reconciler.Link.
func (c *controller) Take() (reports []*schema.MachineReport, moved bool) {
	for _, name := range slices.Sorted(maps.Keys(c.reports)) {
		reports = append(reports, c.reports[name])
	}
	moved, c.moved = c.moved, false
	clear(c.reports)
	return reports, moved
}

// Machines implements reconciler.Link.
func (c *controller) Machines() map[string]link.Presence { return maps.Clone(c.heard) }

// connect opens a machine's stream, as reconciler/link does it.
func (c *controller) connect(m *machine) {
	hello := m.agent.Connect()
	if hello.ClusterUID != "" && hello.ClusterUID != clusterUID {
		c.w.failf("%s pinned the cluster %s", m.name, hello.ClusterUID)
	}
	claim := link.Claim{ClusterUID: hello.ClusterUID, Epoch: hello.Epoch, Revision: hello.Revision, At: c.w.now}
	c.claims[m.name] = claim
	if !c.begun.Adopting && claim.Later(c.begun.Epoch, c.begun.Revision) {
		c.w.count("turned away: it has seen more")
		c.moved = true
		m.agent.Disconnect()
		return
	}
	s := &stream{c: c, m: m, incarnation: hello.Incarnation, has: map[string]bool{}}
	if old := c.streams[m.name]; old != nil {
		if old.incarnation != hello.Incarnation {
			return // two agents with one name, until the old stream is found to be dead
		}
		s.sequence = old.sequence
		old.close("a newer stream took over")
	}
	for _, hash := range hello.Blobs {
		s.has[hash] = true
	}
	c.streams[m.name], m.stream, c.moved = s, s, true
	c.heard[m.name] = link.Presence{Connected: true, Heard: c.w.now}
	if c.begun.Adopting {
		held := again(m.agent.Held())
		c.held[m.name] = link.Held{Assignment: held.Assignment, Blobs: held.Blobs, Ended: held.Ended}
	}
	c.w.count("connect")
	c.w.tracef("%s connects to %s", m.name, c.name)
	s.send()
}

// send puts the newest assignment on its way, with the content that the machine lacks.
func (s *stream) send() {
	a := s.c.targets[s.m.name]
	if a == nil || s.sent == orderOf(a) {
		return
	}
	down := &schema.Down{Assignment: again(a), Blobs: map[string][]byte{}}
	had := s.has
	s.has = map[string]bool{}
	for _, hash := range a.BlobHashes() {
		s.has[hash] = true
		if had[hash] {
			continue
		}
		data, ok := s.c.blobs[hash]
		if !ok {
			s.c.w.failf("the content of %s is missing", hash)
		}
		down.Blobs[hash] = data
	}
	s.down = append(s.down, down)
	s.sent = orderOf(a)
}

// receive takes the report at an index of those on their way.
func (s *stream) receive(i int) {
	r := s.up[i]
	s.up = slices.Delete(s.up, i, i+1)
	c := s.c
	c.heard[s.m.name] = link.Presence{Connected: true, Heard: c.w.now}
	if r.Incarnation != s.incarnation || r.Sequence <= s.sequence {
		return // older than what is known
	}
	s.sequence = r.Sequence
	c.reports[s.m.name] = r
}

// close ends the stream on both sides.
func (s *stream) close(why string) {
	if s.m.stream == s {
		s.m.stream = nil
		if s.m.agent != nil {
			s.m.agent.Disconnect()
		}
		s.c.w.tracef("the stream of %s ends: %s", s.m.name, why)
	}
	if s.c.streams[s.m.name] == s {
		delete(s.c.streams, s.m.name)
		p := s.c.heard[s.m.name]
		p.Connected = false
		s.c.heard[s.m.name] = p
		s.c.moved = true
	}
}
