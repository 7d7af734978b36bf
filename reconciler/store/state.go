package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"astraeus.io/astraeus/schema"
)

// State is everything but events and blobs, at one revision. A State that was
// handed out is never changed: Apply and Update make a new one that shares what
// stayed the same, so its maps and values are for reading only.
type State struct {
	Revision int64
	Meta     Meta
	// Accepted holds the objects in force. An object of which nothing is in force
	// and a candidate was refused is there with UID "".
	Accepted schema.Accepted
	Placed   map[schema.Key]schema.Placement
	Assigned map[string]Assigned
	// Observed holds what was last written of each machine's report; State is not set.
	Observed map[string]*schema.MachineReport
	Alive    Alive
	// Approved is the newest approval; its commit is "" before the first.
	Approved schema.Approval
}

// Alive is the leader's summary of machines, by name.
type Alive struct {
	Up      []string             `json:"up,omitempty"`
	Unknown []string             `json:"unknown,omitempty"`
	Down    map[string]time.Time `json:"down,omitempty"` // last heard; zero for never
}

// Assigned is what was last given to a machine, by reference.
type Assigned struct {
	Epoch  int64  `json:"epoch"`
	Commit string `json:"commit,omitempty"`
	// Hash is of the assignment without epoch, revision and commit.
	Hash   string   `json:"hash"`
	Blobs  []string `json:"blobs,omitempty"`
	Copies []string `json:"copies,omitempty"` // drive uids
	Mounts []string `json:"mounts,omitempty"` // drive uid/source
	// Exports are drive uid/source/client machine.
	Exports []string `json:"exports,omitempty"`
	// Locations are the data locations that the machine lists.
	Locations []string `json:"locations,omitempty"`
	Workers   []string `json:"workers,omitempty"` // run/uid/generation/attempt/name
	// Revision is the store's when this was written: what orders assignments.
	Revision int64 `json:"-"`
}

func newState() *State {
	return &State{
		Accepted: schema.Accepted{Objects: map[schema.Key]*schema.AcceptedObject{}, Tombstones: map[string]*schema.Tombstone{}},
		Placed:   map[schema.Key]schema.Placement{},
		Assigned: map[string]Assigned{},
		Observed: map[string]*schema.MachineReport{},
	}
}

// clone copies the maps that hold decisions, not the values in them.
func (s *State) clone() *State {
	out := *s
	out.Accepted.Objects = maps.Clone(s.Accepted.Objects)
	out.Accepted.Tombstones = maps.Clone(s.Accepted.Tombstones)
	out.Placed = maps.Clone(s.Placed)
	return &out
}

// Apply is the state after decisions were written.
func (s *State) Apply(d schema.Decisions) *State {
	out := s.clone()
	objects := out.Accepted.Objects
	for _, a := range d.Accept {
		object := a.Object
		objects[object.Object.Key] = &object
	}
	for _, r := range d.Refuse {
		refuse(objects, r)
	}
	for _, r := range d.Remove {
		delete(objects, r.Key)
	}
	for _, p := range d.Place {
		out.Placed[p.Run] = p
	}
	for _, run := range d.Unplace {
		delete(out.Placed, run)
	}
	for _, t := range d.Bury {
		out.Accepted.Tombstones[t.UID] = &t
	}
	for _, uid := range d.Exhume {
		delete(out.Accepted.Tombstones, uid)
	}
	if d.Head != "" {
		out.Accepted.Head = d.Head
	}
	if d.NotWhole != nil {
		out.Accepted.NotWhole = d.NotWhole
	}
	if d.Approve != nil {
		out.Approved = *d.Approve
	}
	return out
}

func refuse(objects map[schema.Key]*schema.AcceptedObject, r schema.Refused) {
	var next schema.AcceptedObject
	if old := objects[r.Key]; old != nil {
		next = *old
	}
	next.Refused = r.Refusal
	if next.UID == "" && next.Refused == nil {
		delete(objects, r.Key)
		return
	}
	objects[r.Key] = &next
}

// Load reads a consistent state: all at one revision. Errors: ErrCorrupt and
// ErrNewerFormat name the key; others mean that the store was not reached.
func (s *Store) Load(ctx context.Context) (*State, error) {
	for {
		st, err := s.load(ctx)
		if errors.Is(err, rpctypes.ErrCompacted) {
			continue // the pages took longer than the store keeps old revisions
		}
		return st, err
	}
}

func (s *Store) load(ctx context.Context) (*State, error) {
	st := newState()
	for _, a := range []area{
		areaMeta, areaHead, areaAccepted, areaRefused, areaTombstone, areaPlaced, areaAssigned, areaObserved, areaAlive,
		areaApproved, areaNotWhole,
	} {
		rev, err := s.scan(ctx, s.keys.single(a), st.Revision, func(kv *mvccpb.KeyValue) error {
			return st.put(s.keys, kv)
		})
		if err != nil {
			return nil, err
		}
		st.Revision = rev
	}
	return st, nil
}

const pageSize = 2000

// scan calls f for each key that starts with prefix, in pages, at revision rev or
// the newest when rev is 0, and returns the revision.
func (s *Store) scan(ctx context.Context, prefix string, rev int64, f func(*mvccpb.KeyValue) error, opts ...clientv3.OpOption) (int64, error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		got, err := s.page(ctx, from, end, rev, opts)
		if err != nil {
			return 0, fmt.Errorf("store: read %s: %w", prefix, err)
		}
		if rev == 0 {
			rev = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			if err := f(kv); err != nil {
				return 0, err
			}
		}
		if !got.More || len(got.Kvs) == 0 {
			return rev, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

func (s *Store) page(ctx context.Context, from, end string, rev int64, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	opts = append([]clientv3.OpOption{
		clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(rev),
	}, opts...)
	return s.client.Get(ctx, from, opts...)
}

// put reads one key into a state that is being made.
func (st *State) put(keys keyspace, kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	a, rest := keys.split(key)
	switch a {
	case areaMeta:
		var meta Meta
		err := decode(key, kv.Value, &meta)
		st.setMeta(meta)
		return err
	case areaHead:
		return decode(key, kv.Value, &st.Accepted.Head)
	case areaAccepted:
		return st.putAccepted(key, rest, kv.Value)
	case areaRefused:
		return st.putRefusal(key, rest, kv.Value)
	case areaTombstone:
		var t schema.Tombstone
		st.Accepted.Tombstones[rest] = &t
		return decode(key, kv.Value, &t)
	case areaPlaced:
		var p schema.Placement
		if err := decode(key, kv.Value, &p); err != nil {
			return err
		}
		st.Placed[p.Run] = p
	case areaAssigned:
		given := Assigned{Revision: kv.ModRevision}
		err := decode(key, kv.Value, &given)
		st.Assigned[rest] = given
		return err
	case areaObserved:
		return st.putPart(key, rest, kv.Value)
	case areaAlive:
		st.Alive = Alive{}
		return decode(key, kv.Value, &st.Alive)
	case areaNotWhole:
		scopes := map[string]schema.Pos{}
		st.Accepted.NotWhole = scopes
		return decode(key, kv.Value, &scopes)
	case areaApproved:
		st.Approved = schema.Approval{}
		return decode(key, kv.Value, &st.Approved)
	}
	return nil
}

func (st *State) putAccepted(key, rest string, value []byte) error {
	name, err := schema.ParseKey(rest)
	if err != nil {
		return corrupt(key, err)
	}
	object, err := decodeAccepted(key, value)
	if err != nil {
		return err
	}
	if old := st.Accepted.Objects[name]; old != nil {
		object.Refused = old.Refused
	}
	st.Accepted.Objects[name] = object
	return nil
}

func (st *State) putRefusal(key, rest string, value []byte) error {
	name, err := schema.ParseKey(rest)
	if err != nil {
		return corrupt(key, err)
	}
	refusal, err := decodeRefusal(key, value)
	if err != nil {
		return err
	}
	refuse(st.Accepted.Objects, schema.Refused{Key: name, Refusal: refusal})
	return nil
}
