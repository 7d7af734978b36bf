package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"astraeus.io/astraeus/schema"
)

// format is the version of all values; it grows when an older reader would misread a value.
const format = 1

type envelope struct {
	Format int             `json:"format"`
	Value  json.RawMessage `json:"value"`
}

// encode makes a key's value. Only a value that no schema type can hold fails, or one over MaxValueBytes.
func encode(key string, v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // a config file full of "<" must not grow six times
	err := enc.Encode(struct {
		Format int `json:"format"`
		Value  any `json:"value"`
	}{format, v})
	if err != nil {
		return nil, fmt.Errorf("store: key %s: %w", key, err)
	}
	data := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(data) > MaxValueBytes {
		return nil, fmt.Errorf("store: key %s: the value %w: %d bytes, at most %d", key, ErrTooLarge, len(data), MaxValueBytes)
	}
	return data, nil
}

// decode reads a value strictly: a known format, no unknown field, nothing after it.
func decode(key string, data []byte, v any) error {
	var env envelope
	if err := strict(data, &env); err != nil {
		return corrupt(key, err)
	}
	if env.Format > format {
		return fmt.Errorf("store: key %s: format %d %w; this one knows %d", key, env.Format, ErrNewerFormat, format)
	}
	if env.Format < 1 || len(env.Value) == 0 {
		return corrupt(key, errors.New("no format or no value"))
	}
	if err := strict(env.Value, v); err != nil {
		return corrupt(key, err)
	}
	return nil
}

func corrupt(key string, err error) error {
	return fmt.Errorf("store: the value of key %s %w: %w", key, ErrCorrupt, err)
}

func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

// The wire forms below repeat schema.AcceptedObject because a strict decoder does
// not reach through schema.Object's own UnmarshalJSON.

type objectWire struct {
	Key       schema.Key      `json:"key"`
	Org       string          `json:"org"`
	Workspace string          `json:"workspace"`
	Metadata  schema.Metadata `json:"metadata"`
	Spec      json.RawMessage `json:"spec"`
	Origin    schema.Pos      `json:"origin"`
	Hash      string          `json:"hash"`
}

func (w *objectWire) object() (*schema.Object, error) {
	if w == nil {
		return nil, nil
	}
	spec := schema.NewSpec(w.Key.Kind)
	if spec == nil {
		return nil, fmt.Errorf("unknown kind %q", w.Key.Kind)
	}
	if err := strict(w.Spec, spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return &schema.Object{
		Key: w.Key, Org: w.Org, Workspace: w.Workspace, Metadata: w.Metadata, Spec: spec, Origin: w.Origin, Hash: w.Hash,
	}, nil
}

type refusalWire struct {
	Commit    string      `json:"commit"`
	Candidate *objectWire `json:"candidate"`
	Hold      schema.Hold `json:"hold"`
}

func decodeRefusal(key string, data []byte) (*schema.Refusal, error) {
	var w refusalWire
	if err := decode(key, data, &w); err != nil {
		return nil, err
	}
	candidate, err := w.Candidate.object()
	if err != nil {
		return nil, corrupt(key, err)
	}
	return &schema.Refusal{Commit: w.Commit, Candidate: candidate, Hold: w.Hold}, nil
}

// acceptedWire leaves out the refusal, which has a key of its own.
type acceptedWire struct {
	UID        string      `json:"uid"`
	Generation int64       `json:"generation"`
	Seq        int64       `json:"seq"`
	Commit     string      `json:"commit"`
	Object     *objectWire `json:"object"`
}

func decodeAccepted(key string, data []byte) (*schema.AcceptedObject, error) {
	var w acceptedWire
	if err := decode(key, data, &w); err != nil {
		return nil, err
	}
	object, err := w.Object.object()
	switch {
	case err != nil:
		return nil, corrupt(key, err)
	case object == nil || w.UID == "":
		return nil, corrupt(key, errors.New("no object or no uid"))
	}
	return &schema.AcceptedObject{UID: w.UID, Generation: w.Generation, Seq: w.Seq, Commit: w.Commit, Object: object}, nil
}
