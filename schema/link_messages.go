package schema

import (
	"encoding/json"
	"time"
)

// Up is what a machine sends over the link. Exactly one field is set.
type Up struct {
	Hello  *Hello       `json:"hello,omitempty"`
	Report *ReportParts `json:"report,omitempty"`
	Held   *Held        `json:"held,omitempty"`
	// Zone asks for what is newer than the zone that the machine holds, or with a
	// zero value for the whole zone (N-3).
	Zone *ZoneHave `json:"zone,omitempty"`
}

// Hello opens a stream. Blobs are the hashes the machine already has.
type Hello struct {
	Version     int      `json:"version"`
	Machine     string   `json:"machine"`
	ClusterUID  string   `json:"cluster_uid,omitempty"` // pinned, "" on first contact
	Incarnation string   `json:"incarnation"`
	Blobs       []string `json:"blobs,omitempty"`
	// Epoch and Revision are the newest assignment that the machine has seen: a store
	// that is behind them was restored.
	Epoch    int64 `json:"epoch,omitempty"`
	Revision int64 `json:"revision,omitempty"`
	// Parts are the hashes of the parts of the machine's newest report, by name.
	Parts map[string]string `json:"parts,omitempty"`
}

// ReportParts is what changed in a machine's report since the last one on the
// stream, or since what the leader said it has. Package schema/link makes
// and reads it.
type ReportParts struct {
	Incarnation string `json:"incarnation"`
	Sequence    int64  `json:"sequence"`
	Epoch       int64  `json:"epoch,omitempty"`
	Applied     int64  `json:"applied,omitempty"`
	// Parts that changed, by name; null is one that the machine does not know any more.
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
	// Piece is the next piece of a part that is too large for one message.
	Piece *PartPiece `json:"piece,omitempty"`
	// More: further messages belong to this report, which counts once it is whole.
	More bool `json:"more,omitempty"`
}

// PartPiece is one piece of a part's JSON, in order.
type PartPiece struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
	Last bool   `json:"last,omitempty"`
}

// Held is what a machine was assigned last, as it keeps it on disk: told when the
// leader recalls it, because its store was lost. The content that it names
// comes in messages before; Assignment is nil in these, and in the last one where
// the machine never had any.
type Held struct {
	Assignment *Assignment       `json:"assignment,omitempty"`
	Blobs      map[string][]byte `json:"blobs,omitempty"`
	// Ended are workers that ended here and whose outcome was written down since.
	Ended []EndedWorker `json:"ended,omitempty"`
	More  bool          `json:"more,omitempty"`
}

// EndedWorker is one that its machine has forgotten but for this: after a store is
// lost it says that a run is over.
type EndedWorker struct {
	Worker    Worker `json:"worker"`
	Template  string `json:"template,omitempty"` // hash of what it ran
	WorldSize int    `json:"world_size,omitempty"`
}

// Down is what the leader sends. Blobs come before or with the first assignment
// that names them.
type Down struct {
	// Time is the controller's, in messages that carry it.
	Time       time.Time         `json:"time,omitzero"`
	Welcome    *Welcome          `json:"welcome,omitempty"`
	Assignment *Assignment       `json:"assignment,omitempty"`
	Blobs      map[string][]byte `json:"blobs,omitempty"`
	// Heard is the sequence of the newest report that the leader has, in a message of
	// its own: told to machines with workers that go by it.
	Heard int64 `json:"heard,omitempty"`
	// Zone is the names of the machine's org, or what changed in them (N-3).
	Zone *ZoneUpdate `json:"zone,omitempty"`
	// ZonePart is a piece of the JSON of a ZoneUpdate that is too large for one message;
	// the pieces come in order and ZoneEnd is with the last.
	ZonePart []byte `json:"zone_part,omitempty"`
	ZoneEnd  bool   `json:"zone_end,omitempty"`
}

// Welcome answers a hello.
type Welcome struct {
	// Have are the parts of the machine's report that the leader has just so: they
	// are not sent again.
	Have []string `json:"have,omitempty"`
	// Recall asks for what the machine was assigned last.
	Recall bool `json:"recall,omitempty"`
}
