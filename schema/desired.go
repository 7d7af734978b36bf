package schema

import (
	"slices"
	"time"
)

// Desired is what one commit declares. It is made by schema/load and never
// changed afterwards.
type Desired struct {
	// Commit is the commit's id, or "" for files that lie in no commit.
	Commit string
	// Time is the commit's time; zero for files that lie in no commit.
	Time time.Time
	// Objects holds the valid objects, one a key.
	Objects map[Key]*Object
	// Invalid holds the keys declared by a file that could not be used, as far as
	// kind and name could be read: still declared, so never a deletion.
	Invalid map[Key]Pos
	// NotWhole names the scopes that have any invalid or unreadable file, with the
	// first such file: "" (the repository's top), "org" or "org/workspace". Nothing
	// in such a scope or below it is deleted (G-5, D-61).
	NotWhole map[string]Pos
	// Guard is the file that says who may change which files (CODEOWNERS), "" for none.
	Guard string
	// Diagnostics of loading, sorted. Warnings are among them.
	Diagnostics []Diagnostic
}

// Whole reports whether deletions may be taken from the commit for objects of
// this org and workspace (both may be empty): no invalid or unreadable file in
// the scope or above it. pos is the file that prevents it.
func (d *Desired) Whole(org, workspace string) (pos Pos, ok bool) {
	return wholeIn(d.NotWhole, org, workspace)
}

func wholeIn(notWhole map[string]Pos, org, workspace string) (pos Pos, ok bool) {
	scopes := []string{"", org, org + "/" + workspace}
	if workspace == "" {
		scopes = scopes[:2]
	}
	for _, scope := range scopes {
		if pos, bad := notWhole[scope]; bad {
			return pos, false
		}
	}
	return Pos{}, true
}

// Accepted is what was let through and is in force (G-9, X-6).
type Accepted struct {
	ClusterUID string
	Epoch      int64
	// Head is the newest commit whose accepted objects were written completely.
	Head string
	// NotWhole are the scopes of Head that have a file which cannot be used, as
	// Desired has them; nil is not known. A leader whose repository is away goes by it.
	NotWhole map[string]Pos
	Objects  map[Key]*AcceptedObject
	// Removed drives whose copies are not all reported gone, by uid.
	Tombstones map[string]*Tombstone
}

// Whole reports whether copies of removed drives of a workspace may be deleted by
// what was last declared of it. What is not known is not whole (G-5, D-61).
func (a *Accepted) Whole(org, workspace string) bool {
	_, ok := wholeIn(a.NotWhole, org, workspace)
	return ok && a.NotWhole != nil
}

// AcceptedObject is one object in force. Written by the leader alone.
type AcceptedObject struct {
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	// Seq orders objects by acceptance: larger is later.
	Seq int64 `json:"seq"`
	// Created is when it was first accepted (V-10); zero when that is not known.
	Created time.Time `json:"created,omitzero"`
	Commit  string    `json:"commit"`
	Object  *Object   `json:"object"`
	// FillGeneration is the generation in which a drive's fill last changed: the one
	// that its copies are filled by (D-42, X-8).
	FillGeneration int64 `json:"fill_generation,omitempty"`
	// Target is what a Deletion was bound to when it was accepted: the uid of what it
	// names, or the commit for which an allowance lifts the budget.
	Target string `json:"target,omitempty"`
	// Former are the roles that an org or workspace gave before the commit that last
	// changed them, nil when none did.
	Former *FormerRoles `json:"former,omitempty"`
	// Refused is the newest candidate that was not let through, nil when there is none.
	Refused *Refusal `json:"refused,omitempty"`
}

// FormerRoles are an org's admins or a workspace's members as they were before a
// commit: that commit's own objects are judged by them.
type FormerRoles struct {
	Commit  string   `json:"commit"`
	Admins  []string `json:"admins,omitempty"`
	Members []Member `json:"members,omitempty"`
}

// Refusal is a change that is held back (G-9). Candidate is nil when the change
// was a removal.
type Refusal struct {
	Commit    string  `json:"commit"`
	Candidate *Object `json:"candidate,omitempty"`
	Hold      Hold    `json:"hold"`
}

// Tombstone keeps a removed drive in mind until no machine holds a copy.
type Tombstone struct {
	UID       string `json:"uid"`
	Key       Key    `json:"key"`
	Org       string `json:"org"`
	Workspace string `json:"workspace"`
	Commit    string `json:"commit"`
}

// Placement is where one run's workers are: the value of placed/<ns>.<run>
// . Spec is the spec these workers were started with; it stays when a newer
// generation is accepted but cannot be placed.
type Placement struct {
	Run        Key            `json:"run"`
	RunUID     string         `json:"run_uid"`
	Generation int64          `json:"generation"`
	Attempt    int            `json:"attempt"` // 0 for the first
	Spec       *RunSpec       `json:"spec"`
	Org        string         `json:"org"`
	Workspace  string         `json:"workspace"`
	Workers    []PlacedWorker `json:"workers"`
	// NotBefore delays the next attempt; zero is at once.
	NotBefore time.Time `json:"not_before,omitzero"`
	// LastEnd says how the attempt before this one ended, "" for the first.
	LastEnd string `json:"last_end,omitempty"`
	// Failures counts ends in a row, for the backoff; a worker that ran 10 minutes resets it.
	Failures int `json:"failures,omitempty"`
	// Older are the machines on which workers of an earlier attempt or generation may
	// still run: nothing starts before each of them shows that none is left, or they
	// can no longer write.
	Older []Older `json:"older,omitempty"`
	// OlderUses is what the workers on Older reach beside copies; nil is not known.
	OlderUses []OlderUse `json:"older_uses,omitzero"`
	// OlderOn is what an older program wrote for Older.
	OlderOn []string `json:"older_on,omitempty"`
	// Outcome of the whole run once it has ended ("" while it has not).
	Outcome RunOutcome `json:"outcome,omitempty"`
	// Released are addresses that its workers had and no other worker may get yet
	// (N-8). They outlive the run itself, see Vacant.
	Released []ReleasedAddress `json:"released,omitempty"`
}

// Older is a machine with workers that a newer placement of their run replaces.
type Older struct {
	Machine string `json:"machine"`
	// StopIfAwayAfter is how long the machine keeps them while it is away; 0 is for ever.
	StopIfAwayAfter Duration `json:"stop_if_away_after,omitempty"`
	// Lost is since when the machine is Down, by the leader's stamp; zero while it is not.
	Lost time.Time `json:"lost,omitzero"`
	// Fenced says that they were replaced while the machine was Down: what they have
	// mounted is exported to it no more until it shows that none is left.
	Fenced bool `json:"fenced,omitempty"`
}

// OlderUse is a drive or volume that older workers may use. From is the source
// machine of a drive that is reached over the network, "" for what is reached on the
// machine itself.
type OlderUse struct {
	Name   string `json:"name"` // for people
	UID    string `json:"uid,omitempty"`
	Source int    `json:"source,omitempty"`
	From   string `json:"from,omitempty"`
	Mode   Mode   `json:"mode"`
}

// IsOlder reports whether older workers may still run on a machine.
func (p *Placement) IsOlder(machine string) bool {
	return slices.ContainsFunc(p.Older, func(o Older) bool { return o.Machine == machine })
}

// Vacant reports whether the run has no place any more: only the addresses of its
// workers are still kept from others.
func (p *Placement) Vacant() bool { return len(p.Workers) == 0 }

// AddressRest is how long a worker's address is given to nobody else after it was
// released: names are answered with a TTL of 5 s, and clients keep what they
// resolved a little longer (N-4, N-8).
const AddressRest = time.Minute

// ReleasedAddress is an address of a machine's node network that a worker had.
// At is the leader's time, zero while the worker may still use it.
type ReleasedAddress struct {
	Machine string    `json:"machine"`
	Address string    `json:"address"`
	At      time.Time `json:"at,omitzero"`
}

// Rests reports whether the address is still to be kept from other workers.
func (r ReleasedAddress) Rests(now time.Time) bool {
	return r.At.IsZero() || now.Sub(r.At) < AddressRest
}

// RunOutcome is how a run ended.
type RunOutcome string

const (
	RunSucceeded RunOutcome = "Succeeded"
	RunFailed    RunOutcome = "Failed"
)

// PlacedWorker is one worker's place.
type PlacedWorker struct {
	Name    string    `json:"name"`
	Group   string    `json:"group,omitempty"`
	Rank    int       `json:"rank"` // over the whole run; group order, then index
	Index   int       `json:"index"`
	Machine string    `json:"machine"`
	Address string    `json:"address,omitempty"` // N-8
	GPUs    []int     `json:"gpus,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Lost is since when its machine is Down, by the leader's stamp; zero while it is
	// not, or when the run does not want lost workers replaced.
	Lost    time.Time `json:"lost,omitzero"`
	Outcome *Outcome  `json:"outcome,omitempty"` // nil until it has ended
}

// Outcome is how a worker ended. ExitCode is nil when nobody knows.
type Outcome struct {
	State    WorkerState `json:"state"` // Succeeded or Failed
	ExitCode *int        `json:"exit_code"`
	Reason   string      `json:"reason,omitempty"`
	At       time.Time   `json:"at,omitzero"`
}
