package nodeexec

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/schema"
)

const gateway = "10.240.3.1"

// named makes the worker one that looks names up at the gateway.
func (r *rig) named(template schema.TaskTemplate) func(*schema.Assignment) {
	return func(a *schema.Assignment) {
		r.upSteps(a)
		a.Names = &schema.NamesTarget{Org: "acme", Domain: "astraeus.local", Gateway: gateway, Network: "10.240.3.0/24"}
		w := &a.Workers[0]
		w.Resolver, w.Template = gateway, r.blob(template)
		w.Network, w.Address = schema.NetworkNode, "10.240.3.2"
	}
}

// N-7: a worker on the node network gets its own resolv.conf; a config file of the
// run wins, and a worker on the host network keeps the machine's.
func TestResolvConf(t *testing.T) {
	own := schema.TaskTemplate{Command: "true", ConfigFiles: []schema.ConfigFile{{Path: "/etc/resolv.conf", Content: "nameserver 192.0.2.53\n"}}}
	for name, tc := range map[string]struct {
		template schema.TaskTemplate
		change   func(*schema.Assignment)
		want     string
	}{
		"node network": {schema.TaskTemplate{Command: "true"}, func(*schema.Assignment) {},
			"nameserver 10.240.3.1\nsearch " + ns + ".astraeus.local astraeus.local\noptions ndots:2\n"},
		"its own file":  {own, func(*schema.Assignment) {}, "nameserver 192.0.2.53\n"},
		"its own mount": {schema.TaskTemplate{Command: "true"}, func(a *schema.Assignment) { a.Workers[0].Mounts[0].Target = "/etc/resolv.conf" }, ""},
		"host network":  {schema.TaskTemplate{Command: "true"}, func(a *schema.Assignment) { a.Workers[0].Resolver = "" }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := newServed(t)
			r.start()
			defer r.stop()
			r.assign(func(a *schema.Assignment) {
				r.named(tc.template)(a)
				tc.change(a)
			})
			synctest.Wait()
			require.Equal(t, tc.want, r.w.state.Workers[trainID()].Files["/etc/resolv.conf"], name)
		})
	}
}

// servers stands for the machine's network: which name servers answer there.
type servers struct {
	mu   sync.Mutex
	err  error // why nothing can be bound
	list []*fakeServer
}

type fakeServer struct {
	cfg     dnszone.Config
	mu      sync.Mutex
	zone    *dnszone.Table
	clients map[netip.Addr]*schema.EgressTarget
	fails   chan error
	stopped bool
}

func newServed(t *testing.T) (*rig, *servers) {
	r, s := newRig(t), &servers{}
	r.cfg.Names = func(cfg dnszone.Config) (NameServer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			return nil, s.err
		}
		f := &fakeServer{cfg: cfg, fails: make(chan error)}
		s.list = append(s.list, f)
		return f, nil
	}
	return r, s
}

func (s *servers) last() *fakeServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	return s.list[len(s.list)-1]
}

func (s *servers) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (f *fakeServer) SetZone(t *dnszone.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.zone = t
}

func (f *fakeServer) SetClients(clients map[netip.Addr]*schema.EgressTarget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients = clients
}

func (f *fakeServer) Serve(ctx context.Context) error {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stopped = true
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.fails:
		return err
	}
}

func (f *fakeServer) Problems() []string { return nil }
func (f *fakeServer) Close()             {}

// has reports whether the server answers for a worker.
func (f *fakeServer) has(worker string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.zone == nil {
		return false
	}
	_, ok := f.zone.Lookup(worker + "." + ns + ".astraeus.local")
	return ok
}

func (f *fakeServer) policies() map[netip.Addr]*schema.EgressTarget {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clients
}

// zoneOf is an org's complete zone with these workers, as its feed sends it.
func zoneOf(serial int, org string, workers ...string) *schema.ZoneUpdate {
	run := dnszone.Run{Name: "train"}
	for i, name := range workers {
		run.Workers = append(run.Workers, dnszone.Worker{Name: name, Index: i, Running: true, Address: netip.AddrFrom4([4]byte{10, 240, 3, byte(i + 2)})})
	}
	f := dnszone.NewFeed(1, int64(serial))
	f.Offer(dnszone.Build(dnszone.Input{Org: org, Namespaces: []dnszone.Namespace{{Name: ns, Runs: []dnszone.Run{run}}}}))
	f.Publish(time.Unix(1, 0))
	return f.For(schema.ZoneHave{})
}

var plain = schema.TaskTemplate{Command: "true"}

// N-3: the machine serves names on its gateway, from the zone as it comes; after a
// restart from the last one, without a control plane.
func TestNamesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newServed(t)
		r.start()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Nil(t, s.last(), "no assignment, no gateway")
		require.Nil(t, r.a.naming.have())
		r.assign(r.named(plain))
		synctest.Wait()
		f := s.last()
		require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("10.240.3.1:53")}, f.cfg.Addresses)
		require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.240.3.0/24")}, f.cfg.Networks)
		require.Nil(t, f.zone, "SERVFAIL, never NXDOMAIN")
		require.Equal(t, &schema.ZoneHave{}, r.a.naming.have())
		require.NoError(t, r.a.take(&schema.Down{Zone: zoneOf(1, "acme", "train-0")}))
		require.True(t, f.has("train-0"))
		require.NoError(t, r.a.take(&schema.Down{Zone: zoneOf(2, "acme", "train-0", "train-1")}))
		require.True(t, f.has("train-1"))
		require.NoError(t, r.a.take(&schema.Down{Zone: zoneOf(1, "acme", "train-0")}))
		require.True(t, f.has("train-1"), "X-4: an older one is ignored")

		r.stop()
		require.True(t, f.stopped)
		r.start()
		synctest.Wait()
		require.NotSame(t, f, s.last())
		require.True(t, s.last().has("train-1"), "from the disk")
		require.Equal(t, int64(2), r.a.naming.have().Term)

		r.assign(func(a *schema.Assignment) { a.Names.Gateway, a.Names.Network = "10.240.4.1", "10.240.4.0/24" })
		synctest.Wait()
		require.Equal(t, "10.240.4.1:53", s.last().cfg.Addresses[0].String())
		require.True(t, s.list[1].stopped, "the older one")
		require.True(t, s.last().has("train-1"))
		r.assign(func(a *schema.Assignment) { a.Names = nil })
		synctest.Wait()
		require.True(t, s.last().stopped)
		r.stop()
	})
}

// N-3: what keeps names from being served is told and tried again.
func TestNamesAreServedAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newServed(t)
		s.fail(errors.New("cannot assign requested address"))
		r.start()
		defer r.stop()
		r.assign(r.named(plain))
		after(500 * time.Millisecond)
		require.Equal(t, []string{"names are not served on 10.240.3.1: cannot assign requested address"}, r.report().Problems)
		s.fail(nil)
		after(time.Second)
		require.NotNil(t, s.last())
		require.Empty(t, r.report().Problems)
		s.fail(errors.New("gone"))
		s.last().fails <- errors.New("the socket broke")
		synctest.Wait()
		require.Equal(t, []string{"names are not served on 10.240.3.1: the socket broke"}, r.report().Problems)
		s.fail(nil)
		after(time.Minute)
		require.Len(t, s.list, 2)
		require.Empty(t, r.report().Problems)
	})
}

// N-3: a delta that does not fit makes the machine ask for the whole zone, once;
// meanwhile it answers from what it has.
func TestNamesAskForTheWholeZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newServed(t)
		r.start()
		defer r.stop()
		r.assign(r.named(plain))
		synctest.Wait()
		require.NoError(t, r.a.take(&schema.Down{Zone: zoneOf(1, "acme", "train-0")}))
		<-r.a.naming.asks // as it began to serve
		gap := zoneOf(5, "acme", "train-0", "train-1")
		gap.From = schema.ZoneVersion{Epoch: 1, Term: 4, Serial: 9}
		require.NoError(t, r.a.take(&schema.Down{Zone: gap}))
		require.True(t, s.last().has("train-0"))
		<-r.a.naming.asks
		require.Equal(t, &schema.ZoneHave{}, r.a.naming.have())
		require.NoError(t, r.a.take(&schema.Down{Zone: gap}))
		select {
		case <-r.a.naming.asks:
			require.Fail(t, "it asks again at once")
		default:
		}
		after(askAgain)
		require.NoError(t, r.a.take(&schema.Down{Zone: gap}))
		<-r.a.naming.asks
	})
}

// a zone may come in pieces, and what a broken stream left is forgotten.
func TestNamesInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newServed(t)
		r.start()
		defer r.stop()
		r.assign(r.named(plain))
		synctest.Wait()
		data, err := zoneOf(1, "acme", "train-0").JSON()
		require.NoError(t, err)
		require.NoError(t, r.a.take(&schema.Down{ZonePart: data[:20]}))
		r.a.naming.opened()
		require.NoError(t, r.a.take(&schema.Down{ZonePart: data[:30]}))
		require.False(t, s.last().has("train-0"))
		require.NoError(t, r.a.take(&schema.Down{ZonePart: data[30:], ZoneEnd: true}))
		require.True(t, s.last().has("train-0"))
		require.Error(t, r.a.take(&schema.Down{ZonePart: []byte("{"), ZoneEnd: true}))
		require.True(t, s.last().has("train-0"))
	})
}

// N-6: a machine that changes hands does not answer from the other org's zone.
func TestNamesOfAnotherOrgAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newServed(t)
		r.start()
		r.assign(r.named(plain))
		synctest.Wait()
		require.NoError(t, r.a.take(&schema.Down{Zone: zoneOf(1, "acme", "train-0")}))
		require.True(t, s.last().has("train-0"))
		r.assign(func(a *schema.Assignment) { a.Names.Org = "other" })
		synctest.Wait()
		require.Nil(t, s.last().zone)
		require.NoError(t, r.a.take(&schema.Down{Zone: zoneOf(1, "other", "train-7")}))
		require.True(t, s.last().has("train-7"))
		require.False(t, s.last().has("train-0"))
		r.stop()
	})
}

// N-5: a policy goes with its worker's address until the worker is gone.
func TestPoliciesFollowTheirWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newServed(t)
		r.start()
		defer r.stop()
		policy, at := &schema.EgressTarget{Namespaces: []string{ns}}, netip.MustParseAddr("10.240.3.2")
		r.assign(func(a *schema.Assignment) {
			r.named(plain)(a)
			a.Workers[0].Egress = policy
		})
		synctest.Wait()
		require.Equal(t, map[netip.Addr]*schema.EgressTarget{at: policy}, s.last().policies())
		r.assign(func(a *schema.Assignment) { a.Workers[0].Egress = nil })
		after(time.Second)
		require.Empty(t, s.last().policies(), "changed in place (X-11)")
		r.assign(func(a *schema.Assignment) { a.Workers[0].Egress = policy })
		after(time.Second)
		r.assign(func(a *schema.Assignment) { a.Workers, a.Steps = nil, nil })
		after(time.Second)
		require.Equal(t, policy, s.last().policies()[at], "it may still run")
		r.w.end(trainID(), 0)
		after(time.Minute)
		require.Empty(t, s.last().policies())

		r.assign(func(a *schema.Assignment) {
			r.named(plain)(a)
			w := &a.Workers[0]
			w.Network, w.Address, w.Egress, w.Attempt = schema.NetworkHost, "192.0.2.1", policy, 1
		})
		after(time.Second)
		require.Empty(t, s.last().policies(), "an address that others share is nobody's")
	})
}
