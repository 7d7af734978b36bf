package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"astraeus.io/astraeus/nodeexec/sim"
	"astraeus.io/astraeus/schema"
)

var (
	oneSeed = flag.Uint64("seed", 0, "replay this seed alone, with every move")
	seeds   = flag.Uint64("seeds", 500, "how many seeds")
	chaos   = flag.Int("chaos", 1500, "how many moves before the faults stop")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Nothing is deleted in use or without need, nothing starts too early, nothing is
// decided twice, whatever dies and in whatever order messages come; and once it is
// calm the cluster comes to rest: D-9, D-41, D-42, D-59, D-60, D-61, D-80, D-82,
//
//
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		simulate(t, *oneSeed, func(line string) { fmt.Println(line) })
		return
	}
	n := *seeds
	if testing.Short() {
		n = min(n, 40)
	}
	var mu sync.Mutex
	counts := map[string]int{}
	t.Run("seed", func(t *testing.T) {
		for seed := uint64(1); seed <= n; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := simulate(t, seed, nil)
				mu.Lock()
				defer mu.Unlock()
				for what, n := range w.counts {
					counts[what] += n
				}
			})
		}
	})
	for _, what := range sortedKeys(counts) {
		t.Logf("%7d %s", counts[what], what)
	}
}

// The same seed is the same simulation.
func TestSeedsRepeat(t *testing.T) {
	for _, seed := range []uint64{3, 17} {
		first, second := simulate(t, seed, nil), simulate(t, seed, nil)
		for i, line := range first.trace {
			require.Equal(t, line, second.trace[min(i, len(second.trace)-1)])
		}
		require.Len(t, second.trace, len(first.trace))
	}
}

// shown is how much of the trace a failure shows.
const shown = 80

func simulate(t *testing.T, seed uint64, say func(string)) (w *world) {
	w = newWorld(seed, stateDir(t), say)
	defer func() {
		r := recover()
		for _, m := range w.machines {
			m.w.say = nil
			m.kill("the end")
		}
		if r == nil {
			return
		}
		v, ok := r.(violation)
		if !ok {
			t.Logf("make sim SEED=%d", seed)
			panic(r)
		}
		tail := w.trace[max(0, len(w.trace)-shown):]
		t.Fatalf("%s\n\n%s\n\nreplay: make sim SEED=%d", v.text, strings.Join(tail, "\n"), seed)
	}()
	for range *chaos {
		w.tick()
	}
	w.converge()
	return w
}

// stateDir is where agents keep their state: in memory where there is such a place.
func stateDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "astraeus-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// labelOf says whose a worker is; ok is false for a fill.
func labelOf(wk *sim.Worker) (schema.Worker, bool) {
	var l struct {
		Worker schema.Worker `json:"worker"`
	}
	for _, text := range wk.Labels {
		_ = json.Unmarshal([]byte(text), &l)
	}
	return l.Worker, l.Worker.RunUID != ""
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
