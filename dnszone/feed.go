package dnszone

import (
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// BatchEvery is how long changes that follow a change are gathered.
const BatchEvery = 250 * time.Millisecond

// feedHistory is how many changes back a machine may be and still get a delta.
const feedHistory = 64

// Feed holds one org's zone at the leading controller and says what to send to a
// machine. A new leader makes new feeds, with a larger term, and offers nothing to
// them before the grace of X-24: unknown is not NXDOMAIN. Not for concurrent use.
type Feed struct {
	zone     *Zone
	pending  *Zone
	version  schema.ZoneVersion
	sentAt   time.Time
	deltas   []*schema.ZoneUpdate // oldest first, each from the version before it
	joined   map[schema.ZoneVersion]*schema.ZoneUpdate
	complete *schema.ZoneUpdate
}

// NewFeed starts without a zone. epoch is the store's; term grows with each
// leader of an epoch (the revision of its election does).
func NewFeed(epoch, term int64) *Feed {
	return &Feed{version: schema.ZoneVersion{Epoch: epoch, Term: term}}
}

// Offer is the zone as it is now. It is published by Publish.
func (f *Feed) Offer(zone *Zone) { f.pending = zone }

// Publish makes the offered zone the current one when it differs and the time has
// come: at once after a quiet time, else BatchEvery after the last change.
// It reports whether there is something new to send. wait is not zero when a
// change stands back: call Publish again after it.
func (f *Feed) Publish(now time.Time) (changed bool, wait time.Duration) {
	if f.pending == nil {
		return false, 0
	}
	shards := difference(f.zone, f.pending)
	if f.zone != nil && len(shards) == 0 && f.zone.Domain == f.pending.Domain {
		f.pending = nil
		return false, 0
	}
	if since := now.Sub(f.sentAt); since >= 0 && since < BatchEvery {
		return false, BatchEvery - since
	}
	from := f.version
	f.version.Serial++
	if f.zone == nil || f.zone.Domain != f.pending.Domain {
		f.deltas = nil // nothing that a machine has leads here
	} else {
		f.deltas = append(f.deltas, f.update(f.pending, from, shards))
		if len(f.deltas) > feedHistory {
			f.deltas = slices.Delete(f.deltas, 0, len(f.deltas)-feedHistory)
		}
	}
	f.zone, f.pending, f.sentAt = f.pending, nil, now
	f.joined, f.complete = map[schema.ZoneVersion]*schema.ZoneUpdate{}, nil
	return true, 0
}

// Zone is what was last published, nil before that.
func (f *Feed) Zone() *Zone { return f.zone }

// Version is of what was last published.
func (f *Feed) Version() schema.ZoneVersion { return f.version }

// For is what to send to a machine that holds have: nil when it holds the current
// zone or none was published, a delta where the history reaches back to it, what
// differs when it named its shards, else everything. Updates for equal versions are
// one value and encoded once; do not change them.
func (f *Feed) For(have schema.ZoneHave) *schema.ZoneUpdate {
	if f.zone != nil && have.Org != f.zone.Org {
		have = schema.ZoneHave{} // of another org, or nothing
	}
	switch {
	case f.zone == nil || have.ZoneVersion == f.version:
		return nil
	case len(f.deltas) > 0 && !have.Less(f.deltas[0].From) && have.Less(f.version):
		if u := f.since(have.ZoneVersion); u != nil {
			return u
		}
	}
	if len(have.Shards) > 0 {
		return f.all(have.Shards)
	}
	if f.complete == nil {
		f.complete = encoded(f.all(nil))
	}
	return f.complete
}

// since joins the deltas after a version; nil when the history does not know it.
func (f *Feed) since(from schema.ZoneVersion) *schema.ZoneUpdate {
	if u := f.joined[from]; u != nil {
		return u
	}
	at := slices.IndexFunc(f.deltas, func(u *schema.ZoneUpdate) bool { return u.From == from })
	if at < 0 {
		return nil
	}
	u := f.deltas[len(f.deltas)-1]
	if at < len(f.deltas)-1 {
		u = f.update(f.zone, from, joinShards(f.deltas[at:]))
	}
	f.joined[from] = encoded(u)
	return u
}

func (f *Feed) update(zone *Zone, from schema.ZoneVersion, shards []schema.ZoneShard) *schema.ZoneUpdate {
	return &schema.ZoneUpdate{Format: schema.ZoneVersionFormat, Org: zone.Org, Domain: zone.Domain, From: from, To: f.version, Shards: shards}
}

// all is the complete zone; shards that the machine has by their hash are named alone.
func (f *Feed) all(has map[string]string) *schema.ZoneUpdate {
	shards := make([]schema.ZoneShard, 0, len(f.zone.Shards))
	for _, shard := range f.zone.Shards {
		s := schema.ZoneShard{Namespace: shard.Namespace, Hash: shard.Hash.String()}
		if has[shard.Namespace] != s.Hash {
			s.Whole, s.Set = true, shard.Names
		}
		shards = append(shards, s)
	}
	slices.SortFunc(shards, compareShards)
	return f.update(f.zone, schema.ZoneVersion{}, shards)
}

// encoded makes the JSON that all machines are sent. Names and addresses always
// have one: an error would be a fault of the types.
func encoded(u *schema.ZoneUpdate) *schema.ZoneUpdate {
	if err := u.Encode(); err != nil {
		panic(err)
	}
	return u
}

// difference is what leads from one zone to another, namespace by namespace.
func difference(from, to *Zone) []schema.ZoneShard {
	var out []schema.ZoneShard
	var had map[string]*Shard
	if from != nil {
		had = from.Shards
	}
	for ns, shard := range to.Shards {
		switch old := had[ns]; {
		case old == nil:
			out = append(out, schema.ZoneShard{Namespace: ns, Hash: shard.Hash.String(), Whole: true, Set: shard.Names})
		case old != shard && old.Hash != shard.Hash:
			set, gone := changedNames(old.Names, shard.Names)
			out = append(out, schema.ZoneShard{Namespace: ns, Hash: shard.Hash.String(), Set: set, Gone: gone})
		}
	}
	for ns := range had {
		if to.Shards[ns] == nil {
			out = append(out, schema.ZoneShard{Namespace: ns})
		}
	}
	slices.SortFunc(out, compareShards)
	return out
}

func compareShards(a, b schema.ZoneShard) int { return strings.Compare(a.Namespace, b.Namespace) }

func changedNames(from, to []schema.ZoneName) (set []schema.ZoneName, gone []string) {
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case j == len(to) || i < len(from) && from[i].Name < to[j].Name:
			gone = append(gone, from[i].Name)
			i++
		case i == len(from) || to[j].Name < from[i].Name:
			set = append(set, to[j])
			j++
		default:
			if !sameName(&from[i], &to[j]) {
				set = append(set, to[j])
			}
			i, j = i+1, j+1
		}
	}
	return set, gone
}

func sameName(a, b *schema.ZoneName) bool {
	return a.Name == b.Name && a.Kind == b.Kind && slices.Equal(a.Addresses, b.Addresses)
}

// joinShards makes one change of several that follow each other.
func joinShards(updates []*schema.ZoneUpdate) []schema.ZoneShard {
	type joined struct {
		shard schema.ZoneShard
		set   map[string]schema.ZoneName
		gone  map[string]bool
	}
	all := map[string]*joined{}
	for _, u := range updates {
		for i := range u.Shards {
			s := &u.Shards[i]
			j := all[s.Namespace]
			if j == nil || s.Whole || s.Hash == "" {
				j = &joined{shard: schema.ZoneShard{Namespace: s.Namespace, Whole: s.Whole}, set: map[string]schema.ZoneName{}, gone: map[string]bool{}}
				all[s.Namespace] = j
			}
			j.shard.Hash = s.Hash
			for _, n := range s.Set {
				j.set[n.Name] = n
				delete(j.gone, n.Name)
			}
			for _, name := range s.Gone {
				delete(j.set, name)
				j.gone[name] = true
			}
		}
	}
	out := make([]schema.ZoneShard, 0, len(all))
	for _, j := range all {
		for _, n := range j.set {
			j.shard.Set = append(j.shard.Set, n)
		}
		slices.SortFunc(j.shard.Set, compareNames)
		if !j.shard.Whole {
			for name := range j.gone {
				j.shard.Gone = append(j.shard.Gone, name)
			}
			slices.Sort(j.shard.Gone)
		}
		out = append(out, j.shard)
	}
	slices.SortFunc(out, compareShards)
	return out
}
