package dnszone

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// ErrGap says that an update does not follow from the zone that the machine holds:
// it asks for the whole zone, and answers from what it has meanwhile (N-3).
var ErrGap = errors.New("the zone update does not follow from the zone that is here; the whole zone is needed")

// ErrOld says that an update is of an older epoch, term or serial. It is
// dropped.
var ErrOld = errors.New("the zone update is older than the zone that is here")

// change is what an update does to one name: e.a4 nil removes it.
type change struct {
	entry
	label, ns string
}

// Apply is the table after an update. t may be nil, before the first; it is not
// changed, and what did not change is shared with the result. Only a complete
// update may lead to another org or domain. An update whose content does not have
// the hashes that it names is refused with ErrGap.
func (t *Table) Apply(u *schema.ZoneUpdate) (*Table, error) {
	switch complete := u.From == (schema.ZoneVersion{}); {
	case u.Format != schema.ZoneVersionFormat:
		return nil, fmt.Errorf("a zone update of format %d; this program reads format %d", u.Format, schema.ZoneVersionFormat)
	case t != nil && u.To.Less(t.version):
		return nil, fmt.Errorf("%w: %v after %v", ErrOld, u.To, t.version)
	case complete:
		return t.replace(u)
	case t == nil || t.version != u.From || t.org != u.Org || t.domain != u.Domain:
		return nil, ErrGap
	}
	return t.patch(u)
}

// replace builds the table of a complete update; shards that are named alone are
// taken over from t.
func (t *Table) replace(u *schema.ZoneUpdate) (*Table, error) {
	suffix, err := wireDomain(u.Domain)
	if err != nil {
		return nil, err
	}
	next := &Table{org: u.Org, domain: u.Domain, version: u.To, suffix: suffix, spaces: make(map[string]space, len(u.Shards))}
	total, keep := 0, map[string]bool{}
	for i := range u.Shards {
		total += len(u.Shards[i].Set) + 1
	}
	entries := make([]entry, 0, total)
	for i := range u.Shards {
		s := &u.Shards[i]
		if _, twice := next.spaces[s.Namespace]; twice {
			return nil, fmt.Errorf("zone update: namespace %q twice", s.Namespace)
		}
		if !s.Whole {
			if t == nil || t.spaces[s.Namespace].hash.String() != s.Hash {
				return nil, ErrGap
			}
			keep[s.Namespace], next.spaces[s.Namespace] = true, t.spaces[s.Namespace]
			continue
		}
		if entries, err = next.addShard(entries, s); err != nil {
			return nil, err
		}
	}
	if len(keep) > 0 {
		t.each(func(e []byte) {
			if key := entryKey(e); keep[keySpace(key)] {
				entries = append(entries, entry{hash: keyHash(key), kind: entryKind(e), key: key, a4: entryAddrs(e)})
			}
		})
	}
	next.build(entries)
	return next, nil
}

// addShard appends the entries of a whole shard, its own included.
func (t *Table) addShard(entries []entry, s *schema.ZoneShard) ([]entry, error) {
	if s.Namespace != strings.ToLower(s.Namespace) || schema.DNSNameProblem(s.Namespace) != "" {
		return nil, fmt.Errorf("zone update: %q is no namespace", s.Namespace)
	}
	var hash schema.ZoneHash
	size := 0
	for i := range s.Set {
		size += len(s.Set[i].Name) + len(s.Namespace) + 2 + 4*len(s.Set[i].Addresses)
	}
	last, buf := "", make([]byte, 0, size)
	for i := range s.Set {
		n := &s.Set[i]
		if n.Name <= last {
			return nil, fmt.Errorf("zone update: the names of %s are not sorted at %q", s.Namespace, n.Name)
		}
		last = n.Name
		e, grown, err := newEntry(buf, n, s.Namespace)
		if err != nil {
			return nil, err
		}
		buf = grown
		entries = append(entries, e)
		hash.Add(*n)
	}
	if hash.String() != s.Hash {
		return nil, fmt.Errorf("%w: the names of %s do not have their hash", ErrGap, s.Namespace)
	}
	if len(s.Set) == 0 {
		return entries, nil
	}
	t.spaces[s.Namespace] = space{names: len(s.Set), hash: hash}
	return append(entries, spaceEntry(s.Namespace)), nil
}

// newEntry makes a name's entry with its key and addresses at the end of buf.
func newEntry(buf []byte, n *schema.ZoneName, ns string) (e entry, grown []byte, err error) {
	kind := kindByte[n.Kind]
	switch {
	case schema.DNSNameProblem(n.Name) != "" || n.Name != strings.ToLower(n.Name):
		return entry{}, nil, fmt.Errorf("zone update: %q of %s cannot be a name", n.Name, ns)
	case kind == 0:
		return entry{}, nil, fmt.Errorf("zone update: %s of %s is of the unknown kind %q", n.Name, ns, n.Kind)
	case len(n.Addresses) == 0 || len(n.Addresses) > maxAddresses:
		return entry{}, nil, fmt.Errorf("zone update: %s of %s has %d addresses", n.Name, ns, len(n.Addresses))
	}
	at := len(buf)
	buf = append(append(buf, byte(len(n.Name))), n.Name...)
	buf = append(append(buf, byte(len(ns))), ns...)
	key := buf[at:len(buf):len(buf)]
	at = len(buf)
	for _, a := range n.Addresses {
		if !a.Is4() {
			return entry{}, nil, fmt.Errorf("zone update: %s of %s has the address %s, which is not IPv4", n.Name, ns, a)
		}
		a4 := a.As4()
		buf = append(buf, a4[:]...)
	}
	return entry{hash: keyHash(key), kind: kind, key: key, a4: buf[at:len(buf):len(buf)]}, buf, nil
}

func spaceEntry(ns string) entry {
	key := append([]byte{byte(len(ns))}, ns...)
	return entry{hash: keyHash(key), kind: kindSpace, key: key}
}

// keySpace is the namespace of a key.
func keySpace(key []byte) string {
	if n := int(key[0]); n+1 < len(key) {
		return string(key[n+2:])
	}
	return string(key[1:])
}

// build lays out all parts anew, with as many of them as the names need.
func (t *Table) build(entries []entry) {
	t.names = 0
	for _, s := range t.spaces {
		t.names += s.names
	}
	t.soa = soaRecord(t.version)
	var n int
	t.shift, n = partsFor(t.names)
	t.parts, t.backward = make([]part, n), make([][]uint64, n)
	sorted, ends := byPart(entries, n, func(e *entry) uint32 { return t.partOf(e.hash) })
	var pairs []uint64
	for i := range t.parts {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		t.parts[i] = buildPart(sorted[start:ends[i]], t.shift)
	}
	for i := range entries {
		pairs = appendPairs(pairs, &entries[i])
	}
	sortedPairs, ends := byPart(pairs, n, func(p *uint64) uint32 { return t.pieceOf(uint32(*p >> 32)) })
	for i := range t.backward {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		t.backward[i] = slices.Clip(slices.Clone(sortedPairs[start:ends[i]]))
		slices.Sort(t.backward[i])
	}
}

// appendPairs adds the backward pairs of a worker's name.
func appendPairs(pairs []uint64, e *entry) []uint64 {
	if e.kind != kindWorker {
		return pairs
	}
	for a4 := e.a4; len(a4) > 0; a4 = a4[4:] {
		pairs = append(pairs, uint64(binary.BigEndian.Uint32(a4))<<32|uint64(e.hash))
	}
	return pairs
}

// byPart is list ordered by part (a counting sort), and where each part ends.
func byPart[T any](list []T, parts int, of func(*T) uint32) (sorted []T, ends []int) {
	ends = make([]int, parts)
	for i := range list {
		ends[of(&list[i])]++
	}
	sum := 0
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	sorted = make([]T, len(list))
	for i := range list {
		p := of(&list[i])
		sorted[ends[p]] = list[i]
		ends[p]++
	}
	return sorted, ends
}

// patch applies a delta: only the parts of changed names are made anew.
func (t *Table) patch(u *schema.ZoneUpdate) (*Table, error) {
	next := *t
	next.version, next.spaces = u.To, maps.Clone(t.spaces)
	next.soa = soaRecord(u.To)
	var changes []change
	var err error
	for i := range u.Shards {
		if changes, err = next.patchShard(t, changes, &u.Shards[i]); err != nil {
			return nil, err
		}
	}
	next.names = 0
	for _, s := range next.spaces {
		next.names += s.names
	}
	if next.names > len(t.parts)*maxAPart {
		return next.rebuild(t, changes), nil
	}
	next.replaceParts(t, changes)
	return &next, nil
}

// patchShard appends what an update does to one namespace, and checks the hash
// that it leads to.
func (t *Table) patchShard(old *Table, changes []change, s *schema.ZoneShard) ([]change, error) {
	was, now := old.spaces[s.Namespace], old.spaces[s.Namespace]
	drop := func(label string) {
		key, ok := wireKey(label, s.Namespace)
		if !ok {
			return
		}
		if e := old.find(key); e != nil {
			_, rec := decode(e)
			now.hash.Remove(rec)
			now.names--
			changes = append(changes, change{entry: entry{hash: keyHash(key), key: key}, label: label, ns: s.Namespace})
		}
	}
	if s.Whole || s.Hash == "" {
		for _, label := range old.labels(s.Namespace) {
			drop(label)
		}
	}
	for _, label := range s.Gone {
		drop(label)
	}
	for i := range s.Set {
		n := &s.Set[i]
		if !s.Whole {
			drop(n.Name)
		}
		e, _, err := newEntry(nil, n, s.Namespace)
		if err != nil {
			return nil, err
		}
		now.hash.Add(*n)
		now.names++
		changes = append(changes, change{entry: e, label: n.Name, ns: s.Namespace})
	}
	if s.Hash == "" && now.names != 0 || s.Hash != "" && now.hash.String() != s.Hash {
		return nil, fmt.Errorf("%w: the names of %s do not have their hash", ErrGap, s.Namespace)
	}
	switch e := spaceEntry(s.Namespace); {
	case now.names == 0:
		delete(t.spaces, s.Namespace)
		changes = append(changes, change{entry: entry{hash: e.hash, key: e.key}, ns: s.Namespace})
	default:
		t.spaces[s.Namespace] = now
		if was.names == 0 {
			e.a4 = []byte{}
			changes = append(changes, change{entry: e, ns: s.Namespace})
		}
	}
	return changes, nil
}

// labels are a namespace's names. It looks at the whole table: a namespace goes, or
// is given whole in a delta, seldom.
func (t *Table) labels(ns string) []string {
	if t.spaces[ns].names == 0 {
		return nil
	}
	var out []string
	t.each(func(e []byte) {
		if key := entryKey(e); entryKind(e) != kindSpace && keySpace(key) == ns {
			out = append(out, string(key[1:1+key[0]]))
		}
	})
	return out
}

// replaceParts makes the parts anew that changes touch. Of several changes of one
// key the last counts.
func (t *Table) replaceParts(old *Table, changes []change) {
	t.parts, t.backward = slices.Clone(old.parts), slices.Clone(old.backward)
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(t.partOf(a.hash), t.partOf(b.hash)) })
	var gone, came []uint64
	for start := 0; start < len(changes); {
		p := t.partOf(changes[start].hash)
		end := start
		last := map[string]*change{}
		for ; end < len(changes) && t.partOf(changes[end].hash) == p; end++ {
			last[string(changes[end].key)] = &changes[end]
		}
		entries := make([]entry, 0, len(last)+namesAPart)
		old.parts[p].each(func(e []byte) {
			key := entryKey(e)
			was := entry{hash: keyHash(key), kind: entryKind(e), key: key, a4: entryAddrs(e)}
			if last[string(key)] == nil {
				entries = append(entries, was)
				return
			}
			gone = appendPairs(gone, &was)
		})
		for _, c := range last {
			if c.a4 != nil {
				entries = append(entries, c.entry)
				came = appendPairs(came, &c.entry)
			}
		}
		t.parts[p] = buildPart(entries, t.shift)
		start = end
	}
	t.replaceBackward(gone, came)
}

func (t *Table) replaceBackward(gone, came []uint64) {
	type diff struct{ gone, came []uint64 }
	touched := map[uint32]*diff{}
	at := func(pair uint64) *diff {
		p := t.pieceOf(uint32(pair >> 32))
		if touched[p] == nil {
			touched[p] = &diff{}
		}
		return touched[p]
	}
	for _, pair := range gone {
		d := at(pair)
		d.gone = append(d.gone, pair)
	}
	for _, pair := range came {
		d := at(pair)
		d.came = append(d.came, pair)
	}
	for p, d := range touched {
		list := slices.Clone(t.backward[p])
		for _, pair := range d.gone {
			if i, found := slices.BinarySearch(list, pair); found {
				list = slices.Delete(list, i, i+1)
			}
		}
		list = append(list, d.came...)
		slices.Sort(list)
		t.backward[p] = slices.Clip(list)
	}
}

// rebuild lays the whole table out anew, because its parts have grown.
func (t *Table) rebuild(old *Table, changes []change) *Table {
	last := make(map[string]*change, len(changes))
	for i := range changes {
		last[string(changes[i].key)] = &changes[i]
	}
	entries := make([]entry, 0, t.names+len(t.spaces))
	old.each(func(e []byte) {
		if key := entryKey(e); last[string(key)] == nil {
			entries = append(entries, entry{hash: keyHash(key), kind: entryKind(e), key: key, a4: entryAddrs(e)})
		}
	})
	for _, c := range last {
		if c.a4 != nil {
			entries = append(entries, c.entry)
		}
	}
	t.build(entries)
	return t
}

// Compile is the table of a zone, as a machine has it that was sent the zone whole.
func Compile(zone *Zone, version schema.ZoneVersion) (*Table, error) {
	f := Feed{zone: zone, version: version}
	var none *Table
	return none.Apply(f.all(nil))
}
