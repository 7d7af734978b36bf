package lab

import (
	"maps"
	"sync"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// gateWait is how long the first plan waits for machines that do not come up.
const gateWait = 10 * time.Second

// gate plans as the planner does, except that nothing is decided before all
// declared machines are up: a lab's machines come up together, and where runs are
// placed should not depend on which agent was a few milliseconds ahead.
//
// It also tells the room what is in force, and hands out the first plan of each
// commit, for people to read.
type gate struct {
	plan   func(planner.Input) schema.Plan
	room   func(objects map[schema.Key]*schema.Object)
	schema string // version of the schema, for the document

	mu     sync.Mutex
	open   bool
	since  time.Time
	commit string
	plans  chan Planned
}

// Planned is the plan of a commit, with the objects that it speaks of.
type Planned struct {
	Document planner.PlanDocument
	Objects  map[schema.Key]*schema.Object
}

func newGate(schemaVersion string, room func(map[schema.Key]*schema.Object)) *gate {
	return &gate{plan: planner.Plan, room: room, schema: schemaVersion, plans: make(chan Planned, 16)}
}

// Plan is planner.Plan behind the gate.
func (g *gate) Plan(in planner.Input) schema.Plan {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room(inForce(in))
	if g.since.IsZero() {
		g.since = in.Now
	}
	if g.open = g.open || in.Desired != nil && (allUp(in) || in.Now.Sub(g.since) > gateWait); !g.open {
		return introduction(g.plan(in))
	}
	plan := g.plan(in)
	if in.Desired != nil && in.Desired.Commit != g.commit {
		g.commit = in.Desired.Commit
		select {
		case g.plans <- Planned{planner.Document(plan, in, g.schema), inForce(in)}:
		default: // nobody reads; the next commit's plan may be seen again
		}
	}
	return plan
}

// inForce are the declared objects, and those whose removal is not let through:
// a machine stays up until its removal is accepted (G-9, X-28).
func inForce(in planner.Input) map[schema.Key]*schema.Object {
	objects := make(map[schema.Key]*schema.Object, len(in.Accepted.Objects))
	for key, accepted := range in.Accepted.Objects {
		if accepted.Object != nil && accepted.UID != "" {
			objects[key] = accepted.Object
		}
	}
	if in.Desired != nil {
		maps.Copy(objects, in.Desired.Objects)
	}
	return objects
}

// introduction is all that machines are told before the gate opens: which cluster
// they are in and where their data is, so that they can say what they hold. Its
// Commit is empty, which tells it from a plan.
func introduction(p schema.Plan) schema.Plan {
	targets := make(map[string]*schema.Assignment, len(p.Targets))
	for name, t := range p.Targets {
		targets[name] = &schema.Assignment{Version: t.Version, ClusterUID: t.ClusterUID, Epoch: t.Epoch, Machine: t.Machine,
			DataLocations: t.DataLocations, Eviction: t.Eviction, MeasureEvery: t.MeasureEvery}
	}
	return schema.Plan{Targets: targets}
}

// allUp reports whether every declared machine is up and has told what it has.
func allUp(in planner.Input) bool {
	up := map[string]bool{}
	for _, m := range in.Observed.Machines {
		up[m.Name] = m.State == schema.MachineUp && m.Filesystems != nil && m.Copies != nil
	}
	for key := range in.Desired.Objects {
		if key.Kind == schema.KindMachine && !up[key.Name] {
			return false
		}
	}
	return true
}
