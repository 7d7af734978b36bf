package nodeexec

import (
	"slices"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// situation is everything that a step is judged by: a value, so that judging
// is pure and can be tested as a table.
type situation struct {
	machine string
	target  *schema.Assignment
	online  bool
	seen    *view
	uses    map[string]useRecord
	// list gives a workspace's complete drive list, nil when it is not here (D-61).
	list func(namespace string) *schema.DriveList
	// place is the filesystem an object is expected on, "" for any.
	place func(object) string
	// begun are the filesystems on which eviction goes on, failed the steps that
	// could not be carried out: what Evict is asked with beside the view.
	begun  map[string]bool
	failed map[failKey]bool
	now    time.Time
	// judged is what Evict chose, once it was asked.
	judged   []planner.Eviction
	isJudged bool
}

// triState is an answer that may be unknown.
type triState int

const (
	unknown triState = iota
	no
	yes
)

func known(b bool) triState {
	if b {
		return yes
	}
	return no
}

// needsLink reports whether the action starts something new or deletes data,
// which a machine does only in touch with the controller. It evicts
// without.
func needsLink(a schema.Action) bool {
	switch a {
	case schema.ActionStartWorker, schema.ActionCreateDir, schema.ActionCreateCopy, schema.ActionFillCopy,
		schema.ActionDeleteCopy:
		return true
	}
	return false
}

// done looks at the machine for a step's effect: the table of X-8.
func (s *situation) done(step schema.Step) triState {
	switch step.Action {
	case schema.ActionCreateDir:
		return s.dirThere(step)
	case schema.ActionCreateCopy, schema.ActionFillCopy:
		return s.copyThere(step)
	case schema.ActionExport:
		return s.exported(step)
	case schema.ActionMount:
		return s.mounted(step)
	case schema.ActionStartWorker, schema.ActionStopWorker:
		return s.workerDone(step)
	case schema.ActionUnmount:
		if s.seen.mounts == nil {
			return unknown
		}
		return known(!slices.ContainsFunc(s.seen.mountsOf(step.Args.UID, step.Args.Source), func(m schema.Mount) bool {
			return m.State != schema.MountDetached
		}))
	case schema.ActionUnexport:
		if s.seen.exports == nil {
			return unknown
		}
		return known(len(s.seen.exportsOf(step.Args)) == 0)
	case schema.ActionEvictCopy, schema.ActionDeleteCopy:
		return s.copyGone(step)
	}
	return no
}

func (s *situation) dirThere(step schema.Step) triState {
	o := dirObject(step.Args.UID, step.Args.Source)
	state, ok := s.seen.paths[o]
	switch {
	case !ok && findDir(s.target, step.Args.UID, step.Args.Source) == nil:
		return no // refused below: it is not in the target
	case !ok:
		return unknown
	case !state.Exists:
		return no
	}
	want := s.place(placeOf(state.UID, state.Source, state.Path))
	return known(want == "" || state.FSID == "" || want == state.FSID)
}

func (s *situation) copyThere(step schema.Step) triState {
	if !s.seen.copiesKnown {
		return unknown
	}
	c := s.seen.findCopy(step.Args.UID)
	if c == nil {
		if !s.seen.copies.Complete || s.copyHidden(step.Args.UID) {
			return unknown
		}
		return no
	}
	if step.Action == schema.ActionCreateCopy {
		return yes
	}
	t := findCopy(s.target, step.Args.UID)
	return known(t != nil && c.FilledGeneration == t.FillGeneration)
}

// copyHidden reports whether the copy may be in a data location that is not mounted.
func (s *situation) copyHidden(uid string) bool {
	return slices.ContainsFunc(s.seen.copies.Copies, func(c schema.Copy) bool {
		return c.UID == uid && c.State == schema.CopyUnknown
	})
}

func (s *situation) copyGone(step schema.Step) triState {
	if !s.seen.copiesKnown || !s.seen.copies.Complete || s.copyHidden(step.Args.UID) {
		return unknown
	}
	// Of a copy whose removal a crash cut short, the record alone is left. It
	// would keep a later drive of that name from having a copy.
	return known(!slices.ContainsFunc(s.seen.copies.Copies, func(c schema.Copy) bool {
		return c.UID == step.Args.UID && c.State != schema.CopyTrash
	}))
}

func (s *situation) exported(step schema.Step) triState {
	if s.seen.exports == nil {
		return unknown
	}
	t := findExport(s.target, step.Args)
	if t == nil {
		return no
	}
	return known(s.exportAsWanted(t))
}

func (s *situation) exportAsWanted(t *schema.ExportTarget) bool {
	return slices.ContainsFunc(s.seen.exports, func(e schema.Export) bool {
		return e.UID == t.UID && e.Source == t.Source && (e.To == "" || e.To == t.Client) && e.Path == t.Path &&
			e.Mode == t.Mode && sameSet(exportClients(e), t.Addresses)
	})
}

func exportClients(e schema.Export) []string {
	if len(e.Clients) > 0 {
		return e.Clients
	}
	return []string{e.Client}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

func (s *situation) mounted(step schema.Step) triState {
	if s.seen.mounts == nil {
		return unknown
	}
	t := findMount(s.target, step.Args.UID, step.Args.Source)
	return known(t != nil && s.mountAsWanted(t))
}

func (s *situation) mountAsWanted(t *schema.MountTarget) bool {
	return slices.ContainsFunc(s.seen.mountsOf(t.UID, t.Source), func(m schema.Mount) bool {
		return m.State == schema.MountBound && m.From == t.From && m.Mode == t.Mode &&
			(m.Server == "" || slices.Contains(t.Addresses, m.Server)) &&
			(m.Transport == schema.TransportLab || slices.Contains(t.Transports, m.Transport))
	})
}

func (s *situation) workerDone(step schema.Step) triState {
	w := s.seen.findWorker(workerIDOf(step))
	if step.Action == schema.ActionStartWorker {
		switch {
		case w != nil:
			return yes
		case !s.seen.engineKnown:
			return unknown
		}
		return no
	}
	switch {
	case w != nil:
		return known(w.state == runtime.Exited)
	case !s.seen.engineKnown:
		return unknown
	}
	return yes
}
