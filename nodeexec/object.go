package nodeexec

import (
	"fmt"
	"slices"
	"strconv"

	"astraeus.io/astraeus/schema"
)

// object names what at most one operation at a time may change. It is
// also how failures are kept, so that its form is part of a file's format.
type object string

func dirObject(uid string, source int) object { return object(fmt.Sprintf("dir/%s/%d", uid, source)) }

func copyObject(uid string) object { return object("copy/" + uid) }

func exportObject(uid string, source int, client string) object {
	return object(fmt.Sprintf("export/%s/%d/%s", uid, source, client))
}

func mountObject(uid string, source int) object {
	return object(fmt.Sprintf("mount/%s/%d", uid, source))
}

// evictLock is held by the one eviction that goes on.
const evictLock = object("evict")

func workerObject(id string) object { return object("worker/" + id) }

// objectOf is what a step changes.
func objectOf(s schema.Step) object {
	switch s.Action {
	case schema.ActionCreateDir:
		return dirObject(s.Args.UID, s.Args.Source)
	case schema.ActionCreateCopy, schema.ActionFillCopy, schema.ActionEvictCopy, schema.ActionDeleteCopy:
		return copyObject(s.Args.UID)
	case schema.ActionExport, schema.ActionUnexport:
		if s.Args.To == "" {
			return exportObject(s.Args.UID, s.Args.Source, s.Args.Client)
		}
		return exportObject(s.Args.UID, s.Args.Source, s.Args.To)
	case schema.ActionMount, schema.ActionUnmount:
		return mountObject(s.Args.UID, s.Args.Source)
	case schema.ActionStartWorker, schema.ActionStopWorker:
		return workerObject(workerIDOf(s))
	}
	return object("unknown/" + string(s.Action) + "/" + s.ID)
}

// WorkerID names a worker for its engine and its log: what makes it the same worker.
func WorkerID(runUID string, generation int64, attempt int, name string) string {
	return "w-" + schema.HashBytes([]byte(runUID+"\x00"+strconv.FormatInt(generation, 10)+"\x00"+
		strconv.Itoa(attempt)+"\x00"+name))
}

func workerIDOf(s schema.Step) string {
	return WorkerID(s.Args.UID, s.Args.Generation, s.Args.Attempt, s.Args.Worker)
}

func targetID(w *schema.WorkerTarget) string {
	return WorkerID(w.RunUID, w.Generation, w.Attempt, w.Name)
}

// fillID names the fill of one generation of a copy.
func fillID(uid string, generation int64) string {
	return "f-" + schema.HashBytes([]byte(uid+"\x00"+strconv.FormatInt(generation, 10)))
}

// lock is a claim on an object: several sharers, or one that is alone.
type lock struct {
	object object
	shared bool
}

// locksOf are the objects a step changes and those that must stay as they are
// meanwhile: a worker is not started from a copy that is being deleted.
func locksOf(s schema.Step, t *schema.Assignment) []lock {
	locks := []lock{{object: objectOf(s)}}
	if s.Action == schema.ActionEvictCopy {
		return append(locks, lock{object: evictLock}) // one copy at a time
	}
	if s.Action != schema.ActionStartWorker {
		return locks
	}
	// An older attempt of the same worker may be starting: no listing shows it yet.
	locks = append(locks, lock{object: object("start/" + s.Args.UID + "/" + s.Args.Worker)})
	w := findWorker(t, workerIDOf(s))
	if w == nil {
		return locks
	}
	for _, m := range w.Mounts {
		switch m.From {
		case schema.BindCopy:
			locks = append(locks, lock{copyObject(m.UID), true})
		case schema.BindClaim:
			locks = append(locks, lock{mountObject(m.UID, m.Source), true})
		}
	}
	return locks
}

func findWorker(t *schema.Assignment, id string) *schema.WorkerTarget {
	for i := range t.Workers {
		if targetID(&t.Workers[i]) == id {
			return &t.Workers[i]
		}
	}
	return nil
}

func findDir(t *schema.Assignment, uid string, source int) *schema.DirTarget {
	for i := range t.Dirs {
		if t.Dirs[i].UID == uid && t.Dirs[i].Source == source {
			return &t.Dirs[i]
		}
	}
	return nil
}

func findCopy(t *schema.Assignment, uid string) *schema.CopyTarget {
	for i := range t.Copies {
		if t.Copies[i].UID == uid {
			return &t.Copies[i]
		}
	}
	return nil
}

func findMount(t *schema.Assignment, uid string, source int) *schema.MountTarget {
	for i := range t.Mounts {
		if t.Mounts[i].UID == uid && t.Mounts[i].Source == source {
			return &t.Mounts[i]
		}
	}
	return nil
}

// findExport finds the claim's target by client machine, or by the client's
// address where a step does not name the machine.
func findExport(t *schema.Assignment, s schema.StepArgs) *schema.ExportTarget {
	for i := range t.Exports {
		e := &t.Exports[i]
		if e.UID != s.UID || e.Source != s.Source {
			continue
		}
		if s.To == e.Client || s.To == "" && slices.Contains(e.Addresses, s.Client) {
			return e
		}
	}
	return nil
}

// targetItems are the parts of a target by the object they are about.
func targetItems(t *schema.Assignment) map[object]any {
	items := map[object]any{}
	if t == nil {
		return items
	}
	for _, d := range t.Dirs {
		items[dirObject(d.UID, d.Source)] = d
	}
	for _, c := range t.Copies {
		items[copyObject(c.UID)] = c
	}
	for _, e := range t.Exports {
		items[exportObject(e.UID, e.Source, e.Client)] = e
	}
	for _, m := range t.Mounts {
		items[mountObject(m.UID, m.Source)] = m
	}
	for i := range t.Workers {
		items[workerObject(targetID(&t.Workers[i]))] = t.Workers[i]
	}
	return items
}
