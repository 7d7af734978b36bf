package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Metadata is what every object carries beside its spec (kinds.md). Workspace
// may repeat the path's workspace; one that disagrees is refused (G-3). ID is a
// volume's (V-2).
type Metadata struct {
	Name        string            `json:"name"`
	Workspace   string            `json:"workspace,omitempty"`
	ID          string            `json:"id,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Owner       string            `json:"owner,omitempty"`
}

// Pos is a place in a file of the repository. Line and Col count from 1; 0 is unknown.
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// String is "file:line:col", leaving out what is unknown.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Spec is one kind's spec: a pointer to one of the …Spec types of this package.
type Spec interface {
	// Kind is the kind whose spec this is.
	Kind() Kind
	// Normalize writes the defaults in, so that two spellings of one spec are
	// equal. It is idempotent and never fails.
	Normalize()
}

// NewSpec is an empty spec of a kind, nil for an unknown kind.
func NewSpec(kind Kind) Spec {
	switch kind {
	case KindCluster:
		return &ClusterSpec{}
	case KindMachine:
		return &MachineSpec{}
	case KindOrg:
		return &OrgSpec{}
	case KindWorkspace:
		return &WorkspaceSpec{}
	case KindHostPathGrant:
		return &HostPathGrantSpec{}
	case KindDrive:
		return &DriveSpec{}
	case KindVolume:
		return &VolumeSpec{}
	case KindRun:
		return &RunSpec{}
	case KindReplicaGroup:
		return &ReplicaGroupSpec{}
	case KindEndpoint:
		return &EndpointSpec{}
	case KindModel:
		return &ModelSpec{}
	case KindDeletion:
		return &DeletionSpec{}
	}
	return nil
}

// Object is one declared object, valid and normalised. It is never changed
// after loading: everything that holds one may share it.
type Object struct {
	Key       Key      `json:"key"`
	Org       string   `json:"org,omitempty"`
	Workspace string   `json:"workspace,omitempty"`
	Metadata  Metadata `json:"metadata"`
	Spec      Spec     `json:"spec"`
	Origin    Pos      `json:"origin"`
	// ManagedBy is the object that this one was expanded from: a model's drive, a
	// replica group's runs and endpoint (D-43, N-2). Zero for a declared object.
	ManagedBy Key `json:"managed_by,omitzero"`
	// Hash identifies metadata and spec after Normalize; equal hashes are equal objects.
	Hash string `json:"hash"`
	// Locate gives the place of a field ("spec.sources[0].path"), or the nearest
	// parent's. Nil for an object that was not loaded from files just now.
	Locate func(field string) Pos `json:"-"`
}

// At is the place of a field, falling back to the object's own.
func (o *Object) At(field string) Pos {
	if o.Locate != nil {
		if pos := o.Locate(field); pos.Line > 0 {
			return pos
		}
	}
	return o.Origin
}

// UnmarshalJSON reads what Marshal writes; the key's kind chooses the spec's
// type. It is strict: a field that this program does not know may mean something.
func (o *Object) UnmarshalJSON(data []byte) error {
	type plain Object
	raw := struct {
		*plain
		Spec json.RawMessage `json:"spec"`
	}{plain: (*plain)(o)}
	if err := strictly(data, &raw); err != nil {
		return fmt.Errorf("object: %w", err)
	}
	spec := NewSpec(o.Key.Kind)
	if spec == nil {
		return fmt.Errorf("object %q: unknown kind", o.Key.Kind)
	}
	if len(raw.Spec) > 0 {
		if err := strictly(raw.Spec, spec); err != nil {
			return fmt.Errorf("object %s: spec: %w", o.Key, err)
		}
	}
	o.Spec = spec
	return nil
}

func strictly(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(v)
}

// Rehash normalises the object and sets Hash. Call it once, when the
// object is made.
func (o *Object) Rehash() {
	o.Spec.Normalize()
	o.Hash = HashJSON(struct {
		Metadata Metadata
		Spec     Spec
	}{o.Metadata, o.Spec})
}
