package sim

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/sim"
	"astraeus.io/astraeus/schema"
)

// move is one thing that may happen next.
type move struct {
	weight int
	do     func(w *world)
}

var moves = []move{
	{30, func(w *world) { pick(w, w.machines).move() }},
	{14, func(w *world) { onController(w, (*controller).runPass) }},
	{5, func(w *world) { onController(w, (*controller).fetch) }},
	{4, func(w *world) { onController(w, (*controller).note) }},
	{2, (*world).edit},
	{8, func(w *world) { w.advance(time.Duration(1+w.rng.IntN(20)) * time.Second) }},
	{3, (*world).elect},
	{1, (*world).faultStore},
	{5, (*world).endWorker},
	{2, (*world).work},
	{1, (*world).faultMachine},
	{1, (*world).faultDisk},
	{1, func(w *world) { w.repo.broken = pick(w, []error{nil, errStore}) }},
	{1, func(w *world) {
		if w.chance(4) {
			w.lose()
		}
	}},
}

var totalWeight = func() (sum int) {
	for _, m := range moves {
		sum += m.weight
	}
	return sum
}()

// tick lets one thing happen and checks everything.
func (w *world) tick() {
	w.ticks++
	w.count("tick")
	n := w.rng.IntN(totalWeight)
	for _, m := range moves {
		if n -= m.weight; n < 0 {
			m.do(w)
			break
		}
	}
	w.checkState()
}

func onController(w *world, f func(*controller)) {
	if list := w.leading(); len(list) > 0 {
		f(pick(w, list))
	}
}

// elect lets a controller lead; one that led may not know yet that it does not.
func (w *world) elect() {
	c := pick(w, w.ctl)
	switch {
	case w.store.leader == nil && c.term == nil:
		c.lead()
	case w.chance(4) && c.term != nil:
		c.end("it was stopped", w.chance(2))
	case w.chance(8) && c.term == nil: // whoever led was cut off from the store for too long
		c.lead()
	}
}

// faultStore makes one of the next writes end between two batches.
func (w *world) faultStore() {
	w.store.countdown = w.rng.IntN(12)
	switch w.rng.IntN(3) {
	case 0:
		w.store.fault = func(*memLeader) error { return errStore }
	case 1:
		w.store.fault = func(*memLeader) error { return errCrash }
	default:
		w.store.fault = func(*memLeader) error {
			w.tracef("the leader lost the store")
			w.store.leader = nil
			return nil
		}
	}
}

func (w *world) edit() {
	for range 1 + w.rng.IntN(3) {
		w.declared.change()
	}
	w.commit()
}

// endWorker lets a worker or a fill end by itself.
func (w *world) endWorker() {
	m := pick(w, w.machines)
	if !m.power {
		return
	}
	list := m.host.Workers()
	if len(list) == 0 {
		return
	}
	wk := pick(w, list)
	switch {
	case !wk.Live():
	case strings.HasPrefix(wk.ID, "f-"):
		m.endFill(&wk, w.rng.IntN(4) > 0)
	case w.chance(8):
		m.host.SetStuck(wk.ID, w.chance(2))
	default:
		code := w.rng.IntN(2)
		m.host.Finish(wk.ID, code)
		w.count("worker exits")
		w.tracef("%s: %s exits %d", m.name, wk.Spec.Hostname, code)
	}
}

// work lets a worker write something where it may.
func (w *world) work() {
	m := pick(w, w.machines)
	list := m.host.Workers()
	if !m.power || len(list) == 0 {
		return
	}
	wk := pick(w, list)
	for _, mt := range wk.Mounts {
		if name := fmt.Sprintf("out-%d", w.rng.IntN(3)); wk.Live() && !mt.ReadOnly && m.host.WriteIn(mt.Dir, name, int64(w.rng.IntN(300))) == nil {
			w.count("worker writes")
		}
	}
}

// endFill ends a fill; a good one writes its marker last.
func (m *machine) endFill(wk *sim.Worker, good bool) {
	if good {
		err := m.host.WriteIn(wk.Mounts[0].Dir, schema.FillMarker, 1)
		good = err == nil
	}
	code := 1
	if good || m.w.chance(4) {
		code = 0
	}
	m.host.Finish(wk.ID, code)
	m.w.tracef("%s: a fill exits %d", m.name, code)
}

// move lets one thing happen on a machine.
func (m *machine) move() {
	w := m.w
	m.looks = nil
	if w.chance(10) {
		m.looks = map[string]error{pick(w, []string{"workers", "mounts", "exports", "copies", "filesystems"}): pick(w, []error{errStore, sim.ErrIncomplete})}
	}
	switch {
	case !m.power:
		return
	case m.agent == nil:
		if w.chance(3) {
			m.boot()
		}
		return
	}
	switch n := w.rng.IntN(40); {
	case n == 0 && w.chance(2):
		m.armed = pick(w, nodeexec.CrashPoints)
	case n == 1 && w.chance(4):
		m.kill("kill -9")
	case n < 16 && len(m.jobs) > 0:
		m.goOn()
	case n < 26 && (m.stream == nil || len(m.stream.up)+len(m.stream.down) > 0), n < 4:
		m.talk()
	default:
		m.turn(w.chance(3))
	}
}

// goOn lets one operation go on.
func (m *machine) goOn() {
	if len(m.jobs) == 0 {
		return
	}
	j := pick(m.w, m.jobs)
	var answer error
	if m.w.chance(6) {
		answer = pick(m.w, effectErrors)
		m.w.tracef("%s: %v fails: %v", m.name, j.at, answer)
	}
	m.resume(j, answer)
}

// talk moves a message, or opens or ends the stream.
func (m *machine) talk() {
	w := m.w
	s := m.stream
	if s == nil {
		if list := w.leading(); len(list) > 0 {
			if c := pick(w, list); c.serving {
				c.connect(m)
			}
		}
		return
	}
	switch n := w.rng.IntN(30); {
	case n == 0:
		s.close("the network broke it")
	case n == 1 && w.chance(2):
		if s.cut.IsZero() {
			s.cut = w.now
			w.tracef("%s is cut off", m.name)
		}
	case !s.cut.IsZero():
		if w.chance(2) {
			s.cut = time.Time{}
		}
	case len(s.up) > 0 && (n%2 == 0 || len(s.down) == 0):
		i := 0
		switch {
		case w.chance(12): // out of order
			i = w.rng.IntN(len(s.up))
		case w.chance(12): // twice
			s.up = append(s.up, again(s.up[0]))
		}
		s.receive(i)
	case len(s.down) > 0:
		i := 0
		if w.chance(12) {
			i = w.rng.IntN(len(s.down))
		}
		m.take(i, w.chance(12))
	}
}

// faultMachine takes power or the network away, or gives it back.
func (w *world) faultMachine() {
	m := pick(w, w.machines)
	switch {
	case !m.power:
		m.restore()
	case w.chance(3):
		m.kill("the power went")
		m.power = false
		m.host.SetAway(true)
		w.tracef("%s is off", m.name)
	case w.chance(3):
		m.kill("reboot")
		m.reboot()
	default:
		m.host.SetAway(w.chance(2))
	}
}

func (m *machine) reboot() {
	m.host.Reboot()
	m.reboots++
	m.w.count("reboot")
	m.w.tracef("%s reboots", m.name)
}

// restore gives power and network back.
func (m *machine) restore() {
	m.host.SetAway(false)
	if !m.power {
		m.power = true
		m.reboot()
	}
}

// faultDisk fills a disk, empties it, takes it away or brings it back.
func (w *world) faultDisk() {
	m := pick(w, w.machines)
	switch w.rng.IntN(4) {
	case 0:
		if len(m.jobs) > 0 || slices.ContainsFunc(m.host.Workers(), func(wk sim.Worker) bool { return wk.Live() }) {
			return // it is busy
		}
		m.host.UnmountDisk("nvme")
		w.tracef("%s: %s is not mounted", m.name, nvme)
	case 1:
		m.host.MountDisk("nvme", nvme)
		w.tracef("%s: %s is mounted", m.name, nvme)
	case 2:
		free, total := m.host.Free(nvme)
		if total != nvmeBytes {
			return // it is not mounted
		}
		if err := m.host.Write(nvme+"/filler", free); err != nil {
			w.tracef("%s: filling: %v", m.name, err)
		}
		w.tracef("%s: %s is full", m.name, nvme)
	default:
		m.fillUp(0)
	}
}

// fillUp makes the filler on the data disk of a size.
func (m *machine) fillUp(size int64) {
	if m.host.Exists(nvme + "/filler") {
		_ = m.host.Write(nvme+"/filler", size)
	}
}

// calm ends all faults: what was cut is joined, what was off is on, and the
// newest commit follows from the one in force.
func (w *world) calm() {
	w.tracef("calm")
	w.store.fault, w.repo.broken = nil, nil
	for _, c := range w.leading() {
		if c.leader != w.store.leader {
			c.end("it learns that it leads no longer", false)
		}
	}
	for _, m := range w.machines {
		m.restore()
		m.armed, m.looks = "", nil
		m.host.MountDisk("nvme", nvme)
		m.fillUp(0)
		m.makeSources()
		if m.stream != nil {
			m.stream.cut = time.Time{}
		}
		for _, wk := range m.host.Workers() {
			m.host.SetStuck(wk.ID, false)
		}
	}
	w.declared.settle()
	head := w.store.state.Accepted.Head
	if descends, _ := w.repo.IsAncestor(context.Background(), head, w.repo.head); descends {
		head = w.repo.head
	}
	w.commitOn(head)
}

// makeSources does what the failures asked of an operator.
func (m *machine) makeSources() {
	for i := range 7 {
		m.host.MakeAll(fmt.Sprintf("/mnt/d%d", i))
		if m.host.Exists("/lustre") {
			m.host.MakeAll(fmt.Sprintf("/lustre/d%d", i))
		}
	}
	stray := path.Join("/nvme/a/drives", namespace+".d6")
	if file := path.Join(stray, "canary"); m.host.Exists(file) {
		m.w.canaries = slices.DeleteFunc(m.w.canaries, func(c canary) bool { return c.m == m && c.path == file })
		m.host.Remove(file)
		m.host.Remove(stray)
	}
}

// round lets everybody do everything once.
func (w *world) round() {
	w.ticks++
	w.advance(10 * time.Second)
	if len(w.leading()) == 0 {
		w.store.leader = nil
		w.ctl[0].lead()
	}
	c := w.leading()[0]
	for _, m := range w.machines {
		if m.agent == nil {
			m.boot()
		}
		if m.stream == nil {
			c.connect(m)
		}
		for m.stream != nil && m.agent != nil && len(m.stream.down) > 0 {
			m.take(0, false)
		}
		m.endFills()
		m.turn(true)
		for m.agent != nil && len(m.jobs) > 0 {
			m.resume(m.jobs[0], nil)
		}
		m.turn(false)
		for m.stream != nil && len(m.stream.up) > 0 {
			m.stream.receive(0)
		}
	}
	c.fetch()
	c.note()
	c.runPass()
	w.checkState()
}

func (m *machine) endFills() {
	for _, wk := range m.host.Workers() {
		if wk.Live() && strings.HasPrefix(wk.ID, "f-") {
			m.endFill(&wk, true)
		}
	}
}

// maxRounds bounds how long a cluster takes to come to rest once nothing goes
// wrong any more: half an hour, with backoffs of up to six minutes in it.
const maxRounds = 180

// converge lets the cluster come to rest.
func (w *world) converge() {
	w.calm()
	quiet := 0
	for range maxRounds {
		w.round()
		if why := w.unrest(); why != "" {
			quiet = 0
			continue
		}
		if quiet++; quiet == 3 {
			w.checkRest()
			return
		}
	}
	w.failf("no rest after %d rounds: %s", maxRounds, w.unrest())
}

// unrest is why the cluster has not come to rest, "" when it has.
func (w *world) unrest() string {
	if len(w.leading()) == 0 {
		return "nobody leads"
	}
	c := w.leading()[0]
	switch {
	case c.pass.Err != nil:
		return "the pass failed: " + c.pass.Err.Error()
	case len(c.plan.Steps) > 0:
		return "steps are left: " + plannedText(c.plan.Steps) + w.released(c)
	case c.pass.Decided:
		return "it decides on"
	case len(c.plan.Drift) > 0:
		return "drift: " + c.plan.Drift[0].Message
	}
	if yes, why := c.rec.Converged(false); !yes {
		return why
	}
	return ""
}

// canary is a file that nothing may touch.
type canary struct {
	m    *machine
	path string
}

// plant puts foreign things on a machine, each with a file that must stay.
func (w *world) plant(m *machine) {
	keep := func(p string) {
		if err := m.host.Write(p, 1); err != nil {
			panic(err)
		}
		w.canaries = append(w.canaries, canary{m, p})
	}
	for _, d := range []string{"/mnt/d0", "/mnt/d1", "/mnt/d3", "/mnt/d4", "/scratch/d0", "/scratch/d2", "/srv"} {
		keep(path.Join(d, "canary"))
	}
	if m.host.Exists("/lustre") {
		keep("/lustre/d0/canary")
		keep("/lustre/d1/canary")
	}
	drive := func(name string) string { return namespace + "." + name }
	if w.chance(3) {
		m.host.Plant("/nvme/b", drive("d5"), "another-cluster", "u-foreign")
		keep(path.Join("/nvme/b/drives", drive("d5"), "canary"))
	}
	m.host.Plant("/nvme/a", drive("d6"), "", "")
	keep(path.Join("/nvme/a/drives", drive("d6"), "canary"))
	keep("/nvme/canary")
}

// boundClaims are the network mounts of a machine.
func (w *world) boundClaims(name string) []sim.TrueMount {
	if m := w.machine(name); m != nil {
		return m.host.TrueMounts()
	}
	return nil
}

// released says which steps machines may carry out now.
func (w *world) released(c *controller) string {
	text := ""
	for _, name := range sortedKeys(c.plan.Targets) {
		a := c.plan.Targets[name]
		if len(a.Steps) > 0 {
			text += "; released to " + name + ": " + stepsText(a.Steps)
		}
		if r := w.store.state.Observed[name]; r != nil {
			for _, f := range r.Failures {
				text += "; " + name + " failed: " + string(f.Action) + ": " + f.Message
			}
		}
	}
	for _, wait := range c.plan.Waits {
		text += "; " + wait.Run.Name + " " + wait.Worker + " waits: " + wait.Summary()
	}
	return text
}
