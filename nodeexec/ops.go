package nodeexec

import (
	"sync"

	"astraeus.io/astraeus/schema"
)

// ops are the operations in flight. Locks are taken and given back here and
// never waited for: what cannot start now is looked at in the next pass.
type ops struct {
	mu      sync.Mutex
	locks   map[object]int // sharers, or -1 for one that is alone
	running map[*job]bool  // value: it still holds a slot
	slots   map[pool]int   // slots in use
	// ended holds what was changed since the last look began: that look may
	// show it as it was before.
	ended map[object]bool
}

func newOps() ops {
	return ops{locks: map[object]int{}, running: map[*job]bool{}, ended: map[object]bool{}, slots: map[pool]int{}}
}

// looking is called before each look at the machine.
func (o *ops) looking() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.ended)
}

// begin takes the job's locks and a slot, or nothing.
func (o *ops) begin(j *job, limit int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := j.pool(); p != poolStop && o.slots[p] >= limit {
		return false
	}
	for _, l := range j.locks {
		if held := o.locks[l.object]; held < 0 || held > 0 && !l.shared || o.ended[l.object] {
			return false
		}
	}
	for _, l := range j.locks {
		if l.shared {
			o.locks[l.object]++
		} else {
			o.locks[l.object] = -1
		}
	}
	o.running[j] = true
	o.slots[j.pool()]++
	return true
}

func (o *ops) end(j *job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range j.locks {
		if l.shared && o.locks[l.object] > 1 {
			o.locks[l.object]--
		} else {
			delete(o.locks, l.object)
		}
		if !l.shared {
			o.ended[l.object] = true
		}
	}
	if o.running[j] {
		o.slots[j.pool()]--
	}
	delete(o.running, j)
}

// overrun frees the slot of a job that does not end, so that it delays nothing
// but its own object.
func (o *ops) overrun(j *job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running[j] {
		o.running[j] = false
		o.slots[j.pool()]--
	}
}

// others reports whether a job runs whose step the steps do not hold.
func (o *ops) others(steps map[string]bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for j := range o.running {
		if j.step.ID != "" && !steps[j.step.ID] {
			return true
		}
	}
	return false
}

// busy reports whether an operation on the object is in flight, or ended after
// the last look began.
func (o *ops) busy(obj object) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.locks[obj] != 0 || o.ended[obj]
}

// stopping are the workers that a StopWorker is at.
func (o *ops) stopping() map[object]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := map[object]bool{}
	for j := range o.running {
		if j.step.Action == schema.ActionStopWorker {
			list[j.locks[0].object] = true
		}
	}
	return list
}
