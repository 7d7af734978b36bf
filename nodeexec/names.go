package nodeexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/schema"
)

// NameServer answers names on the machine: *dnszone.Server, whose methods these are.
type NameServer interface {
	SetZone(*dnszone.Table)
	SetClients(map[netip.Addr]*schema.EgressTarget)
	Serve(context.Context) error
	Problems() []string
	Close()
}

const (
	namesPort = 53
	zoneDir   = "zone" // of the state directory
	// An address that is not there yet, or is another's, is tried again after namesFirst,
	// doubling to namesMost.
	namesFirst = time.Second
	namesMost  = 30 * time.Second
	// askAgain is how long a machine waits that asked for the whole zone and could not
	// use that either.
	askAgain = 30 * time.Second
)

// naming serves names: the zone as it comes over the link, from the last one on disk
// before that, on the machine's gateway (N-3), each worker by its policy (N-5).
type naming struct {
	a    *Agent
	kick chan struct{}
	asks chan struct{} // something is to be asked of the controller

	mu      sync.Mutex
	keeper  *dnszone.Keeper
	server  NameServer // nil while none answers
	parts   []byte     // of an update that comes in pieces
	whole   bool       // the zone that is here is of no use to the controller
	asked   time.Time  // when the whole zone was last asked for
	clients map[netip.Addr]*schema.EgressTarget
	problem string // why names are not served
	kept    string // why the zone is not on disk
}

func openNaming(a *Agent) *naming {
	keeper, err := dnszone.OpenKeeper(filepath.Join(a.cfg.StateDir, zoneDir))
	n := &naming{a: a, keeper: keeper, kick: make(chan struct{}, 1), asks: make(chan struct{}, 1)}
	if err != nil {
		// The zone is the controller's and comes again; nothing is lost with it.
		a.log.Warn("the last zone cannot be read", "error", err)
	}
	return n
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// retarget looks at a newer assignment. A machine that begins to serve names asks
// for them.
func (n *naming) retarget(old, t *schema.Assignment) {
	if t.Names != nil && (old == nil || old.Names == nil) {
		signal(n.asks)
	}
	signal(n.kick)
}

// opened forgets what a stream that is over left in pieces.
func (n *naming) opened() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parts = nil
}

// have is what to tell the controller of the zone that is here; nil while the
// machine serves no names.
func (n *naming) have() *schema.ZoneHave {
	if t := n.a.target.Load(); t == nil || t.Names == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.whole {
		n.whole, n.asked = false, n.a.cfg.Now()
		return &schema.ZoneHave{}
	}
	have := n.keeper.Have()
	return &have
}

// maxZone bounds an update that comes in pieces: a million names are a tenth of it.
const maxZone = 1 << 30

// part takes a piece of an update.
func (n *naming) part(down *schema.Down) error {
	n.mu.Lock()
	n.parts = append(n.parts, down.ZonePart...)
	data := n.parts
	if down.ZoneEnd || len(data) > maxZone {
		n.parts = nil
	}
	n.mu.Unlock()
	switch {
	case len(data) > maxZone:
		return fmt.Errorf("a zone update of more than %d bytes", maxZone)
	case !down.ZoneEnd:
		return nil
	}
	u := new(schema.ZoneUpdate)
	if err := json.Unmarshal(data, u); err != nil {
		return fmt.Errorf("a zone update in pieces: %w", err)
	}
	n.take(u)
	return nil
}

// take brings the zone up to date: answered first, written down afterwards.
func (n *naming) take(u *schema.ZoneUpdate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err := n.keeper.Apply(u)
	switch {
	case errors.Is(err, dnszone.ErrOld):
		n.a.log.Warn("an older zone is ignored", "error", err)
		return
	case err != nil:
		n.a.log.Warn("a zone update cannot be used; names are answered from the zone before it", "error", err)
		if n.asked.IsZero() || n.a.cfg.Now().Sub(n.asked) >= askAgain {
			n.whole = true
			signal(n.asks)
		}
		return
	}
	if n.server != nil {
		n.server.SetZone(n.usable(n.a.target.Load()))
	}
	n.a.cfg.CrashPoint(CrashZoneTaken)
	n.kept = ""
	if err := n.keeper.Save(u); err != nil {
		n.kept = "the zone cannot be written down: " + err.Error()
		n.a.log.Warn(n.kept)
	}
}

// watch follows which worker has which address: its policy goes with the address
// until the worker is gone, also when it has left the assignment (N-5).
func (n *naming) watch(t *schema.Assignment, seen *view) {
	if t == nil || t.Names == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	clients, given := policies(t), map[string]bool{}
	for i := range t.Workers {
		given[t.Workers[i].Address] = true
	}
	alive := map[string]bool{}
	for i := range seen.workers {
		if w := &seen.workers[i]; w.live() {
			alive[w.worker.Address] = true
		}
	}
	for at, policy := range n.clients {
		// What the assignment says of an address counts; else who had it may be there still.
		if text := at.String(); !given[text] && (alive[text] || !seen.engineKnown) {
			clients[at] = policy
		}
	}
	n.clients = clients
	if n.server != nil {
		n.server.SetClients(maps.Clone(clients))
	}
}

// policies are those of the assignment's workers that have an address of their own.
func policies(t *schema.Assignment) map[netip.Addr]*schema.EgressTarget {
	clients := map[netip.Addr]*schema.EgressTarget{}
	for i := range t.Workers {
		w := &t.Workers[i]
		if at, err := netip.ParseAddr(w.Address); err == nil && w.Network == schema.NetworkNode && w.Egress != nil {
			clients[at] = w.Egress
		}
	}
	return clients
}

// usable is the table to answer from: another org's is none (N-6), as after a machine
// changed hands.
func (n *naming) usable(t *schema.Assignment) *dnszone.Table {
	table := n.keeper.Table()
	if table == nil || t == nil || t.Names == nil || table.Org() != t.Names.Org {
		return nil
	}
	return table
}

// problems are for the report.
func (n *naming) problems() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range []string{n.problem, n.kept} {
		if text != "" {
			list = append(list, text)
		}
	}
	if n.server != nil {
		for _, text := range n.server.Problems() {
			list = append(list, "names: "+text)
		}
	}
	return list
}

func (n *naming) setProblem(text string) {
	n.mu.Lock()
	changed := n.problem != text
	n.problem = text
	n.mu.Unlock()
	if !changed {
		return
	}
	if text != "" {
		n.a.log.Warn(text)
	}
	n.a.wake()
}

// run keeps a server on the gateway that the assignment names.
func (n *naming) run(ctx context.Context) error {
	defer n.keeper.Close()
	wait := namesFirst
	var retry <-chan time.Time
	var at schema.NamesTarget
	var stop func()
	var ended <-chan error
	halt := func() {
		if stop != nil {
			stop()
			stop, ended = nil, nil
		}
	}
	defer halt()
	for {
		want := schema.NamesTarget{}
		if t := n.a.target.Load(); t != nil && t.Names != nil {
			want = *t.Names
		}
		if want != at {
			halt()
			at, wait, retry = want, namesFirst, nil
			n.setProblem("")
		}
		if stop == nil && retry == nil && at.Gateway != "" {
			var err error
			if stop, ended, err = n.serve(ctx, at); err != nil {
				n.setProblem(fmt.Sprintf("names are not served on %s: %s", at.Gateway, err))
				retry, wait = time.After(wait), min(namesMost, wait*2)
			} else {
				n.setProblem("")
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.kick:
		case <-retry:
			retry = nil
		case err := <-ended:
			halt()
			if ctx.Err() == nil {
				n.setProblem(fmt.Sprintf("names are not served on %s: %v", at.Gateway, err))
				retry, wait = time.After(wait), min(namesMost, wait*2)
			}
		}
	}
}

// serve begins to answer on a gateway. stop ends it and waits; ended tells that it
// ended by itself.
func (n *naming) serve(ctx context.Context, at schema.NamesTarget) (stop func(), ended <-chan error, err error) {
	cfg, err := n.serverConfig(at)
	if err != nil {
		return nil, nil, err
	}
	server, err := n.a.cfg.Names(cfg)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	n.server = server
	if n.clients == nil {
		n.clients = policies(n.a.target.Load())
	}
	server.SetClients(maps.Clone(n.clients))
	server.SetZone(n.usable(n.a.target.Load()))
	n.mu.Unlock()
	inner, cancel := context.WithCancel(ctx)
	done, result := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		result <- server.Serve(inner)
	}()
	return func() {
		cancel()
		<-done
		n.mu.Lock()
		n.server = nil
		n.mu.Unlock()
	}, result, nil
}

func (n *naming) serverConfig(at schema.NamesTarget) (dnszone.Config, error) {
	gateway, err := netip.ParseAddr(at.Gateway)
	if err != nil {
		return dnszone.Config{}, err
	}
	network, err := netip.ParsePrefix(at.Network)
	if err != nil {
		return dnszone.Config{}, err
	}
	return dnszone.Config{Addresses: []netip.AddrPort{netip.AddrPortFrom(gateway, namesPort)}, Networks: []netip.Prefix{network},
		ResolvConf: n.a.cfg.ResolvConf, Log: n.a.log}, nil
}
