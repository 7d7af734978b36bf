package planner

import (
	"time"

	"astraeus.io/astraeus/schema"
)

// Input is everything that a pass looks at. It is only read.
type Input struct {
	// Desired is what the commit declares; nil when nothing new is declared, so
	// that the pass works by Accepted alone.
	Desired  *schema.Desired
	Accepted schema.Accepted
	// Placed holds the placements by run. When it is nil, the observed state's own
	// placement records stand in for it (conventions.md, "Observed state file").
	Placed map[schema.Key]schema.Placement
	// Observed holds the newest report of each machine, with State set by the leader.
	Observed schema.Observed
	// Given is what each machine was last assigned, also by an earlier leader: what may
	// be on its way there though no report shows it yet. Of an assignment only
	// Epoch, Revision, DataLocations, and the identities of Copies, Exports, Mounts and
	// Workers are looked at.
	// Nil for a machine: nothing is on its way.
	Given map[string]*schema.Assignment
	Now   time.Time
	// Seed makes new uids: a uid is a hash of seed, commit, key and order, so that
	// planning twice gives the same ones.
	Seed string
	// Rewritten says that the commit does not descend from Accepted.Head:
	// everything of it is held (G-5).
	Rewritten bool
}

// Plan decides what is let through, places what waits, and says what each
// machine must hold and do.
func Plan(in Input) schema.Plan {
	p := newPass(in)
	p.accept()
	p.settleRuns()
	p.placeRuns()
	p.removeDrives()
	p.buildTargets()
	p.buildSteps()
	p.explainWaits()
	return p.finish()
}
