package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// explainWaits says why each run or worker that should run does not: after
// everything is placed, so that the reasons fit what is left.
func (p *pass) explainWaits() {
	p.explainWorkers()
	cache := map[string][]schema.Reason{}
	p.out.Waits = make([]schema.Wait, 0, p.waitingWorkers())
	for _, r := range p.byName {
		if r.object == nil || r.placed != nil && r.placed.Outcome != "" && r.short == nil {
			continue
		}
		if r.short != nil || r.placed == nil || r.stopping {
			p.wait(r.key, "", p.whyUnplaced(r, cache))
		}
		if r.active() {
			p.waitWorkers(r)
		}
	}
}

func (p *pass) wait(key schema.Key, worker string, reasons []schema.Reason) {
	if len(reasons) > 0 {
		p.out.Waits = append(p.out.Waits, schema.Wait{Run: key, Worker: worker, Reasons: reasons})
	}
}

// waitingWorkers guesses the number of waits: one a worker that is to be started.
func (p *pass) waitingWorkers() (n int) {
	for _, st := range p.out.Steps {
		if st.Action == schema.ActionStartWorker {
			n++
		}
	}
	return n
}

// whyUnplaced is why a run has no place, or its newer spec has none.
func (p *pass) whyUnplaced(r *run, cache map[string][]schema.Reason) []schema.Reason {
	if r.forced {
		return p.missingDrives(r)
	}
	if r.stopping {
		return []schema.Reason{{Code: schema.ReasonStopping, Count: 1}}
	}
	p.refresh(r)
	switch s := r.short; {
	case s == nil:
		return nil
	case s.t == nil:
		return distinct(s.reasons)
	default:
		reasons := p.whyShort(r, cache)
		if len(reasons) == 0 && s.gang > s.t.machines { // each group has room, not all of them together
			return []schema.Reason{{Code: schema.ReasonTooFew, Count: 1, Args: schema.ReasonArgs{Need: int64(s.gang), Have: int64(s.placed)}}}
		}
		if s.t.machines > 1 && s.have > 0 {
			few := schema.Reason{Code: schema.ReasonTooFew, Count: 1, Args: schema.ReasonArgs{Need: int64(s.t.machines), Have: int64(s.have)}}
			reasons = append([]schema.Reason{few}, reasons...)
		}
		return reasons
	}
}

// whyShort looks at the machines as the run itself would find them: what its
// older workers hold is free for its newer ones.
func (p *pass) whyShort(r *run, cache map[string][]schema.Reason) []schema.Reason {
	if !r.short.replaces || r.placed == nil || r.placed.Outcome != "" {
		return p.whyNowhere(r.short.t, cache)
	}
	p.eachHeld(r, p.release)
	defer p.eachHeld(r, p.hold)
	g := grouping{index: map[reasonKey]int{}}
	for _, m := range p.orgs[r.short.t.org].list {
		if reason, ok := p.whyNot(r.short.t, m); !ok {
			g.add(reason, m)
		}
	}
	return g.finish()
}

// missingDrives names the drives that were deleted under a run.
func (p *pass) missingDrives(r *run) []schema.Reason {
	var list []schema.Reason
	for _, place := range placesOf(r.spec) {
		for _, ref := range place.task.DatavolumeRefs {
			if key := (schema.Key{Kind: schema.KindDrive, Namespace: r.key.Namespace, Name: ref.Name}); p.drives[key] == nil {
				list = append(list, p.whyNoDrive(key))
			}
		}
	}
	return distinct(list)
}

// distinct sorts reasons that are about no machine and says each once.
func distinct(list []schema.Reason) []schema.Reason {
	list = schema.GroupReasons(list)
	for i := range list {
		if len(list[i].Machines) == 0 {
			list[i].Count = 1
		}
	}
	return list
}

// refresh looks again at a run that found no place, when a drive of it was
// removed after it had been tried.
func (p *pass) refresh(r *run) {
	if r.short == nil || r.short.t == nil {
		return
	}
	if missing := p.missingDrives(r); len(missing) > 0 {
		r.short = &shortage{reasons: missing, replaces: r.short.replaces}
	}
}

// whyNowhere groups by reason why no machine of the org takes a worker of the
// template. Classes are asked once; the machines that drives name, one by one.
func (p *pass) whyNowhere(t *template, cache map[string][]schema.Reason) []schema.Reason {
	f := p.orgs[t.org]
	key := p.waitKey(t)
	if got, ok := cache[key]; ok {
		return slices.Clone(got)
	}
	special := map[*machine]bool{}
	for _, m := range p.byteHolders(t) {
		special[m] = true
	}
	for i := range t.uses {
		if u := &t.uses[i]; u.drive != nil {
			for _, m := range p.machinesNamed(u.from.EligibleNodes, t.org) {
				special[m] = true
			}
			for _, m := range p.planned[u.drive.uid] {
				special[m] = true
			}
		}
	}
	for _, m := range p.machinesNamed(t.volumeMachines(), t.org) {
		special[m] = true
	}
	g := grouping{index: map[reasonKey]int{}}
	for m := range special {
		if r, ok := p.whyNot(t, m); !ok {
			g.add(r, m)
		}
	}
	for _, c := range f.classes {
		p.whyClass(t, c, special, &g)
	}
	reasons := g.finish()
	cache[key] = reasons
	return slices.Clone(reasons)
}

func (p *pass) whyClass(t *template, c *class, special map[*machine]bool, g *grouping) {
	if never, ok := p.whyNever(t, c.stand(), false); !ok {
		g.addAll(never, c.members, special)
		return
	}
	if !t.needsRoom() {
		for _, group := range c.fullGroups(t) {
			if group.reason.Code != "" {
				g.addAll(group.reason, group.machines, special)
			}
		}
		return
	}
	for _, m := range c.members {
		if !special[m] {
			if r, ok := p.whyFull(t, m); !ok {
				g.add(r, m)
			}
		}
	}
}

func (t *template) needsRoom() bool {
	return slices.ContainsFunc(t.uses, func(u use) bool { return u.copied() && u.drive.spec.SizeHintBytes > 0 })
}

// waitKey is what decides a template's reasons: equal keys have equal reasons.
func (p *pass) waitKey(t *template) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%d|%g|%d|%d", t.org, t.cpu, t.share, t.memory, t.gpus)
	for i := range t.uses {
		if u := &t.uses[i]; u.drive != nil {
			fmt.Fprintf(&b, "|%s/%d", u.drive.uid, u.source)
		}
	}
	for _, pin := range t.pinned {
		fmt.Fprintf(&b, "|%s@%s", pin.volume, pin.machine)
	}
	return b.String()
}

// grouping collects reasons by code and arguments.
type grouping struct {
	index map[reasonKey]int
	list  []reasonGroup
}

type reasonGroup struct {
	reason schema.Reason
	names  []string
	count  int
}

func (g *grouping) at(r schema.Reason) *reasonGroup {
	k := reasonKey{r.Code, r.Args}
	i, seen := g.index[k]
	if !seen {
		i = len(g.list)
		g.index[k] = i
		g.list = append(g.list, reasonGroup{reason: r})
	}
	return &g.list[i]
}

func (g *grouping) add(r schema.Reason, m *machine) {
	group := g.at(r)
	group.count++
	group.names = append(group.names, m.name)
}

func (g *grouping) addAll(r schema.Reason, machines []*machine, special map[*machine]bool) {
	n := len(machines)
	var names []string
	for _, m := range machines {
		if len(names) == schema.MaxNamedMachines {
			break
		}
		if !special[m] {
			names = append(names, m.name)
		}
	}
	for m := range special {
		if containsMachineSorted(machines, m) {
			n--
		}
	}
	if n > 0 {
		group := g.at(r)
		group.count += n
		group.names = append(group.names, names...)
	}
}

func containsMachineSorted(list []*machine, m *machine) bool {
	_, found := slices.BinarySearchFunc(list, m, compareNames)
	return found
}

// finish names at most ten machines a group, the most frequent reason first, and
// says the machine's name where only one is meant.
func (g *grouping) finish() []schema.Reason {
	reasons := make([]schema.Reason, 0, len(g.list))
	for _, group := range g.list {
		r := group.reason
		slices.Sort(group.names)
		names := group.names[:min(len(group.names), schema.MaxNamedMachines)]
		r.Machine, r.Machines, r.Count = "", slices.Clone(names), group.count
		if r.Count == 1 {
			r.Machine = names[0]
		}
		r.Args.Text = strings.Replace(r.Args.Text, thisMachine, cmp.Or(r.Machine, "each of these machines"), 1)
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b schema.Reason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message(), b.Message()),
			slices.Compare(a.Machines, b.Machines))
	})
	return reasons
}

func (p *pass) isBackingOff(pl *schema.Placement) bool { return p.now.Before(pl.NotBefore) }

// backingOff is the wait of a run that starts again later.
func backingOff(pl *schema.Placement) []schema.Reason {
	delay := backoff(max(1, pl.Failures)).Round(time.Second)
	return []schema.Reason{{Code: schema.ReasonBackoff, Count: 1,
		Args: schema.ReasonArgs{Text: delay.String(), Need: int64(pl.Attempt + 1), Why: pl.LastEnd}}}
}
