package store

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Given is what machines were last assigned as far as it is kept: the identities
// of what may be on its way there. A new leader, who has not assigned
// anything yet, goes on from it.
func (s *State) Given() map[string]*schema.Assignment {
	out := make(map[string]*schema.Assignment, len(s.Assigned))
	for name, given := range s.Assigned {
		a := &schema.Assignment{Machine: name, Epoch: given.Epoch, Revision: given.Revision}
		for _, path := range given.Locations {
			a.DataLocations = append(a.DataLocations, schema.DataLocation{Path: path})
		}
		for _, uid := range given.Copies {
			a.Copies = append(a.Copies, schema.CopyTarget{UID: uid})
		}
		for _, ref := range given.Mounts {
			uid, source, _ := strings.Cut(ref, "/")
			n, _ := strconv.Atoi(source)
			a.Mounts = append(a.Mounts, schema.MountTarget{UID: uid, Source: n})
		}
		for _, ref := range given.Exports {
			part := append(strings.SplitN(ref, "/", 3), "", "")
			n, _ := strconv.Atoi(part[1])
			a.Exports = append(a.Exports, schema.ExportTarget{UID: part[0], Source: n, Client: part[2]})
		}
		for _, ref := range given.Workers {
			a.Workers = append(a.Workers, workerOf(ref))
		}
		out[name] = a
	}
	return out
}

func workerRef(w *schema.WorkerTarget) string {
	return fmt.Sprintf("%s/%s/%d/%d/%s", w.Run.Scoped(), w.RunUID, w.Generation, w.Attempt, w.Name)
}

// workerOf is the inverse of workerRef.
func workerOf(ref string) (w schema.WorkerTarget) {
	part := append(strings.Split(ref, "/"), "", "", "", "", "")
	ns, name, _ := strings.Cut(part[0], ".")
	w.Run = schema.Key{Kind: schema.KindRun, Namespace: ns, Name: name}
	generation, err := strconv.ParseInt(part[2], 10, 64)
	attempt, err2 := strconv.Atoi(part[3])
	if cmp.Or(err, err2) != nil {
		return schema.WorkerTarget{Name: ref} // of an older program: a name alone
	}
	w.RunUID, w.Generation, w.Attempt, w.Name = part[1], generation, attempt, part[4]
	return w
}
