package schema

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// CommitInfo is what a commit says of itself (G-11). Author is whatever was
// written into the commit; nobody checked it unless Signer is set.
type CommitInfo struct {
	ID      string    `json:"id"`
	Author  string    `json:"author,omitempty"` // "ada <ada@example.org>"
	Signer  string    `json:"signer,omitempty"` // "" as long as signatures are not verified
	Subject string    `json:"subject,omitempty"`
	Time    time.Time `json:"time,omitzero"`
}

// maxCommitText bounds what a stranger's commit brings into the store.
const maxCommitText = 200

// NewCommitInfo cuts author and subject to what an audit log needs.
func NewCommitInfo(id, author, subject string, at time.Time) CommitInfo {
	return CommitInfo{ID: id, Author: cutText(author, maxCommitText), Subject: cutText(subject, maxCommitText), Time: at}
}

func cutText(text string, most int) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "�")
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// By names who made the commit, saying so when nobody verified it (G-11).
func (c CommitInfo) By() string {
	switch {
	case c.Signer != "":
		return c.Signer
	case c.Author == "":
		return ""
	}
	return "unverified author " + c.Author
}

// RecordType says what an entry of the audit log is about.
type RecordType string

// The types of G-11. A commit that touched an object makes Accepted, Changed,
// Moved or Removed.
const (
	RecordAccepted       RecordType = "Accepted"
	RecordChanged        RecordType = "Changed"
	RecordMoved          RecordType = "Moved" // another file, the same object
	RecordRemoved        RecordType = "Removed"
	RecordForcedDeletion RecordType = "ForcedDeletion"
	RecordHeld           RecordType = "Held"
	RecordReleased       RecordType = "Released" // a hold went without a change
	RecordApproved       RecordType = "Approved"
	RecordPlaced         RecordType = "Placed"
	RecordUnplaced       RecordType = "Unplaced"
	RecordEvicted        RecordType = "Evicted"     // D-71
	RecordCopyRemoved    RecordType = "CopyRemoved" // for another reason
	RecordNewEpoch       RecordType = "NewEpoch"
)

// Record is one entry of an object's history: the audit log, kept longer than
// events (G-11). Written by the leader together with the decision it tells of.
type Record struct {
	At         time.Time  `json:"at"`
	Object     Key        `json:"object"`
	UID        string     `json:"uid,omitempty"`
	Type       RecordType `json:"type"`
	Generation int64      `json:"generation,omitempty"`
	Commit     CommitInfo `json:"commit,omitzero"`
	Code       Code       `json:"code,omitempty"` // of a hold
	Machine    string     `json:"machine,omitempty"`
	By         string     `json:"by,omitempty"` // who approved
	Message    string     `json:"message,omitempty"`
}

// Approval lets one commit through while the cluster's sync mode is "approve".
type Approval struct {
	Commit string    `json:"commit"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// UsedPlan says that a saved plan was applied, so that it is not applied again
// (G-7). Nonce is of the apply that used it: its own retry is no second use.
type UsedPlan struct {
	Digest string    `json:"digest"`
	Commit string    `json:"commit"`
	Nonce  string    `json:"nonce"`
	At     time.Time `json:"at"`
}

// CommitState sums a commit up for a commit-status check (G-11).
type CommitState string

// The states, in the order of what a person must look at first.
const (
	CommitFailed  CommitState = "failed"  // a file or object is invalid
	CommitHeld    CommitState = "held"    // a change is not let through
	CommitPending CommitState = "pending" // waits for approval
	CommitOK      CommitState = "ok"
)

// CommitObject is what became of one object of a commit. Object is zero for a
// file of which not even that could be read.
type CommitObject struct {
	Object  Key         `json:"object,omitzero"`
	State   CommitState `json:"state"`
	Code    Code        `json:"code,omitempty"`
	Message string      `json:"message,omitempty"`
	Pos
}

// MaxCommitObjects is how many objects a commit's status lists, the worst first.
const MaxCommitObjects = 1000

// CommitStatus is the status of one commit (G-11).
type CommitStatus struct {
	Commit  CommitInfo     `json:"commit"`
	State   CommitState    `json:"state"`
	Objects []CommitObject `json:"objects"` // sorted: the worst first, then by object and place
	More    int            `json:"more,omitempty"`
}

var commitOrder = map[CommitState]int{CommitFailed: 0, CommitHeld: 1, CommitPending: 2, CommitOK: 3}

// Merge is what is known of a commit after a newer look at it: what the look
// does not mention stays, except that a hold or a failure that is not there any
// more was let through. Neither argument is changed.
func (s CommitStatus) Merge(newer CommitStatus) CommitStatus {
	type id struct {
		key  Key
		file string
	}
	of := func(o CommitObject) id {
		if o.Object != (Key{}) {
			return id{key: o.Object}
		}
		return id{file: o.Pos.String()}
	}
	seen := map[id]bool{}
	out := CommitStatus{Commit: newer.Commit, State: CommitOK, More: max(s.More, newer.More)}
	add := func(o CommitObject) {
		if at := of(o); !seen[at] {
			seen[at] = true
			out.Objects = append(out.Objects, o)
		}
	}
	for _, o := range newer.Objects {
		add(o)
	}
	for _, o := range s.Objects {
		if o.State != CommitOK {
			o = CommitObject{Object: o.Object, State: CommitOK, Pos: o.Pos}
		}
		if o.Object != (Key{}) {
			add(o)
		}
	}
	out.sort()
	if newer.State == CommitPending {
		out.State = CommitPending
	}
	return out
}

// sort orders the objects, takes the state from the worst and cuts the rest.
func (s *CommitStatus) sort() {
	slices.SortStableFunc(s.Objects, func(a, b CommitObject) int {
		return cmp.Or(cmp.Compare(commitOrder[a.State], commitOrder[b.State]), CompareKeys(a.Object, b.Object),
			strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if s.Objects == nil {
		s.Objects = []CommitObject{}
	}
	if len(s.Objects) > 0 {
		s.State = s.Objects[0].State
	}
	if over := len(s.Objects) - MaxCommitObjects; over > 0 {
		s.Objects, s.More = s.Objects[:MaxCommitObjects], s.More+over
	}
}
