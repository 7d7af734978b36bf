package planner

import (
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/access"
)

// volumeUsers are the runs that use a volume: those that the volume's owner may
// see by name, the others counted (V-8, V-10).
type volumeUsers struct {
	names  []string
	hidden int
}

func (u volumeUsers) any() bool { return len(u.names)+u.hidden > 0 }

func (u volumeUsers) sentence(a *schema.AcceptedObject) string {
	return volumeInUse(a.Object.Key.Name, u.names, u.hidden)
}

// volumeUsers finds the runs in whose way a change of a volume would be (V-8): in
// force and not ended, placed with the volume, or seen with it on a machine.
func (p *pass) volumeUsers(a *schema.AcceptedObject) volumeUsers {
	id, key := volumeID(a), a.Object.Key
	users := map[schema.Key]bool{}
	for _, run := range p.keysIn(schema.KindRun) {
		o := p.objects[run]
		if run.Namespace == key.Namespace && mountsVolume(o.Object.Spec.(*schema.RunSpec), id, key.Name) &&
			p.gate.wants(ownerOf(o.Object), p) && !p.usesNoMore(run, o) {
			users[run] = true
		}
	}
	for run, pl := range p.in.Placed {
		if run.Namespace == key.Namespace && pl.Outcome == "" && mountsVolume(pl.Spec, id, key.Name) && !p.placedGone(&pl) {
			users[run] = true
		}
	}
	for _, run := range p.seenWithVolume()[id] {
		if run.Namespace == key.Namespace {
			users[run] = true
		}
	}
	return p.showUsers(a.Object, users)
}

// mountsVolume reports whether a spec mounts a volume. By name only where no id was
// written down when it was accepted.
func mountsVolume(spec *schema.RunSpec, id, name string) bool {
	return slices.ContainsFunc(spec.Groups(), func(g schema.WorkerGroup) bool {
		return slices.ContainsFunc(g.TaskTemplate.Volumes, func(m schema.VolumeMount) bool {
			return m.VolumeID == id || m.VolumeID == "" && m.Name == name
		})
	})
}

// usesNoMore reports whether a run in force has ended for good: itself, and with
// it its replica group. A group serves (it has an endpoint, N-2), so that a failed
// one may be recovered from its old template (V-8).
func (p *pass) usesNoMore(key schema.Key, a *schema.AcceptedObject) bool {
	if !p.hasEnded(key, a) {
		return false
	}
	owner := a.Object.ManagedBy
	group := specOf[schema.ReplicaGroupSpec](p, owner)
	if owner.Kind != schema.KindReplicaGroup || group == nil {
		return true // the run alone decides
	}
	failed := false
	for i := range group.Replicas {
		member := memberKey(owner, i)
		if a := p.objects[member]; a == nil || !p.hasEnded(member, a) {
			return false
		}
		failed = failed || p.in.Placed[member].Outcome == schema.RunFailed
	}
	return !failed
}

// hasEnded reports whether what is in force of a run has ended.
func (p *pass) hasEnded(key schema.Key, a *schema.AcceptedObject) bool {
	pl, placed := p.in.Placed[key]
	return placed && pl.Outcome != "" && pl.RunUID == a.UID &&
		(pl.Generation == a.Generation || sameWorkers(pl.Spec, a.Object.Spec.(*schema.RunSpec)))
}

// seenWithVolume are the runs of live workers that machines report with a volume,
// by its id: also of those whose placement is newer, or lost.
func (p *pass) seenWithVolume() map[string][]schema.Key {
	if p.volumesSeen != nil {
		return p.volumesSeen
	}
	p.volumesSeen = map[string][]schema.Key{}
	for _, r := range p.reports {
		for i := range r.Workers {
			w := &r.Workers[i]
			run, err := schema.ParseKey("run/" + w.Run)
			if w.State.Ended() || err != nil {
				continue
			}
			for _, use := range w.Uses {
				if strings.HasPrefix(use.UID, "vol-") {
					p.volumesSeen[use.UID] = append(p.volumesSeen[use.UID], run)
				}
			}
		}
	}
	return p.volumesSeen
}

// showUsers names the runs that a volume's owner may see. Nobody's volume is seen
// by those alone who see everything of the workspace.
func (p *pass) showUsers(volume *schema.Object, users map[schema.Key]bool) (shown volumeUsers) {
	all := volume.Metadata.Owner == "" || !p.rules().MembersInUse(volume.Org, volume.Workspace)
	actor := access.Actor{User: volume.Metadata.Owner}
	for _, run := range sortedKeys(users) {
		a := p.objects[run]
		if all || a != nil && p.rules().MaySee(actor, a.Object) {
			shown.names = append(shown.names, "run/"+run.Name)
		} else {
			shown.hidden++
		}
	}
	return shown
}

// wants reports whether an object is still declared, expanded, or kept.
func (g *gate) wants(key schema.Key, p *pass) bool {
	return g.want(key) != nil || p.declaredInvalid(key) || g.held[key] != nil || p.in.Desired == nil
}

// placedGone reports whether none of the placed workers can run any more.
func (p *pass) placedGone(pl *schema.Placement) bool {
	r := run{placed: pl}
	return p.allGone(&r)
}
