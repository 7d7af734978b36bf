package statusapi

import (
	"reflect"
	"slices"
	"sync"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/schema/access"
)

// state is a View with what is derived from it, each part when it is first needed.
type state struct {
	*View
	*index
	number  int64 // later states have larger ones
	reports map[string]*schema.MachineReport

	deriving sync.Once
	view     *planner.View

	mu       sync.Mutex
	tables   map[*collection]*table
	listings map[string]*listing
}

// index finds accepted objects. States whose accepted objects are the same share one.
type index struct {
	accepted map[schema.Key]*schema.AcceptedObject // what it was made from
	cluster  string
	kinds    map[schema.Kind][]*schema.AcceptedObject // as shown, sorted by key
	names    map[schema.Kind]map[string][]*schema.AcceptedObject
	ids      map[string][]*schema.AcceptedObject // volumes
	runs     map[string][]*schema.AcceptedObject // by namespace
	places   map[string]place                    // of namespaces in force
	rules    *access.Rules
}

// place is a workspace.
type place struct{ org, workspace string }

// newState derives a state; last is the one before it, nil for none.
func newState(v *View, last *state) *state {
	s := &state{
		View: v, reports: make(map[string]*schema.MachineReport, len(v.Input.Observed.Machines)),
		tables: map[*collection]*table{}, listings: map[string]*listing{},
	}
	for _, m := range v.Input.Observed.Machines {
		if m != nil {
			s.reports[m.Name] = m
		}
	}
	if last != nil && sameMap(last.accepted, v.Input.Accepted.Objects) {
		s.index = last.index
	} else {
		s.index = newIndex(v.Input.Accepted.Objects)
	}
	if last != nil {
		s.number = last.number + 1
		last.handOver(s)
	}
	return s
}

// sameMap reports whether two maps are one; what was handed out is never changed.
func sameMap[K comparable, V any](a, b map[K]V) bool {
	return a != nil && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func newIndex(accepted map[schema.Key]*schema.AcceptedObject) *index {
	x := &index{
		accepted: accepted, kinds: map[schema.Kind][]*schema.AcceptedObject{}, names: map[schema.Kind]map[string][]*schema.AcceptedObject{},
		ids: map[string][]*schema.AcceptedObject{}, runs: map[string][]*schema.AcceptedObject{}, places: map[string]place{},
	}
	for _, key := range sortedKeys(accepted) {
		if o := shown(accepted[key]); o != nil {
			x.add(o)
		}
	}
	// What is in force says whose a namespace is; a candidate that is held back does not.
	for _, o := range x.kinds[schema.KindWorkspace] {
		if !held(o) {
			x.places[x.namespaceOf(o)] = place{o.Object.Key.Namespace, o.Object.Key.Name}
		}
	}
	x.rules = access.New(func(yield func(*schema.Object) bool) {
		for _, kind := range []schema.Kind{schema.KindOrg, schema.KindWorkspace} {
			for _, o := range x.kinds[kind] {
				if !held(o) && !yield(o.Object) {
					return
				}
			}
		}
	})
	return x
}

func (x *index) add(o *schema.AcceptedObject) {
	key := o.Object.Key
	x.kinds[key.Kind] = append(x.kinds[key.Kind], o)
	if x.names[key.Kind] == nil {
		x.names[key.Kind] = map[string][]*schema.AcceptedObject{}
	}
	x.names[key.Kind][key.Name] = append(x.names[key.Kind][key.Name], o)
	switch key.Kind {
	case schema.KindCluster:
		x.cluster = key.Name
	case schema.KindVolume:
		if id := o.Object.Metadata.ID; id != "" {
			x.ids[id] = append(x.ids[id], o)
		}
	case schema.KindRun:
		x.runs[key.Namespace] = append(x.runs[key.Namespace], o)
	}
	// A workspace that is gone may have objects still, whose removal is held.
	if key.Kind.InWorkspace() && !held(o) {
		x.places[key.Namespace] = place{o.Object.Org, o.Object.Workspace}
	}
}

// namespaceOf is the namespace of a declared workspace.
func (x *index) namespaceOf(workspace *schema.AcceptedObject) string {
	if spec, ok := workspace.Object.Spec.(*schema.WorkspaceSpec); ok && spec.Namespace != "" {
		return spec.Namespace
	}
	return schema.Namespace(x.cluster, workspace.Object.Key.Namespace, workspace.Object.Key.Name)
}

// derived is the planner's view, made once a state.
func (s *state) derived() *planner.View {
	s.deriving.Do(func() { s.view = planner.NewView(s.Input, s.Plan) })
	return s.view
}

// shown is what stands for an accepted object in answers. One of which nothing is
// in force yet has no uid and is shown by the candidate that is held back (G-9).
func shown(o *schema.AcceptedObject) *schema.AcceptedObject {
	switch {
	case o == nil:
		return nil
	case o.Object != nil:
		return o
	case o.Refused == nil || o.Refused.Candidate == nil:
		return nil
	}
	return &schema.AcceptedObject{Object: o.Refused.Candidate, Commit: o.Refused.Commit, Refused: o.Refused}
}

func held(o *schema.AcceptedObject) bool { return o.UID == "" && o.Refused != nil }

func sortedKeys[T any](m map[schema.Key]T) []schema.Key {
	keys := make([]schema.Key, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, schema.CompareKeys)
	return keys
}
