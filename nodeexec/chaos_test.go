package nodeexec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// chaos drives one agent with changing targets, failing effects, blind
// listings, restarts and steps that should never have been sent.
type chaos struct {
	*rig
	mu      sync.Mutex
	rng     *rand.Rand
	faults  bool
	attempt int
	broken  []string // invariants that did not hold
}

// TestNothingInUseIsTakenAway: whatever comes, no copy and no mount goes while
// a live worker uses it; and once the faults stop, the machine is as wanted.
func TestNothingInUseIsTakenAway(t *testing.T) { // D-60, D-61, X-7, X-8, X-18, G-8
	for seed := range uint64(chaosSeeds()) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &chaos{rig: newRig(t), rng: rand.New(rand.NewPCG(seed, 1)), faults: true}
				c.cfg.Log = nil
				c.w.onEffect = c.watch
				c.start()
				for range 12 {
					c.round()
				}
				c.settle()
				c.stop()
				require.Empty(t, c.broken)
			})
		})
	}
}

// chaosSeeds is how many seeds are tried; NODEEXEC_SEEDS asks for more.
func chaosSeeds() int {
	if n, err := strconv.Atoi(os.Getenv("NODEEXEC_SEEDS")); err == nil {
		return n
	}
	return 8
}

func (c *chaos) chance(p float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults && c.rng.Float64() < p
}

func (c *chaos) intn(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// watch checks the invariants before each effect and makes some fail.
func (c *chaos) watch(name string) {
	verb, what, _ := strings.Cut(name, " ")
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for id, f := range c.w.state.Workers {
		w, _, err := readWorker(f.Status)
		if err != nil || !w.live() {
			continue
		}
		if (verb == "DeleteCopy" || verb == "Unmount") && w.uses(what) {
			c.broken = append(c.broken, name+" under "+id)
		}
	}
	delete(c.w.fail, name)
	if c.chance(0.3) {
		c.w.fail[name] = errors.New("a fault")
	}
}

// round sends a new random target, sometimes around a restart or to a blind agent.
func (c *chaos) round() {
	if c.chance(0.3) {
		c.stop()
		c.start()
	}
	c.w.mu.Lock()
	c.w.incomplete = c.chance(0.2)
	delete(c.w.fail, "Mounts")
	if c.chance(0.2) {
		c.w.fail["Mounts"] = errors.New("blind")
	}
	c.w.mu.Unlock()
	c.assign(c.randomTarget)
	for range 1 + c.intn(4) {
		after(time.Duration(c.intn(8000)) * time.Millisecond)
		c.endSome()
		c.assign(c.plan)
	}
}

func (c *chaos) endSome() {
	if !c.chance(0.3) {
		return
	}
	c.w.set(func(s *worldState) {
		for _, f := range s.Workers {
			if f.Status.State == runtime.Running && f.Status.ExitCode == nil {
				f.Status.State = runtime.Exited
				return
			}
		}
	})
}

func (c *chaos) randomTarget(a *schema.Assignment) {
	a.Copies, a.Mounts, a.Workers = nil, nil, nil
	c.attempt++
	template := c.blob(schema.TaskTemplate{Command: "true"})
	for n := range 3 {
		if c.intn(2) == 0 {
			continue
		}
		w := workerTarget(template)
		w.Name, w.Attempt = fmt.Sprint("train-", n), c.attempt
		for range 1 + c.intn(2) {
			uid := fmt.Sprint("u-", c.intn(3))
			w.Mounts = append(w.Mounts, schema.BindTarget{Drive: named(uid[2:] + "d"), UID: uid, From: schema.BindCopy, Target: "/" + uid})
			if findCopy(a, uid) == nil {
				a.Copies = append(a.Copies, schema.CopyTarget{Drive: named(uid[2:] + "d"), UID: uid, Location: "/mnt/nvme/astraeus"})
			}
		}
		uid := fmt.Sprint("n-", c.intn(2))
		w.Mounts = append(w.Mounts, schema.BindTarget{Drive: named(uid), UID: uid, From: schema.BindClaim, Target: "/" + uid})
		if findMount(a, uid, 0) == nil {
			a.Mounts = append(a.Mounts, schema.MountTarget{Drive: named(uid), UID: uid, From: "gpu-02", Mode: schema.ReadOnly})
		}
		a.Workers = append(a.Workers, w)
	}
	a.Drives = map[string]string{ns: c.blob(schema.DriveList{Namespace: ns})}
	c.plan(a)
}

// plan is a small planner that looks at the world, and errs now and then.
func (c *chaos) plan(a *schema.Assignment) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	var stops, ups []string
	a.Steps = nil
	add := func(s schema.Step) string {
		if c.chance(0.2) {
			s.After = nil // the order is lost
		}
		a.Steps = append(a.Steps, s)
		return s.ID
	}
	for _, f := range c.w.state.Workers {
		w, _, _ := readWorker(f.Status)
		l := w.label.Worker
		if w.live() && (findWorker(a, w.id) == nil || c.chance(0.1)) {
			stops = append(stops, add(step(schema.ActionStopWorker, train, schema.StepArgs{UID: l.RunUID, Worker: l.Name, Generation: l.Generation, Attempt: l.Attempt})))
		}
	}
	for uid := range c.w.state.Copies {
		if findCopy(a, uid) == nil || c.chance(0.1) {
			add(step(schema.ActionDeleteCopy, named(uid[2:]+"d"), schema.StepArgs{UID: uid}, stops...))
		}
	}
	for _, m := range c.w.state.Mounts {
		if findMount(a, m.UID, 0) == nil || c.chance(0.1) {
			add(step(schema.ActionUnmount, named(m.UID), schema.StepArgs{UID: m.UID}, stops...))
		}
	}
	for _, t := range a.Copies {
		ups = append(ups, add(step(schema.ActionCreateCopy, t.Drive, schema.StepArgs{UID: t.UID})))
	}
	for _, t := range a.Mounts {
		ups = append(ups, add(step(schema.ActionMount, t.Drive, schema.StepArgs{UID: t.UID})))
	}
	for _, w := range a.Workers {
		add(step(schema.ActionStartWorker, train, schema.StepArgs{UID: w.RunUID, Worker: w.Name, Generation: w.Generation, Attempt: w.Attempt},
			slices.Concat(stops, ups)...))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rng.Shuffle(len(a.Steps), func(i, j int) { a.Steps[i], a.Steps[j] = a.Steps[j], a.Steps[i] })
}

// settle stops the faults; the plan is made anew now and then, as a controller
// does that is told of every change.
func (c *chaos) settle() {
	c.mu.Lock()
	c.faults = false
	c.mu.Unlock()
	c.w.setFail(map[string]error{})
	c.w.set(func(*worldState) { c.w.incomplete = false })
	for range 200 {
		c.assign(c.plan)
		after(10 * time.Second)
		if c.converged() {
			return
		}
	}
	require.FailNow(c.t, "it does not converge", "%+v\n%+v", c.base, c.a.failures.reported())
}

func (c *chaos) converged() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for i := range c.base.Workers {
		if c.w.state.Workers[targetID(&c.base.Workers[i])] == nil {
			return false
		}
	}
	return len(c.w.state.Workers) == len(c.base.Workers) && len(c.w.state.Copies) == len(c.base.Copies) &&
		len(c.w.state.Mounts) == len(c.base.Mounts) && len(c.a.failures.reported()) == 0
}
