package nodeexec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// refuse says why a step contradicts the target or what the machine shows
// or "". It is asked when a step is due and again right before it acts.
func (s *situation) refuse(step schema.Step) string {
	if step.Machine != "" && step.Machine != s.machine {
		return fmt.Sprintf("the step is for %s", step.Machine)
	}
	if problem := namesProblem(step); problem != "" {
		return problem
	}
	switch step.Action {
	case schema.ActionCreateDir:
		if findDir(s.target, step.Args.UID, step.Args.Source) == nil {
			return "the directory is not in this machine's target"
		}
	case schema.ActionCreateCopy:
		return s.refuseCopy(step, false)
	case schema.ActionFillCopy:
		return s.refuseCopy(step, true)
	case schema.ActionExport:
		return s.refuseExport(step)
	case schema.ActionMount:
		t := findMount(s.target, step.Args.UID, step.Args.Source)
		if t == nil || t.Drive != step.Object {
			return "the mount is not in this machine's target"
		}
	case schema.ActionStartWorker:
		return s.refuseStart(step)
	case schema.ActionStopWorker:
		if findWorker(s.target, workerIDOf(step)) != nil {
			return "the worker is in this machine's target"
		}
	case schema.ActionUnmount:
		return s.refuseUnmount(step)
	case schema.ActionUnexport:
		if step.Args.To == "" && step.Args.Client == "" {
			return "the step names no client"
		}
		if t := findExport(s.target, step.Args); t != nil && s.exportAsWanted(t) {
			return "the export is in this machine's target"
		}
	case schema.ActionDeleteCopy:
		return s.refuseRemoval(step)
	case schema.ActionEvictCopy:
		return s.refuseEviction(step)
	}
	return ""
}

// namesProblem keeps names that become parts of paths from leading elsewhere
// (csi-driver-host-path#644).
func namesProblem(step schema.Step) string {
	for _, name := range []string{step.Args.UID, step.Args.To, step.Args.Worker, step.Object.Namespace, step.Object.Name} {
		if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Sprintf("%q is not a name", name)
		}
	}
	return ""
}

func (s *situation) refuseCopy(step schema.Step, fill bool) string {
	t := findCopy(s.target, step.Args.UID)
	switch {
	case t == nil || t.Drive != step.Object:
		return "the copy is not in this machine's target"
	case fill && t.FillGeneration == 0:
		return "no fill of the copy is wanted"
	case !slices.ContainsFunc(s.target.DataLocations, func(d schema.DataLocation) bool { return d.Path == t.Location }):
		return fmt.Sprintf("%s is not a data location of this machine", t.Location)
	}
	return ""
}

// refuseExport lets nothing be exported to anyone but the claim's client (D-80).
func (s *situation) refuseExport(step schema.Step) string {
	t := findExport(s.target, step.Args)
	switch {
	case t == nil || t.Drive != step.Object:
		return fmt.Sprintf("%s is not the client of a claim of this drive here", clientOf(step.Args))
	case len(t.Addresses) == 0:
		return fmt.Sprintf("%s has no address to export to", t.Client)
	case step.Args.Client != "" && !slices.Contains(t.Addresses, step.Args.Client):
		return fmt.Sprintf("%s is not an address of %s", step.Args.Client, t.Client)
	case step.Args.Path != "" && step.Args.Path != t.Path:
		return fmt.Sprintf("the claim's path is %s, not %s", t.Path, step.Args.Path)
	}
	return ""
}

func clientOf(args schema.StepArgs) string {
	if args.To != "" {
		return args.To
	}
	return args.Client
}

func (s *situation) refuseStart(step schema.Step) string {
	t := findWorker(s.target, workerIDOf(step))
	if t == nil {
		return "the worker is not in this machine's target"
	}
	for _, w := range s.seen.workers {
		l := w.label.Worker
		if w.live() && l.RunUID == t.RunUID && l.Name == t.Name && w.id != targetID(t) {
			return fmt.Sprintf("generation %d attempt %d of this worker has not ended", l.Generation, l.Attempt)
		}
	}
	return ""
}

func (s *situation) refuseUnmount(step schema.Step) string {
	if t := findMount(s.target, step.Args.UID, step.Args.Source); t != nil && s.mountAsWanted(t) {
		return "the mount is in this machine's target"
	}
	if n := len(s.users(step.Args.UID, step.Args.Source, schema.BindClaim)); n > 0 {
		return fmt.Sprintf("%s is used by %d live worker(s) here", step.Object.Name, n)
	}
	return ""
}

// refuseRemoval guards the only steps that remove data (D-9, D-60, D-61, X-18).
func (s *situation) refuseRemoval(step schema.Step) string {
	uid := step.Args.UID
	if findCopy(s.target, uid) != nil {
		return "the copy is in this machine's target"
	}
	if n := len(s.users(uid, -1, schema.BindCopy)); n > 0 {
		return fmt.Sprintf("drive %s is used by %d live worker(s)", step.Object.Name, n)
	}
	list := s.list(step.Object.Namespace)
	if list == nil {
		return fmt.Sprintf("the complete list of the drives of %s is not here", step.Object.Namespace)
	}
	i := slices.IndexFunc(list.Drives, func(d schema.ListedDrive) bool { return d.UID == uid })
	declared := i >= 0 && !list.Drives[i].Removed
	switch {
	case list.Namespace != step.Object.Namespace:
		return fmt.Sprintf("the list of the drives of %s is another workspace's", step.Object.Namespace)
	case step.Action == schema.ActionDeleteCopy && declared:
		return "the drive is in the complete list of its workspace"
	case step.Action == schema.ActionEvictCopy && declared && !list.Drives[i].Evictable:
		return "the drive is not evictable"
	}
	c := s.seen.findCopy(uid)
	if c != nil && c.Drive != step.Object.Scoped() {
		return fmt.Sprintf("the copy with this uid is of %s", c.Drive)
	}
	return ""
}

// users are the ids of what uses a drive here and has not ended: listed by the
// engine, about to be started, or assigned. source -1 is any.
func (s *situation) users(uid string, source int, from schema.BindFrom) []string {
	ids := map[string]bool{}
	match := func(u schema.Use) bool { return u.UID == uid && (source < 0 || u.Source == source) }
	for id, r := range s.uses {
		if slices.ContainsFunc(r.Uses, match) {
			ids[id] = true
		}
	}
	for i := range s.target.Workers {
		w := &s.target.Workers[i]
		for _, m := range w.Mounts {
			if m.From == from && m.UID == uid && (source < 0 || m.Source == source) {
				ids[targetID(w)] = true
			}
		}
	}
	for _, list := range [][]localWorker{s.seen.workers, s.seen.fills} {
		for _, w := range list {
			switch {
			case !w.live():
				delete(ids, w.id)
			case slices.ContainsFunc(w.label.Worker.Uses, match) || w.label.Fill != nil && w.label.Fill.UID == uid:
				ids[w.id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// waits says what a step that is not refused still waits for, or "". Nothing
// is taken apart while the listings that would forbid it are incomplete.
func (s *situation) waits(step schema.Step) string {
	switch step.Action {
	case schema.ActionEvictCopy, schema.ActionDeleteCopy:
		if !s.seen.engineKnown || s.seen.mounts == nil || !s.seen.copiesKnown || !s.seen.copies.Complete {
			return "for a complete listing of workers, mounts and copies"
		}
	case schema.ActionUnmount:
		if !s.seen.engineKnown || s.seen.mounts == nil {
			return "for a complete listing of workers and mounts"
		}
	case schema.ActionStartWorker:
		return s.startWaits(step)
	case schema.ActionFillCopy:
		t := findCopy(s.target, step.Args.UID)
		if f := s.seen.findFill(fillID(t.UID, t.FillGeneration)); f != nil && f.live() {
			return "for the fill to end"
		}
		if !s.seen.engineKnown {
			return "for a complete listing of workers"
		}
	}
	return ""
}

// startWaits keeps a worker from a copy that is not filled yet (D-42).
func (s *situation) startWaits(step schema.Step) string {
	w := findWorker(s.target, workerIDOf(step))
	for _, m := range w.Mounts {
		t := findCopy(s.target, m.UID)
		if m.From != schema.BindCopy || t == nil || t.FillGeneration == 0 {
			continue
		}
		if c := s.seen.findCopy(m.UID); c == nil || c.FilledGeneration != t.FillGeneration {
			return schema.Reason{Code: schema.ReasonFilling, Machine: s.machine,
				Args: schema.ReasonArgs{Drive: t.Drive.Name}}.Message()
		}
	}
	return ""
}
