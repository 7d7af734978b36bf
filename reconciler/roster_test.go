package reconciler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

const downAfter = 30 * time.Second

// fleet is n machines that were heard at given seconds.
type fleet struct {
	roster  *roster
	names   []string
	heard   map[string]link.Presence
	healthy time.Time
}

func at(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }

func newFleet(n int, alive store.Alive) *fleet {
	f := &fleet{roster: newRoster(alive), heard: map[string]link.Presence{}, healthy: at(0)}
	for i := range n {
		f.names = append(f.names, fmt.Sprintf("m%d", i))
	}
	return f
}

func (f *fleet) hear(seconds int, machines ...int) {
	for _, i := range machines {
		f.heard[f.names[i]] = link.Presence{Connected: true, Heard: at(seconds)}
	}
}

// states is one letter a machine: U up, D down, - unknown.
func (f *fleet) states(seconds int) string {
	got, _ := f.roster.states(at(seconds), f.names, f.heard, f.healthy, downAfter)
	out := ""
	for _, name := range f.names {
		out += map[schema.MachineState]string{schema.MachineUp: "U", schema.MachineDown: "D", schema.MachineUnknown: "-"}[got[name]]
	}
	return out
}

// nobody is Down before down_after of healthy leading.
func TestNobodyIsDownAtFirst(t *testing.T) {
	f := newFleet(2, store.Alive{Down: map[string]time.Time{"m0": {}}})
	f.hear(5, 1)
	require.Equal(t, "-U", f.states(29))
	require.Equal(t, "DU", f.states(30))
	require.Equal(t, "DD", f.states(35))
	f.hear(36, 0)
	require.Equal(t, "UD", f.states(36))
	f.healthy = at(50) // the store failed meanwhile: patience begins anew
	require.Equal(t, "U-", f.states(50))
	require.Equal(t, "--", f.states(79))
	require.Equal(t, "DD", f.states(80))
}

func TestTheNextJudgementIsKnown(t *testing.T) {
	f := newFleet(2, store.Alive{})
	f.hear(10, 0)
	_, next := f.roster.states(at(10), f.names, f.heard, f.healthy, downAfter)
	require.Equal(t, at(30), next)
	_, next = f.roster.states(at(30), f.names, f.heard, f.healthy, downAfter)
	require.Equal(t, at(40), next)
	_, next = f.roster.states(at(41), f.names, f.heard, f.healthy, downAfter)
	require.True(t, next.IsZero())
}

// more than 30 % going at once are not declared Down.
func TestManyAtOnceAreHeld(t *testing.T) {
	f := newFleet(8, store.Alive{})
	everyone := []int{0, 1, 2, 3, 4, 5, 6, 7}
	f.hear(100, everyone...)
	f.hear(125, 3, 4, 5, 6, 7)
	require.Equal(t, "---UUUUU", f.states(130), "3 of 8")
	require.Equal(t, 3, f.roster.heldCount())
	f.hear(150, 3, 4, 5, 6, 7)
	f.hear(170, 3, 4, 5, 6, 7)
	require.Equal(t, "---UUUUU", f.states(190), "still held after the window")
	f.hear(191, 0, 3, 4, 5, 6, 7)
	require.Equal(t, "UDDUUUUU", f.states(191), "enough are back")
	require.Zero(t, f.roster.heldCount())
}

func TestAFewAtOnceAreDown(t *testing.T) {
	f := newFleet(3, store.Alive{})
	f.hear(100, 0, 1, 2)
	f.hear(120, 1, 2)
	require.Equal(t, "DUU", f.states(130), "one of three is no mass")
	f.hear(140, 2)
	require.Equal(t, "DDU", f.states(155))
	// One after another over a longer time is no mass either.
	g := newFleet(6, store.Alive{})
	for i := range 6 {
		g.hear(100+40*i, i)
	}
	require.Equal(t, "DUUUUU"[:1], g.states(135)[:1])
	for i := range 4 {
		g.states(135 + 40*i)
	}
	require.Equal(t, "DDDD", g.states(260)[:4])
}

// Machines that were Down before this leader do not count as going now.
func TestOldLossesAreNoMass(t *testing.T) {
	old := store.Alive{Down: map[string]time.Time{}}
	for i := range 4 {
		old.Down[fmt.Sprintf("m%d", i)] = time.Time{}
	}
	f := newFleet(5, old)
	f.hear(20, 4)
	require.Equal(t, "DDDDU", f.states(31))
}

func TestAliveSummary(t *testing.T) {
	f := newFleet(3, store.Alive{})
	f.hear(40, 1)
	f.hear(60, 2)
	states, _ := f.roster.states(at(75), f.names, f.heard, at(50), downAfter)
	a := f.roster.alive(states, f.heard)
	require.Equal(t, []string{"m2"}, a.Up)
	slices.Sort(a.Unknown)
	require.Equal(t, []string{"m0", "m1"}, a.Unknown)
	require.Empty(t, a.Down)
}

// A machine that is declared while the leader leads is not Down before it had
// the time to come up. X-24
func TestANewMachineIsNotDownAtOnce(t *testing.T) {
	f := newFleet(2, store.Alive{})
	f.hear(100, 0, 1)
	require.Equal(t, "UU", f.states(100))
	f.names = append(f.names, "new")
	f.hear(105, 0, 1)
	require.Equal(t, "UU-", f.states(110))
	require.Equal(t, "UU-", f.states(129))
	f.hear(141, 0, 1)
	require.Equal(t, "UUD", f.states(141))
	f.names = f.names[:2]
	require.Equal(t, "UU", f.states(142))
	f.names = append(f.names, "new")
	f.hear(170, 0, 1)
	require.Equal(t, "UU-", f.states(170), "declared again, it is new again")
}
