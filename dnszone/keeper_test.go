package dnszone

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func take(t *testing.T, k *Keeper, u *schema.ZoneUpdate) {
	t.Helper()
	_, err := k.Apply(u)
	require.NoError(t, err)
	require.NoError(t, k.Save(u))
}

// zoneAt is the test's zone with one worker at another address.
func zoneAt(address string) *Zone {
	return testZone().With(BuildShard(&Namespace{Name: otherNS, Runs: []Run{{Name: "api", Workers: []Worker{worker("api-0", "", 0, address, true)}}}}))
}

// N-3: after a restart without the control plane a machine has the last zone,
// whatever part of the last write reached the disk, and catches up by a delta.
func TestKeeperAnswersFromTheLastZone(t *testing.T) {
	dir := t.TempDir()
	k, problem := OpenKeeper(dir)
	require.NoError(t, problem)
	require.Nil(t, k.Table(), "no zone before the first")
	require.Equal(t, schema.ZoneHave{}, k.Have())
	feed, now := NewFeed(1, 1), time.Unix(0, 0)
	publish := func(zone *Zone) {
		feed.Offer(zone)
		now = now.Add(time.Second)
		feed.Publish(now)
	}
	publish(testZone())
	take(t, k, feed.For(k.Have()))
	publish(zoneAt("10.240.5.6"))
	take(t, k, feed.For(k.Have()))
	publish(zoneAt("10.240.5.7"))
	take(t, k, feed.For(k.Have()))
	k.Close()

	again, problem := OpenKeeper(dir)
	require.NoError(t, problem)
	require.Equal(t, k.Table().Complete(), again.Table().Complete())

	path := filepath.Join(dir, zoneFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)-10], 0o600))
	torn, problem := OpenKeeper(dir)
	require.NoError(t, problem, "a line that was cut off is as if it had not been written")
	rec, _ := torn.Table().Lookup("api." + otherNS + ".astraeus.local")
	require.Equal(t, []netip.Addr{addr("10.240.5.6")}, rec.Addresses)
	u := feed.For(torn.Have())
	require.NotZero(t, u.From)
	take(t, torn, u)
	require.Equal(t, k.Table().Complete(), torn.Table().Complete())
	torn.Close()

	require.NoError(t, os.WriteFile(path, []byte("{\"format\":1,\"unknown\":true}\n"), 0o600))
	broken, problem := OpenKeeper(dir)
	require.ErrorContains(t, problem, "line 1")
	require.Nil(t, broken.Table())
	take(t, broken, feed.For(broken.Have()))
	require.Equal(t, k.Table().Complete(), broken.Table().Complete())
	broken.Close()
}

// what is older, does not follow, or does not have its hash is not taken in.
func TestApplyRefuses(t *testing.T) {
	table := compiled(t, testZone(), 5)
	good := func() *schema.ZoneUpdate {
		to := table.Version()
		to.Serial++
		return &schema.ZoneUpdate{Format: 1, Org: "acme", Domain: DefaultDomain, From: table.Version(), To: to, Shards: difference(testZone(), zoneAt("10.0.0.1"))}
	}
	_, err := table.Apply(good())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(u *schema.ZoneUpdate)
		want   error
	}{
		"an older term":        {func(u *schema.ZoneUpdate) { u.To.Term = 0 }, ErrOld},
		"from another version": {func(u *schema.ZoneUpdate) { u.From.Serial = 4 }, ErrGap},
		"of another org":       {func(u *schema.ZoneUpdate) { u.Org = "umbrella" }, ErrGap},
		"a wrong hash":         {func(u *schema.ZoneUpdate) { u.Shards[0].Hash = u.Shards[0].Hash[1:] + "0" }, ErrGap},
		"a namespace that is not there": {func(u *schema.ZoneUpdate) {
			u.From, u.Shards[0].Set, u.Shards[0].Namespace = schema.ZoneVersion{}, nil, "ws-000000000009"
		}, ErrGap},
		"another format":              {func(u *schema.ZoneUpdate) { u.Format = 2 }, nil},
		"a name with a dot":           {func(u *schema.ZoneUpdate) { u.Shards[0].Set[0].Name = "a.b" }, nil},
		"an address that is not IPv4": {func(u *schema.ZoneUpdate) { u.Shards[0].Set[0].Addresses = []netip.Addr{addr("::1")} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := good()
			c.change(u)
			before := table.Complete()
			_, err := table.Apply(u)
			require.Error(t, err)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, before, table.Complete())
		})
	}
}

// N-3: while zones are swapped under load, every question is answered, and with a
// zone that was there.
func TestUpdatesUnderLoadLoseNoAnswer(t *testing.T) {
	eachWay(t, func(t *testing.T, start func(...func(*Config)) *rig) {
		r := start()
		stop, swapped := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			defer func() { swapped <- n }()
			for ; ; n++ {
				select {
				case <-stop:
					return
				default:
					table, err := Compile(zoneAt(netip.AddrFrom4([4]byte{10, 240, 5, byte(5 + n%2)}).String()), schema.ZoneVersion{Epoch: 1, Term: 1, Serial: 5})
					if err == nil {
						r.SetZone(table)
					}
				}
			}
		}()
		conn, err := dns.Dial("udp", r.at)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		for i := range 200 {
			const window = 20
			for j := range window {
				m := query("api."+otherNS+".astraeus.local", dns.TypeA)
				m.Id = uint16(i*window + j)
				require.NoError(t, conn.WriteMsg(m))
			}
			for range window {
				m, err := conn.ReadMsg()
				require.NoError(t, err)
				require.Contains(t, []string{"10.240.5.5", "10.240.5.6"}, addresses(m)[0])
			}
		}
		close(stop)
		require.NotZero(t, <-swapped)
	})
}

// N-7: the worker's resolv.conf, and the gateway of a node network.
func TestResolvConf(t *testing.T) {
	require.Equal(t, "nameserver 10.240.3.1\nsearch ws-3f9c2a7d41be.astraeus.local astraeus.local\noptions ndots:2\n",
		ResolvConf(addr("10.240.3.1"), testNS, ""))
	gateway, ok := Gateway(netip.MustParsePrefix("10.240.3.0/24"))
	require.True(t, ok)
	require.Equal(t, addr("10.240.3.1"), gateway)
	_, ok = Gateway(netip.MustParsePrefix("10.240.3.0/31"))
	require.False(t, ok)
}
