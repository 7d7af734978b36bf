package dnszone

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Table is a zone compiled for answering: immutable, and read by any number of
// goroutines. Its names lie in a few hundred small arenas (parts) as lower-cased
// wire names without the domain, so that a change of one name copies one part, and
// the collector finds no pointer to follow in them.
//
// An entry is: length of the key, kind, number of addresses (2 bytes), the key
// ("\x07train-0\x0fws-3f9c2a7d41be"), 4 bytes an address. A namespace that has names
// is an entry too, without addresses: an empty non-terminal (coredns#1228).
type Table struct {
	org     string
	domain  string
	version schema.ZoneVersion
	suffix  []byte // the domain's lower-cased wire name, root included
	soa     []byte // the authority section of every negative answer

	shift  uint // of a name's hash, to the number of its part
	parts  []part
	spaces map[string]space
	names  int
	// backward finds the names of an address: address<<32 | hash of a worker's name,
	// sorted, in as many pieces as there are parts, by the address.
	backward [][]uint64
}

type part struct {
	slots []uint32 // offset+1 of an entry, 0 for none; linear probing
	arena []byte
}

// space is what is kept of a namespace: how many names it has, and their hash.
type space struct {
	names int
	hash  schema.ZoneHash
}

// entry is a name for building a part.
type entry struct {
	hash uint32
	kind byte
	key  []byte
	a4   []byte // addresses
}

const (
	kindSpace byte = iota
	kindWorker
	kindRun
	kindEndpoint
)

const (
	headerLen = 4
	// namesAPart is how many names a part has on average when it is built, and
	// maxAPart how many before the table is built anew with more parts.
	namesAPart, maxAPart = 64, 512
	maxAddresses         = 1<<16 - 1
)

var kindByte = map[schema.NameKind]byte{schema.NameWorker: kindWorker, schema.NameRun: kindRun, schema.NameEndpoint: kindEndpoint}
var kindName = [...]schema.NameKind{kindWorker: schema.NameWorker, kindRun: schema.NameRun, kindEndpoint: schema.NameEndpoint}

// seed is one a process, so that nobody can make names that share a slot.
var seed = maphash.MakeSeed()

func keyHash(key []byte) uint32 { return uint32(maphash.Bytes(seed, key) >> 32) }

// Version is of the update that the table came from.
func (t *Table) Version() schema.ZoneVersion { return t.version }

// Org is the org whose names these are (N-6).
func (t *Table) Org() string { return t.org }

// Domain is "astraeus.local".
func (t *Table) Domain() string { return t.domain }

// Len counts the names.
func (t *Table) Len() int { return t.names }

// Have says what the machine holds, for the controller.
func (t *Table) Have() schema.ZoneHave {
	if t == nil {
		return schema.ZoneHave{}
	}
	have := schema.ZoneHave{ZoneVersion: t.version, Org: t.org, Shards: make(map[string]string, len(t.spaces))}
	for ns, s := range t.spaces {
		have.Shards[ns] = s.hash.String()
	}
	return have
}

// Lookup is a name's record; name is "<name>.<namespace>.<domain>" without regard
// to case. ok is false for a name that is not in the zone.
func (t *Table) Lookup(name string) (rec schema.ZoneName, ok bool) {
	name, ok = strings.CutSuffix(strings.ToLower(strings.TrimSuffix(name, ".")), "."+t.domain)
	if !ok {
		return schema.ZoneName{}, false
	}
	label, ns, ok := strings.Cut(name, ".")
	if !ok {
		return schema.ZoneName{}, false
	}
	key, ok := wireKey(label, ns)
	if !ok {
		return schema.ZoneName{}, false
	}
	e := t.find(key)
	if e == nil || entryKind(e) == kindSpace {
		return schema.ZoneName{}, false
	}
	_, rec = decode(e)
	return rec, true
}

// HasNamespace reports whether the namespace has any name.
func (t *Table) HasNamespace(ns string) bool { return t.spaces[strings.ToLower(ns)].names > 0 }

// Complete is the table as a complete update, sorted.
func (t *Table) Complete() *schema.ZoneUpdate {
	byNS := make(map[string][]schema.ZoneName, len(t.spaces))
	t.each(func(e []byte) {
		if entryKind(e) != kindSpace {
			ns, rec := decode(e)
			byNS[ns] = append(byNS[ns], rec)
		}
	})
	u := &schema.ZoneUpdate{Format: schema.ZoneVersionFormat, Org: t.org, Domain: t.domain, To: t.version}
	for _, ns := range slices.Sorted(maps.Keys(byNS)) {
		slices.SortFunc(byNS[ns], compareNames)
		u.Shards = append(u.Shards, schema.ZoneShard{Namespace: ns, Hash: t.spaces[ns].hash.String(), Whole: true, Set: byNS[ns]})
	}
	return u
}

// find is the entry of a lower-cased wire key, nil for none. It allocates nothing.
func (t *Table) find(key []byte) []byte {
	h := keyHash(key)
	p := &t.parts[t.partOf(h)]
	n := uint32(len(p.slots))
	if n == 0 {
		return nil
	}
	for i := slotOf(h, t.shift, n); ; {
		at := p.slots[i]
		if at == 0 {
			return nil
		}
		e := p.arena[at-1:]
		if int(e[0]) == len(key) && string(e[headerLen:headerLen+len(key)]) == string(key) {
			return e
		}
		if i++; i == n {
			i = 0
		}
	}
}

func (t *Table) partOf(hash uint32) uint32 { return uint32(uint64(hash) >> t.shift) }

// slotOf is where a name's search begins: by the bits that did not choose the part.
func slotOf(hash uint32, shift uint, slots uint32) uint32 {
	return uint32(uint64(hash<<(32-shift)) * uint64(slots) >> 32)
}

// namesOf are the keys of the workers that have an address, for PTR.
func (t *Table) namesOf(address netip.Addr) [][]byte {
	var keys [][]byte
	a4 := address.As4()
	a := uint64(binary.BigEndian.Uint32(a4[:]))
	list := t.backward[t.pieceOf(uint32(a))]
	at, _ := slices.BinarySearch(list, a<<32)
	for last := uint64(0); at < len(list) && list[at]>>32 == a; at++ {
		if list[at] == last {
			continue
		}
		last = list[at]
		t.eachOfHash(uint32(last), func(e []byte) {
			if entryKind(e) == kindWorker && hasAddress(e, a4) {
				keys = append(keys, entryKey(e))
			}
		})
	}
	return keys
}

func (t *Table) pieceOf(address uint32) uint32 {
	return uint32(uint64(address*0x9E3779B1) >> t.shift) // neighbours go to different pieces
}

func (t *Table) eachOfHash(hash uint32, f func([]byte)) {
	p := &t.parts[t.partOf(hash)]
	n := uint32(len(p.slots))
	if n == 0 {
		return
	}
	for i := slotOf(hash, t.shift, n); p.slots[i] != 0; i = (i + 1) % n {
		if e := p.arena[p.slots[i]-1:]; keyHash(entryKey(e)) == hash {
			f(e)
		}
	}
}

func (t *Table) each(f func(e []byte)) {
	for i := range t.parts {
		t.parts[i].each(f)
	}
}

func (p *part) each(f func(e []byte)) {
	for at := 0; at < len(p.arena); at += entryLen(p.arena[at:]) {
		f(p.arena[at:])
	}
}

func entryKind(e []byte) byte    { return e[1] }
func entryCount(e []byte) int    { return int(binary.BigEndian.Uint16(e[2:])) }
func entryKey(e []byte) []byte   { return e[headerLen : headerLen+int(e[0])] }
func entryLen(e []byte) int      { return headerLen + int(e[0]) + 4*entryCount(e) }
func entryAddrs(e []byte) []byte { return e[headerLen+int(e[0]) : entryLen(e)] }

func hasAddress(e []byte, a [4]byte) bool {
	for list := entryAddrs(e); len(list) > 0; list = list[4:] {
		if [4]byte(list) == a {
			return true
		}
	}
	return false
}

// decode is an entry's namespace and record.
func decode(e []byte) (ns string, rec schema.ZoneName) {
	key := entryKey(e)
	n := int(key[0])
	rec.Name, rec.Kind, ns = string(key[1:1+n]), kindName[entryKind(e)], string(key[n+2:])
	rec.Addresses = make([]netip.Addr, 0, entryCount(e))
	for list := entryAddrs(e); len(list) > 0; list = list[4:] {
		rec.Addresses = append(rec.Addresses, netip.AddrFrom4([4]byte(list)))
	}
	return ns, rec
}

// wireKey is the key of a name in a namespace, or of a namespace alone (label "").
func wireKey(label, ns string) (key []byte, ok bool) {
	if ns == "" || len(ns) > schema.MaxLabel || len(label) > schema.MaxLabel {
		return nil, false
	}
	key = make([]byte, 0, len(label)+len(ns)+2)
	if label != "" {
		key = append(append(key, byte(len(label))), label...)
	}
	return append(append(key, byte(len(ns))), ns...), true
}

// buildPart lays entries out; later ones of an equal key would never be found, so
// that callers give each key once.
func buildPart(entries []entry, shift uint) part {
	if len(entries) == 0 {
		return part{}
	}
	size := 0
	for i := range entries {
		size += headerLen + len(entries[i].key) + len(entries[i].a4)
	}
	p := part{slots: make([]uint32, len(entries)*4/3+1), arena: make([]byte, 0, size)}
	n := uint32(len(p.slots))
	for i := range entries {
		e := &entries[i]
		slot := slotOf(e.hash, shift, n)
		for p.slots[slot] != 0 {
			slot = (slot + 1) % n
		}
		p.slots[slot] = uint32(len(p.arena)) + 1
		count := len(e.a4) / 4
		p.arena = append(p.arena, byte(len(e.key)), e.kind, byte(count>>8), byte(count))
		p.arena = append(append(p.arena, e.key...), e.a4...)
	}
	return p
}

// partsFor is the shift that makes enough parts for so many names.
func partsFor(names int) (shift uint, parts int) {
	n := bits.Len(uint(max(1, names) / namesAPart))
	return uint(32 - n), 1 << n
}
