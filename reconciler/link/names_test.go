package link

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/schema"
)

// oneZone is the feed of an org with workers that run.
type oneZone struct {
	feed *dnszone.Feed
	now  time.Time
}

func (z *oneZone) For(org string, have schema.ZoneHave) *schema.ZoneUpdate {
	if org != "acme" {
		return nil
	}
	return z.feed.For(have)
}

// publish makes these the org's workers.
func (z *oneZone) publish(r *rig, workers ...string) {
	run := dnszone.Run{Name: "train"}
	for i, name := range workers {
		run.Workers = append(run.Workers, dnszone.Worker{Name: name, Index: i, Running: true, Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 2)})})
	}
	z.feed.Offer(dnszone.Build(dnszone.Input{Org: "acme", Namespaces: []dnszone.Namespace{{Name: "ws-1", Runs: []dnszone.Run{run}}}}))
	z.now = z.now.Add(time.Second)
	z.feed.Publish(z.now)
	r.PublishNames(map[string]string{"m1": "acme", "m9": "other"}, z)
}

// zone reads until names come.
func (a *agent) zone() *schema.ZoneUpdate {
	a.t.Helper()
	var parts []byte
	for {
		down, err := a.Recv()
		require.NoError(a.t, err)
		if parts = append(parts, down.ZonePart...); down.ZoneEnd {
			u := new(schema.ZoneUpdate)
			require.NoError(a.t, json.Unmarshal(parts, u))
			return u
		}
		if down.Zone != nil {
			return down.Zone
		}
	}
}

func (a *agent) has(have schema.ZoneHave) *agent {
	require.NoError(a.t, a.Send(&schema.Up{Zone: &have}))
	return a
}

// N-3, N-6: a machine that says what it holds is sent what it lacks: everything at
// first and when it asks for that, then what changed, and nothing of another org's.
func TestNamesGoDown(t *testing.T) {
	r := newRig(t, Options{})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	z := &oneZone{feed: dnszone.NewFeed(1, 1), now: time.Unix(0, 0)}
	m1 := connect(t, r.conn, "m1").hello()
	r.connected("m1")
	z.publish(r, "train-0")
	r.Publish(targets(assignment("m1", 1)), nil)
	m1.assigned() // nothing of names before it has said what it holds

	m1.has(schema.ZoneHave{})
	first := m1.zone()
	require.Zero(t, first.From)
	require.Len(t, first.Shards, 1)
	z.publish(r, "train-0", "train-1")
	second := m1.zone()
	require.Equal(t, first.To, second.From, "a delta")
	require.Len(t, second.Shards[0].Set, 1)
	require.Equal(t, "train-1", second.Shards[0].Set[0].Name)

	m1.has(schema.ZoneHave{}) // it could not use that
	whole := m1.zone()
	require.Zero(t, whole.From)
	require.Equal(t, second.To, whole.To)

	m1.drop()
	r.until("m1 is gone", func() bool { return !r.Machines()["m1"].Connected })
	z.publish(r, "train-0")
	again := connect(t, r.conn, "m1").hello().has(schema.ZoneHave{ZoneVersion: whole.To, Org: "acme"})
	caught := again.zone()
	require.Equal(t, whole.To, caught.From, "a machine that was away catches up")
	require.Equal(t, []string{"train-1"}, caught.Shards[0].Gone)

	for _, name := range []string{"m9", "m5"} { // of another org, and of none
		stranger := connect(t, r.conn, name).hello()
		r.connected(name)
		stranger.has(schema.ZoneHave{})
		r.Publish(targets(assignment("m1", 1), assignment(name, 1)), nil)
		down, err := stranger.Recv()
		require.NoError(t, err)
		require.Nil(t, down.Zone)
		z.publish(r, "train-0", name)
		r.Publish(targets(assignment("m1", 1), assignment(name, 2)), nil)
		down, err = stranger.Recv()
		require.NoError(t, err)
		require.NotNil(t, down.Assignment)
	}
}

// a zone that is too large for one message comes in pieces.
func TestLargeZones(t *testing.T) {
	r := newRig(t, Options{ChunkBytes: 1000})
	r.Lead(Term{ClusterUID: "uid", Epoch: 1})
	z := &oneZone{feed: dnszone.NewFeed(1, 1), now: time.Unix(0, 0)}
	m1 := connect(t, r.conn, "m1").hello()
	r.connected("m1")
	var workers []string
	for i := range 200 {
		workers = append(workers, fmt.Sprintf("train-%03d", i))
	}
	z.publish(r, workers...)
	u := m1.has(schema.ZoneHave{}).zone()
	require.Len(t, u.Shards[0].Set, 201)
	z.publish(r, workers[:199]...)
	delta := m1.zone()
	require.Equal(t, u.To, delta.From)
	require.Equal(t, []string{"train-199"}, delta.Shards[0].Gone)
}
