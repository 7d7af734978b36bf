package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"astraeus.io/astraeus/schema"
)

// Changes is what was written at one revision, events included. Reload says that
// changes were missed and the state must be loaded again.
type Changes struct {
	Revision int64
	Reload   bool
	Events   []schema.Event
	// Histories and Commits say of which objects and commits the audit log was added to.
	Histories []schema.Key
	Commits   []string

	keys []change
}

type change struct {
	kv      *mvccpb.KeyValue
	removed bool
}

// Empty reports whether a State is the same after these changes.
func (c Changes) Empty() bool { return len(c.keys) == 0 && !c.Reload }

// Watch calls f with all changes after a revision, in order, until the context
// ends, whose error it returns. After a call with Reload, watching goes on from
// the newest revision. Errors: f's, ErrCorrupt of an event, or that the store was
// not reached.
func (s *Store) Watch(ctx context.Context, after int64, f func(Changes) error) error {
	for {
		err := s.watch(ctx, after, f)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		got, err := s.page(ctx, s.keys.single(areaMeta), "", 0, nil)
		if err != nil {
			return fmt.Errorf("store: watch: %w", err)
		}
		after = got.Header.Revision
		if err := f(Changes{Revision: after, Reload: true}); err != nil {
			return err
		}
	}
}

func (s *Store) watch(ctx context.Context, after int64, f func(Changes) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for got := range s.client.Watch(ctx, s.keys.root, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if err := got.Err(); err != nil {
			return fmt.Errorf("store: watch: %w", err)
		}
		if err := s.deliver(got.Events, f); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("store: watch: %w", ErrClosed)
}

// deliver calls f once a revision.
func (s *Store) deliver(events []*clientv3.Event, f func(Changes) error) error {
	var c Changes
	flush := func() error {
		if c.Revision == 0 || c.Empty() && len(c.Events)+len(c.Histories)+len(c.Commits) == 0 {
			return nil
		}
		return f(c)
	}
	for _, e := range events {
		if e.Kv.ModRevision != c.Revision {
			if err := flush(); err != nil {
				return err
			}
			c = Changes{Revision: e.Kv.ModRevision}
		}
		removed := e.Type == clientv3.EventTypeDelete
		switch a, rest := s.keys.split(string(e.Kv.Key)); {
		case a == areaHistory:
			if object, err := schema.ParseKey(rest[:max(0, strings.LastIndexByte(rest, '/'))]); err == nil && !slices.Contains(c.Histories, object) {
				c.Histories = append(c.Histories, object)
			}
		case a == areaCommits:
			c.Commits = append(c.Commits, rest)
		case a == areaEvents && !removed:
			var event schema.Event
			if err := decode(string(e.Kv.Key), e.Kv.Value, &event); err != nil {
				return err
			}
			c.Events = append(c.Events, event)
		case a.inState():
			c.keys = append(c.keys, change{e.Kv, removed})
		}
	}
	return flush()
}

// inState: its keys are part of a State.
func (a area) inState() bool {
	switch a {
	case areaEvents, areaBlobs, areaLeader, areaHistory, areaCommits, areaPlans:
		return false
	}
	return true
}

// Update is the state after changes; s itself is not changed. With Reload it
// loads. Errors are those of Load.
func (s *Store) Update(ctx context.Context, st *State, c Changes) (*State, error) {
	if c.Reload {
		return s.Load(ctx)
	}
	out := st.cloneFor(s.keys, c)
	for _, ch := range c.keys {
		if ch.removed {
			if err := out.remove(s.keys, string(ch.kv.Key)); err != nil {
				return nil, err
			}
			continue
		}
		if err := out.put(s.keys, ch.kv); err != nil {
			return nil, err
		}
	}
	out.Revision = max(out.Revision, c.Revision)
	return out, nil
}

// cloneFor copies the maps that changes touch: whoever compares two states finds
// the others to be the same maps.
func (st *State) cloneFor(keys keyspace, c Changes) *State {
	touched := map[area]bool{}
	for _, ch := range c.keys {
		a, _ := keys.split(string(ch.kv.Key))
		touched[a] = true
	}
	out := *st
	if touched[areaAccepted] || touched[areaRefused] {
		out.Accepted.Objects = maps.Clone(st.Accepted.Objects)
	}
	if touched[areaTombstone] {
		out.Accepted.Tombstones = maps.Clone(st.Accepted.Tombstones)
	}
	if touched[areaPlaced] {
		out.Placed = maps.Clone(st.Placed)
	}
	if touched[areaAssigned] {
		out.Assigned = maps.Clone(st.Assigned)
	}
	if touched[areaObserved] {
		out.Observed = maps.Clone(st.Observed)
	}
	return &out
}

// remove takes one key out of a state that is being made.
func (st *State) remove(keys keyspace, key string) error {
	a, rest := keys.split(key)
	switch a {
	case areaHead:
		st.Accepted.Head = ""
	case areaAccepted, areaRefused:
		name, err := schema.ParseKey(rest)
		if err != nil {
			return corrupt(key, err)
		}
		st.removeObject(a, name)
	case areaTombstone:
		delete(st.Accepted.Tombstones, rest)
	case areaPlaced:
		ns, name, _ := strings.Cut(rest, ".")
		delete(st.Placed, schema.Key{Kind: schema.KindRun, Namespace: ns, Name: name})
	case areaAssigned:
		delete(st.Assigned, rest)
	case areaObserved:
		st.removePart(rest)
	case areaAlive:
		st.Alive = Alive{}
	case areaNotWhole:
		st.Accepted.NotWhole = nil
	case areaApproved:
		st.Approved = schema.Approval{}
	}
	return nil
}

// removeObject takes out one half of an object: what is in force, or the refusal.
func (st *State) removeObject(a area, name schema.Key) {
	old := st.Accepted.Objects[name]
	switch {
	case old == nil:
	case a == areaRefused:
		refuse(st.Accepted.Objects, schema.Refused{Key: name})
	case old.Refused == nil:
		delete(st.Accepted.Objects, name)
	default:
		st.Accepted.Objects[name] = &schema.AcceptedObject{Refused: old.Refused}
	}
}

func (st *State) removePart(rest string) {
	machine, name, _ := strings.Cut(rest, "/")
	p, ok := partByName[name]
	old := st.Observed[machine]
	if !ok || old == nil {
		return
	}
	report := *old
	p.copy(&report, &schema.MachineReport{})
	st.Observed[machine] = &report
}
