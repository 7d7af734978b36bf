package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/reconciler/link"
	"astraeus.io/astraeus/reconciler/store"
	"astraeus.io/astraeus/schema"
)

// A new epoch begins by adopting what machines report. Until that is done
// nothing is published: machines go on with their last assignment as they do away
// from the controller, which stops and deletes nothing.

// Adoption says how far a new epoch has come.
type Adoption struct {
	Epoch int64
	// Machines is how many are declared or in force, Reported how many of them have.
	Machines, Reported int
	// Waits say what is missing, in sentences, sorted.
	Waits []string
	// Orphans are workers that run and that nothing declares any more.
	Orphans []string
}

// missing are all sentences of what it waits for.
func (a Adoption) missing() []string {
	list := slices.Clone(a.Waits)
	for _, orphan := range a.Orphans {
		list = append(list, orphan+" runs and nothing declares it: it would be stopped")
	}
	return list
}

// Why is one line of what is missing.
func (a Adoption) Why() string {
	const most = 5
	list := a.missing()
	text := strings.Join(list[:min(most, len(list))], "; ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Sprintf("epoch %d waits before anything is stopped or deleted: %s", a.Epoch, text)
}

// ErrNoAdoption: no new epoch is beginning.
var ErrNoAdoption = errors.New("no new epoch is beginning: the controller was not started with --new-epoch, or the epoch has begun")

// Epoch says what a new epoch waits for, of how many machines. With begin it begins
// without that: by is who says so, and missing what is left behind. Errors:
// ErrNotLeading, ErrNoAdoption, that it cannot begin yet, or the context's.
func (r *Reconciler) Epoch(ctx context.Context, begin bool, by string) (epoch int64, machines int, missing []string, err error) {
	status := r.Status()
	switch {
	case !status.Leading:
		return 0, 0, nil, ErrNotLeading
	case status.Adopting == nil:
		return 0, 0, nil, ErrNoAdoption
	case !begin:
		a := status.Adopting
		return a.Epoch, a.Machines, a.missing(), nil
	}
	q := request{by: by, begin: true, done: make(chan answer, 1)}
	if !r.ask(q) {
		return 0, 0, nil, ErrNotLeading
	}
	select {
	case a := <-q.done:
		return a.adopted.Epoch, a.adopted.Machines, a.adopted.missing(), a.err
	case <-ctx.Done():
		return 0, 0, nil, ctx.Err()
	}
}

// adopt runs a pass of a store that is adopting.
func (l *leading) adopt(ctx context.Context, info *Pass) (next time.Duration, err error) {
	l.absorb()
	now := l.cfg.Now()
	due := l.judge(now)
	l.found, l.judged = l.fetcher.newest(l.state.Accepted.Head)
	asked := l.takeRequests()
	defer func() { l.answerAdopting(asked, err) }() // when it is known what came of it
	if err := l.identify(ctx, len(begins(asked)) > 0); err != nil {
		return 0, err
	}
	l.adopting = l.missing()
	defer l.sayAdopting()
	if l.found.desired == nil || l.state.Meta.ClusterUID == "" || len(l.adopting.Waits) > 0 && len(begins(asked)) == 0 {
		return l.nextDue(now, due), nil
	}
	in := l.input(now)
	adoption := planner.Adopt(in, l.testimonies())
	if l.adopting.Orphans = adoption.Orphans; len(adoption.Orphans) > 0 && len(begins(asked)) == 0 {
		return l.nextDue(now, due), nil
	}
	return 0, l.beginEpoch(ctx, adoption.Decisions, asked, now, info)
}

// sayAdopting logs what an adoption waits for when that changes.
func (l *leading) sayAdopting() {
	if text := l.adopting.Why(); l.state != nil && l.state.Meta.Adopting && text != l.said {
		l.said = text
		l.cfg.Log.Info(text, "reported", l.adopting.Reported, "machines", l.adopting.Machines)
	}
}

// beginEpoch writes what was adopted, and that the adoption is over. A crash
// between the two adopts again, which changes nothing.
func (l *leading) beginEpoch(ctx context.Context, d schema.Decisions, asked []request, now time.Time, info *Pass) error {
	text := fmt.Sprintf("epoch %d begins with what %d of %d machines report: %d objects and the places of %d runs were taken over",
		l.state.Meta.Epoch, l.adopting.Reported, l.adopting.Machines, len(d.Accept), len(d.Place))
	if list := begins(asked); len(list) > 0 {
		text += "; " + list[0].by + " said not to wait for the rest: " + l.adopting.Why()
	}
	for key := range l.clusterKeys() {
		d.Events = append(d.Events, schema.Event{At: now, Object: key, Type: "NewEpoch", Message: text})
		d.Records = append(d.Records, schema.Record{At: now, Object: key, Type: schema.RecordNewEpoch, Message: text})
	}
	state, err := l.decider.Commit(ctx, d)
	if err != nil {
		return err
	}
	l.state = state
	meta := state.Meta
	meta.Adopting, meta.Lost, meta.Doubt = false, false, nil
	if l.state, err = l.decider.SetMeta(ctx, meta); err != nil {
		return err
	}
	l.cfg.Log.Info(text)
	info.Decided = true
	l.given = l.state.Given()
	for name, t := range l.testimonies() {
		if t.Held != nil {
			l.given[name] = t.Held // what it was told by the store that was lost may be on its way
		}
	}
	l.names.anew()
	l.cfg.Link.Identify(meta.ClusterUID, meta.Epoch, false)
	return nil
}

// clusterKeys are those of the cluster as it is declared or in force.
func (l *leading) clusterKeys() map[schema.Key]bool {
	keys := map[schema.Key]bool{}
	for key, a := range l.state.Accepted.Objects {
		if key.Kind == schema.KindCluster && a.UID != "" {
			keys[key] = true
		}
	}
	if l.found.desired != nil && len(keys) == 0 {
		for key := range l.found.desired.Objects {
			if key.Kind == schema.KindCluster {
				keys[key] = true
			}
		}
	}
	return keys
}

// identify finds out whose the store is, when it does not know, and makes its epoch
// later than all that machines have seen.
func (l *leading) identify(ctx context.Context, begin bool) error {
	meta, claims := l.state.Meta, l.cfg.Link.Claims()
	declared := l.declaredMachines()
	if meta.ClusterUID == "" {
		silent := slices.ContainsFunc(slices.Collect(maps.Keys(declared)), func(name string) bool { return claims[name].At.IsZero() })
		pins := pinnedTo(claims, func(name string) bool { return declared[name] })
		if len(pins) == 0 && !silent { // of machines that were taken out of the repository meanwhile, too
			pins = pinnedTo(claims, func(string) bool { return true })
		}
		switch {
		case len(pins) == 1:
			meta.ClusterUID = pins[0]
		case len(pins) == 0 && (!silent && len(claims) > 0 || begin) && l.found.desired != nil:
			meta.ClusterUID = store.NewUID()
		}
	}
	for _, c := range claims {
		if c.ClusterUID == meta.ClusterUID && c.ClusterUID != "" && c.Epoch >= meta.Epoch {
			meta.Epoch = c.Epoch + 1
		}
	}
	if meta == l.state.Meta {
		return nil
	}
	state, err := l.decider.SetMeta(ctx, meta)
	if err != nil {
		return err
	}
	l.state = state
	l.cfg.Link.Identify(meta.ClusterUID, meta.Epoch, true)
	return nil
}

// pinnedTo are the clusters that machines belong to.
func pinnedTo(claims map[string]link.Claim, of func(name string) bool) (uids []string) {
	for name, c := range claims {
		if c.ClusterUID != "" && of(name) && !slices.Contains(uids, c.ClusterUID) {
			uids = append(uids, c.ClusterUID)
		}
	}
	return uids
}

// declaredMachines are those of the newest commit, and those in force.
func (l *leading) declaredMachines() map[string]bool {
	names := map[string]bool{}
	for key, a := range l.state.Accepted.Objects {
		if key.Kind == schema.KindMachine && a.UID != "" {
			names[key.Name] = true
		}
	}
	if d := l.found.desired; d != nil {
		for key := range d.Objects {
			if key.Kind == schema.KindMachine {
				names[key.Name] = true
			}
		}
	}
	return names
}

// missing says what the adoption waits for.
func (l *leading) missing() Adoption {
	names := l.declaredMachines()
	a := Adoption{Epoch: l.state.Meta.Epoch, Machines: len(names)}
	claims, held := l.cfg.Link.Claims(), l.cfg.Link.Held()
	if l.found.desired == nil {
		a.Waits = append(a.Waits, "no commit was loaded yet")
	}
	if text := differentClusters(names, claims); l.state.Meta.ClusterUID == "" && text != "" {
		a.Waits = append(a.Waits, text)
	}
	if l.state.Meta.ClusterUID == "" && len(claims) == 0 {
		a.Waits = append(a.Waits, "no machine has said yet which cluster this is")
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, told := held[name]
		if text := whyNotHeard(l.reports[name], l.fresh[name] && told, claims[name], l.state.Meta); text != "" {
			a.Waits = append(a.Waits, "machine "+name+" "+text)
		} else {
			a.Reported++
		}
	}
	return a
}

// whyNotHeard says what a machine has not told yet, "" for nothing.
func whyNotHeard(r *schema.MachineReport, fresh bool, c link.Claim, meta store.Meta) string {
	switch {
	case c.ClusterUID != "" && meta.ClusterUID != "" && c.ClusterUID != meta.ClusterUID:
		return "belongs to cluster " + c.ClusterUID
	case !fresh || r == nil:
		return "has not reported yet"
	case r.Workers == nil:
		return "cannot list its workers"
	case r.Mounts == nil || r.Exports == nil:
		return "cannot list its mounts and exports"
	case r.Copies == nil && c.ClusterUID != "":
		return "cannot list its copies"
	}
	return ""
}

func differentClusters(names map[string]bool, claims map[string]link.Claim) string {
	of := map[string][]string{}
	for name := range names {
		if uid := claims[name].ClusterUID; uid != "" {
			of[uid] = append(of[uid], name)
		}
	}
	if len(of) < 2 {
		return ""
	}
	var list []string
	for _, uid := range slices.Sorted(maps.Keys(of)) {
		slices.Sort(of[uid])
		list = append(list, fmt.Sprintf("%s to cluster %s", strings.Join(of[uid], ", "), uid))
	}
	return "machines belong to different clusters (" + strings.Join(list, "; ") +
		"): take those that are not this cluster's out of the repository, or remove their agents' state directories"
}

// testimonies are what machines have told in this term. What a machine was
// assigned counts where the store does not know it.
func (l *leading) testimonies() map[string]planner.Testimony {
	out := map[string]planner.Testimony{}
	for name, h := range l.cfg.Link.Held() {
		if !l.fresh[name] {
			continue
		}
		given, known := l.state.Assigned[name]
		t := planner.Testimony{Report: l.reports[name], Held: h.Assignment, Blobs: h.Blobs, Ended: h.Ended, Newer: l.state.Meta.Lost || !known}
		if h.Assignment != nil && known {
			c := link.Claim{Epoch: h.Assignment.Epoch, Revision: h.Assignment.Revision}
			t.Newer = t.Newer || c.Later(given.Epoch, given.Revision)
		}
		out[name] = t
	}
	return out
}

func begins(list []request) []request {
	return slices.DeleteFunc(slices.Clone(list), func(q request) bool { return !q.begin })
}

// answerAdopting answers what operators asked for.
func (l *leading) answerAdopting(list []request, err error) {
	for _, q := range list {
		a := answer{adopted: l.adopting, err: err}
		switch {
		case err != nil:
		case !q.begin:
			a.err = errors.New(l.adopting.Why())
		case l.state.Meta.Adopting:
			a.err = errors.New("it cannot begin yet: " + l.adopting.Why())
		}
		q.done <- a
	}
}

// witness looks at what machines that came say they have seen: a store that
// contradicts them was lost or restored, and must not go on.
func (l *leading) witness(ctx context.Context) error {
	if !l.moved {
		return nil
	}
	l.moved = false
	revision := l.state.Revision
	for _, a := range l.given {
		revision = max(revision, a.Revision)
	}
	var declared map[string]bool
	for name, c := range l.cfg.Link.Claims() {
		if c.ClusterUID == "" {
			continue
		}
		foreign := c.ClusterUID != l.state.Meta.ClusterUID
		if foreign && declared == nil {
			declared = l.declaredMachines()
		}
		switch {
		case foreign && (!declared[name] || !l.young()):
		case foreign:
			return l.doubt(ctx, name, c)
		case c.Later(l.state.Meta.Epoch, revision):
			// Another leader may have given it that: the store itself says.
			state, err := l.decider.Load(ctx)
			if err != nil {
				return err
			}
			l.names.anew()
			if l.state = state; c.Later(state.Meta.Epoch, state.Revision) {
				return l.doubt(ctx, name, c)
			}
		}
	}
	return nil
}

// young reports whether no machine works by an assignment of this store yet.
func (l *leading) young() bool {
	for _, r := range l.reports {
		if r.Epoch > 0 && r.Applied > 0 {
			return false
		}
	}
	return true
}

// doubt ends this controller's use of the store, durably.
func (l *leading) doubt(ctx context.Context, machine string, c link.Claim) error {
	meta := l.state.Meta
	meta.Doubt = &store.Doubt{Machine: machine, ClusterUID: c.ClusterUID, Epoch: c.Epoch, Revision: c.Revision}
	state, err := l.decider.SetMeta(ctx, meta)
	if err != nil {
		return err
	}
	l.state = state
	return meta.Doubted(state.Revision)
}
