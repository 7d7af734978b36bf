package planner

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"astraeus.io/astraeus/schema"
)

// saved is a store as it was once.
type saved struct {
	accepted schema.Accepted
	placed   map[schema.Key]schema.Placement
	told     map[string]*schema.Assignment
}

func (s *sim) save() saved { return saved{s.accepted, s.placed, maps.Clone(s.told)} }

// lose puts the store back to what it was, and adopts what machines say.
func (s *sim) lose(was saved) Adoption {
	s.accepted, s.placed = was.accepted, was.placed
	said := map[string]Testimony{}
	for name, m := range s.machines {
		old, held := was.told[name], s.told[name]
		said[name] = Testimony{Report: m, Held: held, Blobs: s.blobs, Ended: s.past[name],
			Newer: old == nil || held != nil && held.Revision > old.Revision}
	}
	out := Adopt(s.input(), said)
	s.accepted, s.placed = Apply(s.accepted, s.placed, out.Decisions)
	return out
}

func nothing() saved {
	return saved{accepted: schema.Accepted{ClusterUID: "cluster"}, placed: map[schema.Key]schema.Placement{}}
}

// identities are what must outlive a store: of drives with copies, and of runs
// with workers.
func (s *sim) identities() map[string]string {
	out := map[string]string{}
	for _, m := range s.machines {
		for _, c := range m.Copies {
			if a := s.accepted.Objects[driveKey(c.Drive)]; a != nil && a.UID == c.UID {
				out["drive "+c.Drive] = a.UID
			}
		}
		for _, w := range m.Workers {
			out["run "+w.Run] = w.RunUID
		}
	}
	return out
}

func (s *sim) livePlacements() map[schema.Key]schema.Placement {
	out := map[schema.Key]schema.Placement{}
	for key, pl := range s.placed {
		// One that is over while a newer generation waits starts in that one.
		live := pl.Outcome == "" && slices.ContainsFunc(pl.Workers, func(w schema.PlacedWorker) bool { return w.Outcome == nil })
		if a := s.accepted.Objects[key]; a != nil && (live || a.Generation == pl.Generation) {
			out[key] = pl
		}
	}
	return out
}

// X-4, G-12: a store that was lost and one that was restored from an older state
// begin with what machines report: nothing is stopped, unmounted or deleted, nothing
// starts twice, and what comes out is what there was.
func TestX4AdoptionChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.declare()
		was := nothing()
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			for range rapid.IntRange(0, 4).Draw(t, "ticks between") {
				w.sim.tick()
			}
			if rapid.Bool().Draw(t, "the store is saved") {
				was = w.sim.save()
			}
			w.change(t)
		}
		for _, m := range w.sim.machines {
			m.State = schema.MachineUp
		}
		if !w.sim.converge() {
			t.Skip("no rest")
		}
		w.check(t)
		before, places := w.sim.identities(), w.sim.livePlacements()
		held := slices.ContainsFunc(slices.Collect(maps.Values(w.sim.accepted.Objects)), func(a *schema.AcceptedObject) bool { return a.Refused != nil })
		adoption := w.sim.lose(was)
		if len(adoption.Orphans) > 0 {
			t.Fatalf("orphans: %v", adoption.Orphans)
		}
		p := Plan(w.sim.input())
		for _, step := range p.Steps {
			_, lived := places[step.Object]
			if step.Action == schema.ActionDeleteCopy && w.objects[step.Object] == nil {
				continue // its removal was held by a run that has no worker any more
			}
			if slices.Index(schema.Actions, step.Action) < slices.Index(schema.Actions, schema.ActionCreateDir) || lived {
				t.Errorf("%s %s on %s: %s", step.Action, step.Object, step.Machine, step.Args.Worker)
			}
		}
		if was.told == nil && len(p.Steps) > 0 && !held {
			t.Errorf("the plan is not empty:\n%s", planText(p))
		}
		if diff := cmp.Diff(before, w.sim.identities()); diff != "" {
			t.Errorf("identities changed: %s", diff)
		}
		w.sim.tick()
		same := cmp.Options{cmpopts.IgnoreFields(schema.PlacedWorker{}, "Since"), cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(schema.Placement{}, "Failures", "LastEnd", "NotBefore", "Older", "OlderUses", "Spec")}
		for key, pl := range places {
			if pl.Outcome != "" {
				// Of a run that is over it counts that it is: who failed how is a matter of record.
				if now := w.sim.placed[key]; now.Outcome != pl.Outcome {
					t.Errorf("%s was %s and is %q", key, pl.Outcome, now.Outcome)
				}
				continue
			}
			if diff := cmp.Diff(pl, w.sim.placed[key], same); diff != "" {
				t.Errorf("another placement: %s", diff)
			}
		}
		if !w.sim.converge() {
			t.Errorf("no rest after it:\n%s", planText(w.sim.plan))
		}
		w.check(t)
	})
}
