package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"net/netip"
)

// ZoneVersionFormat is the format version of ZoneUpdate's JSON.
const ZoneVersionFormat = 1

// NameKind says what a DNS name stands for (N-1).
type NameKind string

const (
	NameWorker   NameKind = "worker"
	NameRun      NameKind = "run"
	NameEndpoint NameKind = "endpoint"
)

// ZoneName is one name of a namespace with its addresses, of which there is at
// least one: a name without an address is not in the zone (N-4). Name is one
// label in lower case; the addresses are IPv4, sorted, each once.
type ZoneName struct {
	Name      string       `json:"name"`
	Kind      NameKind     `json:"kind"`
	Addresses []netip.Addr `json:"addresses"`
}

// ZoneVersion orders the states of one org's zone: by the store's epoch,
// then by the term of the leader that built it, then by a serial that each change
// raises. The zero version is no zone.
type ZoneVersion struct {
	Epoch  int64 `json:"epoch"`
	Term   int64 `json:"term"`
	Serial int64 `json:"serial"`
}

// Less reports whether v is older than o.
func (v ZoneVersion) Less(o ZoneVersion) bool {
	if v.Epoch != o.Epoch {
		return v.Epoch < o.Epoch
	}
	if v.Term != o.Term {
		return v.Term < o.Term
	}
	return v.Serial < o.Serial
}

// ZoneHave is the zone that a machine holds. It is sent when a stream opens, and
// zero to ask for the whole zone (N-3).
type ZoneHave struct {
	ZoneVersion
	// Org is whose zone it is: the versions of two orgs' zones may be equal, and a
	// machine that changes hands must not keep the other's names (N-6).
	Org string `json:"org,omitempty"`
	// Shards are the content hashes of its namespaces, so that a machine that
	// was away is sent only what differs. Left out where the version alone says it.
	Shards map[string]string `json:"shards,omitempty"`
}

// ZoneUpdate brings a machine's zone of its org from one version to the next
// (N-3, N-6). With a zero From it is complete: what it does not list is gone.
type ZoneUpdate struct {
	Format int         `json:"format"`
	Org    string      `json:"org"`
	Domain string      `json:"domain"` // "astraeus.local"
	From   ZoneVersion `json:"from,omitzero"`
	To     ZoneVersion `json:"to"`
	Shards []ZoneShard `json:"shards,omitempty"`

	encoded []byte
}

// ZoneShard is what an update says of one namespace. Hash is of its content
// afterwards, "" when the namespace has no name any more. With Whole, Set is that
// content; else Set and Gone change what the machine has, and with neither the
// machine keeps what it has by that hash.
type ZoneShard struct {
	Namespace string     `json:"namespace"`
	Hash      string     `json:"hash,omitempty"`
	Whole     bool       `json:"whole,omitempty"`
	Set       []ZoneName `json:"set,omitempty"`
	Gone      []string   `json:"gone,omitempty"`
}

// Encode makes the update's JSON once, however many machines it is sent to.
// The update must not be changed afterwards.
func (u *ZoneUpdate) Encode() error {
	type plain ZoneUpdate
	data, err := json.Marshal((*plain)(u))
	if err != nil {
		return err
	}
	u.encoded = data
	return nil
}

// JSON is the update's JSON, made once where Encode made it. It is not to be changed.
func (u *ZoneUpdate) JSON() ([]byte, error) {
	if u.encoded != nil {
		return u.encoded, nil
	}
	return json.Marshal(u)
}

// MarshalJSON implements json.Marshaler.
func (u *ZoneUpdate) MarshalJSON() ([]byte, error) {
	if u.encoded != nil {
		return u.encoded, nil
	}
	type plain ZoneUpdate
	return json.Marshal((*plain)(u))
}

// ZoneHash is the hash of a set of names: the sum of a hash of each, so that a
// change of one name among 100,000 costs that of one. It tells differing content
// apart; it does not withstand somebody who makes names to collide.
type ZoneHash [2]uint64

// Add puts a name into the set.
func (h *ZoneHash) Add(n ZoneName) { h.apply(n, bits.Add64) }

// Remove takes a name out of the set.
func (h *ZoneHash) Remove(n ZoneName) { h.apply(n, bits.Sub64) }

func (h *ZoneHash) apply(n ZoneName, op func(x, y, carry uint64) (uint64, uint64)) {
	var buf [128]byte
	b := append(buf[:0], n.Name...)
	b = append(append(b, 0), n.Kind...)
	b = append(b, 0)
	for _, a := range n.Addresses {
		b = append(b, a.AsSlice()...)
	}
	sum := sha256.Sum256(b)
	var carry uint64
	h[1], carry = op(h[1], binary.BigEndian.Uint64(sum[8:]), 0)
	h[0], _ = op(h[0], binary.BigEndian.Uint64(sum[:]), carry)
}

// String is 32 hex digits.
func (h ZoneHash) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], h[0])
	binary.BigEndian.PutUint64(b[8:], h[1])
	return hex.EncodeToString(b[:])
}
