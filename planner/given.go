package planner

import (
	"slices"

	"astraeus.io/astraeus/schema"
)

// Until a machine works by what it was last assigned, and says so in a report of
// that time, anything it was told before may still come about: its use is what it
// reports and everything assigned since.

// settled reports whether nothing of an older assignment is on its way.
func (m *machine) settled() bool {
	return m.given == nil || m.seen != nil && m.seen.report.Epoch == m.given.Epoch && m.seen.report.Applied >= m.given.Revision
}

// mayStart reports whether a worker that is not listed may yet appear.
func (m *machine) mayStart(id workerID) bool {
	if m.given == nil {
		return false
	}
	return !m.settled() || slices.ContainsFunc(m.given.Workers, func(w schema.WorkerTarget) bool { return idOfTarget(&w) == id })
}

// mayStartOlder reports whether a worker of another generation or attempt than
// the placement's may yet appear.
func (m *machine) mayStartOlder(pl *schema.Placement) bool {
	if m.given == nil {
		return false
	}
	return !m.settled() || slices.ContainsFunc(m.given.Workers, func(w schema.WorkerTarget) bool {
		return w.Run == pl.Run && (w.RunUID != pl.RunUID || w.Generation != pl.Generation || w.Attempt != pl.Attempt) &&
			(m.seen == nil || !hasKey(m.seen.workers, idOfTarget(&w)))
	})
}

// mayMount reports whether a mount that is not listed may yet appear.
func (m *machine) mayMount(uid string, source int) bool {
	if m.given == nil {
		return false
	}
	return !m.settled() || slices.ContainsFunc(m.given.Mounts, func(t schema.MountTarget) bool { return t.UID == uid && t.Source == source })
}

// mayExport reports whether an export to a client that is not listed may yet appear.
func (m *machine) mayExport(uid string, source int, client string) bool {
	if m.given == nil {
		return false
	}
	return !m.settled() || slices.ContainsFunc(m.given.Exports, func(t schema.ExportTarget) bool {
		return t.UID == uid && t.Source == source && t.Client == client
	})
}

// givenLocations are the data locations, but for the present one, in which a copy
// may be being made that no report shows yet.
func (m *machine) givenLocations(present string) (list []string) {
	if m.given == nil {
		return nil
	}
	for _, l := range m.given.DataLocations {
		making := func(c schema.CopyTarget) bool {
			return (c.Location == l.Path || c.Location == "") && !m.seen.hasCopy(c.UID)
		}
		if l.Path != present && (!m.settled() || slices.ContainsFunc(m.given.Copies, making)) {
			list = append(list, l.Path)
		}
	}
	return list
}

// mayCopy reports whether a copy that is not listed may yet appear.
func (m *machine) mayCopy(uid string) bool {
	if m.given == nil {
		return false
	}
	return !m.settled() || slices.ContainsFunc(m.given.Copies, func(t schema.CopyTarget) bool { return t.UID == uid })
}
