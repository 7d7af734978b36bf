package planner

import (
	"fmt"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// What to do about a hold, said beside its message: the words are free, what they
// name must be right.

// onlyLocationWaits: D-31.
func onlyLocationWaits(machine string) string {
	return "only spec.data_location waits and is looked at again by itself; the rest of machine " + machine + " is in force"
}

// mostInHint bounds the names in a hint.
const mostInHint = 3

// usedByHint names workers that use a drive (D-60, X-29).
func usedByHint(workers []string) string {
	slices.Sort(workers)
	workers = slices.Compact(workers)
	text := strings.Join(workers[:min(len(workers), mostInHint)], ", ")
	if more := len(workers) - mostInHint; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "used by " + text + ": remove or change the runs first"
}

// usersHint names the workers that keep a drive from going.
func usersHint(users []*run, uid string) string {
	var names []string
	for _, r := range users {
		for i := range r.placed.Workers {
			if w := &r.placed.Workers[i]; r.uses(w, uid) {
				names = append(names, w.Name)
			}
		}
	}
	return usedByHint(names)
}

// beforeHint names the workers that used a drive before this pass.
func (p *pass) beforeHint(uid string) string {
	var names []string
	for _, u := range p.before[uid] {
		names = append(names, u.worker)
	}
	return usedByHint(names)
}

// budgetHint is the Deletion that lets a removal through which is over the budget
// at a place where it can stand, or what can be done instead.
func (p *pass) budgetHint(key schema.Key) string {
	o := p.objects[key].Object
	frame := p.goingFrame(p.objects[key])
	switch {
	case frame.Kind == schema.KindOrg:
		return fmt.Sprintf("a Deletion stands below a workspace of the org: remove the workspaces, machines and grants of orgs/%s/ first and org.cue last", o.Org)
	case frame.Kind == schema.KindWorkspace:
		if other := p.stayingWorkspace(o.Org); other != "" {
			return p.allowFile(o.Org, other, schema.KindWorkspace, p.budget.going[spareKey{o.Org, schema.KindWorkspace}])
		}
		return fmt.Sprintf("a Deletion stands below a workspace of the org, and no other is left: keep orgs/%s/workspaces/%s/workspace.cue until the rest of it is gone", o.Org, frame.Name)
	}
	where, leaving := o.Workspace, p.budget.kinds[budgetKey{key.Kind, o.Org, o.Workspace}].leaving
	if !key.Kind.InWorkspace() {
		where = p.stayingWorkspace(o.Org)
	}
	if where == "" {
		return "a Deletion stands below a workspace of the org, and it has none: remove fewer at a time"
	}
	return p.allowFile(o.Org, where, key.Kind, leaving)
}

// stayingWorkspace is the first workspace of an org that is in force and declared, or "".
func (p *pass) stayingWorkspace(org string) string {
	for _, key := range p.keysOf(schema.KindWorkspace) {
		if key.Namespace == org && p.declared(key) {
			return key.Name
		}
	}
	return ""
}

// allowFile is a Deletion as path and content, under a name that is free: an
// allowance works once.
func (p *pass) allowFile(org, workspace string, kind schema.Kind, count int) string {
	base := "allow-" + strings.ReplaceAll(kind.Word(), "_", "-") + "s"
	name := base
	for n := 2; p.hasDeletion(org, workspace, name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	owner := ""
	if by := p.allowOwner(org, workspace, kind); by != "" {
		owner = fmt.Sprintf(", owner: %q", by)
	}
	return fmt.Sprintf("add orgs/%s/workspaces/%s/deletions/%s.cue with: kind: \"Deletion\", metadata: {name: %q%s}, spec: {allow: {kind: %q, count: %d}}",
		org, workspace, name, name, owner, kind, count)
}

func (p *pass) hasDeletion(org, workspace, name string) bool {
	return slices.ContainsFunc(p.keysIn(schema.KindDeletion), func(key schema.Key) bool {
		o := p.objects[key].Object
		return o.Org == org && o.Workspace == workspace && key.Name == name
	})
}

// volumeHint is what to do about a volume that cannot go: often it was only to get
// another name (V-2).
func (p *pass) volumeHint(a *schema.AcceptedObject) string {
	key, spec := a.Object.Key, a.Object.Spec.(*schema.VolumeSpec)
	for _, o := range p.gate.kinds[schema.KindVolume] {
		if _, known := p.gate.lineage.from[o.Key]; known || o.Key.Namespace != key.Namespace || o.Metadata.ID != "" {
			continue
		}
		if samePlacement(spec, o.Spec.(*schema.VolumeSpec)) {
			return renameHint(volumeID(a))
		}
	}
	return volumeUseHint
}

// volumesHint names volumes that a run's owner may mount: of its own workspace
// alone (V-6).
func (p *pass) volumesHint(o *schema.Object) string {
	const most = 5
	var names []string
	for _, key := range sortedStrings(p.shelfOf(o.Key.Namespace).byName) {
		if v := p.shelfOf(o.Key.Namespace).byName[key]; p.mayUse(o, v) {
			names = append(names, fmt.Sprintf("%s (%s)", key, v.id))
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > most:
		names = append(names[:most], "…")
	}
	return "it may mount: " + strings.Join(names, ", ")
}
