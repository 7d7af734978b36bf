package planner

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// sighting is one machine's report, indexed, with the uids that a report may
// leave out filled in. A nil map or slice is an unknown part.
type sighting struct {
	report  *schema.MachineReport
	copies  map[string]schema.Copy // present ones, by uid
	hidden  map[string]string      // data locations that are not mounted, by uid
	strays  []schema.Copy          // copies that no known drive or tombstone claims
	mounts  []schema.Mount
	exports []schema.Export
	workers map[workerID]schema.Worker
	paths   map[sourceID]schema.PathState
	failed  map[failureID]schema.Failure
}

// workerID is what makes a worker the same one.
type workerID struct {
	uid        string
	generation int64
	attempt    int
	name       string
}

// attemptKey counts attempts of one generation of a run.
type attemptKey struct {
	uid        string
	generation int64
}

type sourceID struct {
	uid    string
	source int
}

type failureID struct {
	action schema.Action
	uid    string
	source int
	worker string
}

// newest keeps one report a machine: the one with the largest sequence.
func newest(reports []*schema.MachineReport) map[string]*schema.MachineReport {
	byName := make(map[string]*schema.MachineReport, len(reports))
	for _, r := range reports {
		if r == nil {
			continue
		}
		if old := byName[r.Name]; old == nil || r.Sequence > old.Sequence {
			byName[r.Name] = r
		}
	}
	return byName
}

func (p *pass) sight(r *schema.MachineReport) *sighting {
	s := &sighting{report: r}
	s.takeCopies(p, r)
	if r.Mounts != nil {
		s.mounts = make([]schema.Mount, 0, len(r.Mounts))
		for _, m := range r.Mounts {
			m.UID = p.uidOf(schema.KindDrive, m.Drive, m.UID)
			if m.State != schema.MountDetached { // a lazy unmount is done
				s.mounts = append(s.mounts, m)
			}
		}
		slices.SortFunc(s.mounts, func(a, b schema.Mount) int { return compareStrings(a.UID, b.UID, a.From, b.From, a.Path, b.Path) })
	}
	if r.Exports != nil {
		s.exports = make([]schema.Export, 0, len(r.Exports))
		for _, e := range r.Exports {
			e.UID = p.uidOf(schema.KindDrive, e.Drive, e.UID)
			s.exports = append(s.exports, e)
		}
		slices.SortFunc(s.exports, func(a, b schema.Export) int { return compareStrings(a.UID, b.UID, a.To, b.To, a.Client, b.Client) })
	}
	if r.Workers != nil {
		s.workers = make(map[workerID]schema.Worker, len(r.Workers))
		for _, w := range r.Workers {
			w = p.withUID(w)
			s.workers[idOfWorker(w)] = w
			if k := (attemptKey{w.RunUID, w.Generation}); w.Attempt >= p.attempts[k] {
				p.attempts[k] = w.Attempt + 1
			}
		}
	}
	if r.Paths != nil {
		s.paths = make(map[sourceID]schema.PathState, len(r.Paths))
		for _, path := range r.Paths {
			s.paths[sourceID{path.UID, path.Source}] = path
		}
	}
	if len(r.Failures) > 0 {
		s.failed = make(map[failureID]schema.Failure, len(r.Failures))
		for _, f := range r.Failures {
			s.failed[failureID{f.Action, p.uidOf(f.Object.Kind, f.Object.Scoped(), f.UID), f.Source, f.Worker}] = f
		}
	}
	return s
}

func (s *sighting) takeCopies(p *pass, r *schema.MachineReport) {
	if r.Copies == nil {
		return
	}
	s.copies, s.hidden = make(map[string]schema.Copy, len(r.Copies)), map[string]string{}
	// Of two copies of one drive the same one counts whatever the report's order.
	copies := slices.SortedFunc(slices.Values(r.Copies), func(a, b schema.Copy) int { return strings.Compare(b.Folder, a.Folder) })
	for _, c := range copies {
		c.UID = p.uidOf(schema.KindDrive, c.Drive, c.UID)
		switch {
		case c.State == schema.CopyTrash: // on its way out
		case c.State == schema.CopyUnknown:
			s.hidden[c.UID], _ = locationOfCopy(c)
		case c.UID == "":
			s.strays = append(s.strays, c)
		case c.State == schema.CopyCreating && s.copies[c.UID].Folder != "": // one that is there counts
		default:
			s.copies[c.UID] = c
		}
	}
}

// trashBeside is the bytes on their way out of the disk that a data location is
// on: they count as free there, and on no other disk.
func (s *sighting) trashBeside(location string) (bytes int64) {
	disk := filesystemOf(s.report.Filesystems, location)
	for _, c := range s.report.Copies {
		if c.State == schema.CopyTrash && (schema.Covers(location, c.Folder) || disk != nil && filesystemOf(s.report.Filesystems, c.Folder) == disk) {
			bytes += max(0, c.Bytes)
		}
	}
	return bytes
}

// uidOf fills a uid in that a report left out: that of the accepted object of
// this name (conventions.md).
func (p *pass) uidOf(kind schema.Kind, scoped, uid string) string {
	if uid != "" {
		return uid
	}
	key, err := schema.ParseKey(kind.Word() + "/" + scoped)
	if err != nil {
		return ""
	}
	if a := p.in.Accepted.Objects[key]; inForce(a) {
		return a.UID
	}
	return ""
}

// withUID fills a worker's run uid, generation and attempt in where it has none:
// those of the run's placement.
func (p *pass) withUID(w schema.Worker) schema.Worker {
	if w.RunUID != "" {
		return w
	}
	key, err := schema.ParseKey("run/" + w.Run)
	if err != nil {
		return w
	}
	if pl, ok := p.in.Placed[key]; ok {
		w.RunUID, w.Generation, w.Attempt = pl.RunUID, pl.Generation, pl.Attempt
	} else if a := p.in.Accepted.Objects[key]; inForce(a) {
		w.RunUID, w.Generation = a.UID, a.Generation
	}
	return w
}

func idOfWorker(w schema.Worker) workerID {
	return workerID{w.RunUID, w.Generation, w.Attempt, w.Name}
}

// ended reports whether the worker at id has ended or is absent from a complete
// listing. known is false when nobody can tell.
func (s *sighting) ended(id workerID) (ended, known bool) {
	if s == nil || s.workers == nil {
		return false, false
	}
	w, there := s.workers[id]
	return !there || w.State.Ended(), true
}

// locationOf is the data location of the drive's copy, mounted or not, "" for none.
func (s *sighting) locationOf(uid string) string {
	if s == nil {
		return ""
	}
	if c, there := s.copies[uid]; there {
		base, _ := locationOfCopy(c)
		return base
	}
	return s.hidden[uid]
}

// hasCopy reports whether the machine holds bytes of the drive, mounted or not.
func (s *sighting) hasCopy(uid string) bool {
	if s == nil || uid == "" {
		return false
	}
	_, there := s.copies[uid]
	return there || hasKey(s.hidden, uid)
}

// eachHeld calls f for each drive of which the machine holds bytes, in no order.
func (s *sighting) eachHeld(f func(uid string)) {
	for uid := range s.copies {
		f(uid)
	}
	for uid := range s.hidden {
		if !hasKey(s.copies, uid) {
			f(uid)
		}
	}
}

// mountOf is the network mount of a source, nil when there is none.
func (s *sighting) mountOf(uid string, source int) *schema.Mount {
	if s == nil {
		return nil
	}
	for i := range s.mounts {
		if s.mounts[i].UID == uid && s.mounts[i].Source == source {
			return &s.mounts[i]
		}
	}
	return nil
}

func compareStrings(pairs ...string) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] < pairs[i+1] {
			return -1
		}
		if pairs[i] > pairs[i+1] {
			return 1
		}
	}
	return 0
}
