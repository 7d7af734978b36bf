package store

import (
	"strings"

	"astraeus.io/astraeus/schema"
)

// area is the first segment of a key below the root.
type area string

const (
	areaMeta      area = "meta"
	areaHead      area = "head"
	areaAccepted  area = "accepted"
	areaRefused   area = "refused"
	areaTombstone area = "tombstones"
	areaPlaced    area = "placed"
	areaAssigned  area = "assigned"
	areaBlobs     area = "blobs"
	areaObserved  area = "observed"
	areaAlive     area = "alive"
	areaEvents    area = "events"
	areaLeader    area = "leader"
	areaHistory   area = "history"
	areaCommits   area = "commits"
	areaApproved  area = "approved"
	areaPlans     area = "plans"
	areaNotWhole  area = "notwhole"
)

// keyspace makes and takes apart the keys of one cluster.
type keyspace struct{ root string }

func newKeyspace(cluster string) keyspace { return keyspace{"/astraeus/" + cluster + "/"} }

func (k keyspace) single(a area) string               { return k.root + string(a) }
func (k keyspace) prefix(a area) string               { return k.root + string(a) + "/" }
func (k keyspace) under(a area, rest string) string   { return k.root + string(a) + "/" + rest }
func (k keyspace) object(a area, o schema.Key) string { return k.under(a, o.String()) }
func (k keyspace) placed(run schema.Key) string       { return k.under(areaPlaced, run.Scoped()) }
func (k keyspace) part(machine, part string) string   { return k.under(areaObserved, machine+"/"+part) }

// events is the prefix of an object's events; those of no object are kept under "-".
func (k keyspace) events(o schema.Key) string {
	if o == (schema.Key{}) {
		return k.under(areaEvents, "-/")
	}
	return k.object(areaEvents, o) + "/"
}

// history is the prefix of an object's records (G-11).
func (k keyspace) history(o schema.Key) string { return k.object(areaHistory, o) + "/" }

// split is the inverse: the area and what follows it.
func (k keyspace) split(key string) (area, string) {
	a, rest, _ := strings.Cut(strings.TrimPrefix(key, k.root), "/")
	return area(a), rest
}
