package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/sim"
	"astraeus.io/astraeus/schema"
)

const (
	workRoot  = "/var/lib/astraeus-agent/work"
	agentHome = "/var/lib/astraeus-agent"
	nvme      = "/nvme"
	nvmeBytes = 1000
)

// machine is one machine with its agent.
type machine struct {
	w       *world
	name    string
	address string
	host    *sim.Machine
	state   string // the agent's state directory, on this computer

	power  bool
	agent  *nodeexec.ByHand // nil while its process is dead
	life   int              // processes so far
	jobs   []*job
	now    *job // whose turn it is
	stream *stream
	armed  nodeexec.CrashPoint // where the process dies, "" for nowhere
	died   bool
	looks  map[string]error // what fails to answer
	said   *schema.MachineReport

	// Of this process: what it has seen.
	sawEngine, sawMounts atomic.Bool
	tookTarget           bool

	started map[string]bool // ids of workers that ran here, ever
	boots   map[string]int  // reboots of a claim's source when its worker started
	reboots int
}

// job is one operation of an agent, which stops before and after each effect.
type job struct {
	next   func() (*sim.Effect, bool)
	stop   func()
	at     *sim.Effect // the effect it stopped at, nil at its beginning
	done   bool        // the effect was made
	since  time.Time
	answer error              // what the effect answers when the job goes on
	target *schema.Assignment // by which it began
	short  bool               // of room, when it began
	yield  func(*sim.Effect) bool
}

// death is what ends a process at a crash point.
type death struct{}

func (w *world) addMachine(name string, number int) *machine {
	m := &machine{w: w, name: name, address: fmt.Sprintf("192.0.2.%d", number), state: filepath.Join(w.dir, name), power: true,
		started: map[string]bool{}, boots: map[string]int{}}
	m.host = w.net.New(sim.Options{Name: name, Addresses: []string{m.address}, WorkRoot: workRoot, StateDir: agentHome,
		Resources: schema.Resources{CPUCores: float64(4 + w.rng.IntN(5)), MemoryBytes: 1000, GPUs: w.rng.IntN(5)},
		Now:       func() time.Time { return w.now }, Effect: m.effect, Look: m.look})
	m.host.AddDisk("nvme", nvme, nvmeBytes, false)
	if w.rng.IntN(4) > 0 {
		m.host.AddDisk("lustre", "/lustre", 1<<40, true)
	}
	w.machines = append(w.machines, m)
	return m
}

func (m *machine) String() string { return m.name }

// boot starts the agent's process.
func (m *machine) boot() {
	m.life++
	m.died, m.armed, m.tookTarget, m.said = false, "", false, nil
	m.sawEngine.Store(false)
	m.sawMounts.Store(false)
	agent, err := nodeexec.NewByHand(nodeexec.Config{
		Machine: m.name, StateDir: m.state, WorkRoot: workRoot, Address: m.address,
		Host: nodeexec.OnHost(m.host), Shares: m.host.Shares(), Engine: m.host.Engine(), EngineKind: schema.EngineProcess,
		Check: m.host.Check, Dial: noDial, Now: func() time.Time { return m.w.now }, Random: m.w.rng.Float64, CrashPoint: m.crashPoint,
	}, m.spawn)
	if err != nil {
		m.w.failf("the agent of %s does not start: %v", m.name, err)
	}
	m.agent = agent
	m.w.tracef("the agent of %s starts", m.name)
}

// kill ends the agent's process where it is. The controller may not notice.
func (m *machine) kill(why string) {
	if m.agent == nil {
		return
	}
	m.w.tracef("the agent of %s dies: %s", m.name, why)
	m.w.count("agent dies: " + why)
	jobs := m.jobs
	m.jobs = nil
	for _, j := range jobs {
		j.stop()
	}
	_ = m.agent.Close()
	m.agent = nil
	if s := m.stream; s != nil {
		m.stream = nil
		s.cut = m.w.now
		if m.w.rng.IntN(2) == 0 {
			s.close("the agent died")
		}
	}
}

// alive runs f, in which the process may die.
func (m *machine) alive(f func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(death); !ok {
				panic(r)
			}
			m.died = true
		}
		if m.died {
			m.died = false
			m.kill("crash point")
		}
	}()
	f()
}

func (m *machine) crashPoint(p nodeexec.CrashPoint) {
	if p == m.armed && p != "" {
		m.w.tracef("the agent of %s reaches crash point %s", m.name, p)
		m.armed = ""
		m.w.count("crash point " + string(p))
		panic(death{})
	}
}

// turn is one turn of the agent's loop.
func (m *machine) turn(beat bool) {
	m.alive(func() {
		report, _, err := m.agent.Turn(context.Background(), beat)
		if err != nil {
			m.w.failf("%s: %v", m.name, err)
		}
		if report == nil || m.stream == nil {
			return
		}
		m.w.tracef("%s reports %s", m.name, reportText(report))
		m.said = report
		m.stream.up = append(m.stream.up, again(report))
	})
}

// take gives the agent the message at an index of those on their way.
func (m *machine) take(i int, keep bool) {
	s := m.stream
	down := s.down[i]
	if !keep {
		s.down = slices.Delete(s.down, i, i+1)
	}
	m.w.checkIssued(m, down.Assignment)
	m.alive(func() {
		err := m.agent.Take(again(down))
		m.w.tracef("%s takes revision %d: %s", m.name, down.Assignment.Revision, stepsText(down.Assignment.Steps))
		m.tookTarget = true
		for _, s := range down.Assignment.Steps {
			m.w.count("told " + string(s.Action))
		}
		if err != nil {
			s.close(err.Error())
		}
	})
}

// spawn is given each operation that the agent starts.
func (m *machine) spawn(f func()) {
	j := &job{since: m.w.now}
	life := m.life
	j.next, j.stop = iter.Pull(func(yield func(*sim.Effect) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(death); !ok {
					panic(r)
				}
				m.died = m.life == life && m.agent != nil
			}
		}()
		j.yield = yield
		f()
	})
	m.jobs = append(m.jobs, j)
}

// resume lets a job go on to its next effect or its end; answer is what the
// effect at which it stopped answers.
func (m *machine) resume(j *job, answer error) {
	m.alive(func() {
		if j.target == nil {
			j.target, j.short = m.agent.Target(), m.shortOfRoom()
		}
		m.now, j.answer = j, answer
		at, more := j.next()
		m.now = nil
		j.at = at
		if !more {
			m.jobs = slices.DeleteFunc(m.jobs, func(x *job) bool { return x == j })
		}
	})
}

// shortOfRoom: the data disk is nearly full, or copies exceed the limit (D-71).
func (m *machine) shortOfRoom() bool {
	for _, l := range m.agent.Target().DataLocations {
		free, total := m.host.Free(l.Path)
		if total > 0 && free*100 < 15*total || l.MaxBytes > 0 && m.host.Used(l.Path+"/drives") > l.MaxBytes {
			return true
		}
	}
	return false
}

// effect is called around everything that the agent does to its machine.
func (m *machine) effect(_ context.Context, e *sim.Effect, done bool) error {
	if !done {
		m.w.checkEffect(m, e)
	} else {
		m.w.tracef("%s: %s", m.name, e)
		m.w.count(e.Name)
		m.w.noteEffect(m, e)
	}
	j := m.now
	// MakeDir runs beside its job; what is marked as used is of no interest.
	if j == nil || e.Name == "MakeDir" || e.Name == "MarkUsed" || done && m.w.rng.IntN(2) == 0 {
		return nil
	}
	j.done, j.answer = done, nil
	if !j.yield(e) {
		panic(death{})
	}
	m.now = j
	if !done && j.answer == nil {
		m.w.checkEffect(m, e) // what was right when it stopped may not be any more
	}
	return j.answer
}

// look is called, by several goroutines, for everything that the agent asks.
func (m *machine) look(what string) error {
	if err := m.looks[what]; err != nil {
		return err
	}
	switch what {
	case "workers":
		m.sawEngine.Store(true)
	case "mounts":
		m.sawMounts.Store(true)
	}
	return nil
}

var effectErrors = []error{errors.New("it did not work"), context.DeadlineExceeded, syscall.EIO, syscall.ENOSPC}

func noDial(context.Context) (conn, error) { return nil, os.ErrDeadlineExceeded }
