package planner

import (
	"testing"

	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

// reasons grouped by class say the same as each machine asked on its own.
func TestGroupedReasonsAreThoseOfEachMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, m := range w.sim.machines {
			if rapid.Bool().Draw(t, "full") {
				m.Resources = &schema.Resources{}
			}
		}
		w.declare()
		for range rapid.IntRange(0, 2).Draw(t, "ticks") {
			w.sim.tick()
			w.change(t)
		}
		in := w.sim.input()
		for _, wait := range Plan(in).Waits {
			if wait.Worker != "" {
				continue
			}
			counts := map[reasonKey]int{}
			for _, r := range wait.Reasons {
				if r.Code != schema.ReasonTooFew {
					counts[reasonKey{r.Code, r.Args}] += r.Count
				}
			}
			list := Explain(in, wait.Run)
			for _, r := range list {
				counts[reasonKey{r.Code, r.Args}]--
			}
			for k, n := range counts {
				// A run that runs on with its older workers sees the machines without them.
				if n != 0 && len(list) > 0 && w.sim.placed[wait.Run].RunUID == "" {
					t.Fatalf("%s: %d machines too many with %v\n%v\n%v", wait.Run, n, k, wait.Reasons, list)
				}
			}
		}
	})
}
