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

func oneObject(_ *Handler, r *request, args []string) (any, error) {
	key, err := r.resolve(args[0], args[1])
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
	if o := shown(r.accepted[key]); o != nil {
		out.Metadata, out.Refused = MetadataOf(o), r.refused(o)
	}
	return out, nil
}

// states are the words that are true of an object, none when nothing of it is left.
func (r *request) states(key schema.Key) (out []string) {
	if !r.sees(key) {
		return nil
	}
	if o := r.accepted[key]; o != nil {
		if o.UID != "" {
			out = append(out, StateAccepted)
		}
		if o.Refused != nil {
			out = append(out, StateHeld)
		}
	}
	switch key.Kind {
	case schema.KindRun:
		if v, ok := r.derived().Run(key); ok {
			out = append(out, string(v.Phase))
		}
	case schema.KindDrive:
		if v, ok := r.derived().Drive(key); ok {
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
	if key, err := schema.ParseKey(kind.Word() + "/" + name); err == nil && r.sees(key) {
		return key, nil
	}
	return schema.Key{}, notFound(kind.Word())
}

// named lists the objects of a kind that a name may mean: those there are now, or
// else those that something is remembered of.
func (r *request) named(kind schema.Kind, name string) []schema.Key {
	exact, err := schema.ParseKey(kind.Word() + "/" + name)
	if err != nil || !r.scope.whole() && kind.InWorkspace() {
		exact = schema.Key{}
	}
	now, then := map[schema.Key]bool{}, map[schema.Key]bool{}
	note := func(set map[schema.Key]bool, key schema.Key) {
		if key.Kind == kind && (key.Name == name || key == exact) && r.sees(key) {
			set[key] = true
		}
	}
	for _, list := range [][]*schema.AcceptedObject{r.names[kind][name], r.idsOf(kind, name)} {
		for _, o := range list {
			if r.seesObject(o.Object) {
				now[o.Object.Key] = true
			}
		}
	}
	if r.accepted[exact] != nil {
		note(now, exact)
	}
	if kind == schema.KindRun {
		for key, p := range r.Input.Placed {
			if !p.Vacant() {
				note(now, key)
			}
		}
	}
	if now[exact] {
		return []schema.Key{exact}
	}
	if len(now) > 0 {
		return sortedKeys(now)
	}
	for _, t := range r.Input.Accepted.Tombstones {
		note(then, t.Key)
	}
	for _, e := range r.Events {
		note(then, e.Object)
	}
	if then[exact] {
		return []schema.Key{exact}
	}
	return sortedKeys(then)
}

// idsOf are the volumes with an id.
func (r *request) idsOf(kind schema.Kind, id string) []*schema.AcceptedObject {
	if kind != schema.KindVolume {
		return nil
	}
	return r.ids[id]
}

// listHistory lists an object's audit log, the oldest first (G-11).
func listHistory(h *Handler, r *request, args []string) (any, error) {
	key, err := r.resolve(args[0], args[1])
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
	items := make([]*item, len(records))
	for i, rec := range records {
		items[i] = &item{facts: rec}
	}
	return h.page(r, historyOf, "history "+key.String(), items)
}

// historyOf presents records; they are read for each request.
var historyOf = &collection{
	word: "history", manner: func(*request, any) string { return "-" },
	body: func(r *request, facts any) any {
		rec := facts.(schema.Record)
		rec.Message = r.say(rec.Object.Namespace, rec.Message)
		return rec
	},
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

// oneCommit is what became of a commit, by its whole id (G-11). A caller that does
// not see the whole cluster reads what became of its own objects, and of a commit
// with none of them nothing.
func oneCommit(_ *Handler, r *request, args []string) (any, error) {
	id := strings.ToLower(args[0])
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
	if r.uncut() {
		return status, nil
	}
	cut := r.cutCommit(*status)
	if len(cut.Objects) == 0 {
		return nil, notFound("commit")
	}
	return cut, nil
}

func (r *request) cutCommit(s schema.CommitStatus) schema.CommitStatus {
	cut := schema.CommitStatus{Commit: s.Commit, More: s.More}
	for _, o := range s.Objects {
		if o.Object == (schema.Key{}) && !r.seesFile(o.File) || o.Object != (schema.Key{}) && !r.sees(o.Object) {
			continue
		}
		o.Message = r.say(o.Object.Namespace, o.Message)
		cut.Objects = append(cut.Objects, o)
	}
	return (schema.CommitStatus{}).Merge(cut)
}

// commitID keeps anything but an id out of the store's keys.
func commitID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}
