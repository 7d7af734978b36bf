package reconciler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// While the cluster gets another name the declared one's settings count, and with
// none declared always the same one's: X-24.
func TestOneClusterCounts(t *testing.T) {
	named := func(name string, down time.Duration) *schema.AcceptedObject {
		o := clusterObject(func(c *schema.ClusterSpec) { c.DownAfter = schema.Duration(down) })
		o.Key.Name = name
		return &schema.AcceptedObject{UID: name, Object: o}
	}
	l := &leading{state: &store.State{Accepted: schema.Accepted{Objects: map[schema.Key]*schema.AcceptedObject{}}}}
	for name, down := range map[string]time.Duration{"a": time.Minute, "b": 2 * time.Minute, "c": 3 * time.Minute} {
		a := named(name, down)
		l.state.Accepted.Objects[a.Object.Key] = a
	}
	l.state.Accepted.Objects[schema.Key{Kind: schema.KindCluster, Name: "0"}] = &schema.AcceptedObject{Refused: &schema.Refusal{}}
	for range 20 {
		require.Equal(t, time.Minute, l.downAfter())
	}
	b := l.state.Accepted.Objects[schema.Key{Kind: schema.KindCluster, Name: "b"}].Object
	l.found.desired = &schema.Desired{Objects: map[schema.Key]*schema.Object{b.Key: b}}
	for range 20 {
		require.Equal(t, 2*time.Minute, l.downAfter())
	}
}
