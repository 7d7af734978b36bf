package nodeexec

import (
	"cmp"
	"slices"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// nearEvery is how old the size of a copy may be where room gets short.
const nearEvery = time.Minute

// sized fills in what listing does not measure (D-91): the sizes of copies, and
// those of former ones whose bytes are on their way out.
func (a *Agent) sized(copies []schema.Copy) []schema.Copy {
	copies = slices.Clone(copies)
	for i := range copies {
		if m, ok := a.measured.of(copyMeasure(copies[i].UID)); ok && copies[i].State != schema.CopyTrash {
			copies[i].Bytes, copies[i].Files = m.Bytes, m.Files
		}
	}
	a.sizes.fill(copies)
	return copies
}

// marked are filesystems with the mark of those on which eviction goes on.
func marked(list []schema.Filesystem, begun map[string]bool) []schema.Filesystem {
	if len(begun) == 0 {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Evicting = begun[fsKey(&list[i])]
	}
	return list
}

func fsKey(fs *schema.Filesystem) string { return cmp.Or(fs.ID, fs.MountPoint) }

// limitOf is the limit of a data location, 0 for none: former ones have none.
func limitOf(t *schema.Assignment, path string) int64 {
	if t == nil {
		return 0
	}
	for _, l := range t.DataLocations {
		if l.Present && l.Path == path {
			return l.MaxBytes
		}
	}
	return 0
}

// knownBytes is the sum of a location's copies, without those not measured yet.
func knownBytes(copies []schema.Copy, location string) (sum int64) {
	for _, c := range copies {
		if c.State == schema.CopyPresent && schema.Covers(location, c.Folder) {
			sum += max(0, c.Bytes)
		}
	}
	return sum
}

// watchRoom keeps where eviction goes on (hysteresis, D-71), has sizes measured
// more often where room gets short, and forgets what is settled.
func (a *Agent) watchRoom(t *schema.Assignment, seen *view) {
	if !seen.copiesKnown || seen.facts.filesystems == nil {
		return // unknown: what goes on goes on
	}
	copies := seen.copies.Copies
	begun, near := map[string]bool{}, map[int]bool{}
	for i, fs := range marked(seen.facts.filesystems, a.evicted.goesOn()) {
		holds := slices.ContainsFunc(copies, func(c schema.Copy) bool { return planner.CopyFilesystem(seen.facts.filesystems, &c) == i })
		if holds && planner.Evicting(fs, t.Eviction) {
			begun[fsKey(&fs)] = true
		}
		near[i] = planner.NearlyFull(fs, t.Eviction)
	}
	a.kept(a.evicted.setBegun(begun))
	var soon []string
	for _, c := range copies {
		if c.State == schema.CopyPresent && (near[planner.CopyFilesystem(seen.facts.filesystems, &c)] || nearLimit(t, copies, &c)) {
			soon = append(soon, c.UID)
		}
	}
	a.measured.hurry(soon)
	a.sizes.forget(copies, a.cfg.Now())
	a.forgetEvicted(seen)
}

// nearLimit: the copy lies in a location that is filled to nine tenths of its limit.
func nearLimit(t *schema.Assignment, copies []schema.Copy, c *schema.Copy) bool {
	for _, l := range t.DataLocations {
		if l.Present && l.MaxBytes > 0 && schema.Covers(l.Path, c.Folder) {
			return knownBytes(copies, l.Path) > l.MaxBytes/10*9
		}
	}
	return false
}

// forgetEvicted drops the reasons of copies that are there again, so that no later
// removal is told with them, and in time those that the controller has heard of.
func (a *Agent) forgetEvicted(seen *view) {
	online, now := a.online.Load(), a.cfg.Now()
	a.kept(a.evicted.drop(func(e schema.Evicted) bool {
		if a.ops.busy(copyObject(e.UID)) {
			return false
		}
		return seen.findCopy(e.UID) != nil || online && now.Sub(e.At).Abs() > evictedFor
	}))
}

// noteEviction keeps why a copy goes, before it does.
func (a *Agent) noteEviction(step schema.Step) {
	a.log.Info("a copy is evicted", "drive", step.Object, "why", step.Why.Code)
	a.kept(a.evicted.add(schema.Evicted{Drive: step.Object.Scoped(), UID: step.Args.UID, Why: step.Why.Code, At: a.cfg.Now().UTC()}))
}

// kept tells that the record could not be written: it holds in memory, and a
// disk that is full must not keep it from being emptied.
func (a *Agent) kept(err error) {
	if err != nil {
		a.log.Warn("the record of evictions cannot be written", "error", err)
	}
}

// evicting are the steps by which a machine away from its controller evicts by
// itself. They are made at each look, at least each heartbeat.
func (s *situation) evicting() []schema.Step {
	var steps []schema.Step
	for _, e := range s.evictions() {
		c := s.seen.findCopy(e.UID)
		key, err := schema.ParseKey(schema.KindDrive.Word() + "/" + c.Drive)
		planned := slices.ContainsFunc(s.target.Steps, func(st schema.Step) bool {
			return st.Action == schema.ActionEvictCopy && st.Args.UID == e.UID
		})
		if err != nil || planned {
			continue
		}
		steps = append(steps, schema.Step{ID: "evict-" + e.UID, Machine: s.machine, Action: schema.ActionEvictCopy, Object: key,
			Args: schema.StepArgs{UID: e.UID, Path: c.Folder}, Why: schema.Why{Code: e.Why, Message: schema.WhyMessage(e.Why, "")}, Destructive: true})
	}
	return steps
}

// refuseEviction: beside what forbids any removal, the machine's own numbers must
// say that the copy is to go. A refusal is reported with these numbers, so that
// the next plan fits them.
func (s *situation) refuseEviction(step schema.Step) string {
	if refusal := s.refuseRemoval(step); refusal != "" {
		return refusal
	}
	if s.waits(step) != "" || s.seen.facts.filesystems == nil {
		return "" // judged when all is known
	}
	if !slices.ContainsFunc(s.evictions(), func(e planner.Eviction) bool { return e.UID == step.Args.UID }) {
		return "by this machine's own numbers the copy need not be evicted"
	}
	return ""
}

// evictions are the copies that must go by what this machine sees, by the same
// function as the plan's.
func (s *situation) evictions() []planner.Eviction {
	if !s.isJudged {
		s.isJudged = true
		if s.seen.copiesKnown && s.seen.copies.Complete && s.seen.engineKnown && s.pressed() {
			s.judged = planner.Evict(s.evictInput())
		}
	}
	return s.judged
}

// pressed is the cheap question whether Evict need be asked at all.
func (s *situation) pressed() bool {
	for _, l := range s.target.DataLocations {
		if limit := limitOf(s.target, l.Path); limit > 0 && knownBytes(s.seen.copies.Copies, l.Path) > limit {
			return true
		}
	}
	return slices.ContainsFunc(marked(s.seen.facts.filesystems, s.begun), func(fs schema.Filesystem) bool {
		return planner.Evicting(fs, s.target.Eviction)
	})
}

func (s *situation) evictInput() planner.EvictInput {
	in := planner.EvictInput{Policy: s.target.Eviction, Filesystems: marked(s.seen.facts.filesystems, s.begun), Now: s.now}
	present := ""
	for _, l := range s.target.DataLocations {
		if l.Present {
			in.MaxBytes, present = l.MaxBytes, l.Path
		}
	}
	lists := map[string]*schema.DriveList{}
	for _, c := range s.seen.copies.Copies {
		e := planner.EvictCopy{Copy: c, Present: present != "" && schema.Covers(present, c.Folder), Evictable: s.isEvictable(&c, lists)}
		e.Used = findCopy(s.target, c.UID) != nil || len(s.users(c.UID, -1, schema.BindCopy)) > 0
		e.Leaving = slices.ContainsFunc(s.target.Steps, func(st schema.Step) bool {
			return st.Action == schema.ActionDeleteCopy && st.Args.UID == c.UID
		})
		object := copyObject(c.UID)
		e.Failed = s.failed[failKey{object, schema.ActionEvictCopy}] || s.failed[failKey{object, schema.ActionDeleteCopy}]
		in.Copies = append(in.Copies, e)
	}
	return in
}

// isEvictable asks the complete list of the copy's workspace (D-61): a copy of
// which it says nothing stays.
func (s *situation) isEvictable(c *schema.Copy, lists map[string]*schema.DriveList) bool {
	key, err := schema.ParseKey(schema.KindDrive.Word() + "/" + c.Drive)
	if err != nil {
		return false
	}
	list, asked := lists[key.Namespace]
	if !asked {
		list = s.list(key.Namespace)
		lists[key.Namespace] = list
	}
	return list != nil && list.Namespace == key.Namespace && slices.ContainsFunc(list.Drives, func(d schema.ListedDrive) bool {
		return d.UID == c.UID && d.Evictable && !d.Removed
	})
}
