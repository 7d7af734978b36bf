package planner

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"astraeus.io/astraeus/schema"
)

// DocumentChange is one object that the commit creates, changes or removes. Its
// place is the declaration's; a removed object's is where it was declared.
type DocumentChange struct {
	Object schema.Key `json:"object"`
	Change string     `json:"change"` // "create", "change", "remove"
	// From is the object that this one was derived from: a replica group's member,
	// a model's drive (N-2, D-43). Zero for a declared object.
	From schema.Key `json:"from,omitzero"`
	// Renamed is, for a created object, one that was declared before with the same
	// content under another name or in another workspace and is not declared any
	// more. It is removed and this one created, with a uid of its own. For a
	// changed volume it is its former name: the same volume still (V-2).
	Renamed schema.Key `json:"renamed,omitzero"`
	// Removed says, for a removed volume, that its record alone goes (V-9).
	Removed *schema.VolumeRemoval `json:"removed,omitempty"`
	// Fields are what a change changes, sorted, at most MaxChangedFields; More is
	// how many there are beside them.
	Fields []FieldChange `json:"fields,omitempty"`
	More   int           `json:"more,omitempty"`
	schema.Pos
}

// removalOf is nil for an object that is no volume.
func removalOf(a *schema.AcceptedObject) *schema.VolumeRemoval {
	spec, ok := a.Object.Spec.(*schema.VolumeSpec)
	if !ok {
		return nil
	}
	return &schema.VolumeRemoval{ID: volumeID(a), HostPath: spec.HostPath, Message: volumeRecordGone}
}

// FieldChange is one changed field. Old and New are JSON, cut at
// maxChangedValue characters; "" where the field is not there.
type FieldChange struct {
	Field string `json:"field"` // "spec.sources[0].path"
	Old   string `json:"old,omitempty"`
	New   string `json:"new,omitempty"`
	// Hidden: the values may be secret (environment, config files) and are not shown.
	Hidden bool `json:"hidden,omitempty"`
}

// Bounds of what a plan says of one object's change.
const (
	MaxChangedFields = 10
	maxChangedValue  = 60 // characters
)

// documentChanges is what the plan's decisions change, by object.
func documentChanges(p schema.Plan, in Input) []DocumentChange {
	list := []DocumentChange{}
	kept := map[string]bool{} // uids that are in force afterwards too
	for i := range p.Decisions.Accept {
		kept[p.Decisions.Accept[i].Object.UID] = true
	}
	remove := func(key schema.Key) {
		change := DocumentChange{Object: key, Change: "remove"}
		if a := in.Accepted.Objects[key]; inForce(a) {
			if kept[a.UID] {
				return // it has another name now
			}
			change.Pos, change.From, change.Removed = a.Object.Origin, a.Object.ManagedBy, removalOf(a)
		}
		list = append(list, change)
	}
	for _, r := range p.Decisions.Remove {
		remove(r.Key)
	}
	gone := undeclared(in)
	for i := range p.Decisions.Accept {
		a := &p.Decisions.Accept[i]
		o := a.Object.Object
		change := DocumentChange{Object: o.Key, Change: "create", From: o.ManagedBy, Pos: o.Origin}
		switch {
		case a.Previous == nil && inForce(in.Accepted.Objects[o.Key]):
			remove(o.Key) // another volume under its name
		case a.Previous == nil:
			change.Renamed = gone.like(o, in.Desired)
		case a.Previous.Generation == a.Object.Generation && a.Previous.UID == a.Object.UID:
			continue // the file moved
		default:
			change.Change = "change"
			if was := a.Previous.Object.Key; was != o.Key {
				change.Renamed = was
			}
			change.Fields, change.More = changedFields(a.Previous.Object, o)
		}
		list = append(list, change)
	}
	slices.SortFunc(list, func(a, b DocumentChange) int { return schema.CompareKeys(a.Object, b.Object) })
	return list
}

// goneObjects are declared objects in force that the commit declares no more, by content.
type goneObjects map[string][]*schema.Object

func undeclared(in Input) goneObjects {
	gone := goneObjects{}
	if in.Desired == nil {
		return gone
	}
	for _, key := range sortedKeys(in.Accepted.Objects) {
		a := in.Accepted.Objects[key]
		if !inForce(a) || in.Desired.Objects[key] != nil || a.Object.ManagedBy != (schema.Key{}) {
			continue
		}
		if _, invalid := in.Desired.Invalid[key]; !invalid {
			id := contentOf(a.Object)
			gone[id] = append(gone[id], a.Object)
		}
	}
	return gone
}

// like is a gone object with the content of a new one: one that kept its name or
// workspace if there is one. Zero for a derived one, and for a volume with an id in
// its file: that one cannot be taken for another (V-2).
func (g goneObjects) like(o *schema.Object, desired *schema.Desired) schema.Key {
	if len(g) == 0 || o.ManagedBy != (schema.Key{}) || desired.Objects[o.Key].Metadata.ID != "" {
		return schema.Key{}
	}
	list := g[contentOf(o)]
	for _, old := range list {
		if old.Key.Name == o.Key.Name || old.Key.Namespace == o.Key.Namespace {
			return old.Key
		}
	}
	if len(list) > 0 {
		return list[0].Key
	}
	return schema.Key{}
}

// contentOf identifies what an object says beside its name.
func contentOf(o *schema.Object) string {
	meta := o.Metadata
	meta.Name, meta.Workspace, meta.ID = "", "", ""
	return string(o.Key.Kind) + schema.HashJSON(struct {
		Metadata schema.Metadata
		Spec     schema.Spec
	}{meta, o.Spec})
}

// changedFields compares two versions of an object field by field.
func changedFields(old, next *schema.Object) (list []FieldChange, more int) {
	a, b := leaves(old), leaves(next)
	for field, was := range a {
		if now, there := b[field]; !there || now.text != was.text {
			list = append(list, fieldChange(field, was, now))
		}
	}
	for field, now := range b {
		if _, there := a[field]; !there {
			list = append(list, fieldChange(field, leaf{}, now))
		}
	}
	slices.SortFunc(list, func(a, b FieldChange) int { return compareFields(a.Field, b.Field) })
	if more = len(list) - MaxChangedFields; more > 0 {
		return list[:MaxChangedFields:MaxChangedFields], more
	}
	return list, 0
}

func fieldChange(field string, was, now leaf) FieldChange {
	if was.secret || now.secret {
		return FieldChange{Field: field, Hidden: true}
	}
	return FieldChange{Field: field, Old: cutText(was.text, maxChangedValue), New: cutText(now.text, maxChangedValue)}
}

// cutText cuts a text at so many characters.
func cutText(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// leaf is one field's value as JSON.
type leaf struct {
	text   string
	secret bool
}

// leaves are an object's fields down to those that hold no others.
func leaves(o *schema.Object) map[string]leaf {
	out := map[string]leaf{}
	for name, part := range map[string]any{"metadata": o.Metadata, "spec": o.Spec} {
		data, err := json.Marshal(part)
		if err != nil {
			continue // what cannot be written down was never accepted
		}
		var v any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber() // sizes in bytes are not floats
		if dec.Decode(&v) == nil {
			collectLeaves(out, name, v, false)
		}
	}
	return out
}

// collectLeaves: a template's environment and its config files' contents may be
// secret. In a spec no other field is called env.
func collectLeaves(out map[string]leaf, at string, v any, secret bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			hide := strings.HasPrefix(at, "spec") && name == "env" || strings.Contains(at, "config_files[") && name == "content"
			collectLeaves(out, at+"."+name, value, secret || hide)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, value := range v {
			collectLeaves(out, indexed(at, i, ""), value, secret)
		}
		if len(v) > 0 {
			return
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // people read it
	if enc.Encode(v) == nil {
		out[at] = leaf{strings.TrimSpace(text.String()), secret}
	}
}

// compareFields orders by text, and a list's elements by number.
func compareFields(a, b string) int {
	for a != "" && b != "" {
		x, restA := fieldPart(a)
		y, restB := fieldPart(b)
		if x != y {
			i, errI := strconv.Atoi(x)
			j, errJ := strconv.Atoi(y)
			if errI == nil && errJ == nil && i != j {
				return i - j
			}
			return strings.Compare(x, y)
		}
		a, b = restA, restB
	}
	return len(a) - len(b)
}

// fieldPart cuts the first name or number off a field's path.
func fieldPart(path string) (part, rest string) {
	if i := strings.IndexAny(path, ".[]"); i >= 0 {
		return path[:i], path[i+1:]
	}
	return path, ""
}
