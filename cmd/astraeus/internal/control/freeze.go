package control

import (
	"slices"
	"sync"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Brake plans as the planner does until it is put on; from then on nothing new is
// decided and no new step is released, while what machines were already told to
// do may finish.
type Brake struct {
	plan func(planner.Input) schema.Plan

	mu   sync.Mutex
	on   bool
	last schema.Plan
	left []string // ids of released steps that are not done
}

// NewBrake wraps planner.Plan.
func NewBrake() *Brake { return &Brake{plan: planner.Plan} }

// Plan is the planner of a controller with this brake.
func (b *Brake) Plan(in planner.Input) schema.Plan {
	fresh := b.plan(in)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.on {
		b.last = fresh
		return fresh
	}
	held := schema.Plan{Commit: b.last.Commit, Targets: map[string]*schema.Assignment{}, Blobs: b.last.Blobs}
	for name, target := range b.last.Targets {
		// The store stamps the targets of every pass: each pass has its own.
		own := *target
		held.Targets[name] = &own
	}
	for _, step := range fresh.Steps {
		if slices.Contains(b.left, step.ID) {
			held.Steps = append(held.Steps, step)
		}
	}
	return held
}

// Stop puts the brake on and returns how many released steps are not done yet.
func (b *Brake) Stop() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.on {
		b.on = true
		for _, target := range b.last.Targets {
			for _, step := range target.Steps {
				b.left = append(b.left, step.ID)
			}
		}
	}
	return len(b.left)
}
