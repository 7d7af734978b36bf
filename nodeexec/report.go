package nodeexec

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// reporter is what has been reported; the loop's own.
type reporter struct {
	last           *schema.MachineReport
	sequence       int64
	epoch, applied int64
}

// publish sends a report when something material changed or a stream opened.
// A heartbeat repeats the last report with the newest measurements, so that what
// moved a little is no news to anybody (D-70, X-33).
func (a *Agent) publish(say *reporter, target *schema.Assignment, seen *view, beat bool) {
	report := a.report(say, target, seen)
	whole := a.republish.Swap(false) || say.last == nil || material(say.last, report)
	if !whole && !beat {
		return
	}
	if !whole {
		again := *say.last
		again.Measurements, again.MountSeries = report.Measurements, report.MountSeries
		report = &again
	}
	say.sequence++
	report.Sequence = say.sequence
	say.last = report
	a.out.put(report)
}

// applied says by which assignment the machine works: the target, once nothing
// that an older one began is in flight. It is asked before the machine is
// looked at: the effect of an operation that ends meanwhile may not show.
func (a *Agent) applied(say *reporter, target *schema.Assignment) {
	if target == nil {
		return
	}
	steps := map[string]bool{}
	for _, s := range target.Steps {
		steps[s.ID] = true
	}
	if !a.ops.others(steps) {
		say.epoch, say.applied = target.Epoch, target.Revision
	}
}

// report puts together what was seen. Parts that could not be listed are nil.
func (a *Agent) report(say *reporter, target *schema.Assignment, seen *view) *schema.MachineReport {
	r := &schema.MachineReport{
		Name: a.cfg.Machine, Address: a.cfg.Address, Addresses: seen.facts.addresses,
		BootID: seen.facts.bootID, Incarnation: a.incarnation, Epoch: say.epoch, Applied: say.applied,
		RDMA: a.cfg.RDMA, Resources: seen.facts.resources, Network: seen.facts.network,
		Engine: &schema.EngineState{Kind: a.cfg.EngineKind, Ready: seen.engineKnown, Message: seen.engineError,
			StopsAway: runtime.StopsAway(a.cfg.Engine)},
		Filesystems: marked(seen.facts.filesystems, a.evicted.goesOn()), Exports: seen.exports, Mounts: seen.mounts,
		Failures: a.failures.reported(), Measurements: a.measured.all(), Problems: seen.problems, Evicted: a.evicted.lately(),
		Checks: a.checks.all(),
	}
	if r.Problems = slices.Concat(r.Problems, a.naming.problems()); r.Problems == nil {
		r.Problems = []string{}
	}
	if seen.engineKnown {
		r.Workers = a.reportWorkers(seen)
	}
	if seen.copiesKnown {
		a.reportCopies(r, target, seen)
	}
	if target != nil {
		r.Paths = reportPaths(target, seen)
	}
	return r
}

func (a *Agent) reportWorkers(seen *view) []schema.Worker {
	stopping := a.ops.stopping()
	list := make([]schema.Worker, 0, len(seen.workers))
	for _, w := range seen.workers {
		if w.worker.State == schema.WorkerRunning && stopping[workerObject(w.id)] {
			w.worker.State = schema.WorkerStopping
		}
		list = append(list, w.worker)
	}
	slices.SortFunc(list, func(x, y schema.Worker) int {
		return cmp.Or(cmp.Compare(x.Run, y.Run), cmp.Compare(x.Name, y.Name), cmp.Compare(x.RunUID, y.RunUID),
			cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Attempt, y.Attempt))
	})
	return list
}

// reportCopies sums up each data location.
func (a *Agent) reportCopies(r *schema.MachineReport, target *schema.Assignment, seen *view) {
	copies := append([]schema.Copy{}, seen.copies.Copies...)
	slices.SortFunc(copies, func(x, y schema.Copy) int {
		return cmp.Or(cmp.Compare(x.Drive, y.Drive), cmp.Compare(x.Folder, y.Folder))
	})
	locations := append([]schema.DataLocationState{}, seen.copies.Locations...)
	for i := range locations {
		l := &locations[i]
		if l.UsedBytes < 0 {
			l.UsedBytes = usedBytes(copies, l.Path)
		}
		limit := limitOf(target, l.Path)
		l.OverLimit = limit > 0 && knownBytes(copies, l.Path) > limit
	}
	r.DataLocations = locations
	if seen.copies.Complete {
		r.Copies = copies
	}
}

// usedBytes is the sum of a location's copies, -1 when one is not measured yet.
func usedBytes(copies []schema.Copy, location string) int64 {
	var sum int64
	for _, c := range copies {
		if c.State == schema.CopyTrash || !schema.Covers(location, c.Folder) {
			continue
		}
		if c.Bytes < 0 {
			return -1
		}
		sum += c.Bytes
	}
	return sum
}

func reportPaths(target *schema.Assignment, seen *view) []schema.PathState {
	list := make([]schema.PathState, 0, len(target.Dirs))
	for _, d := range target.Dirs {
		if state, ok := seen.paths[dirObject(d.UID, d.Source)]; ok {
			list = append(list, state)
		}
	}
	slices.SortFunc(list, func(x, y schema.PathState) int {
		return cmp.Or(cmp.Compare(x.UID, y.UID), cmp.Compare(x.Source, y.Source))
	})
	return list
}
