package statusapi

import (
	"net/http"
	"slices"
	"strings"

	"astraeus.io/astraeus/schema"
)

// Object is any object's body, of whatever kind: what it is and what it is doing.
type Object struct {
	Object   schema.Key `json:"object"`
	Metadata Metadata   `json:"metadata"`
	// States are all the words that are true of it: Accepted, Held, Deleting, and
	// what a drive, a run or a machine is doing.
	States  []string     `json:"states"`
	Refused *schema.Hold `json:"refused,omitempty"`
}

// The states that every kind has.
const (
	StateAccepted = "Accepted" // a spec of it is in force
	StateHeld     = "Held"     // a change of it is not let through
	StateDeleting = "Deleting" // a removed drive whose copies are not all gone
	StateDeleted  = "Deleted"  // nothing of it is left: the answer is a 404
)

// objectRoute answers objects/{kind}/{name} and objects/{kind}/{name}/history.
func objectRoute(rest []string) (func(*request) (any, error), bool) {
	switch {
	case len(rest) == 3:
		return func(r *request) (any, error) { return oneObject(r, rest[1], rest[2]) }, true
	case len(rest) == 4 && rest[3] == "history":
		return func(r *request) (any, error) { return listHistory(r, rest[1], rest[2]) }, true
	}
	return nil, false
}

func oneObject(r *request, word, name string) (any, error) {
	key, err := r.resolve(word, name)
	if err != nil {
		return nil, err
	}
	return r.object(key)
}

// object describes what is known of a key; 404 when nothing of it is left.
func (r *request) object(key schema.Key) (Object, error) {
	out := Object{Object: key, Metadata: Metadata{Name: key.Name, Namespace: key.Namespace}, States: r.states(key)}
	if len(out.States) == 0 {
		return Object{}, notFound(key.Kind.Word())
	}
	if o := shown(r.Input.Accepted.Objects[key]); o != nil {
		out.Metadata, out.Refused = MetadataOf(o), refusedHold(o)
	}
	return out, nil
}

// states are the words that are true of an object, none when nothing of it is left.
func (r *request) states(key schema.Key) (out []string) {
	if o := r.Input.Accepted.Objects[key]; o != nil {
		if o.UID != "" {
			out = append(out, StateAccepted)
		}
		if o.Refused != nil {
			out = append(out, StateHeld)
		}
	}
	switch key.Kind {
	case schema.KindRun:
		if v, ok := r.derived.Run(key); ok {
			out = append(out, string(v.Phase))
		}
	case schema.KindDrive:
		if v, ok := r.derived.Drive(key); ok {
			out = append(out, string(v.State))
		}
		for _, t := range r.Input.Accepted.Tombstones {
			if t.Key == key && !slices.Contains(out, StateAccepted) && !slices.Contains(out, StateDeleting) {
				out = append(out, StateDeleting)
			}
		}
	case schema.KindMachine:
		if report := r.reports[key.Name]; report != nil && len(out) > 0 {
			out = append(out, string(report.State))
		} else if len(out) > 0 {
			out = append(out, string(schema.MachineUnknown))
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// resolve finds the object that a kind and a name mean: the name alone where it is
// unique, or "<namespace>.<name>", which need not be there any more: its events
// and history are.
func (r *request) resolve(word, name string) (schema.Key, error) {
	kind, ok := schema.KindOfWord(word)
	if !ok {
		return schema.Key{}, problem(http.StatusBadRequest, codeBadRequest, "unknown kind "+word)
	}
	found := r.named(kind, name)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return schema.Key{}, ambiguous(found)
	}
	if key, err := schema.ParseKey(kind.Word() + "/" + name); err == nil && r.scope.covers(key) {
		return key, nil
	}
	return schema.Key{}, notFound(kind.Word())
}

// named lists the objects of a kind that a name may mean: those there are now, or
// else those that something is remembered of.
func (r *request) named(kind schema.Kind, name string) []schema.Key {
	now, then := map[schema.Key]bool{}, map[schema.Key]bool{}
	exact := schema.Key{}
	note := func(set map[schema.Key]bool, key schema.Key, id string) {
		switch {
		case key.Kind != kind || !r.scope.covers(key):
		case r.scope.whole() && key.Scoped() == name:
			exact = key
		case key.Name == name || id != "" && id == name:
			set[key] = true
		}
	}
	for _, o := range r.index[kind] {
		note(now, o.Object.Key, o.Object.Metadata.ID)
	}
	for key, p := range r.Input.Placed {
		if !p.Vacant() {
			note(now, key, "")
		}
	}
	for _, t := range r.Input.Accepted.Tombstones {
		note(then, t.Key, "")
	}
	for _, e := range r.Events {
		note(then, e.Object, "")
	}
	switch {
	case exact != schema.Key{}:
		return []schema.Key{exact}
	case len(now) > 0:
		return sortedKeys(now)
	}
	return sortedKeys(then)
}

// listHistory lists an object's audit log, the oldest first (G-11).
func listHistory(r *request, word, name string) (any, error) {
	key, err := r.resolve(word, name)
	if err != nil {
		return nil, err
	}
	records, err := r.history(key)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 && len(r.states(key)) == 0 {
		return nil, notFound(key.Kind.Word())
	}
	type entry struct {
		schema.Record
		id string
	}
	entries := make([]entry, len(records))
	seen := map[string]int{}
	for i, rec := range records {
		entries[i] = entry{rec, stampID(rec.At, seen)}
	}
	cut, err := page(r.query, entries, func(e entry) string { return e.id })
	if err != nil {
		return nil, err
	}
	list := List[schema.Record]{Items: []schema.Record{}, Continue: cut.Continue}
	for _, e := range cut.Items {
		list.Items = append(list.Items, e.Record)
	}
	return list, nil
}

// history is empty where nothing is kept.
func (r *request) history(key schema.Key) ([]schema.Record, error) {
	if r.Log == nil {
		return nil, nil
	}
	records, err := r.Log.History(r.ctx, key)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, codeUnavailable, "the history cannot be read now")
	}
	return records, nil
}

// oneCommit is what became of a commit, by its whole id (G-11).
func oneCommit(r *request, id string) (any, error) {
	id = strings.ToLower(id)
	if !commitID(id) {
		return nil, problem(http.StatusBadRequest, codeBadRequest, "a commit's id has 40 or 64 hexadecimal digits")
	}
	var status *schema.CommitStatus
	if r.Log != nil {
		var err error
		if status, err = r.Log.CommitStatus(r.ctx, id); err != nil {
			return nil, problem(http.StatusServiceUnavailable, codeUnavailable, "the commit's status cannot be read now")
		}
	}
	if status == nil {
		return nil, notFound("commit")
	}
	return status, nil
}

// commitID keeps anything but an id out of the store's keys.
func commitID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}
