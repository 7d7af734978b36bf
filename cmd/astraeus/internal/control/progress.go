package control

import (
	"astraeus.io/astraeus/schema"
)

// Progress counts the steps of plans that follow each other.
type Progress struct{ seen, left map[string]bool }

// Note takes the steps of the newest plan.
func (p *Progress) Note(steps []*schema.Step) {
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.left = map[string]bool{}
	for _, s := range steps {
		p.seen[s.ID], p.left[s.ID] = true, true
	}
}

// Done is how many steps were seen and are not needed any more.
func (p *Progress) Done() int { return len(p.seen) - len(p.left) }

// Total is how many steps were seen.
func (p *Progress) Total() int { return len(p.seen) }
