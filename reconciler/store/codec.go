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

// decodeRefusal reads a refusal; schema.Object is strict by itself.
func decodeRefusal(key string, data []byte) (*schema.Refusal, error) {
	var r schema.Refusal
	if err := decode(key, data, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// decodeAccepted reads an object in force; its refusal has a key of its own.
func decodeAccepted(key string, data []byte) (*schema.AcceptedObject, error) {
	var a schema.AcceptedObject
	if err := decode(key, data, &a); err != nil {
		return nil, err
	}
	if a.Object == nil || a.UID == "" || a.Refused != nil {
		return nil, corrupt(key, errors.New("no object or no uid, or a refusal in it"))
	}
	return &a, nil
}
