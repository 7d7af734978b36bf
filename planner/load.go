package planner

import (
	"astraeus.io/astraeus/schema"
)

// load is what a machine has left during a pass: placements that are in
// force or were planned in this pass are counted in.
type load struct {
	known    bool // resources are
	cpu      int64
	memory   int64
	gpuTaken []bool
	gpus     int // free ones
	// planned are copies that are not there yet, by drive uid, with their hints.
	planned  map[string]int64
	reserved int64 // bytes still to come into copies of the present location
	hosts    hosts // addresses of the node network that are taken
}

func newLoad(m *machine) load {
	l := load{}
	if r := m.resources; r != nil {
		l = load{known: true, cpu: millicores(r.CPUCores, false), memory: r.MemoryBytes, gpus: r.GPUs, gpuTaken: make([]bool, max(0, r.GPUs))}
	}
	return l
}

// takeGPUs takes the free indexes with the lowest numbers.
func (l *load) takeGPUs(n int) []int {
	if n == 0 {
		return nil
	}
	taken := make([]int, 0, n)
	for i := range l.gpuTaken {
		if len(taken) == n {
			break
		}
		if !l.gpuTaken[i] {
			l.gpuTaken[i] = true
			taken = append(taken, i)
		}
	}
	l.gpus -= len(taken)
	return taken
}

// holdGPUs counts indexes that a placement already has.
func (l *load) holdGPUs(list []int) {
	for _, i := range list {
		if i >= 0 && i < len(l.gpuTaken) && !l.gpuTaken[i] {
			l.gpuTaken[i] = true
			l.gpus--
		}
	}
}

func (l *load) freeGPUs(list []int) {
	for _, i := range list {
		if i >= 0 && i < len(l.gpuTaken) && l.gpuTaken[i] {
			l.gpuTaken[i] = false
			l.gpus++
		}
	}
}

// room is what the data location has left for new copies; known is false when
// nobody has measured it.
func (m *machine) room() (bytes int64, known bool) {
	if m.location == nil || m.location.free < 0 {
		return 0, false
	}
	return max(0, m.location.free-m.load.reserved), true
}

// held is what the copies take or will take of the location's limit.
func (m *machine) held() (bytes int64, known bool) {
	if m.location == nil || m.location.limit == 0 || m.location.used < 0 {
		return 0, false
	}
	return m.location.used + m.load.reserved, true
}

// reserveCopies counts the growth of the copies that are there.
func (p *pass) reserveCopies() {
	for _, m := range p.order {
		if m.seen == nil {
			continue
		}
		for uid, c := range m.seen.copies {
			d := p.driveByUID(uid)
			if d == nil || m.location == nil || !schema.Covers(m.location.path, c.Folder) {
				continue
			}
			m.load.reserved += max(0, d.spec.SizeHintBytes-c.Bytes)
		}
	}
}

// planCopy counts a copy that is still to be made. It reports whether it was
// the first to do so.
func (m *machine) planCopy(uid string, hint int64) bool {
	if _, there := m.load.planned[uid]; there || m.seen.hasCopy(uid) {
		return false
	}
	if m.load.planned == nil {
		m.load.planned = map[string]int64{}
	}
	m.load.planned[uid] = hint
	m.load.reserved += hint
	return true
}

func (m *machine) unplanCopy(uid string) {
	m.load.reserved -= m.load.planned[uid]
	delete(m.load.planned, uid)
}

// change is one worker's claim on a machine, so that it can be taken back: a gang
// is placed all or none (D-59).
type change struct {
	machine *machine
	t       *template
	gpus    []int
	copies  []string
	host    int
}

// take counts a worker of a template on a machine.
func (p *pass) take(m *machine, t *template) change {
	c := change{machine: m, t: t, gpus: m.load.takeGPUs(t.gpus)}
	m.load.cpu -= t.cpu
	m.load.memory -= t.memory
	for i := range t.uses {
		u := &t.uses[i]
		if u.copied() && m.planCopy(u.drive.uid, u.drive.spec.SizeHintBytes) {
			c.copies = append(c.copies, u.drive.uid)
			p.planned[u.drive.uid] = append(p.planned[u.drive.uid], m)
		}
	}
	p.touched(m)
	return c
}

func (p *pass) giveBack(c change) {
	m := c.machine
	m.load.freeGPUs(c.gpus)
	m.load.cpu += c.t.cpu
	m.load.memory += c.t.memory
	for _, uid := range c.copies {
		m.unplanCopy(uid)
	}
	if c.host > 0 {
		m.load.hosts.give(c.host)
	}
	p.touched(m)
}

// hold counts a placed worker; release takes it off again, while its
// replacement is looked for. A state file says nothing of GPU indexes
// (conventions.md): the lowest free ones stand for the worker's.
func (p *pass) hold(m *machine, t *template, w *schema.PlacedWorker) {
	if w.GPUs == nil {
		w.GPUs = m.load.takeGPUs(t.gpus)
	} else {
		m.load.holdGPUs(w.GPUs)
	}
	m.load.cpu -= t.cpu
	m.load.memory -= t.memory
	if n := m.hostNumber(w.Address); n > 0 {
		m.load.hosts.take(n)
	}
	for i := range t.uses {
		if u := &t.uses[i]; u.copied() && m.planCopy(u.drive.uid, u.drive.spec.SizeHintBytes) {
			p.planned[u.drive.uid] = append(p.planned[u.drive.uid], m)
		}
	}
	p.touched(m)
}

func (p *pass) release(m *machine, t *template, w *schema.PlacedWorker) {
	m.load.freeGPUs(w.GPUs)
	m.load.cpu += t.cpu
	m.load.memory += t.memory
	p.touched(m)
}

// touched brings the pools that know the machine up to date.
func (p *pass) touched(m *machine) {
	f := p.orgs[m.org]
	if f == nil {
		return
	}
	for _, k := range m.keys {
		if q := f.pools[k]; q != nil {
			q.update(m)
		}
	}
}
